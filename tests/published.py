"""What API servers publish of their APIs, as a test reads it: discovery and OpenAPI documents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kbind_sources.discovery import Resource
from kbind_sources.synthesis import synthesize

from kbind.errors import NotServed
from kbind.hooks import Offer
from kbind.testing.handles import DEADLINE, Handle, Object, load
from tests.manifests import ROOT

SHARED = ROOT.parent / "shared"
WITHOUT_SHARED = "needs the folder ../shared with public CRDs"


@dataclass(slots=True)
class Published:
    """One API: its resource at each version, the preferred one first, and the documents."""

    versions: list[Resource] = field(default_factory=list)
    documents: dict[str, Object] = field(default_factory=dict)

    def offer(self) -> Offer:
        return synthesize(self.versions, self.documents)

    def stored_as(self, version: str) -> Published:
        """The same with another storage version: what is stored takes on that one's defaults."""
        return replace(self, versions=sorted(self.versions, key=lambda v: v.version != version))

    def under(self, group: str) -> Published:
        """The same in another group, for a server that has its own under this name."""
        given = {version.group for version in self.versions}
        return Published(
            [replace(version, group=group) for version in self.versions],
            {name: _moved(document, given, group) for name, document in self.documents.items()},
        )


def _moved(document: Object, given: set[str], group: str) -> Object:
    schemas = {}
    for name, schema in document["components"]["schemas"].items():
        kinds = schema.get("x-kubernetes-group-version-kind")
        if kinds is not None:
            moved = [kind | {"group": group} if kind["group"] in given else kind for kind in kinds]
            schema = schema | {"x-kubernetes-group-version-kind": moved}
        schemas[name] = schema
    return {"components": {"schemas": schemas}}


async def published(handle: Handle) -> dict[str, Published]:
    """Every API with objects that can be created and listed, by ``<plural>.<group>``."""
    groups = load(await handle.client.get("/apis"))["groups"]
    roots = [("/api/v1", "api/v1")]
    for group in groups:
        preferred = group["preferredVersion"]["groupVersion"]
        names = [version["groupVersion"] for version in group["versions"]]
        names.sort(key=lambda name: name != preferred)
        roots += [(f"/apis/{name}", f"apis/{name}") for name in names]
    found: dict[str, Published] = {}
    for root, path in roots:
        listed = load(await handle.client.get(root))
        document = load(await handle.client.get(f"/openapi/v3/{path}"))
        for resource in resources(listed):
            api = found.setdefault(f"{resource.plural}.{resource.group}", Published())
            api.versions.append(resource)
            api.documents[resource.version] = document
    return found


def resources(listed: Object) -> Iterable[Resource]:
    """The resources of one APIResourceList."""
    group, _, version = listed["groupVersion"].rpartition("/")
    names = {entry["name"] for entry in listed["resources"]}
    for entry in listed["resources"]:
        if "/" not in entry["name"] and {"create", "list"} <= set(entry["verbs"]):
            yield Resource(
                group,
                version,
                entry["name"],
                entry["kind"],
                entry["namespaced"],
                entry["singularName"],
                tuple(entry.get("shortNames") or ()),
                tuple(entry.get("categories") or ()),
                f"{entry['name']}/status" in names,
                f"{entry['name']}/scale" in names,
            )


async def documented(handle: Handle, crds: Iterable[Object], deadline: float = DEADLINE) -> None:
    """Waits until the documents have what *crds* define: they follow a moment after discovery."""
    end = asyncio.get_running_loop().time() + deadline
    for crd in crds:
        for version in crd["spec"]["versions"]:
            while version["served"] and not await _has(handle, crd, version["name"]):
                assert asyncio.get_running_loop().time() < end, crd["metadata"]["name"]
                await asyncio.sleep(0.05)


async def _has(handle: Handle, crd: Object, version: str) -> bool:
    spec = crd["spec"]
    wanted = {"group": spec["group"], "version": version, "kind": spec["names"]["kind"]}
    try:
        raw = await handle.client.get(f"/openapi/v3/apis/{spec['group']}/{version}")
    except NotServed:
        return False
    schemas: dict[str, Any] = load(raw)["components"]["schemas"]
    return any(
        wanted in schema.get("x-kubernetes-group-version-kind", ()) for schema in schemas.values()
    )


def document(crd: Object, version: str) -> Object:
    """The OpenAPI document that a server makes of a CRD, as far as a schema goes."""
    spec = crd["spec"]
    (given,) = [each for each in spec["versions"] if each["name"] == version]
    schema = _unfolded(given["schema"]["openAPIV3Schema"])
    schema["properties"] = schema.get("properties", {}) | _OF_OBJECTS
    kind = {"group": spec["group"], "version": version, "kind": spec["names"]["kind"]}
    schema["x-kubernetes-group-version-kind"] = [kind]
    fields = given.get("selectableFields") or ()
    if fields:
        paths = [{"fieldPath": each["jsonPath"].removeprefix(".")} for each in fields]
        schema["x-kubernetes-selectable-fields"] = paths
    reverse = ".".join(reversed(spec["group"].split(".")))
    name = f"{reverse}.{version}.{spec['names']['kind']}"
    return {"components": {"schemas": {name: schema, _OBJECT_META: {"type": "object"}}}}


_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OF_OBJECTS = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"allOf": [{"$ref": f"#/components/schemas/{_OBJECT_META}"}]},
}
_EITHER = [{"type": "integer"}, {"type": "string"}]


def _unfolded(schema: Object) -> Object:
    """A schema as it is published: what its markers stand for is spelled out."""
    result = {name: value for name, value in schema.items() if name != "description"}
    if "properties" in schema:
        result["properties"] = {
            name: _unfolded(part) for name, part in schema["properties"].items()
        }
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            result[name] = _unfolded(schema[name])
    parts = schema.get("allOf") or [{}]
    if schema.get("x-kubernetes-int-or-string") and _EITHER not in (
        schema.get("anyOf"),
        parts[0].get("anyOf"),
    ):
        if "anyOf" in schema:
            result["allOf"] = [{"anyOf": _EITHER}, *schema.get("allOf", ())]
        else:
            result["anyOf"] = _EITHER
    if schema.get("x-kubernetes-embedded-resource"):
        result["properties"] = result.get("properties", {}) | _OF_OBJECTS
        required = list(schema.get("required", ()))
        result["required"] = required + [
            name for name in ("kind", "apiVersion") if name not in required
        ]
    return result


def undescribed(schema: Any) -> Any:
    """A published schema without what only people read."""
    if isinstance(schema, list):
        return [undescribed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {field: undescribed(part) for field, part in value.items()}
        if name == "properties"
        else value
        if name in ("default", "enum", "example")
        else undescribed(value)
        for name, value in schema.items()
        if name != "description"
    }
