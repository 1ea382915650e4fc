"""The provider changes an API while instances of it live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest

from kbind import words
from kbind.errors import Conflict, Invalid, KbindError
from kbind.testing.handles import Handle, Object
from kbind.testing.running import USER, RunningKonnector, add_connection, binding
from tests.clusters.scenes import (
    crd_ref,
    discoveries,
    event,
    events,
    eventually,
    message,
    reason,
    synced,
)
from tests.clusters.widgets import GROUP, WIDGETS, crd, widget, with_field
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

BOUND = binding([WIDGETS], "team-a")
EVERYWHERE = binding([WIDGETS], name="everywhere")
SCOPES = ("Namespaced", "Cluster")

from_both = pytest.mark.parametrize("source", ["CRD", "OpenAPI"])


def version(name: str, *, served: bool = True, storage: bool = False) -> Object:
    made: Object = deepcopy(crd()["spec"]["versions"][0])
    return made | {"name": name, "served": served, "storage": storage}


def at(name: str, thing: Mapping[str, Any]) -> Object:
    """*thing*, referred to at another version of its API."""
    return {**thing, "apiVersion": f"{GROUP}/{name}"}


def is_not(old: Object) -> Callable[[Any], bool]:
    """Whether it is another object of the name."""
    return lambda seen: bool(seen["metadata"]["uid"] != old["metadata"]["uid"])


async def begin(
    world: World, *names: str, bound: Object = BOUND, source: str = "CRD", **changed: Any
) -> list[Object]:
    """Widgets with their copies and a status. changed: of the spec of the provider's CRD."""
    offered = crd()
    offered["spec"] |= changed
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, schema={"source": source})
    await world.consumer.create(bound)
    await synced(world.consumer, bound)
    made = [await world.consumer.create(widget(name, size=1)) for name in names]
    for each in made:
        await world.provider.until(each, bool)
        await world.provider.set_status(each, {"phase": "Ready"})
        await world.consumer.until(each, lambda seen: seen["status"] == {"phase": "Ready"})
    return made


async def at_rest(world: World) -> list[str]:
    """What the konnector asks of both sides in four discoveries, beside what those ask."""
    sides = (world.consumer, world.provider)
    start = [len(side.cluster.audit(USER)) for side in sides]
    await discoveries(world.provider, 4)
    return [
        f"{side.cluster.name}: {entry}"
        for side, first in zip(sides, start, strict=True)
        for entry in side.cluster.audit(USER)[first:]
        if entry.resource == "widgets" or entry.writes
    ]


async def test_the_version_in_use_is_served_no_longer(
    world: World, konnector: RunningKonnector
) -> None:
    both = [version("v1", storage=True), version("v2")]
    (one,) = await begin(world, "one", versions=both)
    both[0]["served"] = False
    await world.provider.merge(crd_ref(), {"spec": {"versions": both}})
    two = at("v2", one)
    await world.consumer.until(two, bool)
    await world.consumer.merge(two, {"spec": {"size": 2}})
    await world.provider.until(two, lambda seen: seen["spec"]["size"] == 2)
    await world.provider.set_status(two, {"phase": "Moved"})
    seen = await world.consumer.until(two, lambda seen: seen["status"] == {"phase": "Moved"})
    assert seen["metadata"]["uid"] == one["metadata"]["uid"]
    local = await world.consumer.get(crd_ref())
    assert [(v["name"], v["served"], v["storage"]) for v in local["spec"]["versions"]] == [
        ("v2", True, True),
        ("v1", False, False),
    ]
    await synced(world.consumer, BOUND)
    assert await events(world.consumer, one) == []


async def tighten(world: World) -> None:
    """Sizes below 5 are allowed no longer."""
    tight = version("v1", storage=True)
    schema = tight["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["size"]["minimum"] = 5
    await world.provider.merge(crd_ref(), {"spec": {"versions": [tight]}})
    await world.consumer.until(crd_ref(), lambda seen: "'minimum': 5" in str(seen["spec"]))
    await synced(world.consumer, BOUND)

    async def enforced() -> bool:
        try:
            await world.consumer.create(widget("probe", size=1))
        except Invalid:
            return True
        except Conflict:
            return False  # the one before is still going
        await world.consumer.delete(widget("probe"))
        return False

    await eventually(enforced, "the consumer's server refuses what does not fit")


@from_both
async def test_validation_that_existing_instances_do_not_fit(
    world: World, konnector: RunningKonnector, source: str
) -> None:
    one, two = await begin(world, "one", "two", source=source)
    await tighten(world)
    for each in (one, two):
        assert (await world.consumer.get(each))["spec"] == each["spec"]
        assert (await world.provider.get(each))["spec"] == each["spec"]
    await world.provider.set_status(one, {"phase": "Still"})
    await world.consumer.until(one, lambda seen: seen["status"] == {"phase": "Still"})
    # The value that does not fit may stay, beside an edit of others.
    await world.consumer.merge(one, {"spec": {"note": "n"}})
    await world.provider.until(one, lambda seen: seen["spec"].get("note") == "n")
    with pytest.raises(KbindError, match=r"spec\.size"):
        await world.consumer.merge(one, {"spec": {"size": 2}})
    await world.consumer.merge(one, {"spec": {"size": 6}})
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 6)
    for each in (one, two):
        assert await events(world.consumer, each) == []
        await world.consumer.delete(each)
        await world.consumer.gone(each)
        assert await world.provider.find(each) is None


async def taken_away(world: World, source: str) -> tuple[list[Object], list[Object]]:
    """Widgets whose API the provider has no longer, and the copies that they had."""
    made = await begin(world, "one", "two", source=source)
    copies = [await world.provider.get(each) for each in made]
    await world.provider.delete(crd_ref())
    await world.provider.gone(crd_ref())
    return made, copies


@from_both
async def test_an_api_that_is_made_anew_is_filled_from_the_consumer(
    world: World, konnector: RunningKonnector, source: str
) -> None:
    made, before = await taken_away(world, source)
    seen = await reason(world.consumer, BOUND, "Ready", "APINotExported")
    assert message(seen, "Ready") == f"the provider does not export {WIDGETS}"
    await reason(world.consumer, BOUND, "Synced", "SyncFailed")
    for each in made:
        standing = await world.consumer.get(each)
        assert standing["spec"] == each["spec"]
        assert standing["status"] == {"phase": "Ready"}
    # The collection is tried again now and then, the instances are not asked for one by one.
    await konnector.look_again(made[0])
    asked = await at_rest(world)
    assert len(asked) <= 6, asked
    assert {entry.split(" 404")[0] for entry in asked} <= {"provider: list widgets "}

    await world.provider.install_crd(crd())
    for old in before:
        copy = await world.provider.until(old, bool, deadline=40)
        assert copy["spec"] == old["spec"]
        assert copy["metadata"]["uid"] != old["metadata"]["uid"]
    await synced(world.consumer, BOUND)
    await world.provider.set_status(made[0], {"phase": "New"})
    seen = await world.consumer.until(made[0], lambda seen: seen["status"] == {"phase": "New"})
    assert seen["metadata"]["uid"] == made[0]["metadata"]["uid"]


@from_both
async def test_an_api_that_is_made_anew_between_two_discoveries(
    world: World, konnector: RunningKonnector, source: str
) -> None:
    made, before = await taken_away(world, source)
    changed = with_field(crd())
    await world.provider.install_crd(changed)
    for old in before:
        copy = await world.provider.until(old, is_not(old), deadline=40)
        assert copy["spec"] == old["spec"]
    await world.consumer.until(crd_ref(), lambda seen: "shape" in str(seen["spec"]))
    await synced(world.consumer, BOUND)
    for each in made:
        await world.provider.set_status(each, {"phase": "New"})
        seen = await world.consumer.until(each, lambda seen: seen["status"] == {"phase": "New"})
        assert seen["metadata"]["uid"] == each["metadata"]["uid"]


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_while_its_api_is_gone_an_instance_is_held_unless_it_is_orphaned(
    world: World, konnector: RunningKonnector, restarted: bool
) -> None:
    """That the provider does not serve the API proves nothing about the copy."""
    held, orphan = await begin(world, "held", "orphan")
    await world.provider.delete(crd_ref())
    await world.provider.gone(crd_ref())
    await reason(world.consumer, BOUND, "Synced", "SyncFailed")
    if restarted:
        await konnector.restart()
    policy = {words.DELETION_POLICY: words.ORPHAN}
    await world.consumer.merge(orphan, {"metadata": {"annotations": policy}})
    for each in (held, orphan):
        await world.consumer.delete(each)
    await world.consumer.gone(orphan)
    told = await event(world.consumer, held, "SyncFailed")
    assert "404" in told["message"]
    await konnector.look_again(held)
    assert (await world.consumer.get(held))["metadata"]["finalizers"] == [words.SYNCER]
    await event(world.consumer, held, "SyncFailed")
    await world.provider.install_crd(crd())
    await world.consumer.gone(held, deadline=40)
    assert await world.provider.find(held) is None


@pytest.mark.parametrize(
    ("before", "after", "source"),
    [(*SCOPES, "CRD"), (*SCOPES[::-1], "CRD"), (*SCOPES, "OpenAPI")],
)
async def test_an_api_that_is_made_anew_in_another_scope(
    world: World, konnector: RunningKonnector, before: str, after: str, source: str
) -> None:
    namespace = "team-a" if before == "Namespaced" else None
    offered = crd(scope=before)
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, schema={"source": source})
    await world.consumer.create(EVERYWHERE)
    await synced(world.consumer, EVERYWHERE)
    one, two = [await world.consumer.create(widget(name, namespace, size=1)) for name in "ab"]
    for each in (one, two):
        await world.provider.until(each, bool)

    await world.provider.delete(crd_ref())
    await world.provider.gone(crd_ref())
    await world.provider.install_crd(crd(scope=after))
    provider = await Handle.open(world.provider.cluster)  # one that knows the new scope
    try:
        elsewhere = "team-a" if after == "Namespaced" else None
        await provider.namespace("team-a")
        stranger = await provider.create(widget("a", elsewhere, size=7))
        seen = await reason(world.consumer, EVERYWHERE, "Ready", "SchemaRefused")
        assert "spec.scope" in message(seen, "Ready")
        assert "field is immutable" in message(seen, "Ready")
        seen = await reason(world.consumer, EVERYWHERE, "Synced", "SyncFailed")
        assert f"the provider has it in scope {after}" in message(seen, "Synced")
        await konnector.look_again(two)
        assert await at_rest(world) == []
        # What stands stays, and may be deleted: no copy of it can be anywhere.
        assert (await world.consumer.get(two))["spec"] == two["spec"]
        await world.consumer.delete(one)
        await world.consumer.gone(one)
        assert await provider.list(f"{GROUP}/v1", "Widget") == [stranger]

        # The cure that is told.
        await world.consumer.delete(crd_ref())
        await world.consumer.until(crd_ref(), lambda seen: seen["spec"]["scope"] == after)
        await synced(world.consumer, EVERYWHERE)
        consumer = await Handle.open(world.consumer.cluster)
        try:
            new = await consumer.create(widget("new", elsewhere, size=3))
            await provider.until(new, lambda seen: seen["spec"]["size"] == 3)
        finally:
            await consumer.close()
        assert await provider.get(stranger) == stranger
    finally:
        await provider.close()


async def test_a_label_that_is_set_again_makes_no_difference_to_instances(
    world: World, konnector: RunningKonnector
) -> None:
    (one,) = await begin(world, "one")
    copy = await world.provider.get(one)
    for value in (None, words.TRUE):
        label = {"metadata": {"labels": {words.EXPORTED: value}}}
        await world.provider.merge(crd_ref(), label)
        if value is None:
            await reason(world.consumer, BOUND, "Ready", "APINotExported")
            changed = crd()["spec"]
            spec = changed["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec["properties"]["shape"] = {"type": "string"}
            await world.provider.merge(crd_ref(), {"spec": changed})
            await world.consumer.merge(one, {"spec": {"size": 2}})
            await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
            assert "shape" not in str(await world.consumer.get(crd_ref()))
    # What changed meanwhile is brought over.
    await world.consumer.until(crd_ref(), lambda seen: "shape" in str(seen))
    await synced(world.consumer, BOUND)
    again = await world.provider.get(one)
    assert again["metadata"]["uid"] == copy["metadata"]["uid"]
    assert again["spec"]["size"] == 2
