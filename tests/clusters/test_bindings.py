"""Bindings: what they cover, which schema is brought over for them, and what they say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbind import words
from kbind.testing.handles import Handle, Object, condition, find_condition, new
from kbind.testing.running import USER, RunningKonnector, add_connection, binding, connection
from tests.clusters.access import CRDS, IDENTITY, limit, may
from tests.clusters.scenes import (
    crd_ref,
    event,
    eventually,
    kubeconfig_data,
    message,
    ready,
    reason,
    secret,
    synced,
)
from tests.clusters.widgets import GADGETS, GROUP, WIDGETS, crd, fields, gadget, widget, with_field
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

BOUND = binding([WIDGETS], "team-a")
EVERYWHERE = binding([WIDGETS], name="everywhere")


async def offer(world: World, **schema: Any) -> None:
    """Widgets, exported by the provider, and a Connection with that schema policy."""
    await world.provider.install_crd(crd())
    for namespace in ("team-a", "team-b"):
        await world.consumer.namespace(namespace)
    await add_connection(world.consumer, world.provider.cluster, schema=schema)


def hashes(bound: Object) -> dict[str, str]:
    return {api["name"]: api["crdHash"] for api in bound["status"]["boundAPIs"]}


async def discovered(consumer: Handle, *, apis: int) -> None:
    """Waits until the Connection lists so many exported APIs: a discovery has been made."""
    await consumer.until(
        connection(), lambda seen: len(seen["status"].get("exportedAPIs", ())) == apis
    )


async def discover(world: World) -> None:
    """Waits for a discovery that begins after now."""
    await world.provider.install_crd(crd("signals", "Signal"))
    seen = await world.consumer.until(connection(), lambda seen: "signals" in str(seen["status"]))
    assert condition(seen, "Connected")


# --- what is covered ------------------------------------------------------------------------


async def test_a_binding_may_come_before_its_connection(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, BOUND, "Ready", "ConnectionNotFound")
    assert condition(seen, "Synced", "False")
    assert condition(seen, "Conflicts", "False")

    await add_connection(world.consumer, world.provider.cluster)
    await synced(world.consumer, BOUND)
    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)


async def test_an_api_may_be_exported_later(world: World, konnector: RunningKonnector) -> None:
    await world.provider.install_crd(crd(exported=False))
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, schema={"source": "CRD"})
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, BOUND, "Ready", "APINotExported")
    assert WIDGETS in message(seen, "Ready")

    await world.provider.merge(crd_ref(), {"metadata": {"labels": {words.EXPORTED: "true"}}})
    await synced(world.consumer, BOUND)


async def test_what_is_exported_no_longer_is_synced_on(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world, source="CRD")
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    await world.provider.merge(crd_ref(), {"metadata": {"labels": {words.EXPORTED: None}}})
    seen = await reason(world.consumer, BOUND, "Ready", "APINotExported")
    assert condition(seen, "Synced")
    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)
    assert await world.consumer.find(crd_ref())


async def test_a_binding_covers_its_namespace_alone(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    outside = await world.consumer.create(widget("one", "team-b"))
    inside = await world.consumer.create(widget("one", "team-a"))
    await world.provider.until(inside, lambda seen: seen)
    assert await world.provider.find(outside) is None
    assert await world.consumer.get(outside) == outside

    await world.consumer.create(EVERYWHERE)
    await world.provider.until(outside, lambda seen: seen)


async def test_the_first_covering_binding_decides(
    world: World, konnector: RunningKonnector
) -> None:
    """ClusterBindings come before Bindings, the oldest first, whether they are Ready or not."""
    await offer(world)
    await world.consumer.create(binding([WIDGETS], "team-a", conflictPolicy="Adopt"))
    await world.consumer.create(binding([WIDGETS, "missing.example.org"], name="z-oldest"))
    await world.consumer.established(WIDGETS)
    await asyncio.sleep(1.1)  # creation times are whole seconds
    await world.consumer.create(binding([WIDGETS], name="a-newest", conflictPolicy="Adopt"))
    await world.provider.namespace("team-a")
    stranger = await world.provider.create(widget("one", size=1))
    one = await world.consumer.create(widget("one", size=2))
    await event(world.consumer, one, "ForeignObjectExists")

    oldest = binding([WIDGETS], name="z-oldest")
    seen = await reason(world.consumer, oldest, "Conflicts", "ForeignObjectExists", "True")
    assert condition(seen, "Ready", "False")
    assert [api["conflictCount"] for api in seen["status"]["boundAPIs"]] == [1, 0]
    assert await world.provider.get(stranger) == stranger
    for other in (BOUND, binding([WIDGETS], name="a-newest")):
        assert condition(await world.consumer.get(other), "Conflicts", "False")

    await world.consumer.delete(oldest)
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)


async def test_a_cluster_scoped_api_needs_a_cluster_binding(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd(scope="Cluster"))
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, BOUND, "Ready", "ClusterScoped")
    assert "ClusterBinding" in message(seen, "Ready")
    assert await world.consumer.find(crd_ref()) is None

    await world.consumer.create(EVERYWHERE)
    await synced(world.consumer, EVERYWHERE)
    one = await world.consumer.create(widget("one.of-many", None, size=1))
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 1)
    await world.provider.set_status(one, {"phase": "Ready"})
    await world.consumer.until(one, lambda seen: seen.get("status") == {"phase": "Ready"})
    await reason(world.consumer, BOUND, "Ready", "ClusterScoped")


async def test_bound_apis_carry_their_schemas_hash(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(binding([WIDGETS, GADGETS], "team-a"))
    seen = await reason(world.consumer, BOUND, "Ready", "APINotExported")
    assert message(seen, "Ready") == f"the provider does not export {GADGETS}"
    seen = await world.consumer.until(BOUND, lambda seen: hashes(seen)[WIDGETS])
    assert seen["status"]["boundAPIs"] == [
        {"name": WIDGETS, "crdHash": hashes(seen)[WIDGETS], "conflictCount": 0},
        {"name": GADGETS, "crdHash": "", "conflictCount": 0},
    ]
    before = hashes(seen)[WIDGETS]
    assert len(before) == 16

    await world.provider.merge(crd_ref(), {"spec": with_field(crd())["spec"]})
    await world.consumer.until(BOUND, lambda seen: hashes(seen)[WIDGETS] not in ("", before))


async def test_a_deleted_binding_stops_the_sync_and_takes_nothing_away(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(BOUND)
    await world.consumer.create(binding([WIDGETS], "team-b"))
    await synced(world.consumer, BOUND)
    one = await world.consumer.create(widget("one", size=1))
    copy = await world.provider.until(one, lambda seen: seen)

    await world.consumer.delete(BOUND)
    await world.consumer.gone(BOUND)
    await world.consumer.merge(one, {"spec": {"size": 2}})
    later = await world.consumer.create(widget("later", "team-b"))
    await world.provider.until(later, lambda seen: seen)
    assert await world.provider.get(one) == copy
    assert (await world.consumer.get(one))["metadata"]["finalizers"] == [words.SYNCER]

    await world.consumer.delete(one)
    await world.consumer.gone(one)
    assert await world.provider.find(one) is None


async def test_an_api_that_came_through_another_connection_stays_there(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    one = await world.consumer.create(widget("one", "team-a"))
    await world.provider.until(one, lambda seen: seen)

    await world.second.install_crd(with_field(crd()))
    await add_connection(world.consumer, world.second.cluster, "second")
    other = binding([WIDGETS], "team-b", connection="second")
    await world.consumer.create(other)
    seen = await reason(world.consumer, other, "Ready", "ManagedElsewhere")
    assert condition(seen, "Synced", "False")
    two = await world.consumer.create(widget("two", "team-b"))
    three = await world.consumer.create(widget("three", "team-a"))
    await world.provider.until(three, lambda seen: seen)
    for cluster in (world.provider, world.second):
        assert await cluster.find(two) is None
    assert await world.second.find(one) is None
    local = await world.consumer.get(crd_ref())
    assert local["metadata"]["annotations"][words.CONNECTION] == "provider"
    assert "shape" not in fields(local)
    await synced(world.consumer, BOUND)


# --- which schema is brought over -----------------------------------------------------------


def version(name: str, *, served: bool = True, storage: bool = False) -> Object:
    """A version whose schema tells its name, and that has what all versions have."""
    text = {"type": "string", "description": f"as of {name}"}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"text": text}}},
    }
    made: Object = {
        "name": name,
        "served": served,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": name, "type": "string", "jsonPath": ".spec.text"}],
    }
    if "alpha" in name:
        made |= {"deprecated": True, "deprecationWarning": f"{name} is old"}
    if name == "v1":
        made["subresources"] = {"status": {}}
    return made


VERSIONS = {
    "storage": (
        [version("v1alpha1"), version("v1", storage=True), version("v2beta1")],
        "v1",
    ),
    "storage-is-not-served": (
        [version("v1alpha1"), version("v2", served=False, storage=True), version("v1beta1")],
        "v1beta1",
    ),
    "one-is-served": (
        [version("v1", served=False, storage=True), version("v1alpha1")],
        "v1alpha1",
    ),
}


@pytest.mark.parametrize("case", VERSIONS)
async def test_one_version_is_kept(world: World, konnector: RunningKonnector, case: str) -> None:
    versions, kept = VERSIONS[case]
    offered = crd()
    offered["spec"]["versions"] = versions
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(BOUND)
    local = await world.consumer.established(WIDGETS)
    assert local["spec"]["versions"] == [version(kept, storage=True)]
    assert local["spec"]["conversion"] == {"strategy": "None"}
    assert local["metadata"]["labels"] == {words.MANAGED: "true"}
    assert local["metadata"]["annotations"] == {words.CONNECTION: "provider"}

    start = len(world.provider.cluster.audit(USER))
    await synced(world.consumer, BOUND)
    one = new(f"{GROUP}/{kept}", "Widget", "one", "team-a", spec={"text": "x"})
    await world.consumer.create(one)
    copy = await world.provider.until(one, lambda seen: seen)
    assert copy["spec"] == {"text": "x"}
    asked = [e.path for e in world.provider.cluster.audit(USER)[start:] if e.resource == "widgets"]
    assert asked
    assert all(path.startswith(f"/apis/{GROUP}/{kept}/") for path in asked)


async def test_a_version_that_was_stored_stays_listed(
    world: World, konnector: RunningKonnector
) -> None:
    """Servers refuse to forget a version that objects were stored in."""
    offered = crd()
    offered["spec"]["versions"] = [version("v1alpha1", storage=True)]
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    old = new(f"{GROUP}/v1alpha1", "Widget", "one", "team-a", spec={"text": "x"})
    one = await world.consumer.create(old)
    await world.provider.until(old, lambda seen: seen)

    both = [version("v1alpha1"), version("v1", storage=True)]
    await world.provider.merge(crd_ref(), {"spec": {"versions": both}})
    local = await world.consumer.until(crd_ref(), lambda seen: len(seen["spec"]["versions"]) == 2)
    assert [(v["name"], v["served"], v["storage"]) for v in local["spec"]["versions"]] == [
        ("v1", True, True),
        ("v1alpha1", False, False),
    ]
    new_one = one | {"apiVersion": f"{GROUP}/v1"}
    assert (await world.consumer.until(new_one, bool))["metadata"]["uid"] == one["metadata"]["uid"]
    await world.consumer.merge(new_one, {"spec": {"text": "y"}})
    await world.provider.until(new_one, lambda seen: seen["spec"]["text"] == "y")
    await synced(world.consumer, BOUND)


async def test_a_conversion_webhook_is_not_brought_over(
    world: World, konnector: RunningKonnector
) -> None:
    offered = crd()
    offered["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://conversion.example.org/"},
        },
    }
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(BOUND)
    local = await world.consumer.established(WIDGETS)
    assert local["spec"]["conversion"] == {"strategy": "None"}
    # Nor does one stay that was left here.
    await world.consumer.merge(crd_ref(), {"spec": {"conversion": offered["spec"]["conversion"]}})
    await world.consumer.until(
        crd_ref(), lambda seen: seen["spec"]["conversion"] == {"strategy": "None"}
    )
    await synced(world.consumer, BOUND)


async def test_a_change_of_the_providers_schema_follows(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    one = await world.consumer.create(widget("one", shape="round"))
    copy = await world.provider.until(one, lambda seen: seen)
    assert "shape" not in copy["spec"]

    await world.provider.merge(crd_ref(), {"spec": with_field(crd())["spec"]})
    await world.consumer.until(crd_ref(), lambda seen: "shape" in fields(seen))

    async def kept() -> bool:
        seen = await world.consumer.merge(one, {"spec": {"shape": "round"}})
        return "shape" in seen["spec"]

    await eventually(kept, "the consumer keeps the new field")
    await world.provider.until(one, lambda seen: seen["spec"].get("shape") == "round")


async def test_once_keeps_the_first_schema(world: World, konnector: RunningKonnector) -> None:
    await offer(world, updatePolicy="Once")
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    before = await world.consumer.get(crd_ref())
    await world.provider.merge(crd_ref(), {"spec": with_field(crd())["spec"]})
    seen = await world.consumer.until(
        BOUND, lambda seen: (find_condition(seen, "Ready") or {}).get("reason") == "Pinned"
    )
    assert "updatePolicy Once" in message(seen, "Ready")
    assert condition(seen, "Ready")  # that is what was asked for
    assert condition(seen, "Synced")
    assert (await world.consumer.get(crd_ref()))["spec"] == before["spec"]
    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)

    await world.consumer.merge(connection(), {"spec": {"schema": {"updatePolicy": "Always"}}})
    await world.consumer.until(crd_ref(), lambda seen: "shape" in fields(seen))
    await synced(world.consumer, BOUND)


async def test_under_none_the_schema_is_the_users(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world, pullPolicy="None")
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, BOUND, "Ready", "SchemaMissing")
    assert WIDGETS in message(seen, "Ready")
    assert await world.consumer.find(crd_ref()) is None

    mine = with_field(crd(exported=False), "local")
    mine["metadata"]["labels"] = {"app": "mine"}
    before = await world.consumer.install_crd(mine)
    await synced(world.consumer, BOUND)
    local = await world.consumer.get(crd_ref())
    assert local["spec"] == before["spec"]
    assert local["metadata"]["labels"] == {"app": "mine", words.MANAGED: "true"}
    assert local["metadata"]["annotations"] == {words.CONNECTION: "provider"}
    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)


async def test_all_brings_what_nobody_binds(world: World, konnector: RunningKonnector) -> None:
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await offer(world, pullPolicy="All")
    await world.consumer.create(BOUND)
    await world.consumer.established(GADGETS)
    await synced(world.consumer, BOUND)
    unbound = await world.consumer.create(gadget("unbound"))
    one = await world.consumer.create(widget("one"))
    await world.provider.until(one, lambda seen: seen)
    assert await world.provider.find(unbound) is None
    assert await world.consumer.get(unbound) == unbound
    # It is kept as the policies want it all the same.
    changed = with_field(crd("gadgets", "Gadget"))
    await world.provider.merge(crd_ref(GADGETS), {"spec": changed["spec"]})
    await world.consumer.until(crd_ref(GADGETS), lambda seen: "shape" in fields(seen))
    await world.consumer.merge(connection(), {"spec": {"schema": {"updatePolicy": "Once"}}})
    await world.provider.merge(crd_ref(GADGETS), {"spec": with_field(changed, "more")["spec"]})
    seen = await reason(world.consumer, connection(), "SchemaInSync", "Pinned")
    assert GADGETS in message(seen, "SchemaInSync")
    assert "more" not in fields(await world.consumer.get(crd_ref(GADGETS)))


async def test_bound_brings_nothing_that_nobody_binds(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await offer(world)
    await discovered(world.consumer, apis=2)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    assert await world.consumer.find(crd_ref(GADGETS)) is None


async def test_a_crd_of_somebody_else_is_not_taken_over(
    world: World, konnector: RunningKonnector
) -> None:
    await world.consumer.namespace("team-a")
    mine = await world.consumer.install_crd(crd(exported=False))
    one = await world.consumer.create(widget("one"))
    await world.provider.install_crd(with_field(crd()))
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, BOUND, "Ready", "Unmanaged")
    for cure in (words.MANAGED, words.CONNECTION):
        assert cure in message(seen, "Ready")
    await discover(world)
    assert await world.consumer.get(crd_ref()) == mine
    assert await world.consumer.get(one) == one
    assert await world.provider.find(one) is None

    markers = {"labels": {words.MANAGED: "true"}, "annotations": {words.CONNECTION: "provider"}}
    await world.consumer.merge(crd_ref(), {"metadata": markers})
    await world.provider.until(one, lambda seen: seen)
    await world.consumer.until(crd_ref(), lambda seen: "shape" in fields(seen))


async def test_a_hand_edit_of_a_managed_crd_is_repaired(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(BOUND)
    local = await world.consumer.established(WIDGETS)
    await world.consumer.merge(crd_ref(), {"spec": with_field(crd(), "extra")["spec"]})
    await world.consumer.until(crd_ref(), lambda seen: seen["spec"] == local["spec"])


async def test_a_protected_group_keeps_its_approval(
    world: World, konnector: RunningKonnector
) -> None:
    approved = "https://github.com/kubernetes/enhancements/pull/1111"
    name = "widgets.example.k8s.io"
    offered = crd()
    offered["spec"]["group"] = "example.k8s.io"
    offered["metadata"] |= {
        "name": name,
        "annotations": {words.API_APPROVED: approved, "other": "stays behind"},
    }
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    bound = await world.consumer.create(binding([name], "team-a"))
    local = await world.consumer.established(name)
    assert local["metadata"]["annotations"] == {
        words.API_APPROVED: approved,
        words.CONNECTION: "provider",
    }
    await synced(world.consumer, bound)
    one = new("example.k8s.io/v1", "Widget", "one", "team-a", spec={"size": 1})
    await world.consumer.create(one)
    await world.provider.until(one, lambda seen: seen)


async def test_a_short_name_that_is_taken_is_said(
    world: World, konnector: RunningKonnector
) -> None:
    mine = crd("windows", "Window", exported=False)
    mine["spec"]["names"]["shortNames"] = ["wd"]
    mine = await world.consumer.install_crd(mine)
    offered = crd()
    offered["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, BOUND, "Ready", "SchemaNotEstablished")
    assert '"wd" is already in use' in message(seen, "Ready")
    assert await world.consumer.get(crd_ref(f"windows.{GROUP}")) == mine

    await world.consumer.merge(mine, {"spec": {"names": {"shortNames": ["wi"]}}})
    await synced(world.consumer, BOUND)
    # One that is taken later is no obstacle any longer, and said all the same.
    await world.provider.merge(crd_ref(), {"spec": {"names": {"shortNames": ["wd", "wi"]}}})
    await world.consumer.until(
        BOUND, lambda seen: '"wi" is already in use' in message(seen, "Ready")
    )
    await synced(world.consumer, BOUND)
    one = await world.consumer.create(widget("one"))
    await world.provider.until(one, lambda seen: seen)


async def test_a_kind_that_is_taken_is_said(world: World, konnector: RunningKonnector) -> None:
    mine = await world.consumer.install_crd(crd("things", "Widget", exported=False))
    await offer(world)
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, BOUND, "Ready", "SchemaNotEstablished")
    assert "is already in use" in message(seen, "Ready")
    assert condition(seen, "Synced", "False")
    before = await world.consumer.get(crd_ref())
    await discover(world)
    assert await world.consumer.get(crd_ref()) == before
    assert await world.consumer.get(crd_ref(f"things.{GROUP}")) == mine

    await world.consumer.delete(mine)
    await synced(world.consumer, BOUND)


async def test_an_update_that_is_refused_leaves_the_old_schema(
    world: World, konnector: RunningKonnector
) -> None:
    await offer(world)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    before = await world.consumer.get(crd_ref())
    # The consumer's API server would have to turn one scope into the other.
    await world.provider.delete(crd_ref())
    await world.provider.gone(crd_ref())
    await world.provider.install_crd(crd(scope="Cluster"))
    await world.consumer.create(EVERYWHERE)
    seen = await reason(world.consumer, EVERYWHERE, "Ready", "SchemaRefused")
    assert "spec.scope" in message(seen, "Ready")
    assert (await world.consumer.get(crd_ref()))["spec"] == before["spec"]


# --- several APIs ---------------------------------------------------------------------------


async def test_an_api_that_cannot_be_listed_holds_up_no_other(
    world: World, konnector: RunningKonnector
) -> None:
    may_widgets = may("*", GROUP, "widgets widgets/status")
    await limit(world.provider, IDENTITY, CRDS, may("create", "", "namespaces"), may_widgets)
    for offered in (crd("gadgets", "Gadget"), crd()):
        await world.provider.install_crd(offered)
    await world.consumer.namespace("team-a")
    await world.consumer.namespace("kbind")
    kubeconfig = world.provider.cluster.kubeconfig("limited")
    await world.consumer.create(secret(kubeconfig_data(kubeconfig)))
    await world.consumer.create(connection())
    await world.consumer.create(binding([GADGETS, WIDGETS], "team-a"))
    one = widget("one", size=1)
    await world.consumer.established(WIDGETS)
    await world.consumer.create(one)
    await world.provider.until(one, lambda seen: seen)
    await world.provider.set_status(one, {"phase": "Ready"})
    await world.consumer.until(one, lambda seen: seen.get("status"))

    seen = await reason(world.consumer, BOUND, "Synced", "Forbidden")
    assert GADGETS in message(seen, "Synced")
    assert WIDGETS not in message(seen, "Synced")
    assert condition(seen, "Ready")
    assert condition(seen, "PermissionDenied")
    await ready(world.consumer, connection())
    two = await world.consumer.create(gadget("two"))
    assert await world.provider.find(two) is None

    may_gadgets = may("*", GROUP, "gadgets gadgets/status")
    await limit(
        world.provider, IDENTITY, CRDS, may("create", "", "namespaces"), may_widgets, may_gadgets
    )
    await world.provider.until(two, lambda seen: seen)
    await synced(world.consumer, BOUND)
