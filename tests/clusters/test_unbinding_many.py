"""Very many instances are unbound in one go: what it costs, and what others notice of it."""

from __future__ import annotations

from collections import Counter

import pytest

from kbind import words
from kbind.testing.audit import Entry
from kbind.testing.handles import Handle
from kbind.testing.running import USER, RunningKonnector, add_connection, binding
from tests.clusters.scenes import eventually, synced
from tests.clusters.test_costs import fan_out
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNT = {"memory": 1000, "real": 200}
DEADLINE = 120.0
FOLLOWED = ("list", "watch")


def asked(cluster: Handle, start: int, resource: str) -> list[Entry]:
    """What the konnector asked for single objects since."""
    entries = cluster.cluster.audit(USER)[start:]
    return [e for e in entries if e.resource == resource and e.verb not in FOLLOWED]


async def held(cluster: Handle) -> int:
    items = await cluster.list("example.org/v1", "Widget")
    return sum(words.SYNCER in (item["metadata"].get("finalizers") or ()) for item in items)


async def test_many_instances_are_unbound_by_two_requests_each_and_hold_up_no_other_api(
    world: World, konnector: RunningKonnector
) -> None:
    count = COUNT[world.kind]
    for definition in (crd(), crd("gadgets", "Gadget")):
        await world.provider.install_crd(definition)
    for handle in (world.consumer, world.provider):
        await handle.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    bound = binding([WIDGETS], "team-a")
    beside = binding([GADGETS], "team-a", "beside")
    for each in (bound, beside):
        await world.consumer.create(each)
        await synced(world.consumer, each)
    await fan_out(world.consumer.create, [widget(f"w{n}", size=n) for n in range(count)])

    async def copied() -> bool:
        return len(await world.provider.list("example.org/v1", "Widget")) == count

    await eventually(copied, "a copy of each", DEADLINE)

    sides = (world.consumer, world.provider)
    start = [len(side.cluster.audit(USER)) for side in sides]
    await world.consumer.delete(bound)
    late = await world.consumer.create(gadget("late", size=1))
    await world.provider.until(late, bool)
    await world.consumer.gone(bound, DEADLINE)
    assert await world.provider.list("example.org/v1", "Widget") == []
    assert await held(world.consumer) == 0
    assert len(await world.consumer.list("example.org/v1", "Widget")) == count

    counts = [
        Counter(e.name for e in asked(side, first, "widgets"))
        for side, first in zip(sides, start, strict=True)
    ]
    for each in counts:
        assert max(each.values()) <= 2
        assert each.total() <= 1.05 * count, each.most_common(5)
    writes = [f"{e.verb} {e.resource}" for e in world.provider.cluster.audit(USER)[start[1] :]]
    last = len(writes) - writes[::-1].index("delete widgets")
    assert writes.index("patch gadgets") < last, "the other API had to wait"
