"""A Connection: from its Secret to Ready, what stands in the way, and what it never does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kbind import words
from kbind.testing.handles import Handle, Object, condition
from kbind.testing.running import (
    RunningKonnector,
    add_connection,
    binding,
    connection,
    connection_secret,
)
from tests.clusters.access import CRDS, EVERYTHING, IDENTITY, limit
from tests.clusters.conftest import settings
from tests.clusters.relay import Relay
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
    transition,
    uid_of,
)
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def bind_widgets(world: World) -> None:
    """Widgets, exported by the provider and bound in team-a; the Connection is the test's."""
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    await world.consumer.create(binding([WIDGETS], "team-a"))


async def add_secret(world: World, data: Any) -> None:
    await world.consumer.namespace("kbind")
    await world.consumer.create(secret(data))


async def bind_gadgets_of_second(world: World) -> None:
    """Another API through another Connection: what is synced there tells the time here."""
    await world.second.install_crd(crd("gadgets", "Gadget"))
    await add_connection(world.consumer, world.second.cluster, "second")
    await world.consumer.create(binding([GADGETS], "team-a", "gadgets", "second"))
    await world.consumer.established(GADGETS)


# --- the Secret -----------------------------------------------------------------------------


async def test_a_connection_waits_for_its_secret(world: World, konnector: RunningKonnector) -> None:
    await world.consumer.namespace("kbind")
    await world.consumer.create(connection())
    seen = await reason(world.consumer, PROVIDER, "SecretValid", "SecretNotFound")
    assert "kbind/provider-kubeconfig" in message(seen, "SecretValid")
    assert message(seen, "Ready") == message(seen, "SecretValid")
    assert condition(seen, "Connected", "Unknown")
    assert "remoteClusterUID" not in seen["status"]

    await world.consumer.create(connection_secret(world.provider.cluster))
    seen = await ready(world.consumer, PROVIDER)
    assert condition(seen, "SecretValid")
    assert condition(seen, "Connected")
    assert condition(seen, "PermissionDenied", "False")


async def test_a_connection_pins_both_clusters(world: World, konnector: RunningKonnector) -> None:
    await world.provider.install_crd(crd())
    await add_connection(world.consumer, world.provider.cluster)
    seen = await ready(world.consumer, PROVIDER)
    assert seen["status"]["remoteClusterUID"] == await uid_of(world.provider)
    assert seen["status"]["localClusterUID"] == await uid_of(world.consumer)
    assert seen["status"]["activeSchemaSource"] == "CRD"


def _without_context(kubeconfig: Object) -> Object:
    return kubeconfig | {"current-context": ""}


def _with_program(kubeconfig: Object) -> Object:
    name = kubeconfig["users"][0]["name"]
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}
    return kubeconfig | {"users": [{"name": name, "user": {"exec": program}}]}


INVALID: dict[str, tuple[Callable[[Object], Any], str]] = {
    "no-kubeconfig": (lambda _: {"key": "nothing"}, "current-context"),
    "no-context": (_without_context, "current-context"),
    "runs-a-program": (_with_program, "users[0].user.exec"),
}


@pytest.mark.parametrize("fault", INVALID)
async def test_a_secret_is_repaired(world: World, konnector: RunningKonnector, fault: str) -> None:
    broken, named = INVALID[fault]
    kubeconfig = world.provider.cluster.kubeconfig("konnector")
    await add_secret(world, kubeconfig_data(broken(kubeconfig)))
    await world.consumer.create(connection())
    seen = await reason(world.consumer, PROVIDER, "SecretValid", "SecretInvalid")
    assert named in message(seen, "SecretValid")
    assert message(seen, "Ready") == message(seen, "SecretValid")

    await world.consumer.merge(secret(None), {"data": kubeconfig_data(kubeconfig)})
    await ready(world.consumer, PROVIDER)


async def test_the_key_in_the_secret_may_be_named(
    world: World, konnector: RunningKonnector
) -> None:
    kubeconfig = world.provider.cluster.kubeconfig("konnector")
    await add_secret(world, kubeconfig_data(kubeconfig, "production"))
    await world.consumer.create(connection())
    reference = {"namespace": "kbind", "name": "provider-kubeconfig", "key": "production"}
    await world.consumer.create(connection("other", kubeconfigSecretRef=reference))
    await ready(world.consumer, connection("other"))
    seen = await reason(world.consumer, PROVIDER, "SecretValid", "SecretInvalid")
    assert "'kubeconfig'" in message(seen, "SecretValid")


async def test_a_secret_that_is_taken_by_force_stops_the_sync_until_it_is_back(
    world: World, konnector: RunningKonnector
) -> None:
    await bind_widgets(world)
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.established(WIDGETS)
    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)

    await world.consumer.delete(secret(None))
    await world.consumer.merge(secret(None), {"metadata": {"finalizers": None}})
    await reason(world.consumer, PROVIDER, "Ready", "SecretNotFound")
    assert await world.provider.find(one)
    await world.consumer.merge(one, {"spec": {"size": 2}})

    await world.consumer.create(connection_secret(world.provider.cluster))
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    await ready(world.consumer, PROVIDER)


async def test_credentials_are_rotated_without_a_restart(
    world: World, konnector: RunningKonnector
) -> None:
    await limit(world.provider, EVERYTHING)
    await bind_widgets(world)
    await add_secret(world, connection_secret(world.provider.cluster, user="limited")["data"])
    await world.consumer.create(connection())
    await world.consumer.established(WIDGETS)
    one = await world.consumer.create(widget("one", size=1))
    copy = await world.provider.until(one, lambda seen: seen)

    await world.consumer.merge(secret(None), connection_secret(world.provider.cluster))
    await limit(world.provider)
    await world.consumer.merge(one, {"spec": {"size": 2}})
    after = await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    assert after["metadata"]["uid"] == copy["metadata"]["uid"]
    assert (await world.consumer.get(one))["metadata"]["finalizers"] == [words.SYNCER]
    await ready(world.consumer, PROVIDER)


# --- the provider ---------------------------------------------------------------------------


async def test_a_wrong_token_is_unauthorized(world: World, konnector: RunningKonnector) -> None:
    kubeconfig = world.provider.cluster.kubeconfig("konnector")
    name = kubeconfig["users"][0]["name"]
    wrong = kubeconfig | {"users": [{"name": name, "user": {"token": "wrong"}}]}
    await add_secret(world, kubeconfig_data(wrong))
    await world.consumer.create(connection())
    seen = await reason(world.consumer, PROVIDER, "Connected", "Unauthorized")
    assert condition(seen, "SecretValid")
    assert condition(seen, "PermissionDenied", "Unknown")
    assert message(seen, "Ready") == message(seen, "Connected")
    assert "wrong" not in message(seen, "Connected")


async def test_a_server_that_does_not_answer_is_unreachable(
    world: World, konnector: RunningKonnector
) -> None:
    relay = Relay(world.provider.cluster)
    async with relay:
        kubeconfig = relay.kubeconfig("konnector")
    await add_secret(world, kubeconfig_data(kubeconfig))
    await world.consumer.create(connection())
    seen = await reason(world.consumer, PROVIDER, "Connected", "Unreachable")
    assert condition(seen, "SecretValid")
    assert "refuses the connection" in message(seen, "Connected")


async def test_a_provider_that_went_away_is_found_again(
    world: World, konnector: RunningKonnector
) -> None:
    await bind_widgets(world)
    async with Relay(world.provider.cluster) as relay:
        await add_connection(world.consumer, relay)
        await world.consumer.established(WIDGETS)
        one = await world.consumer.create(widget("one", size=1))
        copy = await world.provider.until(one, lambda seen: seen)

        await relay.cut()
        await reason(world.consumer, PROVIDER, "Connected", "Unreachable")
        await world.consumer.merge(one, {"spec": {"size": 2}})
        bound = binding([WIDGETS], "team-a")
        seen = await reason(world.consumer, bound, "Ready", "ConnectionNotReady")
        assert "Unreachable" in message(seen, "Ready")

        await relay.mend()
        after = await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
        assert after["metadata"]["uid"] == copy["metadata"]["uid"]
        await ready(world.consumer, PROVIDER)


async def test_a_lost_provider_stays_lost_until_it_has_answered(world: World) -> None:
    """Whatever else happens between two discoveries makes a Connection no readier."""
    slow = RunningKonnector(world.consumer.cluster, settings=settings(discovery=600.0))
    await slow.start()
    try:
        await bind_widgets(world)
        async with Relay(world.provider.cluster) as relay:
            await add_connection(world.consumer, relay)
            await world.consumer.established(WIDGETS)
            await ready(world.consumer, PROVIDER)
            await relay.cut()
            lost = await reason(world.consumer, PROVIDER, "Connected", "Unreachable")

            await world.consumer.create(binding([WIDGETS], name="everywhere"))
            await world.consumer.merge(PROVIDER, {"spec": {"schema": {"updatePolicy": "Once"}}})
            seen = await world.consumer.until(
                PROVIDER, lambda seen: seen["status"]["observedGeneration"] == 2
            )
            assert condition(seen, "Connected", "False")
            assert transition(seen, "Connected") == transition(lost, "Connected")
    finally:
        await slow.stop()


async def test_a_cluster_is_not_connected_to_itself(
    world: World, konnector: RunningKonnector
) -> None:
    await world.consumer.namespace("team-a")
    await world.consumer.install_crd(crd())
    await add_connection(world.consumer, world.consumer.cluster)
    await world.consumer.create(binding([WIDGETS], "team-a"))
    one = await world.consumer.create(widget("one"))
    seen = await reason(world.consumer, PROVIDER, "Ready", "SameCluster")
    assert condition(seen, "Connected")
    assert "remoteClusterUID" not in seen["status"]

    await bind_gadgets_of_second(world)
    two = await world.consumer.create(gadget("two"))
    await world.second.until(two, lambda seen: seen)
    assert await world.consumer.get(one) == one
    local = await world.consumer.get(crd_ref())
    assert local["metadata"]["labels"] == {words.EXPORTED: "true"}
    assert "annotations" not in local["metadata"]


async def test_a_secret_that_leads_to_another_cluster_moves_nothing(
    world: World, konnector: RunningKonnector
) -> None:
    await bind_widgets(world)
    await world.second.install_crd(crd())
    await world.second.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.established(WIDGETS)
    one = await world.consumer.create(widget("one", size=1))
    copy = await world.provider.until(one, lambda seen: seen)

    await world.consumer.merge(secret(None), connection_secret(world.second.cluster))
    seen = await reason(world.consumer, PROVIDER, "Ready", "ClusterIdentityChanged")
    for cluster in (world.provider, world.second):
        assert await uid_of(cluster) in message(seen, "Ready")
    assert seen["status"]["remoteClusterUID"] == await uid_of(world.provider)
    await world.consumer.merge(one, {"spec": {"size": 2}})

    await world.consumer.merge(secret(None), connection_secret(world.provider.cluster))
    after = await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    assert after["metadata"]["uid"] == copy["metadata"]["uid"]
    assert await world.second.find(one) is None


async def test_an_identity_that_may_not_be_read_is_permission_denied(
    world: World, konnector: RunningKonnector
) -> None:
    await limit(world.provider)
    await bind_widgets(world)
    await add_secret(world, connection_secret(world.provider.cluster, user="limited")["data"])
    await world.consumer.create(connection())
    seen = await reason(world.consumer, PROVIDER, "PermissionDenied", "Forbidden", "True")
    assert "kube-system" in message(seen, "PermissionDenied")
    assert condition(seen, "Connected")
    assert condition(seen, "Ready", "False")
    assert "exportedAPIs" not in seen["status"]
    bound = binding([WIDGETS], "team-a")
    bound = await reason(world.consumer, bound, "PermissionDenied", "Forbidden", "True")
    assert condition(bound, "Ready", "False")
    assert await world.consumer.find(crd_ref()) is None

    await limit(world.provider, IDENTITY)
    seen = await world.consumer.until(
        PROVIDER, lambda seen: "customresourcedefinitions" in message(seen, "PermissionDenied")
    )
    assert condition(seen, "PermissionDenied")

    await limit(world.provider, IDENTITY, CRDS)
    await ready(world.consumer, PROVIDER)
    await world.consumer.established(WIDGETS)


# --- what it offers -------------------------------------------------------------------------


async def test_exported_is_what_carries_the_label_true(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await world.provider.install_crd(crd("racks", "Rack", scope="Cluster"))
    for plural, kind, label in (("gadgets", "Gadget", "True"), ("gizmos", "Gizmo", "yes")):
        other = crd(plural, kind, exported=False)
        other["metadata"]["labels"] = {words.EXPORTED: label}
        await world.provider.install_crd(other)
    await world.provider.install_crd(crd("secrets", "Secret", exported=False))
    await add_connection(world.consumer, world.provider.cluster, schema={"pullPolicy": "All"})
    seen = await ready(world.consumer, PROVIDER)
    common = {"group": "example.org", "versions": ["v1"]}
    assert seen["status"]["exportedAPIs"] == [
        {"name": "racks.example.org", "resource": "racks", "scope": "Cluster"} | common,
        {"name": "widgets.example.org", "resource": "widgets", "scope": "Namespaced"} | common,
    ]
    await world.consumer.established("racks.example.org")
    await world.consumer.established(WIDGETS)

    # What is exported no longer is listed no longer; the schema stays.
    await world.provider.merge(
        crd_ref("racks.example.org"), {"metadata": {"labels": {words.EXPORTED: "false"}}}
    )
    await world.consumer.until(PROVIDER, lambda seen: len(seen["status"]["exportedAPIs"]) == 1)
    for name in (GADGETS, "gizmos.example.org", "secrets.example.org"):
        assert await world.consumer.find(crd_ref(name)) is None
    assert await world.consumer.find(crd_ref("racks.example.org"))


async def test_a_status_that_says_nothing_new_is_not_written(
    world: World, konnector: RunningKonnector
) -> None:
    await bind_widgets(world)
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(connection("broken"))
    await synced(world.consumer, binding([WIDGETS], "team-a"))
    refs = (PROVIDER, connection("broken"), binding([WIDGETS], "team-a"))
    await reason(world.consumer, refs[1], "Ready", "SecretNotFound")
    before = [await world.consumer.get(ref) for ref in refs]

    await discoveries(world.provider, 3)
    assert [await world.consumer.get(ref) for ref in refs] == before


async def test_every_instance_goes_to_its_own_provider(
    world: World, konnector: RunningKonnector
) -> None:
    await bind_widgets(world)
    await add_connection(world.consumer, world.provider.cluster)
    await bind_gadgets_of_second(world)
    await world.consumer.established(WIDGETS)
    one = await world.consumer.create(widget("same", size=1))
    two = await world.consumer.create(gadget("same", size=2))
    assert (await world.provider.until(one, lambda seen: seen))["spec"]["size"] == 1
    assert (await world.second.until(two, lambda seen: seen))["spec"]["size"] == 2
    await world.provider.set_status(one, {"phase": "First"})
    await world.second.set_status(two, {"phase": "Second"})
    await world.consumer.until(one, phase("First"))
    await world.consumer.until(two, phase("Second"))
    assert await kinds(world.provider) == {"Widget"}
    assert await kinds(world.second) == {"Gadget"}


def phase(wanted: str) -> Callable[[Object | None], bool]:
    return lambda seen: bool(seen and (seen.get("status") or {}).get("phase") == wanted)


async def kinds(cluster: Handle) -> set[str]:
    """The kinds of our group that a cluster has."""
    crds = await cluster.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    return {c["spec"]["names"]["kind"] for c in crds if c["spec"]["group"] == "example.org"}


async def test_an_unknown_schema_source_is_named(world: World, konnector: RunningKonnector) -> None:
    await bind_widgets(world)
    await add_connection(world.consumer, world.provider.cluster, schema={"source": "Catalogue"})
    seen = await reason(world.consumer, PROVIDER, "Ready", "UnknownSchemaSource")
    assert "'Catalogue'" in message(seen, "Ready")
    assert "Auto, CRD" in message(seen, "Ready")
    assert condition(seen, "Connected")

    await world.consumer.merge(PROVIDER, {"spec": {"schema": {"source": "CRD"}}})
    await ready(world.consumer, PROVIDER)
    await world.consumer.established(WIDGETS)


async def test_a_connection_taken_by_force_stops_its_sync_and_nothing_else(
    world: World, konnector: RunningKonnector
) -> None:
    await bind_widgets(world)
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.established(WIDGETS)
    await bind_gadgets_of_second(world)
    one = await world.consumer.create(widget("one", size=1))
    copy = await world.provider.until(one, lambda seen: seen)

    await world.consumer.delete(PROVIDER)
    await world.consumer.merge(PROVIDER, {"metadata": {"finalizers": None}})
    bound = binding([WIDGETS], "team-a")
    await reason(world.consumer, bound, "Ready", "ConnectionNotFound")
    await world.consumer.merge(one, {"spec": {"size": 2}})
    two = await world.consumer.create(gadget("two"))
    await world.second.until(two, lambda seen: seen)
    assert await world.provider.get(one) == copy
    assert (await world.consumer.get(one))["metadata"]["finalizers"] == [words.SYNCER]
    assert await world.consumer.find(crd_ref())

    await world.consumer.create(connection())
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
