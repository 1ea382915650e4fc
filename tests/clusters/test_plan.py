"""``kbind plan`` says beforehand exactly what then happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbind import resources, words
from kbind.planning.action import Deletion
from kbind.planning.foreseen import Foreseen
from kbind.testing.handles import Object
from kbind.testing.running import (
    RunningKonnector,
    add_connection,
    binding,
    connection,
    connection_secret,
)
from tests.clusters.conftest import settings
from tests.clusters.foretelling import acts, compare
from tests.clusters.relay import Relay
from tests.clusters.scenes import PROVIDER, crd_ref, paused, paused_binding, reason, synced
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

BOUND = binding([WIDGETS], "team-a")
EVERYWHERE = binding([WIDGETS], name="everywhere")
ORPHAN = {"metadata": {"annotations": {words.DELETION_POLICY: words.ORPHAN}}}
HOLDS = {"metadata": {"finalizers": ["example.org/holds"]}}


async def begin(world: World, *bound: Object, **spec: Any) -> None:
    """Widgets are bound and synced."""
    await world.provider.install_crd(crd())
    for namespace in ("team-a", "team-b"):
        await world.consumer.namespace(namespace)
    await add_connection(world.consumer, world.provider.cluster, **spec)
    for each in bound:
        await world.consumer.create(each)
        await synced(world.consumer, each)


async def copied(world: World, *instances: Object) -> list[Object]:
    made = [await world.consumer.create(each) for each in instances]
    for each in made:
        await world.provider.until(each, lambda seen: seen)
    return made


async def mixed(world: World) -> None:
    """Instances with a copy, under Orphan, and one that a foreign object refuses."""
    (kept, *_) = await copied(world, *(widget(n, size=1) for n in ("kept", "one", "two")))
    await world.consumer.merge(kept, ORPHAN)
    await world.provider.create(widget("taken", size=9))
    taken = await world.consumer.create(widget("taken", size=1))
    await reason(world.consumer, taken, "Synced", "ForeignObjectExists")


def rules(found: Foreseen, side: str, key: str) -> list[str]:
    """Those that lead to what becomes of one object."""
    return [
        decision.name
        for change in found.changes
        if (change.side, str(change.key)) == (side, key)
        for decision in change.decisions
    ]


def notes(found: Foreseen) -> str:
    return "\n".join(note.text for note in found.notes)


# --- deletions -------------------------------------------------------------------------------


async def test_the_last_binding_of_a_namespace(world: World, konnector: RunningKonnector) -> None:
    await begin(world, BOUND)
    await mixed(world)
    await world.provider.merge(widget("two"), HOLDS)
    found = await compare(world, Deletion("Binding", "bound", "team-a"))
    assert acts(found, "Widget", "provider") == {"delete": ["one", "two"]}
    assert acts(found, "Widget") == {"change": ["kept", "one", "taken", "two"]}
    assert found.changes[0].user
    assert rules(found, "consumer", "team-a/kept") == ["duty/unbind-orphan"]
    assert rules(found, "provider", "team-a/one") == [
        "duty/unbind",
        "ownership/maintain",
        "instance/unbind-maintain",
    ]
    (note,) = found.notes
    assert note.text.endswith("on the provider will wait for finalizers: example.org/holds")
    assert note.names == ("team-a/two",)


async def test_the_last_cluster_binding(world: World, konnector: RunningKonnector) -> None:
    await begin(world, EVERYWHERE)
    await mixed(world)
    await copied(world, widget("far", "team-b", size=1))
    found = await compare(world, Deletion("ClusterBinding", "everywhere"))
    assert acts(found, "Widget", "provider") == {"delete": ["one", "two", "far"]}
    assert acts(found, "Widget") == {"delete": ["kept", "one", "taken", "two", "far"]}
    assert acts(found, "CustomResourceDefinition") == {"delete": [WIDGETS]}
    assert rules(found, "consumer", "team-a/kept") == [
        "duty/unbind-orphan",
        "cleanup/remove-definition",
    ]


async def test_a_binding_while_another_lists_the_api(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world, EVERYWHERE, BOUND)
    await copied(world, widget("one", size=1))
    found = await compare(world, Deletion("ClusterBinding", "everywhere"))
    assert [str(change.key) for change in found.changes] == ["everywhere"]
    (note,) = found.notes
    assert "also listed by Binding team-a/bound" in note.text
    assert note.decision is not None
    assert note.decision.rule == "others-bind"


async def test_a_connection_waits_for_its_bindings(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world, BOUND)
    await copied(world, widget("one", size=1))
    found = await compare(world, Deletion("Connection", "provider"))
    assert [(change.act, change.kind) for change in found.changes] == [("delete", "Connection")]
    assert "DrainingBindings: waiting for Binding team-a/bound" in notes(found)


async def test_a_connection_takes_along_what_it_bound(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world, autoBind=True)
    await synced(world.consumer, binding([WIDGETS], name="provider"))
    await mixed(world)
    found = await compare(world, Deletion("Connection", "provider"))
    assert acts(found, "ClusterBinding") == {"delete": ["provider"]}
    assert acts(found, "Secret") == {"change": ["provider-kubeconfig"]}
    assert acts(found, "Widget") == {"delete": ["kept", "one", "taken", "two"]}


async def test_a_binding_that_its_connection_makes_again(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world, autoBind=True)
    await synced(world.consumer, binding([WIDGETS], name="provider"))
    await copied(world, widget("one", size=1))
    found = await compare(world, Deletion("ClusterBinding", "provider"))
    again = {"delete": ["provider"], "create": ["provider"]}
    assert acts(found, "ClusterBinding") == again
    assert acts(found, "CustomResourceDefinition") == {"delete": [WIDGETS], "create": [WIDGETS]}
    assert acts(found, "Widget") == {"delete": ["one"]}


async def test_an_instance(world: World, konnector: RunningKonnector) -> None:
    await begin(world, BOUND)
    await mixed(world)
    found = await compare(world, Deletion("Widget", "one", "team-a"))
    assert acts(found, "Widget", "provider") == {"delete": ["one"]}
    assert acts(found, "Widget") == {"delete": ["one"]}
    found = await compare(world, Deletion("Widget", "kept", "team-a"))
    assert acts(found, "Widget", "provider") == {}
    found = await compare(world, Deletion("Widget", "taken", "team-a"))
    assert acts(found, "Widget", "provider") == {}
    await world.provider.merge(widget("two"), HOLDS)
    found = await compare(world, Deletion("Widget", "two", "team-a"))
    assert acts(found, "Widget") == {"delete": ["two"]}
    assert f"1 {WIDGETS} not let go yet" in notes(found)


async def test_an_instance_that_nothing_holds(world: World, konnector: RunningKonnector) -> None:
    await begin(world, BOUND)
    await world.consumer.create(widget("far", "team-b", size=1))
    found = await compare(world, Deletion("Widget", "far", "team-b"))
    assert [(change.act, str(change.key)) for change in found.changes] == [("delete", "team-b/far")]


async def test_a_paused_binding(world: World, konnector: RunningKonnector) -> None:
    await begin(world, BOUND)
    await copied(world, widget("one", size=1))
    await world.consumer.merge(BOUND, paused())
    await paused_binding(world.consumer, BOUND)
    found = await compare(world, Deletion("Binding", "bound", "team-a"))
    assert [(change.act, change.kind) for change in found.changes] == [("delete", "Binding")]
    assert "Paused: paused, so its deletion waits" in notes(found)
    found = await compare(world, Deletion("Binding", "bound", "team-a"))
    assert not found.changes  # it is being deleted already
    assert "Paused: paused, so its deletion waits" in notes(found)


@asynccontextmanager
async def running(world: World, overlay: str = "") -> AsyncIterator[list[Path]]:
    """A konnector of little patience, with one of the overlays that ship with kbind."""
    overlays = [resources.overlays()[overlay]] if overlay else []
    impatient = replace(settings(), patience=2.0)
    started = RunningKonnector(world.consumer.cluster, overlays=overlays, settings=impatient)
    await started.start()
    try:
        yield overlays
    finally:
        await started.stop()


async def test_what_no_other_binding_covers_by_an_overlay(world: World) -> None:
    async with running(world, "cleanup-by-coverage") as overlays:
        await begin(world, EVERYWHERE, BOUND)
        await copied(world, widget("one", size=1), widget("far", "team-b", size=1))
        found = await compare(world, Deletion("ClusterBinding", "everywhere"), *overlays)
    assert acts(found, "Widget", "provider") == {"delete": ["far"]}
    assert acts(found, "Widget") == {"change": ["far"]}


async def test_a_copy_that_an_overlay_waits_for(world: World) -> None:
    async with running(world, "await-provider") as overlays:
        await begin(world, BOUND)
        held, _ = await copied(world, widget("held", size=1), widget("one", size=1))
        await world.provider.merge(held, HOLDS)
        found = await compare(world, Deletion("Binding", "bound", "team-a"), *overlays)
    assert acts(found, "Widget", "provider") == {"delete": ["held", "one"]}
    assert rules(found, "consumer", "team-a/held")[-1] == "instance/unbind-wait"
    assert f"1 {WIDGETS} not let go yet" in notes(found)


async def test_a_provider_that_does_not_answer(world: World) -> None:
    async with running(world), Relay(world.provider.cluster) as relay:
        await world.provider.install_crd(crd())
        await world.consumer.namespace("team-a")
        await add_connection(world.consumer, relay)
        await world.consumer.create(EVERYWHERE)
        await synced(world.consumer, EVERYWHERE)
        await mixed(world)
        await relay.cut()
        await reason(world.consumer, PROVIDER, "Ready", "Unreachable")
        found = await compare(world, Deletion("ClusterBinding", "everywhere"))
    assert acts(found, "Widget", "provider") == {}
    assert acts(found, "CustomResourceDefinition") == {"delete": [WIDGETS]}
    assert "not answered for 60 s, or at once without credentials: " in notes(found)
    assert "team-a/one" in notes(found)


# --- applications ----------------------------------------------------------------------------


async def meet(world: World) -> None:
    """Instances of an API that nothing binds yet; the provider has an object of one's name."""
    await begin(world, schema={"pullPolicy": "All"})
    await world.consumer.established(WIDGETS)
    for each in (widget("one", size=1), widget("taken", size=1)):
        await world.consumer.create(each)
    await world.provider.namespace("team-a")
    await world.provider.create(widget("taken", size=9))


async def test_a_binding_that_refuses(world: World, konnector: RunningKonnector) -> None:
    await meet(world)
    found = await compare(world, [BOUND])
    assert acts(found, "Widget", "provider") == {"create": ["one"]}
    assert acts(found, "Widget") == {"change": ["one"], "refuse": ["taken"]}
    assert rules(found, "consumer", "team-a/taken")[-2:] == [
        "ownership/refuse-markerless",
        "instance/serve-refuse",
    ]


async def test_a_binding_that_adopts(world: World, konnector: RunningKonnector) -> None:
    await meet(world)
    found = await compare(world, [binding([WIDGETS], "team-a", conflictPolicy="Adopt")])
    assert acts(found, "Widget", "provider") == {"create": ["one"], "change": ["taken"]}


async def test_what_comes_with_an_object_that_is_adopted(
    world: World, konnector: RunningKonnector
) -> None:
    await meet(world)
    await world.provider.set_status(widget("taken"), {"phase": "Old"})
    await world.consumer.namespace("foretold")  # the provider has none of that name
    await world.consumer.create(widget("lone", "foretold", size=1))
    found = await compare(world, [binding([WIDGETS], name="everywhere", conflictPolicy="Adopt")])
    assert acts(found, "Namespace", "provider") == {"create": ["foretold"]}
    (taken,) = [c for c in found.changes if (c.key.name, c.side) == ("taken", "consumer")]
    assert taken.steps == ("hold", "mirror")
    assert rules(found, "provider", "foretold/lone")[-1] == "instance/serve-create"


async def test_a_binding_that_is_made_to_adopt(world: World, konnector: RunningKonnector) -> None:
    await begin(world, BOUND)
    await mixed(world)
    found = await compare(world, [binding([WIDGETS], "team-a", conflictPolicy="Adopt")])
    assert acts(found, "Binding") == {"change": ["bound"]}
    assert acts(found, "Widget", "provider") == {"change": ["taken"]}
    assert acts(found, "Widget") == {"change": ["taken"]}


async def test_a_connection_that_binds_everything(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await world.consumer.namespace("kbind")
    wanted = [connection_secret(world.provider.cluster), connection(autoBind=True)]
    found = await compare(world, wanted)
    assert acts(found, "ClusterBinding") == {"create": ["provider"]}
    assert acts(found, "CustomResourceDefinition") == {"create": [GADGETS, WIDGETS]}
    secret = wanted[0]["data"]["kubeconfig"]
    assert secret not in str(found.as_json())


async def test_another_api_of_a_binding(world: World, konnector: RunningKonnector) -> None:
    await begin(world, BOUND)
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await copied(world, widget("one", size=1))
    found = await compare(world, [binding([WIDGETS, GADGETS], "team-a")])
    assert acts(found, "CustomResourceDefinition") == {"create": [GADGETS]}
    assert acts(found, "Widget") == {}
    await copied(world, gadget("one", size=1))


async def test_a_definition_that_somebody_else_installed(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    await world.consumer.install_crd(crd(exported=False))
    found = await compare(world, [BOUND])
    assert acts(found, "CustomResourceDefinition") == {}
    assert f"Unmanaged: CRD {WIDGETS} exists without kbind's markers" in notes(found)
    assert await world.consumer.get(crd_ref())


async def test_an_api_that_nobody_exports(world: World, konnector: RunningKonnector) -> None:
    await begin(world)
    found = await compare(world, [binding(["absent.example.org"], "team-a")])
    assert [change.kind for change in found.changes] == ["Binding"]
    assert "APINotExported: the provider does not export absent.example.org" in notes(found)
