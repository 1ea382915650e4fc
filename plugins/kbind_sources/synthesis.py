"""A CRD put together from discovery and OpenAPI v3 documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from kbind import words
from kbind.errors import SchemaSourceError
from kbind.hooks import Definition, Offer
from kbind_sources.discovery import Resource
from kbind_sources.keywords import Path, Schema
from kbind_sources.references import NODES, Document, expand, references
from kbind_sources.structural import parts, structural

__all__ = ["references", "synthesize"]

_UNAPPROVED: Final = "unapproved, synthesized from OpenAPI"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_KINDS: Final = "x-kubernetes-group-version-kind"
_SELECTABLE: Final = "x-kubernetes-selectable-fields"
_SELECTABLE_MOST: Final = 8
_SIZE: Final = 1024 * 1024
"""Bytes of JSON beyond which descriptions are left out: a server stores 1.5 MiB."""
_SCHEMAS: Final = "#/components/schemas/"


def synthesize(
    versions: Sequence[Resource],
    documents: Mapping[str, Document],
    others: Mapping[str, Document] | None = None,
) -> Offer:
    """The CRD of one API, of which every version is served.

    versions: its resource at each version; the first becomes the storage version.
    documents: by version, the OpenAPI v3 document of the group at that version.
    others: by server path, the documents that those refer to; what is missing is permissive.
    Raises SchemaSourceError where no CRD can say what the documents say.
    """
    first = versions[0]
    name = f"{first.plural}.{first.group}"
    if "." not in first.group:
        raise SchemaSourceError(
            f"{name}: a CRD needs a group with a dot in it; this API cannot be offered"
        )
    spec_versions: list[Schema] = []
    notes: list[str] = []
    for resource in versions:
        document = documents[resource.version]
        version, note = _version(resource, document, others or {}, NODES // len(versions))
        spec_versions.append(version | {"served": True, "storage": resource is first})
        if note:
            notes.append(f"{resource.version}: {note}" if len(versions) > 1 else note)
    if len(orjson.dumps(spec_versions)) > _SIZE:
        for version in spec_versions:
            for part in parts(version["schema"]["openAPIV3Schema"]):
                part.pop("description", None)
    metadata: dict[str, Any] = {"name": name}
    if any(first.group == tail or first.group.endswith(f".{tail}") for tail in _PROTECTED):
        metadata["annotations"] = {words.API_APPROVED: _UNAPPROVED}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": first.group,
            "names": _names(first, documents[first.version]),
            "scope": "Namespaced" if first.namespaced else "Cluster",
            "versions": spec_versions,
        },
    }
    return Offer(crd, Definition.SYNTHESIZED, "; ".join(notes))


def _version(
    resource: Resource, document: Document, others: Mapping[str, Document], nodes: int
) -> tuple[Schema, str]:
    """One entry of the CRD's versions, and what to tell of it."""
    component = _component(resource, document)
    expanded = expand(_SCHEMAS + _escaped(component), document, others, nodes)
    made = structural(expanded.schema, cut=expanded.cut, status=resource.status)
    schema = made.schema
    version: Schema = {"name": resource.version, "schema": {"openAPIV3Schema": schema}}
    notes = list(_loosened(made.loosened))
    subresources: Schema = {"status": {}} if resource.status else {}
    if resource.scale:
        scale = _scale(schema)
        if scale:
            subresources["scale"] = scale
        else:
            notes.append("no scale subresource")
    if subresources:
        version["subresources"] = subresources
    selectable = list(_selectable(expanded.schema, schema))
    if selectable:
        version["selectableFields"] = selectable[:_SELECTABLE_MOST]
    return version, ", ".join(notes)


def _loosened(places: Sequence[Path]) -> Iterator[str]:
    """What is permissive, as ``3 parts of spec made permissive``."""
    counts = Counter(place[0] if place else "the object itself" for place in places)
    for field, count in sorted(counts.items()):
        yield f"{count} part{'s' if count > 1 else ''} of {field} made permissive"


def _schemas(document: Document) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (document.get("components") or {}).get("schemas") or {}
    return found


def _escaped(component: str) -> str:
    return component.replace("%", "%25").replace("~", "~0").replace("/", "~1")


def _component(resource: Resource, document: Document) -> str:
    """The name of the schema of a resource's kind."""
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    for name, schema in _schemas(document).items():
        if wanted in _kinds(schema):
            return name
    raise SchemaSourceError(
        f"{resource.plural}.{resource.group}: the OpenAPI document of "
        f"{resource.group}/{resource.version} has no schema for the kind {resource.kind}"
    )


def _kinds(schema: Any) -> Sequence[Any]:
    found = schema.get(_KINDS) if isinstance(schema, dict) else None
    return [kind for kind in found if isinstance(kind, dict)] if isinstance(found, list) else ()


def _names(resource: Resource, document: Document) -> Schema:
    names: Schema = {
        "plural": resource.plural,
        "singular": resource.singular or resource.kind.lower(),
        "kind": resource.kind,
        "listKind": _list_kind(resource, document),
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    return names


def _list_kind(resource: Resource, document: Document) -> str:
    """The kind whose items are of the resource's; by custom where no schema says so."""
    component = _component(resource, document)
    for schema in _schemas(document).values():
        for gvk in _kinds(schema):
            version = {"group": resource.group, "version": resource.version}
            if gvk | version == gvk and {"$ref": _SCHEMAS + component} in _items(schema):
                return str(gvk["kind"])
    return f"{resource.kind}List"


def _items(schema: Any) -> Sequence[Any]:
    """The schema of a list's items, also as the one part of an allOf."""
    for step in ("properties", "items", "items"):
        schema = schema.get(step) if isinstance(schema, dict) else None
    merged = schema.get("allOf") if isinstance(schema, dict) else None
    return [schema, *(merged if isinstance(merged, list) else ())]


def _field(schema: Schema, *path: str) -> Schema:
    """The schema of a nested field; empty where there is none."""
    for name in path:
        schema = (schema.get("properties") or {}).get(name) or {}
    return schema


def _scale(schema: Schema) -> Schema | None:
    """The scale subresource where it is where it is in most APIs: OpenAPI does not tell."""
    for field in ("spec", "status"):
        if _field(schema, field, "replicas").get("type") != "integer":
            return None
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    if _field(schema, "status", "selector").get("type") == "string":
        scale["labelSelectorPath"] = ".status.selector"
    return scale


def _selectable(published: Schema, schema: Schema) -> Iterator[Schema]:
    entries = published.get(_SELECTABLE)
    for entry in entries if isinstance(entries, list) else ():
        path = str(entry.get("fieldPath") if isinstance(entry, dict) else "").split(".")
        kind = _field(schema, *path).get("type")
        if kind in ("string", "boolean", "integer") and path[0] != "metadata":
            yield {"jsonPath": f".{'.'.join(path)}"}
