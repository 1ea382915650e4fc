"""The manifests of deploy/rbac grant what the konnector asks for: enough, and nothing beside."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product

import orjson
import pytest

from kbind import words
from kbind.heartbeat import key
from kbind.testing.audit import Entry
from kbind.testing.handles import Handle, Object, new
from kbind.testing.running import RunningKonnector, binding, connection, connection_secret
from tests.clusters.access import GROUP, PARTS, USER, granted
from tests.clusters.conftest import settings
from tests.clusters.scenes import event, eventually, reason, synced, uid_of
from tests.clusters.widgets import GADGETS, WIDGETS, crd, widget
from tests.clusters.world import World
from tests.manifests import ROOT, documents

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONSUMER, PROVIDER = (
    documents(ROOT / "deploy" / "rbac" / f"{side}.yaml") for side in ("consumer", "provider")
)

# A group, a resource and a verb.
Right = tuple[str, str, str]


def rights(manifests: Iterable[Object]) -> set[Right]:
    """What is granted, but for kcp, which is not here."""
    rules = [rule for obj in manifests for rule in obj.get("rules", ())]
    found: Iterator[Right] = (each for r in rules for each in product(*(r[part] for part in PARTS)))
    return {each for each in found if each[0] != "core.kcp.io"}


def used(entries: Iterable[Entry]) -> set[Right]:
    """What was asked for and answered. An apply that makes an object has to be granted twice: as
    the patch that it is, and as a creation."""
    return {
        (e.group, f"{e.resource}/{e.subresource}" if e.subresource else e.resource, verb)
        for e in entries
        if e.verb and e.status != 403
        for verb in ((e.verb, "create") if (e.verb, e.status) == ("patch", 201) else (e.verb,))
    }


@asynccontextmanager
async def limited(world: World, provider: list[Object]) -> AsyncIterator[RunningKonnector]:
    """A konnector that may do what is granted here, and a Secret with a kubeconfig that may do
    what *provider* grants there."""
    for handle in (world.consumer, world.provider):
        await handle.namespace("kbind")
    await world.consumer.create(connection_secret(world.provider.cluster, user=USER))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(granted(world.consumer, CONSUMER))
        await stack.enter_async_context(granted(world.provider, await named(world, provider)))
        running = RunningKonnector(
            world.consumer.cluster, user=USER, settings=settings(heartbeat=1.0)
        )
        await running.start()
        stack.push_async_callback(running.stop)
        yield running


async def named(world: World, manifests: list[Object]) -> list[Object]:
    """*manifests* with the name of the heartbeat's Lease, as it is for this consumer."""
    lease = key("provider", await uid_of(world.consumer), None).name
    text = orjson.dumps(manifests).replace(b"provider-0123456789", lease.encode())
    filled: list[Object] = orjson.loads(text)
    return filled


async def whole_life(world: World, instance: Object) -> None:
    """Up, down and gone."""
    instance = await world.consumer.create(instance)
    await world.provider.until(instance, lambda seen: seen)
    await world.provider.set_status(instance, {"phase": "Ready"})
    await world.consumer.until(instance, lambda seen: seen["status"]["phase"] == "Ready")
    await world.consumer.merge(instance, {"spec": {"size": 2}})
    await world.provider.until(instance, lambda seen: seen["spec"]["size"] == 2)
    await world.consumer.delete(instance)
    await world.consumer.gone(instance)
    assert await world.provider.find(instance) is None


FRESH = "rights-a"  # a namespace that no other test has made on the provider


async def test_what_is_granted_is_what_is_asked_for(world: World) -> None:
    handles = (world.consumer, world.provider)
    before = [len(handle.cluster.audit(USER)) for handle in handles]
    await world.provider.install_crd(crd())
    for namespace in (FRESH, "team-b"):
        await world.consumer.namespace(namespace)
    async with limited(world, PROVIDER) as konnector:
        await world.consumer.create(connection())
        everywhere = await world.consumer.create(binding([WIDGETS]))
        await synced(world.consumer, everywhere)
        await whole_life(world, widget("one", FRESH, size=1))

        await refusal(world)
        await another_schema(world)
        await definition_of_others(world)
        await bound_by_itself(world)
        await world.consumer.delete(everywhere)
        await world.consumer.gone(crd())
        await konnector.stop()

        for handle, manifests, since in zip(handles, (CONSUMER, PROVIDER), before, strict=True):
            await eventually_used(handle, manifests, since)


async def refusal(world: World) -> None:
    """An instance that meets an object that is nobody's: an Event, an annotation, a condition."""
    await world.provider.namespace("team-b")
    await world.provider.create(widget("taken", "team-b", size=9))
    taken = await world.consumer.create(widget("taken", "team-b", size=1))
    await reason(world.consumer, taken, "Synced", "ForeignObjectExists")
    await event(world.consumer, taken, "ForeignObjectExists")
    await world.consumer.delete(taken)
    await world.consumer.gone(taken)


async def another_schema(world: World) -> None:
    """The provider changes its CRD, the consumer's follows."""
    await world.provider.merge(crd(), {"spec": {"names": {"shortNames": ["wdg"]}}})
    await world.consumer.until(crd(), lambda seen: seen["spec"]["names"]["shortNames"] == ["wdg"])


async def definition_of_others(world: World) -> None:
    """Under pullPolicy None our markers are put on a CRD that somebody else installed. It is an
    API that was not granted, and that is said."""
    await world.provider.install_crd(crd("gadgets", "Gadget"))
    await world.consumer.install_crd(crd("gadgets", "Gadget", exported=False))
    reference = {"namespace": "kbind", "name": "provider-kubeconfig"}
    none = connection("none", kubeconfigSecretRef=reference, schema={"pullPolicy": "None"})
    await world.consumer.create(none)
    bound = await world.consumer.create(binding([GADGETS], FRESH, connection="none"))
    await reason(world.consumer, bound, "Synced", "Forbidden")


async def bound_by_itself(world: World) -> None:
    """autoBind makes a ClusterBinding, follows the exports with it, and takes it away."""
    reference = {"namespace": "kbind", "name": "provider-kubeconfig"}
    schema = {"source": "CRD"}
    auto = connection("auto", kubeconfigSecretRef=reference, schema=schema, autoBind=True)
    await world.consumer.create(auto)
    own = binding([], name="auto")
    unlabelled = {"metadata": {"labels": {words.EXPORTED: None}}}
    await world.consumer.until(own, lambda seen: len(seen["spec"]["apis"]) == 2)
    await world.provider.merge(crd("gadgets"), unlabelled)
    await world.consumer.until(own, lambda seen: len(seen["spec"]["apis"]) == 1)
    await world.provider.merge(crd(), unlabelled)
    await world.consumer.gone(own)


async def eventually_used(handle: Handle, manifests: list[Object], since: int) -> None:
    """A watch is in the audit log once it has ended."""
    missing: set[Right] = set()

    async def complete() -> bool:
        missing.clear()
        missing.update(rights(manifests) - used(handle.cluster.audit(USER)[since:]))
        return not missing

    with contextlib.suppress(AssertionError):
        await eventually(complete, "all that is granted was used", 5)
    assert missing == set()
    assert used(handle.cluster.audit(USER)[since:]) == rights(manifests)


def narrow(namespace: str) -> list[Object]:
    """The provider's manifests without namespaces to create, and with writes in one namespace."""
    role, bound, *heartbeat = PROVIDER
    copies = role["rules"][-1]
    assert copies["apiGroups"] == ["example.org"]
    kept = [rule for rule in role["rules"][:-1] if rule["verbs"] != ["create"]]
    assert len(kept) == len(role["rules"]) - 2
    reads = copies | {"verbs": ["list", "watch"]}
    writes = copies | {"verbs": ["get", "create", "patch", "delete"]}
    name = role["metadata"]["name"]
    rbac = f"{GROUP}/v1"
    inner = bound["roleRef"] | {"kind": "Role"}
    return [
        role | {"rules": [*kept, reads]},
        bound,
        new(rbac, "Role", name, namespace, rules=[writes]),
        new(rbac, "RoleBinding", name, namespace, roleRef=inner, subjects=bound["subjects"]),
        *heartbeat,
    ]


async def test_a_consumer_may_be_kept_to_its_namespaces(world: World) -> None:
    await world.provider.install_crd(crd())
    for namespace in ("team-a", "rights-c"):
        await world.consumer.namespace(namespace)
    await world.provider.namespace("team-a")
    async with limited(world, narrow("team-a")):
        await world.consumer.create(connection())
        everywhere = await world.consumer.create(binding([WIDGETS]))
        await synced(world.consumer, everywhere)
        outside = await world.consumer.create(widget("outside", "rights-c"))
        told = await event(world.consumer, outside, "SyncFailed")
        assert "rights-c" in told["message"]
        await whole_life(world, widget("one", size=1))
        assert await world.provider.find(outside) is None
        await world.consumer.delete(outside)
