"""SchemaInSync: whether the definitions on the consumer are what the policies want."""

from __future__ import annotations

from typing import Any

import pytest

from kbind import words
from kbind.testing.handles import Object, condition
from kbind.testing.running import RunningKonnector, add_connection, binding
from tests.clusters.access import CRDS, EVERYTHING, IDENTITY, limit
from tests.clusters.scenes import (
    PROVIDER,
    crd_ref,
    discoveries,
    kubeconfig_data,
    message,
    ready,
    reason,
    secret,
    synced,
)
from tests.clusters.test_bindings import BOUND, offer
from tests.clusters.widgets import GADGETS, WIDGETS, crd, with_field
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONDITION = "SchemaInSync"


async def in_sync(world: World, name: str = "provider") -> Object:
    ref = PROVIDER | {"metadata": {"name": name}}
    return await reason(world.consumer, ref, CONDITION, words.Reason.AS_EXPECTED, "True")


async def test_a_change_is_followed_and_in_sync_again(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(BOUND)
    bound = await synced(world.consumer, BOUND)
    seen = await in_sync(world)
    assert message(seen, CONDITION) == ""
    before = bound["status"]["boundAPIs"][0]["crdHash"]

    await world.provider.merge(crd_ref(), {"spec": with_field(crd())["spec"]})
    await world.consumer.until(
        BOUND, lambda seen: seen["status"]["boundAPIs"][0]["crdHash"] != before
    )
    await in_sync(world)
    await synced(world.consumer, BOUND)
    # And so after a hand has been at it.
    wanted = await world.consumer.get(crd_ref())
    await world.consumer.merge(crd_ref(), {"spec": with_field(crd(), "hand")["spec"]})
    await world.consumer.until(crd_ref(), lambda seen: seen["spec"] == wanted["spec"])
    await in_sync(world)


async def test_what_is_beside_the_spec_is_said_not_to_be_synced(
    world: World, konnector: RunningKonnector
) -> None:
    offered = crd()
    schema = offered["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"] |= {"data": {"type": "string"}, "rules": {"type": "string"}}
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(BOUND)
    seen = await synced(world.consumer, BOUND)
    assert (
        message(seen, "Ready")
        == f"{WIDGETS}: not synced are the fields data, rules beside the spec"
    )


async def test_a_pinned_schema_says_what_it_is_behind(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world, updatePolicy="Once")
    await world.consumer.create(BOUND)
    bound = await synced(world.consumer, BOUND)
    await in_sync(world)
    await world.provider.merge(crd_ref(), {"spec": with_field(crd())["spec"]})
    seen = await reason(world.consumer, PROVIDER, CONDITION, "Pinned")
    text = message(seen, CONDITION)
    assert WIDGETS in text
    assert bound["status"]["boundAPIs"][0]["crdHash"] in text
    assert condition(seen, "Ready")
    before = await world.consumer.get(crd_ref())
    await konnector.restart()
    await discoveries(world.provider, 3)
    assert (await world.consumer.get(crd_ref()))["spec"] == before["spec"]
    assert message(await world.consumer.get(PROVIDER), CONDITION) == text

    await world.consumer.merge(PROVIDER, {"spec": {"schema": {"updatePolicy": "Always"}}})
    await in_sync(world)
    seen = await synced(world.consumer, BOUND)
    assert seen["status"]["boundAPIs"][0]["crdHash"] in text  # it told which would come


async def test_what_is_not_installed_is_named_with_its_reason(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await world.consumer.install_crd(crd("gadgets", "Gadget", exported=False))
    await offer(world, pullPolicy="None")
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, PROVIDER, CONDITION, "SchemaMissing")
    assert WIDGETS in message(seen, CONDITION)

    await world.consumer.merge(PROVIDER, {"spec": {"schema": {"pullPolicy": "All"}}})
    seen = await reason(world.consumer, PROVIDER, CONDITION, "Unmanaged")
    assert GADGETS in message(seen, CONDITION)
    assert WIDGETS not in message(seen, CONDITION)
    await synced(world.consumer, BOUND)


async def test_a_definition_that_is_refused_is_told_in_the_servers_words(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(binding([WIDGETS], name="everywhere"))
    await in_sync(world)
    await world.provider.delete(crd_ref())
    await world.provider.gone(crd_ref())
    await world.provider.install_crd(crd(scope="Cluster"))
    seen = await reason(world.consumer, PROVIDER, CONDITION, "SchemaRefused")
    assert WIDGETS in message(seen, CONDITION)
    assert "spec.scope" in message(seen, CONDITION)


async def test_one_api_of_two_connections_stays_with_the_first(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world, pullPolicy="All")
    await in_sync(world)
    await world.consumer.established(WIDGETS)
    await world.second.install_crd(crd())
    await add_connection(
        world.consumer, world.second.cluster, "second", schema={"pullPolicy": "All"}
    )
    second = PROVIDER | {"metadata": {"name": "second"}}
    seen = await reason(world.consumer, second, CONDITION, "ManagedElsewhere")
    assert WIDGETS in message(seen, CONDITION)
    await in_sync(world)


async def test_while_discovery_fails_it_is_unknown(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await limit(world.provider, EVERYTHING)
    await world.consumer.namespace("kbind")
    limited = world.provider.cluster.kubeconfig("limited")
    await world.consumer.create(secret(kubeconfig_data(limited)))
    await world.consumer.create(PROVIDER)
    await ready(world.consumer, PROVIDER)
    await in_sync(world)
    await limit(world.provider, IDENTITY)

    def unknown(seen: Any) -> bool:
        return condition(seen, CONDITION, "Unknown")

    seen = await world.consumer.until(PROVIDER, unknown)
    assert "customresourcedefinitions" in message(seen, CONDITION)
    await limit(world.provider, IDENTITY, CRDS)
    await in_sync(world)
