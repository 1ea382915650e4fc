"""The two clusters' schemas differ: what the provider refuses is said in its words and holds up
nobody else; a status finds its way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from typing import Any

import pytest
import pytest_asyncio

from kbind import words
from kbind.testing.handles import Object
from kbind.testing.running import USER, RunningKonnector, add_connection, binding
from tests.clusters.scenes import Scene, crd_ref, event, events, reason, synced
from tests.clusters.widgets import WIDGETS, crd
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


def loose() -> Object:
    """Widgets whose sizes and lists may be anything."""
    definition = crd()
    spec = spec_fields(definition)
    spec["size"] = {"type": "integer"}
    for word in ("x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
        del spec["env"][word]
    return definition


def spec_fields(definition: Object) -> dict[str, Any]:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields: dict[str, Any] = schema["properties"]["spec"]["properties"]
    return fields


def counts(number: int) -> Callable[[Any], bool]:
    return lambda seen: bool(seen["status"]["count"] == number)


@pytest_asyncio.fixture(loop_scope="session")
async def strict(world: World, konnector: RunningKonnector) -> AsyncIterator[Scene]:
    """Widgets whose schema the provider has tightened since it was brought over."""
    await world.provider.install_crd(loose())
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, schema={"updatePolicy": "Once"})
    bound = await world.consumer.create(binding([WIDGETS], "team-a"))
    await synced(world.consumer, bound)
    tight = crd()
    spec_fields(tight)["size"]["maximum"] = 10
    await world.provider.merge(crd_ref(), {"spec": tight["spec"]})
    await reason(world.consumer, bound, "Ready", "Pinned", "True")
    yield Scene(world, konnector, "team-a")


async def test_a_value_that_the_provider_refuses(strict: Scene) -> None:
    big = await strict.consumer.create(strict.widget("big", size=11))
    told = await event(strict.consumer, big, "SyncFailed")
    assert told["type"] == "Warning"
    assert "spec.size" in told["message"]
    assert "less than or equal to 10" in told["message"]
    await strict.synced("good", size=10)
    assert await strict.provider.find(big) is None
    assert len(await events(strict.consumer, big)) == 1

    await strict.consumer.merge(big, {"spec": {"size": 9}})
    await strict.provider.until(big, lambda seen: seen["spec"]["size"] == 9)
    assert (await strict.consumer.get(big))["metadata"]["finalizers"] == [words.SYNCER]


async def test_a_change_that_the_provider_refuses(strict: Scene) -> None:
    instance = await strict.synced("one", size=1)
    copy = await strict.provider.get(instance)
    await strict.consumer.merge(instance, {"spec": {"size": 11}})
    await event(strict.consumer, instance, "SyncFailed")
    assert await strict.provider.get(instance) == copy
    # The status still comes down.
    await strict.provider.set_status(instance, {"phase": "Ready"})
    await strict.consumer.until(instance, lambda seen: seen["status"] == {"phase": "Ready"})

    # And the provider may give in.
    spec = deepcopy((await strict.provider.get(crd_ref()))["spec"])
    spec_fields({"spec": spec})["size"]["maximum"] = 20
    await strict.provider.merge(crd_ref(), {"spec": spec})
    await strict.provider.until(instance, lambda seen: seen["spec"]["size"] == 11)


async def test_a_refused_spec_is_not_sent_at_every_event(strict: Scene) -> None:
    instance = await strict.synced("busy", size=1)
    await strict.consumer.merge(instance, {"spec": {"size": 11}})
    await event(strict.consumer, instance, "SyncFailed")
    for count in range(30):
        await strict.provider.set_status(instance, {"count": count})
        await strict.consumer.until(instance, counts(count))
    audit = strict.provider.cluster.audit(USER)
    refused = [e for e in audit if e.name == "busy" and e.verb == "patch" and e.status == 422]
    assert 1 <= len(refused) < 10


async def test_a_list_that_the_provider_cannot_merge(strict: Scene) -> None:
    twice = [{"name": "FOO", "value": "1"}, {"name": "FOO", "value": "2"}]
    bad = await strict.consumer.create(strict.widget("bad", env=twice))
    told = await event(strict.consumer, bad, "SyncFailed")
    assert "FOO" in told["message"]
    others = [await strict.synced(f"good-{n}", env=twice[:1]) for n in range(3)]
    assert len(others) == 3
    assert await strict.provider.find(bad) is None

    await strict.consumer.merge(bad, {"spec": {"env": twice[1:]}})
    copy = await strict.provider.until(bad, lambda seen: seen)
    assert copy["spec"]["env"] == twice[1:]


async def test_a_refused_instance_may_be_deleted(strict: Scene) -> None:
    big = await strict.consumer.create(strict.widget("big", size=11))
    await event(strict.consumer, big, "SyncFailed")
    await strict.consumer.delete(big)
    await strict.consumer.gone(big)


@pytest.mark.parametrize("side", ["provider", "consumer"])
async def test_a_status_subresource_on_one_side_alone(
    world: World, konnector: RunningKonnector, side: str
) -> None:
    await world.provider.install_crd(crd(status=side == "provider"))
    await world.consumer.install_crd(crd(status=side == "consumer", exported=False))
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, schema={"pullPolicy": "None"})
    bound = await world.consumer.create(binding([WIDGETS], "team-a"))
    await synced(world.consumer, bound)
    scene = Scene(world, konnector, "team-a")
    instance = await scene.synced("one", size=1)

    subresource = "status" if side == "provider" else None
    ready = {"status": {"phase": "Ready", "count": 1}}
    await world.provider.merge(instance, ready, subresource)
    await world.consumer.until(instance, lambda seen: seen["status"] == ready["status"])
    await world.consumer.merge(instance, {"spec": {"size": 2}})
    copy = await world.provider.until(instance, lambda seen: seen["spec"]["size"] == 2)
    assert copy["status"] == ready["status"]
    await world.provider.merge(instance, {"status": {"count": None}}, subresource)
    await world.consumer.until(instance, lambda seen: seen["status"] == {"phase": "Ready"})
