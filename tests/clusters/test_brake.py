"""What rules would delete that nobody on the consumer deleted: not very much at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kbind import words
from kbind.brake import Brake
from kbind.testing.handles import Object
from kbind.testing.running import RunningKonnector
from tests.clusters.conftest import settings
from tests.clusters.scenes import PROVIDER, event, events, message, ready, reason
from tests.clusters.test_unbinding import begin, copied, finalizers
from tests.clusters.widgets import WIDGETS, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

OVERLAY = Path(__file__).resolve().parents[1] / "overlays" / "lead-not-copied"
LEAD = {"example.org/tier": "lead"}
CONFIRM = {"metadata": {"annotations": {words.CONFIRM: words.TRUE}}}
HALF_OR_TWO = Brake(0.5, 2)


def lead(name: str) -> Object:
    made = widget(name, size=1)
    made["metadata"]["labels"] = LEAD
    return made


async def gold_and_lead(world: World, konnector: RunningKonnector, *counts: int) -> list[Object]:
    """So many widgets of either kind, copied by rules that make no difference."""
    await begin(world)
    gold, leaden = counts
    made = await copied(
        world,
        *(widget(f"gold-{number}") for number in range(gold)),
        *(lead(f"lead-{number}") for number in range(leaden)),
    )
    await konnector.stop()
    return made


async def says(world: World, text: str) -> None:
    """Waits until the Connection says so."""
    await world.consumer.until(PROVIDER, lambda seen: text in message(seen, "Ready"))


@asynccontextmanager
async def under(world: World, brake: Brake) -> AsyncIterator[RunningKonnector]:
    """A konnector with the overlay."""
    running = RunningKonnector(
        world.consumer.cluster, overlays=[OVERLAY], settings=settings(brake=brake)
    )
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def test_an_overlay_that_would_delete_very_much_waits_to_be_confirmed(
    world: World, konnector: RunningKonnector
) -> None:
    made = await gold_and_lead(world, konnector, 1, 3)
    async with under(world, HALF_OR_TWO):
        seen = await reason(world.consumer, PROVIDER, "Ready", "Braked", "True")
        text = message(seen, "Ready")
        assert f"{WIDGETS}: 3 of 4 copies would be deleted by duty/drop-lead" in text
        assert words.CONFIRM in text
        told = await event(world.consumer, seen, "Braked")
        assert told["message"] in text
        for each in reversed(made):
            await world.consumer.merge(each, {"spec": {"size": 7}})
        await world.provider.until(made[0], lambda copy: copy["spec"]["size"] == 7)
        for each in made[1:]:
            assert (await world.provider.get(each))["spec"].get("size") == 1

        await world.consumer.merge(PROVIDER, CONFIRM)
        for each in made[1:]:
            await world.provider.gone(each)
            await world.consumer.until(each, lambda seen: finalizers(seen) == [])
        await ready(world.consumer, PROVIDER)
        assert await world.provider.get(made[0])
        assert len(await events(world.consumer, seen, "Braked")) == 1


async def test_it_says_once_what_it_holds_however_much_that_becomes(
    world: World, konnector: RunningKonnector
) -> None:
    made = await gold_and_lead(world, konnector, 1, 5)
    async with under(world, HALF_OR_TWO):
        seen = await reason(world.consumer, PROVIDER, "Ready", "Braked", "True")
        await event(world.consumer, seen, "Braked")
        for left, each in ((4, made[1]), (3, made[2])):
            await world.consumer.merge(each, {"metadata": {"labels": None}})
            await says(world, f"{WIDGETS}: {left} of 6 copies would be deleted")
        assert len(await events(world.consumer, seen, "Braked")) == 1


async def test_it_waits_after_a_restart_too_and_says_so_once(
    world: World, konnector: RunningKonnector
) -> None:
    made = await gold_and_lead(world, konnector, 1, 3)
    async with under(world, HALF_OR_TWO) as running:
        seen = await reason(world.consumer, PROVIDER, "Ready", "Braked", "True")
        await running.stop()
        await world.consumer.merge(made[1], {"metadata": {"labels": None}})  # two would be few
        await running.start()
        await running.look_again(made[-1], 1)
        await reason(world.consumer, PROVIDER, "Ready", "Braked", "True")
        for each in made:
            assert await world.provider.get(each)
        told = await events(world.consumer, seen, "Braked")
        assert len(told) == len({each["message"] for each in told}) <= 2


@pytest.mark.parametrize(
    ("counts", "brake"),
    [
        ((0, 2), HALF_OR_TWO),
        ((3, 3), HALF_OR_TWO),
        ((0, 3), Brake(0, 2)),
        ((0, 3), Brake(0.5, 0)),
    ],
    ids=["few", "half", "no share", "no count"],
)
async def test_what_is_not_very_much_goes_unasked(
    world: World, konnector: RunningKonnector, counts: tuple[int, int], brake: Brake
) -> None:
    made = await gold_and_lead(world, konnector, *counts)
    async with under(world, brake):
        for each in made[counts[0] :]:
            await world.provider.gone(each)
            await world.consumer.until(each, lambda seen: finalizers(seen) == [])
        for each in made[: counts[0]]:
            assert await world.provider.get(each)


async def test_what_goes_little_by_little_is_counted_together(
    world: World, konnector: RunningKonnector
) -> None:
    made = await gold_and_lead(world, konnector, 4, 0)
    async with under(world, HALF_OR_TWO):
        for each in made[:2]:
            await world.consumer.merge(each, {"metadata": {"labels": LEAD}})
            await world.provider.gone(each)
        await world.consumer.merge(made[2], {"metadata": {"labels": LEAD}})
        await reason(world.consumer, PROVIDER, "Ready", "Braked", "True")
        assert await world.provider.get(made[2])

        await world.consumer.merge(made[2], {"metadata": {"labels": None}})
        await ready(world.consumer, PROVIDER)


async def test_what_users_delete_goes_whatever_the_number(
    world: World, konnector: RunningKonnector
) -> None:
    made = await gold_and_lead(world, konnector, 6, 0)
    async with under(world, HALF_OR_TWO):
        for each in made[:3]:
            await world.consumer.delete(each)
        for each in made[:3]:
            await world.consumer.gone(each)
            await world.provider.gone(each)
