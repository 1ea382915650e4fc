"""What operations cost in requests, counted where they arrive, and what rest costs: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from kbind.testing.audit import Entry
from kbind.testing.handles import Handle, Object, condition
from kbind.testing.running import USER, RunningKonnector, add_connection, binding
from tests.clusters.scenes import PROVIDER, is_beat, ready
from tests.clusters.widgets import crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Meter:
    """The konnector's writes on both clusters since the last look, but for heartbeats; Events are
    traces and count as writes too."""

    world: World
    seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writes()

    def requests(self) -> dict[str, list[Entry]]:
        since = {}
        for handle in (self.world.consumer, self.world.provider):
            name = handle.cluster.name
            audit = handle.cluster.audit(USER)
            since[name] = audit[self.seen.get(name, 0) :]
            self.seen[name] = len(audit)
        return since

    def writes(self) -> dict[str, list[str]]:
        return {
            name: [
                f"{e.verb} {e.resource}{'/' + e.subresource if e.subresource else ''}"
                for e in entries
                if e.writes and not is_beat(e)
            ]
            for name, entries in self.requests().items()
        }


async def bind(world: World, kinds: Sequence[tuple[str, str]]) -> None:
    for plural, kind in kinds:
        await world.provider.install_crd(crd(plural, kind))
    await world.consumer.namespace("team-a")
    await world.provider.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    names = [f"{plural}.example.org" for plural, _ in kinds]
    bound = await world.consumer.create(binding(names, "team-a"))
    await world.consumer.until(bound, lambda seen: condition(seen, "Synced"))
    await ready(world.consumer, PROVIDER)


async def marker(world: World) -> Object:
    """An instance that has been through: what was asked for before it has been done."""
    name = f"marker-{asyncio.get_running_loop().time():.6f}"
    made = await world.consumer.create(widget(name))
    await world.provider.until(made, lambda seen: seen)
    return made


async def test_each_operation_costs_its_requests_and_no_more(
    world: World, konnector: RunningKonnector
) -> None:
    await bind(world, [("widgets", "Widget")])
    await marker(world)
    meter = Meter(world)

    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)
    await world.provider.set_status(one, {"phase": "Ready"})
    await world.consumer.until(one, lambda seen: seen["status"])
    assert meter.writes() == {
        "consumer": ["patch widgets", "patch widgets/status"],
        "provider": ["patch widgets"],
    }

    await world.consumer.merge(one, {"spec": {"size": 2}})
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    assert meter.writes() == {"consumer": [], "provider": ["patch widgets"]}

    await world.provider.set_status(one, {"phase": "Busy"})
    await world.consumer.until(one, lambda seen: seen["status"]["phase"] == "Busy")
    assert meter.writes() == {"consumer": ["patch widgets/status"], "provider": []}

    await world.consumer.delete(one)
    await world.consumer.gone(one)
    counted = meter.requests()
    assert [str(e) for e in counted["consumer"] if e.resource == "widgets"] == [
        "patch widgets team-a/one 200"
    ]
    assert [str(e) for e in counted["provider"] if e.resource == "widgets"] == [
        "delete widgets team-a/one 200"
    ]


async def test_what_has_settled_is_written_no_more_not_even_after_a_restart(
    world: World, konnector: RunningKonnector
) -> None:
    kinds = [("widgets", "Widget"), ("gadgets", "Gadget"), ("gizmos", "Gizmo")]
    await bind(world, kinds)
    # Lists by key and by place, defaults, empty maps: what servers fill in must settle too.
    spec: Object = {
        "env": [{"name": "B", "value": "2"}, {"name": "A"}],
        "labels": {},
        "free": {"a": {}},
    }
    made = []
    for number in range(501):
        kind = kinds[number % 3][1]
        made.append(widget(f"w{number:03}", kind=kind, size=number, **spec))
    await fan_out(world.consumer.create, made)
    for obj in made[-3:]:
        await world.provider.until(obj, lambda seen: seen, deadline=60)
    await everything(world.provider, kinds, lambda items: len(items) == 501)
    await fan_out(lambda obj: world.provider.set_status(obj, {"phase": "Ready"}), made)
    await everything(
        world.consumer,
        kinds,
        lambda items: all(i.get("status") == {"phase": "Ready"} for i in items),
    )

    meter = Meter(world)
    await passes(world, konnector)
    assert meter.writes() == {"consumer": [], "provider": []}

    await konnector.restart()
    await passes(world, konnector)
    assert meter.writes() == {"consumer": [], "provider": []}


async def passes(world: World, konnector: RunningKonnector) -> None:
    """Waits until every instance has been looked at and the Connection discovered thrice."""
    lists = 0
    end = asyncio.get_running_loop().time() + 60
    before = len(world.provider.cluster.audit(USER))
    while asyncio.get_running_loop().time() < end:
        agent = konnector.konnector
        assert agent is not None
        recent = world.provider.cluster.audit(USER)[before:]
        lists = sum(e.resource == "customresourcedefinitions" for e in recent)
        syncers = agent.syncers.values()
        if lists >= 3 and len(syncers) == 3 and all(s.synced for s in syncers):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{lists} discoveries after 60 s")


async def everything(handle: Handle, kinds, met) -> None:  # type: ignore[no-untyped-def]
    end = asyncio.get_running_loop().time() + 90
    while asyncio.get_running_loop().time() < end:
        items = [o for _, kind in kinds for o in await handle.list("example.org/v1", kind)]
        if met(items):
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{len(items)} objects, not as expected")


async def fan_out(work, items) -> None:  # type: ignore[no-untyped-def]
    """A few at a time, as users do."""
    gate = asyncio.Semaphore(16)

    async def one(item: Object) -> None:
        async with gate:
            await work(item)

    await asyncio.gather(*(one(item) for item in items))
