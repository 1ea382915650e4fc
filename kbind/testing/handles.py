"""Hands on one cluster, for tests and the demo: make, read, change, delete, wait.

Objects are plain JSON values; wherever one is asked for as a reference, its apiVersion, kind,
namespace and name count.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import orjson

from kbind.apis import CRDS, Api, Key
from kbind.cluster.client import Client
from kbind.cluster.connect import connect
from kbind.cluster.kubeconfig import Credentials, parse
from kbind.cluster.transport import Transport
from kbind.errors import Conflict, KbindError, NotFound
from kbind.jsons import encode
from kbind.manifests import documents
from kbind.resources import folder
from kbind.testing.audit import Entry

Object = dict[str, Any]
Connect = Callable[[Credentials], Awaitable[Transport]]

DEADLINE = 20.0  # seconds that ``until`` waits


class Cluster(Protocol):
    """What a handle needs of a cluster, in memory or real."""

    name: str

    def kubeconfig(self, user: str = "admin") -> Object: ...

    def audit(self, user: str) -> list[Entry]: ...


def new(
    api_version: str, kind: str, name: str, namespace: str | None = None, **fields: Any
) -> Object:
    """An object to create, or a reference to one."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


class Handle:
    """One cluster, seen by one user."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client
        self._apis: dict[tuple[str, str], Api] = {}

    @classmethod
    async def open(
        cls, cluster: Cluster, user: str = "admin", *, connect: Connect = connect
    ) -> Handle:
        """connect: how credentials become a transport; clusters in memory that are not served
        take a ``kbind.testing.memory.Connector``."""
        credentials = parse(orjson.dumps(cluster.kubeconfig(user)))
        client = Client(await connect(credentials), side=cluster.name, user_agent="kbind-test")
        return cls(cluster, client)

    async def close(self) -> None:
        await self.client.close()

    async def api(self, ref: Mapping[str, Any]) -> Api:
        """The API that serves objects like *ref*. Raises KbindError where none does."""
        asked = (ref["apiVersion"], ref["kind"])
        if asked not in self._apis:
            group, _, version = asked[0].rpartition("/")
            root = f"/apis/{asked[0]}" if group else f"/api/{version}"
            for entry in orjson.loads(await self.client.get(root))["resources"]:
                if entry["kind"] == asked[1] and "/" not in entry["name"]:
                    self._apis[asked] = Api(
                        group, version, entry["name"], asked[1], entry["namespaced"]
                    )
        try:
            return self._apis[asked]
        except KeyError:
            raise KbindError(f"{self.cluster.name} serves no {asked[1]} of {asked[0]}") from None

    async def path(self, ref: Mapping[str, Any], subresource: str | None = None) -> str:
        return (await self.api(ref)).path(key(ref), subresource)

    async def create(self, obj: Mapping[str, Any]) -> Object:
        path = (await self.api(obj)).collection(key(obj).namespace)
        return load(await self.client.create(path, encode(obj)))

    async def apply(self, obj: Mapping[str, Any], manager: str = "test") -> Object:
        body = encode(obj)
        return load(
            await self.client.apply(await self.path(obj), body, manager=manager, force=False)
        )

    async def get(self, ref: Mapping[str, Any]) -> Object:
        return load(await self.client.get(await self.path(ref)))

    async def find(self, ref: Mapping[str, Any]) -> Object | None:
        """The object, or None where there is none."""
        try:
            return await self.get(ref)
        except NotFound:
            return None

    async def list(self, api_version: str, kind: str) -> list[Object]:
        """All objects of a kind, in all namespaces."""
        path = (await self.api({"apiVersion": api_version, "kind": kind})).path()
        items = load(await self.client.get(path))["items"]
        return [{"apiVersion": api_version, "kind": kind} | item for item in items]

    async def merge(
        self, ref: Mapping[str, Any], body: Mapping[str, Any], subresource: str | None = None
    ) -> Object:
        """A JSON merge patch."""
        path = await self.path(ref, subresource)
        return load(await self.client.merge(path, encode(body), manager="test"))

    async def set_status(self, ref: Mapping[str, Any], status: Any) -> Object:
        """Sets the status whole, through the subresource."""
        body = [{"op": "add", "path": "/status", "value": status}]
        path = await self.path(ref, "status")
        return load(await self.client.patch(path, encode(body), manager="operator"))

    async def delete(self, ref: Mapping[str, Any]) -> None:
        await self.client.delete(await self.path(ref), uid=None)

    async def until(
        self,
        ref: Mapping[str, Any],
        met: Callable[[Any], Any],
        deadline: float = DEADLINE,
    ) -> Any:
        """Waits until ``met(object or None)`` is true, and answers the object; a field that is
        not there yet counts as not met. Raises AssertionError that shows the last state."""
        seen: Object | None = None
        trouble: Exception | None = None
        end = asyncio.get_running_loop().time() + deadline
        while asyncio.get_running_loop().time() < end:
            try:
                seen, trouble = await self.find(ref), None
            except KbindError as error:  # not served yet
                seen, trouble = None, error
            with contextlib.suppress(KeyError, TypeError):
                if trouble is None and met(seen):
                    return seen
            await asyncio.sleep(0.05)
        shown = orjson.dumps(seen, option=orjson.OPT_INDENT_2).decode()
        raise AssertionError(
            f"{ref['kind']} {key(ref)} on {self.cluster.name} after {deadline:.0f} s: "
            f"{trouble or shown}"
        )

    async def gone(self, ref: Mapping[str, Any], deadline: float = DEADLINE) -> None:
        await self.until(ref, lambda seen: seen is None, deadline)

    async def namespace(self, name: str) -> None:
        """Creates a namespace that may be there already."""
        try:
            await self.create(new("v1", "Namespace", name))
        except Conflict:
            return

    async def install_crd(self, crd: Mapping[str, Any]) -> Object:
        """Creates a CRD and waits until it is served."""
        await self.create(crd)
        return await self.established(crd["metadata"]["name"])

    async def established(self, name: str, deadline: float = DEADLINE) -> Object:
        """The CRD, once it is served: discovery follows a moment after the condition."""
        ref = new("apiextensions.k8s.io/v1", CRDS.kind, name)
        crd: Object = await self.until(ref, lambda seen: condition(seen, "Established"), deadline)
        spec = crd["spec"]
        version = next(v["name"] for v in spec["versions"] if v["served"])
        kind = {"apiVersion": f"{spec['group']}/{version}", "kind": spec["names"]["kind"]}
        end = asyncio.get_running_loop().time() + deadline
        while True:
            try:
                await self.api(kind)
                return crd
            except KbindError:
                if asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(0.05)

    async def install_core(self) -> None:
        """Kbind's own CRDs."""
        for file in sorted(folder("crds").glob("*.yaml")):
            for crd in documents(file.read_text(), file.name):
                try:
                    await self.install_crd(crd)
                except Conflict:
                    continue


def load(raw: bytes) -> Object:
    obj: Object = orjson.loads(raw)
    return obj


def key(ref: Mapping[str, Any]) -> Key:
    metadata = ref.get("metadata") or {}
    return Key(metadata.get("namespace") or "", metadata.get("name") or "")


def condition(obj: Mapping[str, Any] | None, type_: str, status: str = "True") -> bool:
    """Whether an object's condition of that type has that status."""
    found = find_condition(obj, type_)
    return found is not None and found["status"] == status


def find_condition(obj: Mapping[str, Any] | None, type_: str) -> Object | None:
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((dict(c) for c in conditions if c["type"] == type_), None)
