"""A kind with one field for each way of merging, served in memory and asked directly."""

from __future__ import annotations

from typing import Any

import orjson

from kbind.apis import Api, Key
from kbind.cluster.transport import Reply, Request
from kbind.copying import field_differs, without_emptied
from kbind.managed import owned_fields
from kbind.testing.memory import MemoryCluster
from kbind.words import MANAGER

Object = dict[str, Any]

THINGS = Api("example.org", "v1", "things", "Thing", namespaced=False)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _object(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_SET = {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"}
_PORT = _object(
    port=_NUMBER,
    protocol=_TEXT | {"default": "TCP"},
    name=_TEXT,
    weight=_NUMBER | {"default": 3},
    tags={"type": "object", "additionalProperties": _TEXT},
)
SPEC = _object(
    size=_NUMBER,
    preset=_NUMBER | {"default": 7},
    labels={"type": "object", "additionalProperties": _TEXT},
    maps={"type": "object", "additionalProperties": _object(a=_NUMBER, b=_NUMBER)},
    nested=_object(tags=_SET, x=_NUMBER | {"default": 1}, y=_NUMBER),
    whole_list={"type": "array", "items": _NUMBER},
    whole_map={
        "type": "object",
        "additionalProperties": _TEXT,
        "x-kubernetes-map-type": "atomic",
    },
    tags=_SET,
    ports={
        "type": "array",
        "items": _PORT | {"required": ["port"]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
    },
    free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
)
_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": THINGS.name},
    "spec": {
        "group": THINGS.group,
        "scope": "Cluster",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "Things"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _object(spec=SPEC)},
            }
        ],
    },
}


class Refused(Exception):
    """The server does not take an apply."""


class Server:
    """An API server in memory that serves Things."""

    def __init__(self) -> None:
        self._server = MemoryCluster("things").server
        self._ask("POST", CRDS, _CRD)

    def apply(self, name: str, spec: Any, manager: str = MANAGER) -> Object:
        """A forced apply, with a label beside the spec; *spec* None leaves it out."""
        body: Object = {
            "apiVersion": THINGS.api_version,
            "kind": THINGS.kind,
            "metadata": {"name": name, "labels": {manager: "x"}},
        }
        if spec is not None:
            body["spec"] = spec
        query = {"fieldManager": manager, "force": "true"}
        return self._ask("PATCH", THINGS.path(Key("", name)), body, query)

    def deliver(self, name: str, spec: Any, standing: Object | None) -> Object:
        """What a copy that is to have *spec* comes to: one apply, and another where emptied
        maps and lists have to wait for it."""
        if standing is None:
            return self.apply(name, spec)
        first = without_emptied({"spec": spec}, standing, owned(standing))
        answer = self.apply(name, first.get("spec"))
        return answer if first == {"spec": spec} else self.apply(name, spec)

    def _ask(
        self, method: str, path: str, body: Object, query: dict[str, str] | None = None
    ) -> Object:
        kind = "apply-patch+yaml" if method == "PATCH" else "json"
        headers = {"Content-Type": f"application/{kind}", "Accept": "application/json"}
        request = Request(method, path, query or {}, headers, orjson.dumps(body))
        reply = self._server.handle(request, "admin")
        assert isinstance(reply, Reply)
        answer: Object = orjson.loads(reply.body)
        if reply.status >= 300:
            raise Refused(f"{reply.status} {answer.get('message')}")
        return answer


def owned(thing: Object) -> Object:
    return owned_fields(thing, MANAGER)


def needs_apply(spec: Any, thing: Object) -> bool:
    return field_differs("spec", spec, thing, owned(thing))
