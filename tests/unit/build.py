"""Instances, copies and situations, made with few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kbind import ownership, words
from kbind.apis import Api, Key
from kbind.facts import Copy
from kbind.rulebook import Copying, load
from kbind.situation import Scope, Situation

Object = dict[str, Any]

CLUSTER = "cluster-uid"
UID = "instance-uid"
NOW = "2026-01-02T03:04:05Z"
WIDGETS = Api("example.org", "v1", "widgets", "Widget", namespaced=True)
PLATFORMS = Api("example.org", "v1", "platforms", "Platform", namespaced=False)
PATH = "/apis/example.org/v1/namespaces/team-a/widgets/one"
BOOK = load()
SPEC_OWNED: Object = {"f:spec": {"f:size": {}}}


def scope(**fields: Any) -> Scope:
    whole = Scope(
        WIDGETS,
        "provider-a",
        CLUSTER,
        BOOK.copying,
        status_subresource=True,
        keeps_synced=True,
        fits=True,
    )
    return replace(whole, **fields)


def flow(name: str, **fields: Any) -> Copying:
    """The bundled copying, with one flow changed."""
    changed = replace(BOOK.copying.flows[name], **fields)
    return replace(BOOK.copying, flows={**BOOK.copying.flows, name: changed})


def instance(*, held: bool = True, refused: str | None = None, **fields: Any) -> Object:
    metadata: Object = {
        "name": "one",
        "namespace": "team-a",
        "uid": UID,
        "resourceVersion": "7",
        "finalizers": ["other/finalizer", *([words.SYNCER] if held else [])],
    }
    if refused is not None:
        metadata["annotations"] = {words.CONFLICT: refused, "mine": "stays"}
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": metadata,
        "spec": {"size": 1},
    } | fields


def managed(fields: Object, manager: str = words.MANAGER, **entry: Any) -> Object:
    """One entry of managedFields."""
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": "example.org/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    } | entry


def copy(
    *,
    owned: Object | None = None,
    markers: bool = True,
    applied: str = "example.org/v1",
    **fields: Any,
) -> Object:
    """The copy as the provider has it. owned: what we applied, beside the markers; applied: at
    which version."""
    ours = ownership.markers(CLUSTER, UID)
    marked: Object = {f"f:{part}": {f"f:{name}": {} for name in ours[part]} for part in ours}
    metadata: Object = {
        "name": "one",
        "namespace": "team-a",
        "uid": "copy-uid",
        "resourceVersion": "40",
        "managedFields": [
            managed(
                {"f:metadata": marked} | (SPEC_OWNED if owned is None else owned),
                apiVersion=applied,
            )
        ],
    }
    if markers:
        metadata |= ours
    else:
        metadata["managedFields"] = []
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": metadata,
        "spec": {"size": 1},
    } | fields


def situation(
    made: Mapping[str, Any] | None = None,
    there: Mapping[str, Any] | None = None,
    *,
    key: Key | None = None,
    within: Scope | None = None,
    **fields: Any,
) -> Situation:
    """made: the instance; there: the copy, whose owner is read from it."""
    made = instance() if made is None else made
    within = within or scope()
    base = Situation(
        within,
        key or Key(made["metadata"].get("namespace", ""), made["metadata"]["name"]),
        made,
        NOW,
        copy=there,
        owner=ownership.owner(there, CLUSTER, made["metadata"]["uid"]),
    )
    return replace(base, **fields)


def refused(owner: Copy = Copy.MARKERLESS, **fields: Any) -> Situation:
    """A situation in which the rules refuse the object that stands there."""
    reason = (
        words.Reason.FOREIGN_OBJECT_EXISTS
        if owner is Copy.MARKERLESS
        else words.Reason.OWNED_BY_ANOTHER
    )
    made = fields.pop("made", instance())
    return situation(made, copy(markers=False), **{"owner": owner, "reason": reason} | fields)
