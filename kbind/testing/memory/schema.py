"""What a structural schema does to an object on its way in: pruning and defaults.

Both change the given object in place; callers own what they pass.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import orjson

Schema = dict[str, Any]

_OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})

# Fields of ObjectMeta; the server drops others without a word.
_METADATA = frozenset(
    {
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels",
        "annotations", "ownerReferences", "finalizers", "managedFields",
    }
)  # fmt: skip


def clean_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """metadata as it survives decoding: known fields only, nothing empty."""
    return {
        name: value
        for name, value in metadata.items()
        if name in _METADATA and (value or (name == "managedFields" and value is not None))
    }


def prune(value: Any, schema: Schema, *, root: bool = True) -> None:
    """Drop what *schema* has no place for."""
    _prune(value, {**schema, "x-kubernetes-embedded-resource": True} if root else schema)


def _prune(value: Any, schema: Schema | None) -> None:
    if isinstance(value, list):
        items = (schema or {}).get("items")
        keep = schema is not None and schema.get("x-kubernetes-preserve-unknown-fields")
        if keep and items is None:
            return
        for item in value:
            _prune(item, items)
        return
    if not isinstance(value, dict):
        return
    if schema is None:
        value.clear()
        return
    keep = schema.get("x-kubernetes-preserve-unknown-fields")
    embedded = schema.get("x-kubernetes-embedded-resource")
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name in list(value):
        if embedded and name in _OBJECT_FIELDS:
            if name == "metadata" and isinstance(value[name], dict):
                value[name] = clean_metadata(value[name])
            continue
        inner = properties.get(name)
        if inner is not None:
            _prune(value[name], inner)
        elif additional is not None and additional is not False:
            _prune(value[name], additional if isinstance(additional, dict) else None)
        elif not keep:
            del value[name]


def default(value: Any, schema: Schema | None) -> None:
    """Fill in what is missing."""
    if schema is None:
        return
    _default(value, schema)


def _default(value: Any, schema: Schema | None) -> None:
    if schema is None:
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name, inner in properties.items():
            preset = inner.get("default")
            if preset is not None and (
                name not in value or (value[name] is None and not inner.get("nullable"))
            ):
                value[name] = copy.deepcopy(preset)
        additional = schema.get("additionalProperties")
        rest = additional if isinstance(additional, dict) else None
        for name, item in value.items():
            inner = properties.get(name, rest)
            if item is None and name not in properties:
                item = value[name] = _preset(rest)
            if item.__class__ in (dict, list):
                _default(item, inner)
    elif isinstance(value, list):
        items = schema.get("items")
        for index, item in enumerate(value):
            if item is None:
                item = value[index] = _preset(items)
            _default(item, items)


def _preset(schema: Schema | None) -> Any:
    if schema is None or schema.get("nullable"):
        return None
    return copy.deepcopy(schema.get("default"))


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Drop nulls that may not be there and were not replaced by a default."""
    if schema is None:
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        rest = additional if isinstance(additional, dict) else None
        for name in list(value):
            inner = properties.get(name, rest)
            if inner is None:
                continue
            item = value[name]
            if item is None:
                if not inner.get("nullable"):
                    del value[name]
            elif item.__class__ in (dict, list):
                drop_nulls(item, inner)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, schema.get("items"))


def normalized(value: Any) -> Any:
    """Numbers as the server keeps them: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {name: normalized(item) for name, item in value.items()}
    if isinstance(value, list):
        return [normalized(item) for item in value]
    return value


_FRACTION = re.compile(rb"\d[.eE]")


def normalized_json(raw: bytes) -> Any:
    """JSON as the server keeps it. Raises orjson.JSONDecodeError."""
    value = orjson.loads(raw)
    return normalized(value) if _FRACTION.search(raw) else value
