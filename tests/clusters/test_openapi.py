"""The schema source OpenAPI: a provider that lets nobody read its CRDs, and what Auto makes of
labels that come and go."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from kbind_sources.openapi import INDEX, OpenApiSource

from kbind import words
from kbind.konnector.reader import Reader
from kbind.testing.handles import Object, condition, find_condition, new
from kbind.testing.running import RunningKonnector, add_connection, binding, connection
from tests.clusters.access import IDENTITY, limit, may
from tests.clusters.scenes import (
    PROVIDER,
    crd_ref,
    discoveries,
    events,
    eventually,
    exchange,
    exports,
    kubeconfig_data,
    message,
    offers,
    ready,
    reason,
    secret,
    synced,
)
from tests.clusters.test_bindings import BOUND
from tests.clusters.widgets import GADGETS, GROUP, WIDGETS, crd, fields, gadget, widget, with_field
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

WITHOUT_CRDS = (
    IDENTITY,
    may("create", "", "namespaces"),
    may("*", GROUP, "widgets widgets/status gadgets gadgets/status"),
)
EXPORT = {"metadata": {"labels": {words.EXPORTED: "true"}}}
TAKE_BACK = {"metadata": {"labels": {words.EXPORTED: None}}}


async def hidden(world: World, offered: Object | None = None, **schema: Any) -> None:
    """Widgets of a provider whose CRDs answer 403, and a Connection with that schema policy."""
    await limit(world.provider, *WITHOUT_CRDS)
    await world.provider.install_crd(offered or crd(exported=False))
    for namespace in ("kbind", "team-a"):
        await world.consumer.namespace(namespace)
    limited = world.provider.cluster.kubeconfig("limited")
    await world.consumer.create(secret(kubeconfig_data(limited)))
    await world.consumer.create(connection(schema={"source": "OpenAPI"} | schema))


async def shows(world: World, source: str) -> Object:
    seen: Object = await world.consumer.until(
        PROVIDER, lambda seen: seen["status"]["activeSchemaSource"] == source
    )
    return seen


def exporting(*names: str) -> Callable[[Any], bool]:
    return lambda seen: exports(seen) == [*names]


def has_versions(*wanted: tuple[str, bool, bool]) -> Callable[[Any], bool]:
    """Of a CRD, by name, whether it is served, and whether it is stored."""
    return lambda seen: (
        [(v["name"], v["served"], v["storage"]) for v in seen["spec"]["versions"]] == [*wanted]
    )


# --- a provider that hides its CRDs ----------------------------------------------------------


async def test_an_api_is_synced_whose_crd_nobody_may_read(
    world: World, konnector: RunningKonnector
) -> None:
    await hidden(world)
    # A provider's discovery and documents follow its CRDs with a delay.
    seen = await world.consumer.until(PROVIDER, exporting(WIDGETS))
    assert seen["status"]["activeSchemaSource"] == "OpenAPI"
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    original = await world.provider.get(crd_ref())
    made = await world.consumer.until(crd_ref(), lambda seen: fields(seen) == fields(original))
    for field in ("group", "scope", "names"):
        assert made["spec"][field] == original["spec"][field]

    one = await world.consumer.create(widget("one", size=1))
    assert one["spec"]["color"] == "red"  # the default came along
    await world.provider.until(one, lambda seen: seen)
    await world.provider.set_status(one, {"phase": "Ready", "count": 1})
    await world.consumer.until(one, lambda seen: seen["status"] == {"phase": "Ready", "count": 1})
    await world.consumer.delete(one)
    await world.consumer.gone(one)
    assert await world.provider.find(one) is None


async def test_names_and_subresources_come_along(world: World, konnector: RunningKonnector) -> None:
    offered = crd(exported=False)
    offered["spec"]["names"] |= {
        "singular": "widgetry",
        "listKind": "WidgetCollection",
        "shortNames": ["wd", "wdg"],
        "categories": ["all", "things"],
    }
    (version,) = offered["spec"]["versions"]
    for part in version["schema"]["openAPIV3Schema"]["properties"].values():
        part["properties"]["replicas"] = {"type": "integer"}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version["subresources"]["scale"] = paths
    await hidden(world, offered)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    made = await world.consumer.until(
        crd_ref(), lambda seen: seen["spec"]["versions"][0]["subresources"].get("scale") == paths
    )
    original = await world.provider.get(crd_ref())
    assert made["spec"]["names"] == original["spec"]["names"]
    assert made["spec"]["versions"][0]["subresources"] == {"status": {}, "scale": paths}

    paths["specReplicasPath"] = ".spec.size"  # where nobody would look for it
    await world.provider.merge(crd_ref(), {"spec": offered["spec"]})
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"]
    await world.provider.merge(crd_ref(), {"spec": offered["spec"]})
    told = f"{WIDGETS}: no scale subresource"
    await world.consumer.until(PROVIDER, lambda seen: message(seen, "SchemaInSync") == told)
    await world.consumer.until(BOUND, lambda seen: message(seen, "Ready") == told)
    await synced(world.consumer, BOUND)
    made = await world.consumer.get(crd_ref())
    assert made["spec"]["versions"][0]["subresources"] == {"status": {}}


async def test_a_document_that_is_newer_than_its_hash_is_read(world: World) -> None:
    await world.provider.install_crd(crd(exported=False))
    source = OpenApiSource(Reader(world.provider.client))
    await offers(source, [WIDGETS])
    await source.exports()
    await world.provider.merge(crd_ref(), {"spec": with_field(crd(), "newer")["spec"]})

    async def published() -> bool:
        return b"newer" in await world.provider.client.get(f"{INDEX}/apis/{GROUP}/v1")

    await eventually(published, "the document follows")
    offer = await source.definition(WIDGETS)
    assert offer is not None
    assert "newer" in fields(dict(offer.crd))


async def test_auto_takes_a_refused_list_for_no_answer(
    world: World, konnector: RunningKonnector
) -> None:
    await hidden(world, source="Auto")
    seen = await reason(world.consumer, PROVIDER, "Ready", "Forbidden")
    assert condition(seen, "PermissionDenied")
    assert "customresourcedefinitions" in message(seen, "Ready")
    assert message(seen, "Ready").endswith("; grant it, or name OpenAPI.")  # what to do
    assert "exportedAPIs" not in seen["status"]


async def test_under_always_a_bound_schema_is_refreshed(
    world: World, konnector: RunningKonnector
) -> None:
    await hidden(world)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    await world.provider.merge(crd_ref(), {"spec": with_field(crd())["spec"]})
    await world.consumer.until(crd_ref(), lambda seen: "shape" in fields(seen))
    await reason(world.consumer, PROVIDER, "SchemaInSync", "AsExpected", "True")


async def test_under_once_the_first_schema_is_pinned(
    world: World, konnector: RunningKonnector
) -> None:
    await hidden(world, updatePolicy="Once")
    await world.consumer.create(BOUND)
    bound = await synced(world.consumer, BOUND)
    before = await world.consumer.get(crd_ref())
    # A field of its own: what was pinned may be what documents still said of an earlier test's CRD.
    changed = with_field(crd(), "unpinned")
    await world.provider.merge(crd_ref(), {"spec": changed["spec"]})
    seen = await reason(world.consumer, PROVIDER, "SchemaInSync", "Pinned")
    assert bound["status"]["boundAPIs"][0]["crdHash"] in message(seen, "SchemaInSync")
    await konnector.restart()
    await discoveries(world.provider, 3, "limited")
    assert (await world.consumer.get(crd_ref()))["spec"] == before["spec"]
    await reason(world.consumer, PROVIDER, "SchemaInSync", "Pinned")

    await world.consumer.merge(PROVIDER, {"spec": {"schema": {"updatePolicy": "Always"}}})
    await world.consumer.until(crd_ref(), lambda seen: "unpinned" in fields(seen))
    await reason(world.consumer, PROVIDER, "SchemaInSync", "AsExpected", "True")
    await synced(world.consumer, BOUND)


async def test_under_all_every_api_is_installed(world: World, konnector: RunningKonnector) -> None:
    await world.provider.install_crd(crd("gadgets", "Gadget", exported=False))
    await hidden(world, pullPolicy="All")
    for name in (GADGETS, WIDGETS):
        await world.consumer.established(name)
    two = await world.consumer.create(gadget("two"))
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    assert await world.provider.find(two) is None
    changed = with_field(crd("gadgets", "Gadget"))
    await world.provider.merge(crd_ref(GADGETS), {"spec": changed["spec"]})
    await world.consumer.until(crd_ref(GADGETS), lambda seen: "shape" in fields(seen))


async def test_under_none_a_crd_waits_for_its_owners_markers(
    world: World, konnector: RunningKonnector
) -> None:
    await hidden(world, pullPolicy="None")
    await world.consumer.create(BOUND)
    seen = await reason(world.consumer, BOUND, "Ready", "SchemaMissing")
    assert WIDGETS in message(seen, "Ready")
    mine = await world.consumer.install_crd(with_field(crd(exported=False), "local"))
    seen = await reason(world.consumer, BOUND, "Ready", "Unmanaged")
    for cure in (words.MANAGED, words.CONNECTION):
        assert cure in message(seen, "Ready")
    assert await world.consumer.get(crd_ref()) == mine

    markers = {"labels": {words.MANAGED: "true"}, "annotations": {words.CONNECTION: "provider"}}
    await world.consumer.merge(crd_ref(), {"metadata": markers})
    await synced(world.consumer, BOUND)
    assert (await world.consumer.get(crd_ref()))["spec"] == mine["spec"]


async def test_several_versions_are_served_and_the_preferred_one_is_stored(
    world: World, konnector: RunningKonnector
) -> None:
    old = deepcopy(crd()["spec"]["versions"][0]) | {"name": "v1beta1", "storage": False}
    await hidden(world)
    await world.provider.merge(crd_ref(), {"spec": {"versions": [*crd()["spec"]["versions"], old]}})
    await world.consumer.create(BOUND)
    both = has_versions(("v1", True, True), ("v1beta1", True, False))
    await world.consumer.until(crd_ref(), both)
    await synced(world.consumer, BOUND)
    one = widget("one", size=1) | {"apiVersion": f"{GROUP}/v1beta1"}
    await world.consumer.create(one)
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 1)


async def test_a_new_version_is_moved_to_and_the_old_one_may_go(
    world: World, konnector: RunningKonnector
) -> None:
    new_one, old = (
        deepcopy(crd()["spec"]["versions"][0]) | {"name": name} for name in ("v1", "v1beta1")
    )
    offered = crd(exported=False)
    offered["spec"]["versions"] = [old]
    await hidden(world, offered)
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    made = await world.consumer.create(widget("one", size=1) | {"apiVersion": f"{GROUP}/v1beta1"})
    await world.provider.until(made, bool)
    one = made | {"apiVersion": f"{GROUP}/v1"}

    for number, served in enumerate((True, False), 2):
        versions = [new_one, old | {"served": served, "storage": False}]
        await world.provider.merge(crd_ref(), {"spec": {"versions": versions}})
        wanted = [("v1", True, True), ("v1beta1", served, False)]
        await world.consumer.until(crd_ref(), has_versions(*wanted))
        await world.consumer.until(one, bool)
        seen = await exchange(world, one, number)
        assert seen["metadata"]["uid"] == made["metadata"]["uid"]
        await synced(world.consumer, BOUND)
    assert await events(world.consumer, made) == []


async def test_a_protected_group_is_installed_as_unapproved(
    world: World, konnector: RunningKonnector
) -> None:
    offered = crd(exported=False)
    offered["spec"]["group"] = "example.k8s.io"
    offered["metadata"] = {
        "name": "widgets.example.k8s.io",
        "annotations": {words.API_APPROVED: "unapproved, for a test"},
    }
    await limit(world.provider, *WITHOUT_CRDS)
    await world.provider.install_crd(offered)
    await hidden(world)
    bound = await world.consumer.create(binding(["widgets.example.k8s.io"]))
    made = await world.consumer.established("widgets.example.k8s.io")
    assert made["metadata"]["annotations"][words.API_APPROVED].startswith("unapproved")
    assert message(await ready(world.consumer, bound), "Ready") == ""


# --- Auto ------------------------------------------------------------------------------------


async def test_auto_follows_the_first_label_and_the_last(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd("gadgets", "Gadget", exported=False))
    await world.provider.install_crd(crd(exported=False))
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    bound = await world.consumer.create(binding([GADGETS, WIDGETS], "team-a"))
    await synced(world.consumer, bound)
    seen = await shows(world, "OpenAPI")
    assert exports(seen) == [GADGETS, WIDGETS]
    assert message(seen, "Ready") == "schema source Auto uses OpenAPI"
    one = await world.consumer.create(widget("one", size=1))
    two = await world.consumer.create(gadget("two", size=2))
    for each in (one, two):
        await world.provider.until(each, lambda seen: seen)

    await world.provider.merge(crd_ref(), EXPORT)
    seen = await shows(world, "CRD")
    assert exports(seen) == [WIDGETS]
    seen = await reason(world.consumer, bound, "Ready", "APINotExported")
    assert GADGETS in message(seen, "Ready")
    assert condition(seen, "Synced")
    for each in (one, two):  # what is exported no longer is synced on
        await world.consumer.merge(each, {"spec": {"size": 7}})
        await world.provider.until(each, lambda seen: seen["spec"]["size"] == 7)

    await world.provider.merge(crd_ref(), TAKE_BACK)
    seen = await shows(world, "OpenAPI")
    assert exports(seen) == [GADGETS, WIDGETS]
    await synced(world.consumer, bound)
    for each in (one, two):
        standing = await world.consumer.get(each)
        assert standing["metadata"]["uid"] == each["metadata"]["uid"]
        assert (await world.provider.get(each))["spec"]["size"] == 7
    found = find_condition(await world.consumer.get(PROVIDER), "SchemaInSync") or {}
    assert found["status"] == "True"


async def test_another_source_that_is_named_is_followed(
    world: World, konnector: RunningKonnector
) -> None:
    await world.provider.install_crd(crd())
    await world.provider.install_crd(crd("gadgets", "Gadget", exported=False))
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, schema={"source": "CRD"})
    await world.consumer.create(BOUND)
    await synced(world.consumer, BOUND)
    one = await world.consumer.create(widget("one"))
    copy = await world.provider.until(one, bool)
    before = await world.consumer.get(crd_ref())
    turns = (("OpenAPI", [GADGETS, WIDGETS]), ("CRD", [WIDGETS]), ("Auto", [WIDGETS]))
    for number, (source, exported) in enumerate(turns):
        await world.consumer.merge(PROVIDER, {"spec": {"schema": {"source": source}}})
        await world.consumer.until(PROVIDER, exporting(*exported))
        await shows(world, "CRD" if source == "Auto" else source)
        await synced(world.consumer, BOUND)
        await exchange(world, one, number)
    told = "schema source Auto uses CRD"
    await world.consumer.until(PROVIDER, lambda seen: message(seen, "Ready") == told)
    for old, handle in ((before, world.consumer), (one, world.consumer), (copy, world.provider)):
        assert (await handle.get(old))["metadata"]["uid"] == old["metadata"]["uid"]


async def test_built_in_groups_and_our_own_are_not_offered(
    world: World, konnector: RunningKonnector
) -> None:
    gateways = crd("gateways", "Gateway", exported=False)
    gateways["spec"]["group"] = "gateway.networking.k8s.io"
    gateways["metadata"] = {
        "name": "gateways.gateway.networking.k8s.io",
        "annotations": {words.API_APPROVED: "unapproved, for a test"},
    }
    grants = crd("grants", "Grant", scope="Cluster", exported=False)
    grants["spec"]["group"] = "iam.kbind.io"
    grants["metadata"]["name"] = "grants.iam.kbind.io"
    for definition in (grants, gateways):
        await world.provider.install_crd(definition)
    # A provider that is a consumer of others, and so has our CRDs.
    await add_connection(
        world.consumer, world.second.cluster, "second", schema={"source": "OpenAPI"}
    )
    second = new(words.API_VERSION, "Connection", "second")
    assert exports(await ready(world.consumer, second)) == []
    await add_connection(world.consumer, world.provider.cluster, schema={"source": "OpenAPI"})
    only = exporting("gateways.gateway.networking.k8s.io")
    await world.consumer.until(PROVIDER, only)

    async def told() -> bool:
        return "apis/iam.kbind.io/v1" in (await world.provider.client.read(INDEX))["paths"]

    await eventually(told, "the provider tells of grants")
    await discoveries(world.provider, 2)
    assert only(await world.consumer.get(PROVIDER))
