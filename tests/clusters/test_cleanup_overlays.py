"""The overlays of cleanup that ship with kbind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kbind import resources, words
from kbind.testing.handles import condition
from kbind.testing.running import RunningKonnector, binding
from tests.clusters.conftest import settings
from tests.clusters.scenes import crd_ref, event, reason, secret, synced
from tests.clusters.test_unbinding import BOUND, EVERYWHERE, ORPHAN, begin, copied, finalizers
from tests.clusters.widgets import WIDGETS, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

ELSEWHERE = binding([WIDGETS], "team-b")
HOLDS = "example.org/holds"


@asynccontextmanager
async def under(world: World, overlay: str) -> AsyncIterator[RunningKonnector]:
    """A konnector with a bundled overlay."""
    running = RunningKonnector(
        world.consumer.cluster,
        overlays=[resources.overlays()[overlay]],
        settings=settings(),
    )
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


# --- cleanup-by-coverage ---------------------------------------------------------------------


async def test_what_no_remaining_binding_covers_is_cleaned_and_the_rest_goes_on(
    world: World,
) -> None:
    async with under(world, "cleanup-by-coverage"):
        await begin(world, EVERYWHERE)
        await world.consumer.create(BOUND)
        await synced(world.consumer, BOUND)
        one, two, kept = await copied(
            world, widget("one", size=1), widget("two", "team-b"), widget("kept", "team-b")
        )
        await world.consumer.merge(kept, ORPHAN)
        await world.consumer.delete(EVERYWHERE)
        await world.consumer.gone(EVERYWHERE)
        await world.provider.gone(two)
        assert await world.provider.get(kept)
        for each in (two, kept):
            assert finalizers(await world.consumer.get(each)) == []
        assert finalizers(await world.consumer.get(one)) == [words.SYNCER]
        assert await world.consumer.get(crd_ref())
        await world.consumer.merge(one, {"spec": {"size": 2}})
        await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)


async def test_a_binding_elsewhere_keeps_nothing_here(world: World) -> None:
    async with under(world, "cleanup-by-coverage"):
        await begin(world)
        await world.consumer.create(ELSEWHERE)
        await synced(world.consumer, ELSEWHERE)
        one, two = await copied(world, widget("one"), widget("two", "team-b"))
        await world.consumer.delete(BOUND)
        await world.consumer.gone(BOUND)
        await world.provider.gone(one)
        assert finalizers(await world.consumer.get(one)) == []
        assert await world.provider.get(two)


async def test_what_is_given_up_is_only_what_no_other_binding_covers(world: World) -> None:
    async with under(world, "cleanup-by-coverage"):
        await begin(world)
        await world.consumer.create(ELSEWHERE)
        await synced(world.consumer, ELSEWHERE)
        one, two = await copied(world, widget("one"), widget("two", "team-b"))
        await world.consumer.merge(secret(None), {"metadata": {"finalizers": None}})
        await world.consumer.delete(secret(None))
        await reason(world.consumer, ELSEWHERE, "Ready", "ConnectionNotReady")
        bound = await world.consumer.get(BOUND)
        await world.consumer.delete(BOUND)
        await world.consumer.gone(BOUND)
        told = (await event(world.consumer, bound, "CopiesLeft"))["message"]
        assert "team-a/one" in told
        assert "team-b/two" not in told
        assert finalizers(await world.consumer.get(one)) == []
        assert finalizers(await world.consumer.get(two)) == [words.SYNCER]
        for each in (one, two):
            assert await world.provider.get(each)


# --- await-provider --------------------------------------------------------------------------


async def test_a_binding_waits_until_the_provider_has_let_every_copy_go(world: World) -> None:
    async with under(world, "await-provider"):
        await begin(world)
        one, two = await copied(world, widget("one", size=1), widget("two"))
        await world.provider.merge(one, {"metadata": {"finalizers": [HOLDS]}})
        await world.consumer.delete(BOUND)
        waits = await reason(world.consumer, one, "Synced", "AwaitingFinalizers")
        assert finalizers(waits) == [words.SYNCER]
        told = await event(world.consumer, one, "AwaitingFinalizers")
        assert HOLDS in told["message"]
        await world.provider.gone(two)
        await world.consumer.until(two, lambda seen: finalizers(seen) == [])
        assert condition(await world.consumer.get(BOUND), "Ready", "False")

        await world.provider.merge(one, {"metadata": {"finalizers": None}})
        await world.consumer.gone(BOUND)
        await world.provider.gone(one)
        seen = await world.consumer.get(one)
        assert finalizers(seen) == []
        assert not condition(seen, "Synced", "False")
        assert seen["spec"]["size"] == 1
