"""autoBind: a ClusterBinding of the Connection's own, that lists exactly what is exported."""

from __future__ import annotations

from typing import Any

import pytest

from kbind import words
from kbind.testing.handles import Object, condition, new
from kbind.testing.running import RunningKonnector, add_connection, binding, connection
from tests.clusters.access import CRDS, EVERYTHING, IDENTITY, limit, may
from tests.clusters.scenes import (
    OWN,
    PROVIDER,
    crd_ref,
    discoveries,
    event,
    kubeconfig_data,
    message,
    ready,
    reason,
    secret,
)
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

UNLABELLED = {"metadata": {"labels": {words.EXPORTED: None}}}


async def connect(world: World) -> Object:
    """A Connection with autoBind to a provider that exports widgets, as a user with rights that
    can be taken away."""
    await world.provider.install_crd(crd())
    await limit(world.provider, EVERYTHING)
    for namespace in ("kbind", "team-a"):
        await world.consumer.namespace(namespace)
    await world.consumer.create(
        secret(kubeconfig_data(world.provider.cluster.kubeconfig("limited")))
    )
    return await world.consumer.create(connection(autoBind=True, schema={"source": "CRD"}))


def lists(*apis: str) -> Any:
    return lambda seen: [api["name"] for api in seen["spec"]["apis"]] == list(apis)


async def test_all_that_is_exported_is_bound(world: World, konnector: RunningKonnector) -> None:
    made = await connect(world)
    own = await world.consumer.until(OWN, lists(WIDGETS))
    (owner,) = own["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Connection", made["metadata"]["uid"])
    await world.consumer.established(WIDGETS)
    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)

    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await world.consumer.until(OWN, lists(GADGETS, WIDGETS))
    await world.consumer.established(GADGETS)
    two = await world.consumer.create(gadget("two"))
    await world.provider.until(two, lambda seen: seen)

    await world.provider.merge(crd_ref(), UNLABELLED)
    await world.consumer.until(OWN, lists(GADGETS))
    assert await world.consumer.get(crd_ref())
    assert await world.provider.get(one)


async def test_labels_that_come_and_go_take_nothing_away(
    world: World, konnector: RunningKonnector
) -> None:
    for definition in (crd(exported=False), crd("gadgets", "Gadget", exported=False)):
        await world.provider.install_crd(definition)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, autoBind=True)
    await world.consumer.until(OWN, lists(GADGETS, WIDGETS))
    for name in (GADGETS, WIDGETS):
        await world.consumer.established(name)
    one, two = [await world.consumer.create(each) for each in (widget("one"), gadget("two"))]
    copies = [await world.provider.until(each, bool) for each in (one, two)]

    await world.provider.merge(crd_ref(), {"metadata": {"labels": {words.EXPORTED: "true"}}})
    await world.consumer.until(OWN, lists(WIDGETS))
    await world.consumer.merge(one, {"spec": {"size": 1}})
    await world.provider.until(one, lambda seen: seen["spec"].get("size") == 1)
    for each in (one, two, crd_ref(GADGETS)):
        assert "deletionTimestamp" not in (await world.consumer.get(each))["metadata"]

    await world.provider.merge(crd_ref(), UNLABELLED)
    await world.consumer.until(OWN, lists(GADGETS, WIDGETS))
    await world.consumer.merge(two, {"spec": {"size": 2}})
    await world.provider.until(two, lambda seen: seen["spec"].get("size") == 2)
    for copy in copies:
        assert (await world.provider.get(copy))["metadata"]["uid"] == copy["metadata"]["uid"]


def ingresses() -> Object:
    """A CRD of a group of Kubernetes itself, offered. Servers pass over it: its instances would be
    the consumer's own Ingresses, with which the provider has nothing to do."""
    offered = crd("ingresses", "Ingress")
    offered["spec"]["group"] = "networking.k8s.io"
    offered["metadata"]["name"] = "ingresses.networking.k8s.io"
    offered["metadata"]["annotations"] = {words.API_APPROVED: "unapproved, for a test"}
    return offered


async def test_a_label_on_what_is_nobodys_export_is_none(
    world: World, konnector: RunningKonnector
) -> None:
    """Auto stays with what can be discovered."""
    await world.provider.install_crd(crd(exported=False))
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster, autoBind=True)
    await world.consumer.until(OWN, lists(WIDGETS))
    await world.consumer.established(WIDGETS)
    one = await world.consumer.create(widget("one"))
    copy = await world.provider.until(one, bool)
    offered = await world.provider.install_crd(ingresses())
    await world.consumer.until(
        PROVIDER, lambda seen: condition(seen, "Ready") and "OpenAPI" in message(seen, "Ready")
    )
    await discoveries(world.provider, 4)
    seen = await world.consumer.get(PROVIDER)
    assert seen["status"]["activeSchemaSource"] == "OpenAPI"
    assert lists(WIDGETS)(await world.consumer.get(OWN))
    assert (await world.provider.get(one))["metadata"]["uid"] == copy["metadata"]["uid"]
    await world.provider.delete(offered)
    await world.provider.gone(offered)


async def test_what_comes_with_kubernetes_is_nobodys_export(
    world: World, konnector: RunningKonnector
) -> None:
    offered = await world.provider.install_crd(ingresses())
    name = offered["metadata"]["name"]
    await connect(world)
    await world.consumer.until(OWN, lists(WIDGETS))
    seen = await world.consumer.until(
        PROVIDER, lambda seen: condition(seen, "Ready") and "passed over" in message(seen, "Ready")
    )
    assert name in message(seen, "Ready")
    made = await world.consumer.create(binding([name], name="asked-for"))
    await reason(world.consumer, made, "Ready", "APINotExported")
    assert await world.consumer.find(crd_ref(name)) is None


async def test_what_the_user_set_on_it_stays_and_its_list_does_not(
    world: World, konnector: RunningKonnector
) -> None:
    await connect(world)
    await world.consumer.until(OWN, lists(WIDGETS))
    edited = {"conflictPolicy": "Adopt", "apis": [{"name": "rockets.example.org"}]}
    await world.consumer.merge(OWN, {"spec": edited})
    own = await world.consumer.until(OWN, lists(WIDGETS))
    assert own["spec"]["conflictPolicy"] == "Adopt"


async def test_one_that_is_deleted_by_hand_is_made_again(
    world: World, konnector: RunningKonnector
) -> None:
    await connect(world)
    first = await world.consumer.until(OWN, lists(WIDGETS))
    await world.consumer.delete(OWN)
    await world.consumer.until(
        OWN, lambda seen: seen["metadata"]["uid"] != first["metadata"]["uid"]
    )


async def test_without_any_export_it_goes_and_comes_back(
    world: World, konnector: RunningKonnector
) -> None:
    await connect(world)
    await world.consumer.until(OWN, lists(WIDGETS))
    await world.consumer.established(WIDGETS)
    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)
    await world.provider.merge(crd_ref(), UNLABELLED)
    await world.consumer.gone(OWN)
    # As with every last ClusterBinding.
    await world.consumer.gone(crd_ref())
    await world.provider.gone(one)

    await world.provider.merge(crd_ref(), {"metadata": {"labels": {words.EXPORTED: "true"}}})
    await world.consumer.until(OWN, lists(WIDGETS))


async def test_very_much_is_not_undone_without_a_question(
    world: World, konnector: RunningKonnector
) -> None:
    await connect(world)
    await world.consumer.until(OWN, lists(WIDGETS))
    await world.consumer.established(WIDGETS)
    made = [await world.consumer.create(widget(f"w-{number}")) for number in range(21)]
    for each in made:
        await world.provider.until(each, lambda seen: seen)
    await world.provider.merge(crd_ref(), UNLABELLED)
    seen = await reason(world.consumer, PROVIDER, "Ready", "Braked", "True")
    told = await event(world.consumer, seen, "Braked")
    assert told["message"] in message(seen, "Ready")
    assert "21 of widgets.example.org" in message(seen, "Ready")
    await discoveries(world.provider, 2, "limited")
    assert lists(WIDGETS)(await world.consumer.get(OWN))
    await world.consumer.merge(made[0], {"spec": {"size": 7}})
    await world.provider.until(made[0], lambda seen: seen["spec"].get("size") == 7)
    await world.consumer.delete(made[0])
    fewer = "20 of widgets.example.org"
    await world.consumer.until(PROVIDER, lambda seen: fewer in message(seen, "Ready"))
    assert lists(WIDGETS)(await world.consumer.get(OWN))

    confirmed = {"metadata": {"annotations": {words.CONFIRM: words.TRUE}}}
    await world.consumer.merge(PROVIDER, confirmed)
    await world.consumer.gone(OWN)
    for each in made:
        await world.provider.gone(each)


async def test_a_discovery_that_is_refused_changes_nothing(
    world: World, konnector: RunningKonnector
) -> None:
    await connect(world)
    before = await world.consumer.until(OWN, lists(WIDGETS))
    await limit(world.provider, IDENTITY, may("*", "example.org", "*"))
    await reason(world.consumer, PROVIDER, "Ready", "Forbidden")
    await world.provider.merge(crd_ref(), UNLABELLED)
    await discoveries(world.provider, 3, "limited")
    seen = await world.consumer.get(OWN)
    assert seen["spec"] == before["spec"]
    assert condition(await world.consumer.get(PROVIDER), "SchemaInSync", "Unknown")

    await limit(world.provider, IDENTITY, CRDS, may("*", "example.org", "*"))
    await world.consumer.gone(OWN)


async def test_a_binding_of_somebody_else_is_not_touched(
    world: World, konnector: RunningKonnector
) -> None:
    mine = await world.consumer.create(binding([GADGETS], name="provider", connection="other"))
    await connect(world)
    seen = await reason(world.consumer, PROVIDER, "Ready", "ForeignBinding", "True")
    assert "ClusterBinding provider" in message(seen, "Ready")
    await discoveries(world.provider, 2, "limited")
    assert (await world.consumer.get(OWN))["spec"] == mine["spec"]

    await world.consumer.delete(OWN)
    await world.consumer.until(OWN, lists(WIDGETS))
    await ready(world.consumer, PROVIDER)


async def test_turned_off_it_is_left_behind_and_that_is_said(
    world: World, konnector: RunningKonnector
) -> None:
    await connect(world)
    await world.consumer.until(OWN, lists(WIDGETS))
    await world.consumer.merge(PROVIDER, {"spec": {"autoBind": False}})
    seen = await reason(world.consumer, PROVIDER, "Ready", "BindingRetained", "True")
    assert "ClusterBinding provider" in message(seen, "Ready")
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await world.consumer.until(PROVIDER, lambda seen: len(seen["status"]["exportedAPIs"]) == 2)
    assert lists(WIDGETS)(await world.consumer.get(OWN))

    await world.consumer.delete(OWN)
    await world.consumer.gone(OWN)
    await ready(world.consumer, PROVIDER)
    assert await world.consumer.find(OWN) is None


async def test_a_long_name_is_no_obstacle(world: World, konnector: RunningKonnector) -> None:
    await world.provider.install_crd(crd())
    name = ".".join(["p" * 50] * 4) + ".provider"
    await add_connection(world.consumer, world.provider.cluster, name, autoBind=True)
    own = new(words.API_VERSION, "ClusterBinding", name)
    await world.consumer.until(own, lists(WIDGETS))
    await ready(world.consumer, own)
