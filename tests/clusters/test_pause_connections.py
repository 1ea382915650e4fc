"""A paused Connection keeps its line and writes nothing over it; nor does a binding that brings a
definition; and what an overlay makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from kbind import words
from kbind.testing.handles import Object, condition
from kbind.testing.running import RunningKonnector, add_connection, binding
from tests.clusters.conftest import settings
from tests.clusters.scenes import (
    PROVIDER,
    Writes,
    crd_ref,
    discoveries,
    event,
    message,
    paused,
    paused_binding,
    ready,
    reason,
    synced,
)
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.clusters.world import World
from tests.manifests import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="session")

OVERLAY = ROOT / "tests" / "overlays" / "no-pause-by-instance"
BOUND = binding([WIDGETS], "team-a")


async def test_a_paused_binding_brings_no_definition(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, schema={"source": "CRD"})
    made = binding([WIDGETS], "team-a")
    made["metadata"] |= paused()["metadata"]
    await world.consumer.create(made)
    seen = await reason(world.consumer, made, "Ready", words.Reason.PAUSED)
    assert f"the schema of {WIDGETS} is on its way" in message(seen, "Ready")
    assert condition(seen, "Synced", "False")
    await discoveries(world.provider, 2)
    assert await world.consumer.find(crd_ref()) is None

    await world.consumer.merge(made, paused(None))
    await synced(world.consumer, made)


# --- a Connection ----------------------------------------------------------------------------


async def begin(world: World, **spec: Any) -> Object:
    """A widget that is synced over a Connection."""
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    schema = {"source": "CRD"}
    await add_connection(world.consumer, world.provider.cluster, **{"schema": schema} | spec)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)
    return one


async def pause_connection(world: World) -> None:
    await world.consumer.merge(PROVIDER, paused())
    seen = await reason(world.consumer, PROVIDER, "Ready", words.Reason.PAUSED, "True")
    assert "paused" in message(seen, "Ready")
    await paused_binding(world.consumer, BOUND)


async def test_a_paused_connection_keeps_its_line_and_writes_nothing_over_it(
    world: World, konnector: RunningKonnector
) -> None:
    one = await begin(world)
    gone = await world.consumer.create(widget("gone"))
    await world.provider.until(gone, lambda seen: seen)
    await pause_connection(world)
    agent = konnector.konnector
    assert agent is not None
    line, syncer = agent.shared.links["provider"], agent.syncers[WIDGETS]

    writes = Writes(world)
    await world.consumer.merge(one, {"spec": {"size": 2}})
    await world.provider.set_status(one, {"phase": "Busy"})
    await world.consumer.delete(gone)
    assert (
        "Connection provider is paused" in (await event(world.consumer, gone, "Paused"))["message"]
    )
    await discoveries(world.provider, 2)
    assert writes.all("widgets", "customresourcedefinitions") == []
    assert [w for w in writes.all() if w.startswith(world.provider.cluster.name)] == []

    await world.consumer.merge(PROVIDER, paused(None))
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    await world.consumer.until(one, lambda seen: seen["status"] == {"phase": "Busy"})
    await world.consumer.gone(gone)
    await synced(world.consumer, BOUND)
    await ready(world.consumer, PROVIDER)
    assert agent.shared.links["provider"] is line
    assert agent.syncers[WIDGETS] is syncer


async def test_no_definition_and_no_binding_comes_over_a_paused_connection(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world, autoBind=True)
    own = await world.consumer.until(
        binding([WIDGETS], name="provider"), lambda seen: condition(seen, "Synced")
    )
    await pause_connection(world)
    before = await world.consumer.get(crd_ref())
    changed = {"spec": {"names": {"shortNames": ["wdg"]}}}
    await world.provider.merge(crd(), changed)
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    more = await world.consumer.create(binding([GADGETS], "team-a", "more"))
    seen = await reason(world.consumer, more, "Ready", words.Reason.PAUSED)
    assert f"the schema of {GADGETS} is on its way" in message(seen, "Ready")
    seen = await reason(world.consumer, PROVIDER, "SchemaInSync", words.Reason.PAUSED)
    assert f"CRD {WIDGETS}: update waits" in message(seen, "SchemaInSync")
    assert f"CRD {GADGETS}: install waits" in message(seen, "SchemaInSync")
    await discoveries(world.provider, 2)
    assert (await world.consumer.get(crd_ref()))["spec"] == before["spec"]
    assert await world.consumer.find(crd_ref(GADGETS)) is None
    assert (await world.consumer.get(own))["spec"] == own["spec"]

    await world.consumer.merge(PROVIDER, paused(None))
    await world.consumer.until(
        crd_ref(), lambda seen: seen["spec"]["names"]["shortNames"] == ["wdg"]
    )
    await world.consumer.until(own, lambda seen: len(seen["spec"]["apis"]) == 2)
    await synced(world.consumer, more)
    late = await world.consumer.create(gadget("late"))
    await world.provider.until(late, lambda seen: seen)


async def test_a_restart_forgets_no_conflict_of_what_is_paused(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    await world.provider.create(widget("theirs"))
    theirs = await world.consumer.create(widget("theirs"))
    await reason(world.consumer, theirs, "Synced", "ForeignObjectExists")
    await world.consumer.until(BOUND, lambda seen: condition(seen, "Conflicts"))
    await world.consumer.merge(BOUND, paused())
    before = await paused_binding(world.consumer, BOUND)
    writes = Writes(world)
    await konnector.restart()
    await discoveries(world.provider, 3)
    assert await world.consumer.get(BOUND) == before
    assert writes.all() == []


async def test_at_rest_what_is_paused_costs_no_write_not_even_after_a_restart(
    world: World, konnector: RunningKonnector
) -> None:
    one = await begin(world)
    await pause_connection(world)
    await world.consumer.merge(one, {"spec": {"size": 2}})
    writes = Writes(world)
    await discoveries(world.provider, 2)
    await konnector.restart()
    await discoveries(world.provider, 3)
    await konnector.look_again(one, 0)
    assert writes.all() == []
    await world.consumer.merge(PROVIDER, paused(None))
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)


async def test_the_binding_of_auto_bind_is_left_while_it_is_paused(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world, autoBind=True)
    own = await world.consumer.until(
        binding([WIDGETS], name="provider"), lambda seen: condition(seen, "Synced")
    )
    await world.consumer.merge(own, paused())
    await paused_binding(world.consumer, own)
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await discoveries(world.provider, 3)
    assert (await world.consumer.get(own))["spec"] == own["spec"]
    await world.consumer.merge(own, paused(None))
    await world.consumer.until(own, lambda seen: len(seen["spec"]["apis"]) == 2)


# --- an overlay ------------------------------------------------------------------------------


async def test_an_overlay_may_let_instances_not_pause(world: World) -> None:
    konnector = RunningKonnector(world.consumer.cluster, overlays=[OVERLAY], settings=settings())
    await konnector.start()
    try:
        one = await begin(world)
        await world.consumer.merge(one, paused() | {"spec": {"size": 2}})
        await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
        await world.consumer.merge(BOUND, paused())
        await paused_binding(world.consumer, BOUND)
        await world.consumer.delete(one)
        await event(world.consumer, one, "Paused")
        await world.consumer.merge(BOUND, paused(None))
        await world.consumer.gone(one)
    finally:
        await konnector.stop()
