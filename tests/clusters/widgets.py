"""The API that most cluster tests bind: widgets.example.org, and variants of it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kbind import words
from kbind.testing.handles import Object, new

GROUP = "example.org"
WIDGETS = "widgets.example.org"
GADGETS = "gadgets.example.org"
ROCKETS = "rockets.space.org"

CONDITIONS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {"type": "string", "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
            "message": {"type": "string", "maxLength": 32768},
        },
    },
}

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0},
                "note": {"type": "string"},
                "color": {"type": "string", "default": "red"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "list": {"type": "array", "items": {"type": "integer"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "env": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "count": {"type": "integer"},
                "conditions": CONDITIONS,
            },
        },
    },
}


def crd(
    plural: str = "widgets",
    kind: str = "Widget",
    *,
    scope: str = "Namespaced",
    status: bool = True,
    exported: bool = True,
    schema: Any = SCHEMA,
) -> Object:
    """A provider's CRD. status: with the status subresource; exported: with our label."""
    version: Object = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": deepcopy(schema)},
    }
    if status:
        version["subresources"] = {"status": {}}
    obj = new(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.{GROUP}",
        spec={
            "group": GROUP,
            "names": {"plural": plural, "kind": kind},
            "scope": scope,
            "versions": [version],
        },
    )
    if exported:
        obj["metadata"]["labels"] = {words.EXPORTED: words.TRUE}
    return obj


def widget(
    name: str, namespace: str | None = "team-a", kind: str = "Widget", **spec: Any
) -> Object:
    """An instance; without fields it has an empty spec."""
    return new(f"{GROUP}/v1", kind, name, namespace, spec=spec)


def gadget(name: str, namespace: str | None = "team-a", **spec: Any) -> Object:
    return widget(name, namespace, "Gadget", **spec)


def rockets(*, exported: bool = True) -> Object:
    """The CRD of an API of another group."""
    definition = crd("rockets", "Rocket", exported=exported)
    definition["metadata"]["name"] = ROCKETS
    definition["spec"]["group"] = "space.org"
    return definition


def rocket(name: str, namespace: str | None = "team-a", **spec: Any) -> Object:
    return new("space.org/v1", "Rocket", name, namespace, spec=spec)


def with_field(definition: Object, name: str = "shape") -> Object:
    """*definition* with one more field in spec."""
    changed = deepcopy(definition)
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"][name] = {"type": "string"}
    return changed


def fields(definition: Object) -> set[str]:
    """Those of spec."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])
