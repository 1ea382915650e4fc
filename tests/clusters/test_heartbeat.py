"""The heartbeat's Lease on the provider: what it says, where it stands, and what is the matter."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from kbind import words
from kbind.heartbeat import key
from kbind.konnector.shared import utc_now
from kbind.testing.handles import Object, condition, new
from kbind.testing.running import USER, RunningKonnector, binding, connection
from tests.clusters.access import CRDS, IDENTITY, limit, may
from tests.clusters.access import USER as LIMITED
from tests.clusters.conftest import settings
from tests.clusters.scenes import (
    PROVIDER,
    eventually,
    kubeconfig_data,
    message,
    ready,
    secret,
    synced,
    uid_of,
)
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

_numbers = count()
LEASES = may("get create update", "coordination.k8s.io", "leases")


@asynccontextmanager
async def beating(world: World, **options: Any) -> AsyncIterator[RunningKonnector]:
    """A konnector whose heart beats every second."""
    running = RunningKonnector(world.consumer.cluster, settings=settings(heartbeat=1.0), **options)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def connected(world: World, namespace: str | None = None, user: str = USER) -> None:
    """The Connection and its Secret. namespace: of the kubeconfig's context."""
    kubeconfig = world.provider.cluster.kubeconfig(user)
    if namespace is not None:
        kubeconfig["contexts"][0]["context"]["namespace"] = namespace
    await world.consumer.namespace("kbind")
    await world.consumer.create(secret(kubeconfig_data(kubeconfig)))
    await world.consumer.create(PROVIDER)


async def lease(world: World, namespace: str = "kbind", name: str = "provider") -> Object:
    at = key(name, await uid_of(world.consumer), namespace)
    return new("coordination.k8s.io/v1", "Lease", at.name, at.namespace)


def fresh() -> str:
    """A namespace that is nowhere yet."""
    return f"beats-{next(_numbers)}"


async def test_the_lease_says_who_is_there_and_is_renewed(world: World) -> None:
    uid = await uid_of(world.consumer)
    async with beating(world):
        await connected(world)
        wanted = await lease(world)
        assert wanted["metadata"]["name"] == f"provider-{uid[:10]}"
        made = await world.provider.until(wanted, lambda seen: seen)
        assert made["metadata"]["labels"] == {"core.kbind.io/managed": "true"}
        assert made["metadata"]["annotations"] == {
            "core.kbind.io/consumer-cluster-uid": uid,
            "core.kbind.io/connection": "provider",
        }
        spec = made["spec"]
        assert spec.keys() == {
            "holderIdentity",
            "leaseDurationSeconds",
            "acquireTime",
            "renewTime",
        }
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (uid, 60)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec["renewTime"])
        age = datetime.now(UTC) - datetime.fromisoformat(spec["renewTime"])
        assert abs(age.total_seconds()) < 30
        later = await world.provider.until(
            wanted, lambda seen: seen["spec"]["renewTime"] > spec["renewTime"]
        )
        assert later["spec"]["acquireTime"] == spec["acquireTime"]
        assert later["metadata"]["uid"] == made["metadata"]["uid"]
        managers = {entry["manager"] for entry in later["metadata"]["managedFields"]}
        assert managers == {words.MANAGER}
        seen = await ready(world.consumer, PROVIDER)
        assert "heartbeat" not in message(seen, "Ready")
        assert "clock" not in message(seen, "Ready")


async def test_it_stands_in_the_contexts_namespace_which_is_made_where_it_is_missing(
    world: World,
) -> None:
    namespace = fresh()
    async with beating(world):
        await connected(world, namespace)
        await world.provider.until(await lease(world, namespace), lambda seen: seen)
    assert await world.provider.find(await lease(world)) is None


async def test_without_rights_it_is_told_and_all_else_goes_on(world: World) -> None:
    namespace = fresh()
    widgets = may("get list watch create patch delete", "example.org", "widgets")
    rights = (IDENTITY, CRDS, widgets)
    await world.provider.install_crd(crd())
    for handle in (world.consumer, world.provider):
        await handle.namespace("team-a")
    await limit(world.provider, *rights)

    async def says(*parts: str) -> None:
        seen = await world.consumer.until(
            PROVIDER, lambda seen: all(part in message(seen, "Ready") for part in parts)
        )
        assert condition(seen, "Ready")
        assert condition(seen, "PermissionDenied", "False")

    async with beating(world):
        await connected(world, namespace, LIMITED)
        bound = await world.consumer.create(binding([WIDGETS], "team-a"))
        await synced(world.consumer, bound)
        one = await world.consumer.create(widget("one", size=1))
        await world.provider.until(one, lambda seen: seen)
        await says("the heartbeat fails: provider: get", "403 Forbidden", "leases")

        await limit(world.provider, *rights, LEASES)
        await says("the heartbeat fails: provider: create", f'namespaces "{namespace}" not found')

        await world.provider.namespace(namespace)
        await world.provider.until(await lease(world, namespace), lambda seen: seen)
        await world.consumer.until(PROVIDER, lambda seen: "heartbeat" not in message(seen, "Ready"))


async def test_a_lease_of_somebody_else_is_not_written(world: World) -> None:
    theirs = await lease(world) | {"spec": {"holderIdentity": "somebody"}}
    await world.provider.namespace("kbind")
    made = await world.provider.create(theirs)
    async with beating(world):
        await connected(world)
        seen = await ready(world.consumer, PROVIDER)
        assert f"Lease kbind/{made['metadata']['name']} is somebody else's" in message(
            seen, "Ready"
        )
        assert await world.provider.get(made) == made
        await world.provider.delete(made)
        uid = await uid_of(world.consumer)
        await world.provider.until(
            theirs, lambda seen: seen and seen["spec"]["holderIdentity"] == uid
        )
        await world.consumer.until(
            PROVIDER, lambda seen: "somebody else's" not in message(seen, "Ready")
        )


async def test_one_that_was_deleted_or_edited_comes_right(world: World) -> None:
    async with beating(world):
        await connected(world)
        made = await world.provider.until(await lease(world), lambda seen: seen)
        edit = {
            "metadata": {"labels": {words.MANAGED: None, "mine": "too"}},
            "spec": {"leaseDurationSeconds": 5},
        }
        await world.provider.merge(made, edit)
        right = {words.MANAGED: "true", "mine": "too"}
        seen = await world.provider.until(made, lambda seen: seen["metadata"]["labels"] == right)
        assert seen["spec"]["leaseDurationSeconds"] == 60
        await world.provider.delete(made)
        again = await world.provider.until(
            made, lambda seen: seen and seen["metadata"]["uid"] != made["metadata"]["uid"]
        )
        assert again["spec"]["leaseDurationSeconds"] == 60
        assert "heartbeat" not in message(await ready(world.consumer, PROVIDER), "Ready")


@pytest.mark.parametrize(("minutes", "where"), [(2, "behind"), (-2, "ahead of")])
async def test_a_clock_that_differs_is_told(world: World, minutes: int, where: str) -> None:
    async with beating(world, now=lambda: utc_now() + timedelta(minutes=minutes)):
        await connected(world)
        seen = await ready(world.consumer, PROVIDER)
        said = re.search(r"the provider's clock is about (\d+) s (.*) the konnector's", str(seen))
        assert said is not None
        assert 118 <= int(said[1]) <= 121
        assert said[2] == where


async def test_long_names_have_a_lease_each(world: World) -> None:
    reference = {"namespace": "kbind", "name": "provider-kubeconfig"}
    names = [end.rjust(253, "a") for end in ("x", "y.z")]
    async with beating(world) as konnector:
        await connected(world)
        for name in names:
            await world.consumer.create(connection(name, kubeconfigSecretRef=reference))

        async def uids() -> dict[str, str]:
            items = await world.provider.list("coordination.k8s.io/v1", "Lease")
            found = {
                (lease["metadata"].get("annotations") or {}).get(words.CONNECTION): lease
                for lease in items
            }
            if not {*names, "provider"} <= found.keys():
                return {}
            return {name: found[name]["metadata"]["uid"] for name in names}

        before = await eventually(uids, "each Connection has its Lease")
        assert len(set(before.values())) == 2
        await konnector.restart()
        for name in names:
            wanted = await lease(world, name=name)
            old = await world.provider.get(wanted)
            await world.provider.until(
                wanted,
                lambda seen, old=old: seen["spec"]["renewTime"] > old["spec"]["renewTime"],  # type: ignore[misc]
            )
        assert await uids() == before
