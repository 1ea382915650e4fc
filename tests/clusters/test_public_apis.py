"""Public APIs and their objects, as they are: ten CRDs, two consumers, one provider."""

from __future__ import annotations

import asyncio

import pytest

from kbind.konnector.shared import Settings
from kbind.testing.handles import Object, condition
from kbind.testing.running import RunningKonnector, add_connection, binding
from tests.clusters.world import World
from tests.public_apis import crds, needs_shared, samples

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    needs_shared,
    pytest.mark.timeout(300),
]


def status_for(crd: Object) -> Object:
    """A status that the API's own schema accepts and keeps: nothing is known of most."""
    version = next(v for v in crd["spec"]["versions"] if v["storage"])
    schema = version["schema"]["openAPIV3Schema"]["properties"].get("status")
    if schema is None or schema.get("required"):
        return {}
    for name, field in sorted(schema.get("properties", {}).items()):
        if field.get("type") == "string" and not {"enum", "format", "pattern"} & field.keys():
            return {name: "seen by a test"}
        if field.get("type") == "integer":
            return {name: 7}
    return {}


async def test_specs_are_equal_on_the_provider_and_statuses_on_the_consumers(world: World) -> None:
    offered = {crd["metadata"]["name"]: crd for crd in crds()}
    by_kind = {
        (crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd for crd in offered.values()
    }
    assert len(offered) == 10
    for crd in offered.values():
        await world.provider.install_crd(crd)

    konnectors = []
    for consumer in (world.consumer, world.second):
        running = RunningKonnector(consumer.cluster, settings=Settings(1.0, 1.0))
        await running.start()
        konnectors.append(running)
        await add_connection(consumer, world.provider.cluster)
        bound = await consumer.create(binding(sorted(offered)))
        await consumer.until(bound, lambda seen: condition(seen, "Synced"), deadline=60)
    try:
        for consumer in (world.consumer, world.second):
            name = consumer.cluster.name
            await consumer.namespace(name)
            made = [await place(consumer, obj, by_kind, name) for obj in samples()]
            assert len(made) >= 8
            for one in made:
                copy = await world.provider.until(one, lambda seen: seen, deadline=60)
                assert copy.get("spec") == one.get("spec")
                crd = by_kind[(one["apiVersion"].split("/")[0], one["kind"])]
                await mirrored(world, consumer, one, status_for(crd))
    finally:
        for running in konnectors:
            await running.stop()


async def place(consumer, obj: Object, by_kind, namespace: str) -> Object:  # type: ignore[no-untyped-def]
    """Creates a sample in the consumer's own namespace, or under its own name where the API is
    cluster-scoped, so that the two consumers do not meet."""
    crd = by_kind[(obj["apiVersion"].split("/")[0], obj["kind"])]
    metadata = dict(obj["metadata"])
    # One version comes over: the storage version.
    version = next(v["name"] for v in crd["spec"]["versions"] if v["storage"])
    obj = obj | {"apiVersion": f"{crd['spec']['group']}/{version}"}
    if crd["spec"]["scope"] == "Namespaced":
        metadata["namespace"] = namespace
    else:
        metadata["name"] = f"{metadata['name']}.{namespace}"
    made: Object = await consumer.create(obj | {"metadata": metadata})
    return made


async def mirrored(world: World, consumer, one: Object, status: Object) -> None:  # type: ignore[no-untyped-def]
    if not status:
        return
    await world.provider.set_status(one, status)
    seen = await consumer.until(one, lambda seen: seen["status"])
    assert seen["status"] == (await world.provider.get(one))["status"]
    await asyncio.sleep(0)
