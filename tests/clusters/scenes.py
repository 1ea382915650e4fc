"""What cluster tests set up, and how they wait for what is no single object's state."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kbind import words
from kbind.errors import ClusterError, SchemaSourceError
from kbind.hooks import Offer, SchemaSource
from kbind.testing.audit import Entry
from kbind.testing.handles import DEADLINE, Handle, Object, condition, find_condition, new
from kbind.testing.running import USER, RunningKonnector, binding, connection
from tests.clusters.widgets import WIDGETS, widget
from tests.clusters.world import World

CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True)
class Scene:
    """A namespace of its own, in which widgets are bound."""

    world: World
    konnector: RunningKonnector
    namespace: str

    @property
    def consumer(self) -> Handle:
        return self.world.consumer

    @property
    def provider(self) -> Handle:
        return self.world.provider

    @property
    def binding(self) -> Object:
        return binding([WIDGETS], self.namespace)

    def widget(self, name: str, **spec: Any) -> Object:
        return widget(name, self.namespace, **spec)

    async def synced(self, name: str, **spec: Any) -> Object:
        """A widget that has its copy; as it stands on the consumer."""
        instance = await self.consumer.create(self.widget(name, **spec))
        await self.provider.until(instance, lambda seen: seen)
        return instance

    async def wake(self, instance: Mapping[str, Any]) -> None:
        """Has another pass made over an instance that is at rest."""
        looking = asyncio.create_task(self.konnector.look_again(instance, 1))
        await asyncio.sleep(0)
        stamp = {"annotations": {"woken": str(self.konnector.passes.total())}}
        await self.consumer.merge(instance, {"metadata": stamp})
        await looking

    async def standing(self, instance: Mapping[str, Any]) -> tuple[Object, Object]:
        """The instance and its copy as they stand after some more passes over it, which are
        made by themselves while something is the matter."""
        await self.konnector.look_again(instance)
        return await self.consumer.get(instance), await self.provider.get(instance)

    async def offer(self, *definitions: Object) -> None:
        """Further APIs of the provider, bound in the namespace; of the module's other tests,
        none may use their names."""
        names = [definition["metadata"]["name"] for definition in definitions]
        for definition in definitions:
            await self.provider.install_crd(definition)
        for name in names:
            await self.consumer.established(name)
        bound = await self.consumer.create(binding(names, self.namespace, "more"))
        await synced(self.consumer, bound)

    async def conflicts(self, count: int) -> Object:
        """The binding, once it counts so many conflicts."""
        bound: Object = await self.consumer.until(
            self.binding,
            lambda seen: sum(api["conflictCount"] for api in seen["status"]["boundAPIs"]) == count,
        )
        return bound


class Writes:
    """The konnector's writes on both clusters from now on."""

    def __init__(self, world: World) -> None:
        self._audits = [handle.cluster for handle in (world.consumer, world.provider)]
        self._begun = [len(cluster.audit(USER)) for cluster in self._audits]

    def all(self, *resources: str) -> list[str]:
        """Each by cluster, request and answer; where resources are named, theirs alone."""
        return [
            f"{cluster.name}: {entry}"
            for cluster, begun in zip(self._audits, self._begun, strict=True)
            for entry in cluster.audit(USER)[begun:]
            if entry.writes and (not resources or entry.resource in resources)
        ]


async def eventually(
    check: Callable[[], Awaitable[Any]], what: str, deadline: float = DEADLINE
) -> Any:
    """Waits until *check* answers something true, and answers it."""
    end = asyncio.get_running_loop().time() + deadline
    while not (answer := await check()):
        if asyncio.get_running_loop().time() > end:
            raise AssertionError(f"not after {deadline:.0f} s: {what}")
        await asyncio.sleep(0.05)
    return answer


async def events(
    cluster: Handle, obj: Mapping[str, Any], reason: str | None = None
) -> list[Object]:
    """The Events about *obj* (with that reason)."""
    return [
        event
        for event in await cluster.list("v1", "Event")
        if event["involvedObject"].get("uid") == obj["metadata"]["uid"]
        and reason in (None, event["reason"])
    ]


async def event(cluster: Handle, obj: Mapping[str, Any], reason: str) -> Object:
    """The one Event about *obj* with that reason, once it is there."""

    async def found() -> list[Object]:
        return await events(cluster, obj, reason)

    (only,) = await eventually(found, f"an Event {reason}")
    event: Object = only
    return event


async def reason(
    cluster: Handle, ref: Mapping[str, Any], condition: str, wanted: str, status: str = "False"
) -> Object:
    """The object, once its condition has that reason (and that status)."""

    def met(seen: Object | None) -> bool:
        found = find_condition(seen, condition) or {}
        return (found.get("reason"), found.get("status")) == (wanted, status)

    obj: Object = await cluster.until(ref, met)
    return obj


def exports(seen: Mapping[str, Any]) -> list[str]:
    """The names of what a Connection says is exported."""
    return [api["name"] for api in seen["status"]["exportedAPIs"]]


def bound(seen: Mapping[str, Any]) -> list[str]:
    """The names of what a binding lists."""
    return [api["name"] for api in seen["spec"]["apis"]]


async def ready(cluster: Handle, ref: Mapping[str, Any]) -> Object:
    """The Connection or binding, once it is Ready."""
    return await reason(cluster, ref, "Ready", words.Reason.AS_EXPECTED, "True")


async def exchange(world: World, instance: Mapping[str, Any], number: int) -> Object:
    """A size goes up with a widget's spec, a count comes down with its status; answers the
    instance."""
    await world.consumer.merge(instance, {"spec": {"size": number}})
    await world.provider.until(instance, lambda seen: seen["spec"]["size"] == number)
    await world.provider.set_status(instance, {"count": number})
    seen: Object = await world.consumer.until(
        instance, lambda seen: seen["status"] == {"count": number}
    )
    return seen


async def synced(cluster: Handle, ref: Mapping[str, Any]) -> Object:
    """The binding, once it is Ready and what it binds is being synced."""
    await ready(cluster, ref)
    return await reason(cluster, ref, "Synced", words.Reason.AS_EXPECTED, "True")


def message(obj: Mapping[str, Any], condition: str) -> str:
    found = find_condition(obj, condition)
    assert found is not None, f"no condition {condition}"
    text: str = found["message"]
    return text


def transition(obj: Mapping[str, Any], condition: str) -> str:
    """When the condition's status flipped last."""
    found = find_condition(obj, condition)
    assert found is not None, f"no condition {condition}"
    time: str = found["lastTransitionTime"]
    return time


def paused(value: str | None = "true") -> Object:
    """A merge patch that sets the annotation, or takes it off."""
    return {"metadata": {"annotations": {words.PAUSED: value}}}


async def paused_binding(cluster: Handle, ref: Mapping[str, Any]) -> Object:
    """The binding, once it says that it is paused."""
    seen = await reason(cluster, ref, "Synced", words.Reason.PAUSED)
    assert condition(seen, "Ready")
    assert "paused" in message(seen, "Ready")
    return seen


async def discoveries(provider: Handle, times: int, user: str = USER) -> None:
    """Waits until the konnector, as *user*, has begun so many more discoveries: with each it asks
    the provider first who it is."""

    def begun() -> int:
        asked = provider.cluster.audit(user)
        return sum((e.resource, e.name) == ("namespaces", "kube-system") for e in asked)

    goal = begun() + times

    async def met() -> bool:
        return begun() >= goal

    await eventually(met, f"{times} more discoveries")


def is_beat(entry: Entry) -> bool:
    """Whether a request renews a heartbeat's Lease: the one write that there is at rest."""
    return (entry.verb, entry.group, entry.resource) == ("update", "coordination.k8s.io", "leases")


async def offers(source: SchemaSource, names: Iterable[str]) -> dict[str, Offer]:
    """What a schema source offers under these names, once it has all of them: discovery and
    documents follow a moment after CRDs."""
    wanted = set(names)

    async def all_of_them() -> dict[str, Offer] | None:
        exports = await source.exports()
        if exports.unread or not wanted <= {api.name for api in exports.apis}:
            return None
        found = {}
        for name in sorted(wanted):
            try:
                offer = await source.definition(name)
            except (ClusterError, SchemaSourceError):
                return None
            if offer is None:
                return None
            found[name] = offer
        return found

    what = f"{type(source).__name__} offers {', '.join(sorted(wanted))}"
    answer: dict[str, Offer] = await eventually(all_of_them, what, deadline=60)
    return answer


async def uid_of(cluster: Handle) -> str:
    """The cluster's own UID."""
    uid: str = (await cluster.get(new("v1", "Namespace", "kube-system")))["metadata"]["uid"]
    return uid


def kubeconfig_data(kubeconfig: Mapping[str, Any], key: str = words.DEFAULT_KEY) -> Object:
    """The ``data`` of a Secret that holds it."""
    return {key: base64.b64encode(orjson.dumps(kubeconfig)).decode()}


def secret(data: Mapping[str, Any] | None, name: str = "provider") -> Object:
    """The Secret that ``connection(name)`` refers to."""
    return new("v1", "Secret", f"{name}-kubeconfig", "kbind", data=data)


def crd_ref(name: str = WIDGETS) -> Object:
    return new(*CRD, name)


PROVIDER = connection()
OWN = new(words.API_VERSION, "ClusterBinding", "provider")
"""What autoBind of that Connection keeps."""
