"""One script of requests that every kind of cluster has to answer alike."""

from __future__ import annotations

from tests.memory.replay import (
    applying,
    changing,
    corners,
    ending,
    kinds,
    published,
    refusing,
)
from tests.memory.replay.player import Player, normalised

__all__ = ["Player", "normalised", "play"]


async def play(player: Player) -> None:
    """The whole script."""
    namespace = {"metadata": {"name": player.run}}
    await player.send("", "POST", "/api/v1/namespaces", namespace)
    group = player.group
    widgets = await kinds.definitions(player, group)
    for part in (
        applying.creating,
        applying.applying,
        applying.lists_and_maps,
        applying.preconditions,
        changing.patching,
        changing.statuses,
        changing.deleting,
        changing.validating,
        changing.paging,
        changing.watching,
        corners.numbers,
        corners.managers,
        corners.odd_bodies,
    ):
        await part(player, group, widgets)
    await kinds.builtins(player)
    await kinds.more_definitions(player, group)
    await corners.odd_kinds(player, group)
    await refusing.refused(player, group)
    await refusing.approvals(player)
    await published.published(player)
    await ending.schema_changes(player, group)
    await ending.version_dropped(player, group)
    await ending.namespace_ends(player, group, widgets)
