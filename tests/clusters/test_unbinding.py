"""Deleting bindings, Connections and Secrets: what goes, what stays, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbind import words
from kbind.testing.handles import Object, condition, new
from kbind.testing.running import RunningKonnector, add_connection, binding, connection
from tests.clusters.scenes import (
    PROVIDER,
    crd_ref,
    event,
    eventually,
    message,
    ready,
    reason,
    secret,
    synced,
)
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

BOUND = binding([WIDGETS], "team-a")
EVERYWHERE = binding([WIDGETS], name="everywhere")
SECRET = secret(None)
ORPHAN = {"metadata": {"annotations": {words.DELETION_POLICY: words.ORPHAN}}}


async def begin(world: World, bound: Object = BOUND, **spec: Any) -> Object:
    """Widgets are bound and synced."""
    await world.provider.install_crd(crd())
    for namespace in ("team-a", "team-b"):
        await world.consumer.namespace(namespace)
    await add_connection(world.consumer, world.provider.cluster, **spec)
    made = await world.consumer.create(bound)
    await synced(world.consumer, bound)
    return made


async def copied(world: World, *instances: Object) -> list[Object]:
    made = [await world.consumer.create(each) for each in instances]
    for each in made:
        await world.provider.until(each, lambda seen: seen)
    return made


def finalizers(obj: Object) -> list[str]:
    found: list[str] = obj["metadata"].get("finalizers") or []
    return found


# --- bindings --------------------------------------------------------------------------------


async def test_what_is_bound_is_held_before_anything_is_done(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    for held in (BOUND, PROVIDER, SECRET):
        assert finalizers(await world.consumer.get(held)) == [words.CLEANUP]


async def test_the_last_binding_takes_the_copies_and_leaves_the_instances(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    kept, one, two = await copied(world, *(widget(name, size=1) for name in ("kept", "one", "two")))
    await world.consumer.merge(kept, ORPHAN)
    stranger = await world.provider.create(widget("taken", size=9))
    taken = await world.consumer.create(widget("taken", size=1))
    await reason(world.consumer, taken, "Synced", "ForeignObjectExists")

    await world.consumer.delete(BOUND)
    await world.consumer.gone(BOUND)
    for each in (one, two):
        await world.provider.gone(each)
    assert await world.provider.get(kept)
    assert (await world.provider.get(taken))["spec"] == stranger["spec"]
    for each in (kept, one, two, taken):
        seen = await world.consumer.get(each)
        assert finalizers(seen) == []
        assert words.CONFLICT not in (seen["metadata"].get("annotations") or {})
        assert not condition(seen, "Synced", "False")
    assert await world.consumer.get(crd_ref())

    await world.consumer.create(BOUND)  # all of it comes back
    await world.provider.until(one, lambda seen: seen)


async def test_the_last_cluster_binding_takes_the_definition_too(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world, EVERYWHERE)
    kept, one = await copied(world, widget("kept", size=1), widget("one", "team-b", size=1))
    await world.consumer.merge(kept, ORPHAN)
    stranger = await world.provider.create(widget("stranger", size=9))

    await world.consumer.delete(EVERYWHERE)
    await world.consumer.gone(EVERYWHERE)
    await world.consumer.gone(crd_ref())
    await world.provider.gone(one)
    assert await world.provider.get(kept)
    assert await world.provider.get(stranger) == stranger


async def test_while_another_binding_lists_the_api_nothing_is_undone(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    await world.consumer.create(binding([WIDGETS], "team-b"))
    (one,) = await copied(world, widget("one", size=1))
    await world.consumer.delete(BOUND)
    await world.consumer.gone(BOUND)
    assert await world.provider.get(one)
    assert finalizers(await world.consumer.get(one)) == [words.SYNCER]


async def test_a_definition_that_was_never_ours_is_left(
    world: World, konnector: RunningKonnector
) -> None:
    mine = await world.consumer.install_crd(crd("gadgets", "Gadget", exported=False))
    await begin(world)
    await world.consumer.create(binding([GADGETS, WIDGETS], name="everywhere"))
    await reason(world.consumer, EVERYWHERE, "Ready", "APINotExported")
    await world.consumer.delete(BOUND)
    await world.consumer.gone(BOUND)
    two = await world.consumer.create(gadget("two"))
    await world.consumer.delete(EVERYWHERE)
    await world.consumer.gone(EVERYWHERE)
    await world.consumer.gone(crd_ref())
    assert await world.consumer.get(crd_ref(GADGETS)) == mine
    assert await world.consumer.get(two) == two


async def test_what_cannot_be_looked_at_is_not_taken_for_undone(
    world: World, konnector: RunningKonnector
) -> None:
    await world.consumer.install_crd(crd(exported=False))
    await begin(world, EVERYWHERE, schema={"pullPolicy": "None"})
    (one,) = await copied(world, widget("one", size=1))
    versions = (await world.consumer.get(crd_ref()))["spec"]["versions"]
    unserved = [version | {"served": False} for version in versions]
    await world.consumer.merge(crd_ref(), {"spec": {"versions": unserved}})
    await world.consumer.delete(EVERYWHERE)
    seen = await reason(world.consumer, EVERYWHERE, "Ready", "Unbinding")
    assert "serves no version" in message(seen, "Ready")
    assert not (await world.consumer.get(crd_ref()))["metadata"].get("deletionTimestamp")
    assert await world.provider.get(one)

    await world.consumer.merge(crd_ref(), {"spec": {"versions": versions}})
    await world.consumer.gone(EVERYWHERE)
    await world.consumer.gone(crd_ref())
    await world.provider.gone(one)


async def test_a_copy_that_others_hold_is_not_awaited(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    (one,) = await copied(world, widget("one", size=1))
    await world.provider.merge(one, {"metadata": {"finalizers": ["example.org/backup"]}})
    await world.consumer.delete(BOUND)
    await world.consumer.gone(BOUND)
    assert finalizers(await world.consumer.get(one)) == []
    assert (await world.provider.get(one))["metadata"]["deletionTimestamp"]


async def test_a_restart_in_between_makes_no_difference(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    made = await copied(world, *(widget(f"w-{number}", size=1) for number in range(20)))
    await world.consumer.delete(BOUND)
    await konnector.restart()
    await world.consumer.gone(BOUND)
    for each in made:
        await world.provider.gone(each)
        assert finalizers(await world.consumer.get(each)) == []


async def test_without_credentials_instances_are_let_go_and_copies_are_named(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    (one,) = await copied(world, widget("one", size=1))
    await world.consumer.merge(SECRET, {"data": {words.DEFAULT_KEY: ""}})
    await reason(world.consumer, PROVIDER, "SecretValid", "SecretInvalid")
    bound = await world.consumer.get(BOUND)
    await world.consumer.delete(BOUND)
    await world.consumer.gone(BOUND)
    assert finalizers(await world.consumer.get(one)) == []
    assert await world.provider.get(one)
    told = await event(world.consumer, bound, "CopiesLeft")
    assert "team-a/one" in told["message"]


# --- Connections and Secrets -----------------------------------------------------------------


async def test_a_connection_waits_for_its_bindings_and_serves_them(
    world: World, konnector: RunningKonnector
) -> None:
    await begin(world)
    (one,) = await copied(world, widget("one", size=1))
    await world.consumer.delete(PROVIDER)
    seen = await reason(world.consumer, PROVIDER, "Ready", "DrainingBindings")
    assert "Binding team-a/bound" in message(seen, "Ready")
    await world.consumer.merge(one, {"spec": {"size": 2}})
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    late = await world.consumer.create(binding([GADGETS], "team-a", "late"))
    seen = await reason(world.consumer, late, "Ready", "ConnectionNotReady")
    assert "is being deleted and brings no gadgets.example.org over" in message(seen, "Ready")

    for each in (BOUND, late):
        await world.consumer.delete(each)
        await world.consumer.gone(each)
    await world.provider.gone(one)
    await world.consumer.gone(PROVIDER)
    assert finalizers(await world.consumer.get(SECRET)) == []


async def test_a_connection_takes_the_binding_along_that_it_made(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, autoBind=True)
    own = new(words.API_VERSION, "ClusterBinding", "provider")
    await synced(world.consumer, own)
    (one,) = await copied(world, widget("one", size=1))
    await world.consumer.delete(PROVIDER)
    await world.consumer.gone(own)
    await world.consumer.gone(PROVIDER)
    await world.consumer.gone(crd_ref())
    await world.provider.gone(one)


async def test_a_secret_is_held_until_the_last_connection_that_uses_it(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await add_connection(world.consumer, world.provider.cluster)
    held = await world.consumer.get(SECRET)
    await world.consumer.merge(SECRET, {"data": {"other": held["data"][words.DEFAULT_KEY]}})
    reference = {"namespace": "kbind", "name": "provider-kubeconfig", "key": "other"}
    other = connection("other", kubeconfigSecretRef=reference)
    await world.consumer.create(other)
    for each in (PROVIDER, other):
        await ready(world.consumer, each)
    await world.consumer.delete(PROVIDER)
    await world.consumer.gone(PROVIDER)
    assert finalizers(await world.consumer.get(SECRET)) == [words.CLEANUP]

    await world.consumer.delete(SECRET)
    seen = await world.consumer.until(other, lambda seen: "being deleted" in message(seen, "Ready"))
    assert condition(seen, "Ready")
    await world.consumer.delete(other)
    await world.consumer.gone(other)
    await world.consumer.gone(SECRET)


@pytest.mark.parametrize("order", ["as-described", "all-at-once", "upside-down"])
async def test_everything_ends_in_any_order(
    world: World, konnector: RunningKonnector, order: str
) -> None:
    everywhere = await begin(world, EVERYWHERE)
    made = await copied(world, *(widget(f"w-{number}", size=1) for number in range(5)))
    things = [everywhere, PROVIDER, SECRET]
    if order == "all-at-once":
        await asyncio.gather(*(world.consumer.delete(each) for each in (*made, *things)))
    else:
        for each in things if order == "as-described" else reversed(things):
            await world.consumer.delete(each)
            if order == "as-described":
                await world.consumer.gone(each)
    for each in (*things, crd_ref()):
        await world.consumer.gone(each)
    for each in made:
        await world.provider.gone(each)

    async def nothing_left() -> bool:
        left = await world.provider.list("example.org/v1", "Widget")
        return not left

    await eventually(nothing_left, "no copies are left")
