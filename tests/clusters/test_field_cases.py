"""What went wrong in the field when things were restored, lost or taken down."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kbind import words
from kbind.testing.handles import Handle, Object, condition, new
from kbind.testing.memory import MemoryCluster
from kbind.testing.running import USER, RunningKonnector, add_connection, binding, connection
from tests.clusters.conftest import settings
from tests.clusters.relay import Relay
from tests.clusters.scenes import (
    OWN,
    PROVIDER,
    crd_ref,
    event,
    message,
    ready,
    reason,
    synced,
    uid_of,
)
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

TERMINATION = 60.0  # seconds that a real namespace may take
SILENCE = 60.0  # seconds until it is noticed
BOUND = binding([WIDGETS], "team-a")


async def begin(world: World, consumer: Handle, *instances: Object) -> list[Object]:
    """Widgets are bound in team-a, and the instances have their copies."""
    await consumer.namespace("team-a")
    await add_connection(consumer, world.provider.cluster)
    await consumer.create(BOUND)
    await synced(consumer, BOUND)
    made = [await consumer.create(each) for each in instances]
    for each in made:
        await world.provider.until(each, bool)
    return made


def deletions(cluster: Handle) -> list[str]:
    return [str(e) for e in cluster.cluster.audit(USER) if e.verb.startswith("delete")]


async def restored(cluster: Handle, saved: Object) -> Object:
    """An object as a backup has it: with its annotations and finalizers, and another UID."""
    kept = ("name", "namespace", "labels", "annotations", "finalizers")
    metadata = {part: saved["metadata"][part] for part in kept if part in saved["metadata"]}
    return await cluster.create(
        {part: saved[part] for part in ("apiVersion", "kind", "spec")} | {"metadata": metadata}
    )


async def test_what_is_restored_from_a_backup_does_not_get_its_old_copy(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    (made,) = await begin(world, world.consumer, widget("db", size=1))
    saved = await world.consumer.get(made)
    copy = await world.provider.get(made)
    start = len(deletions(world.provider))
    await konnector.stop()
    await world.consumer.merge(made, {"metadata": {"finalizers": None}})
    await world.consumer.delete(made)
    again = await restored(world.consumer, saved)
    await konnector.start()

    told = await event(world.consumer, again, "OwnedByAnother")
    assert "of this same cluster (other UID)" in told["message"]
    assert "backup" in told["message"]
    await world.consumer.delete(again)
    await world.consumer.gone(again)
    again = await restored(world.consumer, saved)
    await event(world.consumer, again, "OwnedByAnother")
    await world.consumer.delete(BOUND)
    await world.consumer.gone(BOUND)
    seen = await world.consumer.get(again)
    assert "finalizers" not in seen["metadata"]
    assert words.CONFLICT not in seen["metadata"].get("annotations", {})
    assert await world.provider.get(copy) == copy
    assert deletions(world.provider)[start:] == []


async def test_a_consumer_that_is_built_anew_from_a_backup_moves_nothing(world: World) -> None:
    """world.second is built in the place of world.consumer."""
    await world.provider.install_crd(crd())
    first = RunningKonnector(world.consumer.cluster, settings=settings())
    await first.start()
    (made,) = await begin(world, world.consumer, widget("db", size=1))
    await first.stop()
    copy = await world.provider.get(made)
    start = len(deletions(world.provider))

    await world.second.namespace("team-a")
    await restored(world.second, await world.consumer.get(crd_ref()))
    await world.second.established(WIDGETS)
    await add_connection(world.second, world.provider.cluster)
    await world.second.set_status(PROVIDER, (await world.consumer.get(PROVIDER))["status"])
    await world.second.create(BOUND)
    again = await restored(world.second, await world.consumer.get(made))
    anew = RunningKonnector(world.second.cluster, settings=settings())
    await anew.start()
    try:
        seen = await reason(world.second, PROVIDER, "Ready", "ClusterIdentityChanged")
        assert await uid_of(world.consumer) in message(seen, "Ready")
        assert await uid_of(world.second) in message(seen, "Ready")
        await world.second.delete(again)
        await event(world.second, again, "ConnectionNotReady")
        await world.second.merge(again, {"metadata": {"finalizers": None}})
        assert await world.provider.get(copy) == copy
        assert deletions(world.provider)[start:] == []
    finally:
        await anew.stop()


async def test_a_line_that_was_dead_for_a_while_carries_again(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    async with Relay(world.provider.cluster) as relay:
        await add_connection(world.consumer, relay)
        await world.consumer.create(BOUND)
        await synced(world.consumer, BOUND)
        made = [await world.consumer.create(widget(f"w{n}", size=1)) for n in range(3)]
        for each in made:
            await world.provider.until(each, bool)

        relay.mute()
        await world.provider.set_status(made[0], {"phase": "Ready"})
        await world.consumer.merge(made[1], {"spec": {"size": 2}})
        await world.consumer.until(
            PROVIDER, lambda seen: condition(seen, "Connected", "False"), SILENCE
        )
        relay.flow()
        await world.consumer.until(made[0], lambda seen: seen["status"] == {"phase": "Ready"})
        await world.provider.until(made[1], lambda seen: seen["spec"]["size"] == 2)
        await ready(world.consumer, PROVIDER)
        assert deletions(world.provider) == deletions(world.consumer) == []


async def test_a_consumer_that_was_refused_takes_nothing_along(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    mine, gone = await begin(world, world.consumer, widget("db", size=1), widget("gone", size=1))
    second = RunningKonnector(world.second.cluster, settings=settings())
    await second.start()
    try:
        (theirs,) = await begin(world, world.second, widget("db", size=2))
        await reason(world.second, theirs, "Synced", "OwnedByAnother")
        copy = await world.provider.get(mine)
        for ref in (BOUND, PROVIDER):
            await world.second.delete(ref)
            await world.second.gone(ref)
        seen = await world.second.get(theirs)
        assert "finalizers" not in seen["metadata"]
        assert await world.provider.get(copy) == copy
        await world.consumer.merge(mine, {"spec": {"size": 3}})
        await world.provider.until(mine, lambda seen: seen["spec"]["size"] == 3)
        assert await world.provider.get(gone)
    finally:
        await second.stop()


async def test_names_as_long_as_they_can_be_are_unbound(
    world: World, konnector: RunningKonnector
) -> None:
    name, namespace = "a.b-".rjust(252, "c") + "d", "n" * 63
    await world.provider.install_crd(crd())
    await world.consumer.namespace(namespace)
    long = connection(name, kubeconfigSecretRef=PROVIDER["spec"]["kubeconfigSecretRef"])
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(long)
    bound = binding([WIDGETS], namespace, name, name)
    await world.consumer.create(bound)
    await synced(world.consumer, bound)
    made = await world.consumer.create(widget(name, namespace, size=1))
    await world.provider.until(made, bool)
    for ref in (bound, long):
        await world.consumer.delete(ref)
        await world.consumer.gone(ref)
    await world.provider.gone(made)
    assert "finalizers" not in (await world.consumer.get(made))["metadata"]
    await ready(world.consumer, PROVIDER)


async def test_an_api_whose_name_is_as_long_as_it_can_be_is_bound(
    world: World, konnector: RunningKonnector
) -> None:
    plural, group = "w" * 63, ".".join(["g" * 63, "h" * 63, "i" * 61])
    offered = crd()
    offered["metadata"]["name"] = name = f"{plural}.{group}"
    assert len(name) == 253
    offered["spec"]["group"] = group
    offered["spec"]["names"] = {"plural": plural, "kind": "W" * 63, "listKind": "L" * 63}
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, autoBind=True)
    await world.consumer.established(name)
    await synced(world.consumer, OWN)
    one = new(f"{group}/v1", "W" * 63, "one", "team-a", spec={"size": 1})
    await world.consumer.create(one)
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 1)
    await world.provider.set_status(one, {"phase": "Ready"})
    await world.consumer.until(one, lambda seen: seen["status"] == {"phase": "Ready"})
    await world.consumer.delete(one)
    await world.consumer.gone(one)
    await world.provider.gone(one)


@asynccontextmanager
async def without_events(cluster: Handle) -> AsyncIterator[None]:
    """Within the block no Event can be made, which real servers refuse in a namespace that goes."""
    if not isinstance(cluster.cluster, MemoryCluster):
        yield
        return
    cluster.cluster.deny(USER, "create", "events")
    try:
        yield
    finally:
        cluster.cluster.allow(USER, "create", "events")


@pytest.mark.parametrize("order", ["binding-first", "binding-last", "at-once"])
async def test_a_namespace_goes_with_its_binding_in_any_order(
    world: World, konnector: RunningKonnector, order: str
) -> None:
    await world.provider.install_crd(crd())
    made = await begin(
        world, world.consumer, *(widget(name, size=1) for name in ("one", "two", "three", "kept"))
    )
    await world.consumer.merge(
        made[3], {"metadata": {"annotations": {words.DELETION_POLICY: words.ORPHAN}}}
    )
    refused = await world.provider.create(widget("taken", size=9))
    await world.consumer.create(widget("taken", size=1))
    await reason(world.consumer, refused, "Synced", "ForeignObjectExists")
    namespace = new("v1", "Namespace", "team-a")
    async with without_events(world.consumer):
        if order == "binding-first":
            await world.consumer.delete(BOUND)
            await world.consumer.delete(namespace)
        elif order == "binding-last":
            for each in made:
                await world.consumer.delete(each)
            await world.consumer.delete(namespace)
        else:
            await world.consumer.delete(namespace)
        await world.consumer.gone(namespace, TERMINATION)
    left = await world.provider.list("example.org/v1", "Widget")
    assert sorted(each["metadata"]["name"] for each in left) == ["kept", "taken"]
    assert await world.consumer.get(crd_ref())
    await world.consumer.namespace("team-a")
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    assert await world.consumer.list("example.org/v1", "Widget") == []
