"""What the server publishes of its APIs' schemas: the index of /openapi/v3 and its documents.

A document holds the components of one group version, as the server publishes them for CRDs;
``paths`` are left out. Each is made once for as long as the resources that it is made of stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from kbind.jsons import encode
from kbind.testing.memory.catalog import Catalog
from kbind.testing.memory.jsonschemas import EITHER, says_either
from kbind.testing.memory.resources import Resource

Json = dict[str, Any]

ROOT: Final = "/openapi/v3"

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SCALE: Final = "io.k8s.api.autoscaling."
_BUILTIN_GROUPS: Final = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "": "io.k8s.api.core",
}
_CONVENTIONS: Final = (
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)


class Document(NamedTuple):
    """One document. tag: its hash."""

    body: bytes
    tag: str


def index(catalog: Catalog) -> Json:
    """Where each document is to be had."""
    paths = {
        path: {"serverRelativeURL": f"{ROOT}/{path}?hash={_document(resources).tag}"}
        for path, resources in sorted(_paths(catalog).items())
    }
    return {"paths": paths}


def find(catalog: Catalog, path: str) -> Document | None:
    """The document of a path such as ``apis/example.org/v1``, None where there is none."""
    resources = _paths(catalog).get(path)
    return None if resources is None else _document(resources)


def _paths(catalog: Catalog) -> dict[str, tuple[Resource, ...]]:
    """What each document describes. Those of no group version are there, and empty; CRDs have
    none for their groups."""
    paths: dict[str, tuple[Resource, ...]] = {"api": (), "apis": (), "version": ()}
    for (group, version), resources in catalog.published().items():
        paths[f"apis/{group}/{version}" if group else f"api/{version}"] = tuple(resources)
        if group in _BUILTIN_GROUPS and group:
            paths[f"apis/{group}"] = ()
    return paths


@lru_cache(maxsize=512)
def _document(resources: tuple[Resource, ...]) -> Document:
    body = encode(describe(resources), sort=True)
    return Document(body, tag(body))


def describe(resources: Sequence[Resource]) -> Json:
    """The document of a group version that has these resources."""
    schemas: Json = {}
    for resource in resources:
        schemas |= _schemas(resource)
    if resources:
        scaled = any(resource.scale for resource in resources)
        schemas |= {
            name: schema
            for name, schema in _shared().items()
            if scaled or not name.startswith(_SCALE)
        }
    custom = any(resource.custom for resource in resources)
    title, version = ("Kubernetes CRD Swagger", "v0.1.0") if custom else ("Kubernetes", "1.37")
    return {
        "openapi": "3.0.0",
        "info": {"title": title, "version": version},
        "paths": {},
        "components": {"schemas": schemas},
    }


def tag(body: bytes) -> str:
    """The hash that the server gives a body, in its index and as ETag."""
    return hashlib.sha512(body).hexdigest().upper()


@cache
def _shared() -> Json:
    """Components that every document of CRDs holds, as kube-apiserver 1.37 publishes them; those
    of autoscaling only where something scales."""
    shared: Json = orjson.loads(Path(__file__).with_name("components.json").read_bytes())
    return shared


def _schemas(resource: Resource) -> Json:
    """The kind and its list, by their names."""
    group = _BUILTIN_GROUPS.get(resource.group) or ".".join(reversed(resource.group.split(".")))
    prefix = f"{group}.{resource.version}"
    more = {}
    if resource.selectable:
        fields = [{"fieldPath": path.removeprefix(".")} for path in resource.selectable]
        more["x-kubernetes-selectable-fields"] = fields
    kind: Json = _published(resource.schema)
    kind["properties"] = {
        **kind.get("properties", {}),
        **_type_fields(),
        "metadata": _object_meta(),
    }
    listed: Json = {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_fields(),
            "items": {
                "description": f"List of {resource.plural}. {_CONVENTIONS}",
                "type": "array",
                "items": _reference(f"{prefix}.{resource.kind}"),
            },
            "metadata": {
                "description": f"Standard list metadata. {_CONVENTIONS}#types-kinds",
                "allOf": [_reference(f"{_META}.ListMeta")],
            },
        },
    }
    return {
        f"{prefix}.{name}": {
            **schema,
            "x-kubernetes-group-version-kind": [
                {"group": resource.group, "version": resource.version, "kind": name}
            ],
            **more,
        }
        for name, schema in ((resource.kind, kind), (resource.list_kind, listed))
    }


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _type_fields() -> Json:
    """apiVersion and kind, in the words that every kind has for them."""
    properties: Json = _shared()[f"{_META}.Status"]["properties"]
    return {name: properties[name] for name in ("apiVersion", "kind")}


def _object_meta() -> Json:
    return {
        "description": f"Standard object's metadata. {_CONVENTIONS}#metadata",
        "allOf": [_reference(f"{_META}.ObjectMeta")],
    }


def _published(schema: Json) -> Json:
    """*schema* as it is published: with what its markers stand for written out."""
    found = dict(schema)
    if properties := schema.get("properties"):
        found["properties"] = {name: _published(inner) for name, inner in properties.items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            found[name] = _published(schema[name])
    if schema.get("x-kubernetes-int-or-string") and not says_either(schema):
        if "anyOf" in schema:
            found["allOf"] = [{"anyOf": EITHER}, *schema.get("allOf", ())]
        else:
            found["anyOf"] = EITHER
    if schema.get("x-kubernetes-embedded-resource"):
        found["properties"] = {
            **found.get("properties", {}),
            "apiVersion": {
                "description": "apiVersion defines the versioned schema of this representation "
                f"of an object. {_CONVENTIONS}#resources",
                "type": "string",
            },
            "kind": {
                "description": "kind is a string value representing the type of this object. In "
                f"CamelCase. {_CONVENTIONS}#types-kinds",
                "type": "string",
            },
            "metadata": _object_meta(),
        }
        required = list(schema.get("required", ()))
        found["required"] = required + [n for n in ("kind", "apiVersion") if n not in required]
    return found
