"""Is the schema of a CRD structural, and are its defaults what it asks for?"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from kbind.testing.memory import schema as schemas
from kbind.testing.memory import validation
from kbind.testing.memory.jsonschemas import (
    EITHER,
    check,
    combined,
    inner,
    must_be,
    representable,
    says_either,
)
from kbind.testing.memory.status import Cause, forbidden_value, invalid_value, required
from kbind.testing.memory.typed import same

Schema = dict[str, Any]

_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_FREE: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = "x-kubernetes-int-or-string"

# What the root may say beside a status subresource: that part is validated by itself.
_BESIDE_STATUS: Final = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title",
    "maximum": "Maximum", "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum", "maxLength": "MaxLength", "minLength": "MinLength",
    "pattern": "Pattern", "maxItems": "MaxItems", "minItems": "MinItems",
    "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs",
    "example": "Example", _FREE: "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}  # fmt: skip
# What a combined schema may not say, and how it must be instead.
_NOT_COMBINED: Final = {
    "type": "empty", "title": "empty", "description": "empty", "default": "undefined",
    "additionalProperties": "undefined", "nullable": "false", _FREE: "false", _EMBEDDED: "false",
    _EITHER: "false", "x-kubernetes-list-map-keys": "empty", "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined", "x-kubernetes-validations": "empty",
}  # fmt: skip


def check_schema(schema: Schema, place: str, *, status: bool) -> list[Cause]:
    """Complaints about a version's schema. status: the version has that subresource."""
    found: list[Cause] = []
    if status:
        found += _check_beside_status(schema, place)
    if schema.get("nullable"):
        found.append(forbidden_value(f"{place}.nullable", "nullable cannot be true at the root"))
    found += check(schema, place, root=True)
    if not representable(schema):
        return found
    invariants = list(_check_structure(schema, place, "at the root"))
    return found + (invariants or list(_check_defaults(schema, place, root=True)))


def _check_beside_status(schema: Schema, place: str) -> Iterator[Cause]:
    also = "of the schema if the status subresource is enabled"
    if schema.get("type", "object") != "object":
        complaint = f'only "object" is allowed as the type at the root {also}'
        yield invalid_value(f"{place}.type", schema["type"], complaint)
    if not schema.keys() <= _BESIDE_STATUS.keys():
        allowed = " ".join(_BESIDE_STATUS.values())
        yield invalid_value(
            place, schema, f"only [{allowed}] fields are allowed at the root {also}"
        )


def _check_structure(schema: Schema, place: str, level: str) -> Iterator[Cause]:
    kind = schema.get("type")
    root = level == "at the root"
    embedded, free = schema.get(_EMBEDDED), schema.get(_FREE)
    properties = schema.get("properties") or {}
    if schema.get(_EITHER):
        for marker in (_FREE, _EMBEDDED):
            if schema.get(marker):
                complaint = f"must be false if {_EITHER} is true"
                yield invalid_value(f"{place}.{marker}", True, complaint)
    yield from _check_combined(schema, place)
    if embedded and kind != "object":
        yield must_be(schema, place, f"must be object if {_EMBEDDED} is true")
    elif not kind and not free and not schema.get(_EITHER):
        yield required(f"{place}.type", f"must not be empty {level}")
    if "additionalProperties" in schema:
        if root:
            yield forbidden_value(f"{place}.additionalProperties", "must not be used at the root")
        if embedded:
            complaint = f"must not be used if {_EMBEDDED} is set"
            yield forbidden_value(f"{place}.additionalProperties", complaint)
    if root and kind not in (None, "object"):
        yield invalid_value(f"{place}.type", kind, "must be object at the root")
    if embedded and not free and not properties:
        complaint = f"must not be empty if {_EMBEDDED} is true without {_FREE}"
        yield required(f"{place}.properties", complaint)
    if kind == "array" and "items" not in schema:
        yield required(f"{place}.items", "must be specified")
    if root or embedded:
        yield from _check_object_fields(properties, place, root=root)
    for part, where in inner(schema, place):
        items = where == f"{place}.items"
        level = "for specified array items" if items else "for specified object fields"
        yield from _check_structure(part, where, level)


def _check_object_fields(properties: Schema, place: str, *, root: bool) -> Iterator[Cause]:
    for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        given = properties.get(name, {}).get("type", "")
        if name in properties and given != kind:
            yield invalid_value(f"{place}.properties[{name}].type", given, f"must be {kind}")
    metadata = properties.get("metadata")
    if not root or metadata is None or metadata.get("type") != "object":
        return
    more = metadata.keys() - {"type", "default", "properties"}
    if more or not (metadata.get("properties") or {}).keys() <= {"name", "generateName"}:
        yield forbidden_value(
            f"{place}.properties[metadata]",
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified",
        )


def _check_combined(schema: Schema, place: str) -> Iterator[Cause]:
    """What stands in combinations may restrict values, and not shape them."""
    skipped: set[str] = set()
    if schema.get(_EITHER) and (repeated := says_either(schema)):
        skipped = {f"{place}{repeated}[{index}]" for index in range(len(EITHER))}
    for part, where in combined(schema, place):
        if where not in skipped:
            yield from _check_nested(part, where, skipped)


def _check_nested(schema: Schema, place: str, skipped: set[str]) -> Iterator[Cause]:
    for name, instead in _NOT_COMBINED.items():
        if name in schema:
            yield forbidden_value(f"{place}.{name}", f"must be {instead} to be structural")
    if "metadata" in (schema.get("properties") or {}):
        complaint = "must not be specified in a nested context"
        yield forbidden_value(f"{place}.properties[metadata]", complaint)
    for part, where in (*inner(schema, place), *combined(schema, place)):
        if where not in skipped and where != f"{place}.additionalProperties":
            yield from _check_nested(part, where, skipped)


def _check_defaults(schema: Schema, place: str, *, root: bool = False) -> Iterator[Cause]:
    """Defaults hold as they stand: unlike objects they are not completed first."""
    if "default" in schema:
        yield from _check_default(schema, f"{place}.default", root=root)
    for part, where in inner(schema, place):
        if not (root and where == f"{place}.properties[metadata]"):
            yield from _check_defaults(part, where)


def _check_default(schema: Schema, place: str, *, root: bool) -> Iterator[Cause]:
    value = schema["default"]
    known = copy.deepcopy(value)
    schemas.prune(known, schema, root=root)
    if not same(known, value):
        yield invalid_value(place, value, "must not have unknown fields")
        return
    if (root or schema.get(_EMBEDDED)) and isinstance(value, dict):
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                yield required(f"{place}.{name}")
    for cause in validation.validate(schema, value):
        field = "" if cause.field == "<nil>" else cause.field
        yield cause._replace(
            field=f"{place}.{field}" if field else place,
            complaint=cause.complaint.replace("<nil> in body", " in body"),
        )
