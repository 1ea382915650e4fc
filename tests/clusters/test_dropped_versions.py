"""A provider drops a version of its API. An object whose managedFields still name it takes no
apply: our entry moves on in time, or is renewed; what others left is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest

from kbind import words
from kbind.managed import versions as entry_versions
from kbind.testing.handles import Handle, Object
from kbind.testing.running import USER, RunningKonnector, add_connection, binding
from tests.clusters.scenes import crd_ref, event, events, eventually, synced
from tests.clusters.widgets import GROUP, WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

OLD, NEW = "v1alpha1", "v1"
BOUND = binding([WIDGETS], "team-a")


def version(name: str, *, served: bool = True, storage: bool = False) -> Object:
    made: Object = deepcopy(crd()["spec"]["versions"][0])
    return made | {"name": name, "served": served, "storage": storage}


def at(name: str, thing: Mapping[str, Any]) -> Object:
    """*thing*, referred to at another version of its API."""
    return {**thing, "apiVersion": f"{GROUP}/{name}"}


async def begin(world: World, *names: str) -> list[Object]:
    """Instances of the old version that have their copies; they are referred to at the new one."""
    offered = crd()
    offered["spec"]["versions"] = [version(OLD, storage=True)]
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    made = [await world.consumer.create(at(OLD, widget(name, size=1))) for name in names]
    for each in made:
        await world.provider.until(each, bool)
    return [at(NEW, each) for each in made]


async def change(provider: Handle, *offered: Object) -> None:
    await provider.merge(crd_ref(), {"spec": {"versions": list(offered)}})


async def move(provider: Handle, *copies: Object) -> None:
    """The provider stores what it has in the new version, and drops the old one."""
    await change(provider, version(OLD), version(NEW, storage=True))
    for each in copies:
        await provider.until(each, bool)
        await provider.merge(each, {})
    path = await provider.path(crd_ref(), "status")
    stored = b'[{"op":"replace","path":"/status/storedVersions","value":["v1"]}]'
    await provider.client.patch(path, stored, manager="migrator")
    await change(provider, version(NEW, storage=True))

    async def dropped() -> bool:
        return OLD not in str(await provider.get(crd_ref()))

    await eventually(dropped, "the provider has dropped the old version")


def ours_at(name: str) -> Callable[[Any], bool]:
    return lambda seen: (words.MANAGER, f"{GROUP}/{name}") in entry_versions(seen)


def counts(number: int) -> Callable[[Any], bool]:
    return lambda seen: bool(seen["status"] == {"count": number})


def patches(world: World, name: str) -> list[int]:
    """What the provider answered to our patches of that copy: the clusters' logs go on from test
    to test, so each test has names of its own."""
    audit = world.provider.cluster.audit(USER)
    return [e.status for e in audit if e.verb == "patch" and e.name == name]


async def test_our_entry_moves_on_with_the_version_by_one_apply(
    world: World, konnector: RunningKonnector
) -> None:
    one, two = await begin(world, "moved-1", "moved-2")
    before = {
        each["metadata"]["name"]: len(patches(world, each["metadata"]["name"]))
        for each in (one, two)
    }
    await change(world.provider, version(OLD), version(NEW, storage=True))
    for each in (one, two):
        await world.provider.until(each, ours_at(NEW))
    local = await world.consumer.until(
        crd_ref(), lambda seen: len(seen["status"]["storedVersions"]) == 2
    )
    assert [(v["name"], v["served"], v["storage"]) for v in local["spec"]["versions"]] == [
        (NEW, True, True),
        (OLD, False, False),
    ]
    await synced(world.consumer, BOUND)
    await konnector.restart()
    await konnector.look_again(one, 1)
    await synced(world.consumer, BOUND)
    for name, count in before.items():
        assert len(patches(world, name)) == count + 1

    await move(world.provider, one, two)
    await world.consumer.merge(one, {"spec": {"size": 2}})
    copy = await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    assert copy["metadata"]["labels"][words.MANAGED] == words.TRUE
    await world.provider.set_status(one, {"phase": "Ready"})
    await world.consumer.until(one, lambda seen: seen["status"] == {"phase": "Ready"})
    assert 500 not in patches(world, "moved-1")


async def test_our_entry_is_renewed_where_its_version_went_meanwhile(
    world: World, konnector: RunningKonnector
) -> None:
    one, two = await begin(world, "renewed-1", "renewed-2")
    await konnector.stop()
    await move(world.provider, one, two)
    await world.consumer.merge(at(OLD, one), {"spec": {"size": 2}})
    await konnector.start()
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    for each in (one, two):
        copy = await world.provider.until(each, ours_at(NEW))
        assert entry_versions(copy) == [(words.MANAGER, f"{GROUP}/{NEW}")]
        assert patches(world, each["metadata"]["name"]).count(500) == 1
        assert await events(world.consumer, each) == []
    await world.consumer.merge(one, {"spec": {"size": None}})
    await world.provider.until(one, lambda seen: "size" not in seen["spec"])


async def test_what_others_left_at_the_version_is_said(
    world: World, konnector: RunningKonnector
) -> None:
    one, two = await begin(world, "left-1", "left-2")
    await world.provider.set_status(at(OLD, one), {"phase": "Ready"})
    await world.consumer.until(at(OLD, one), lambda seen: seen["status"] == {"phase": "Ready"})
    await konnector.stop()
    await move(world.provider, one, two)
    await konnector.start()
    await world.consumer.until(one, bool)
    await world.consumer.merge(one, {"spec": {"size": 2}})
    told = await event(world.consumer, one, "SyncFailed")
    assert told["type"] == "Warning"
    assert "still name that version, for the manager operator" in told["message"]
    assert f"has to list {GROUP}/{OLD} again" in told["message"]
    # Status comes down, and no event of the object sends the spec again.
    for count in range(20):
        await world.provider.set_status(one, {"count": count})
        await world.consumer.until(one, counts(count))
    assert len(patches(world, "left-1")) < 12
    copy = await world.provider.get(one)
    assert copy["spec"]["size"] == 1
    assert ("operator", f"{GROUP}/{OLD}") in entry_versions(copy)
    # The others are not held up, and neither is a deletion.
    await world.provider.until(two, ours_at(NEW))
    await world.consumer.delete(one)
    await world.consumer.gone(one)
    assert await world.provider.find(one) is None


@pytest.mark.parametrize("cure", ["listed", "renamed"])
async def test_the_cure_that_is_told_cures(
    world: World, konnector: RunningKonnector, cure: str
) -> None:
    (one,) = await begin(world, "cured")
    await world.provider.set_status(at(OLD, one), {"phase": "Ready"})
    await konnector.stop()
    await move(world.provider, one)
    await konnector.start()
    await world.consumer.until(one, bool)
    await world.consumer.merge(one, {"spec": {"size": 2}})
    await event(world.consumer, one, "SyncFailed")
    if cure == "listed":
        await change(world.provider, version(NEW, storage=True), version(OLD, served=False))
    else:
        await rename_entries(world.provider, one)
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2, deadline=40)
    await world.provider.until(one, ours_at(NEW))


async def rename_entries(provider: Handle, copy: Object) -> None:
    seen = await provider.get(copy)
    entries = seen["metadata"]["managedFields"]
    for entry in entries:
        entry["apiVersion"] = f"{GROUP}/{NEW}"
    await provider.merge(seen, {"metadata": {"managedFields": entries}})
