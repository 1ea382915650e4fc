"""The schemas of CRDs as the server's own type holds them, and what that type may not say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kbind.testing.memory.status import (
    Cause,
    bad_request,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)

Schema = dict[str, Any]

_TEXTS: Final = ("id", "$schema", "$ref", "description", "type", "format", "title", "pattern")
_FLAGS: Final = (
    "exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable",
    "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
)  # fmt: skip
_COUNTS: Final = (
    "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties",
)  # fmt: skip
_COMBINATIONS: Final = ("allOf", "oneOf", "anyOf")
_LISTS: Final = (
    *_COMBINATIONS, "enum", "required", "x-kubernetes-list-map-keys", "x-kubernetes-validations",
)  # fmt: skip
_NAMED: Final = ("properties", "patternProperties", "definitions")
_MAPS: Final = (*_NAMED, "dependencies")
_INNER: Final = ("items", "additionalProperties", "additionalItems", "not")
# Left out where they say nothing; everything else is kept as soon as it is there.
_OMITTED: Final = frozenset((*_TEXTS, *_FLAGS, *_LISTS, *_MAPS))
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(_FLAGS, bool),
    **dict.fromkeys(_COUNTS, int),
    **dict.fromkeys(_LISTS, list),
    **dict.fromkeys(_MAPS, dict),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), (int, float)),
    **dict.fromkeys(("default", "example"), object),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), str),
    "x-kubernetes-preserve-unknown-fields": bool,
    "externalDocs": dict,
    "items": (dict, list),
    "additionalProperties": (dict, bool),
    "additionalItems": (dict, bool),
    "not": dict,
}
_RULE: Final[dict[str, type]] = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), str),
    "optionalOldSelf": bool,
}

EITHER: Final = [{"type": "integer"}, {"type": "string"}]
"""What x-kubernetes-int-or-string stands for."""

_KINDS: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = tuple(
    f"FieldValue{reason}" for reason in ("Duplicate", "Forbidden", "Invalid", "Required")
)
# Forms of patterns that Go does not know.
_LOOK_AROUND: Final = re.compile(r"\(\?(<?[=!])")


def decode(schema: Any) -> Schema:
    """*schema* without what the server's type does not know or does not keep. Raises Refusal
    (400) where it cannot hold a value."""
    found: Schema = {}
    for name, value in _known(schema, _TYPES).items():
        if name in _NAMED:
            value = {key: decode(inner) for key, inner in value.items()}
        elif name in _COMBINATIONS or (name == "items" and isinstance(value, list)):
            value = [decode(inner) for inner in value]
        elif name in _INNER and isinstance(value, dict):
            value = decode(value)
        elif name in ("required", "x-kubernetes-list-map-keys"):
            for word in value:
                if not isinstance(word, str):
                    raise _misplaced(name, word)
        elif name == "x-kubernetes-validations":
            value = [
                {key: part for key, part in _known(rule, _RULE).items() if part != ""}
                for rule in value
            ]
        if value or name not in _OMITTED:
            found[name] = value
    return found


def _known(given: Any, types: Any) -> Schema:
    if not isinstance(given, dict):
        raise _misplaced("an object of a schema", given)
    found: Schema = {}
    for name, value in given.items():
        if name not in types or value is None:
            continue
        wanted = types[name]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted in (int, float)):
            raise _misplaced(name, value)
        found[name] = value
    return found


def _misplaced(what: str, value: Any) -> Exception:
    return bad_request(
        'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: '
        f"json: cannot unmarshal {type(value).__name__} into {what}"
    )


def inner(schema: Schema, place: str) -> Iterator[tuple[Schema, str]]:
    """The schemas of the values within, each with its place; not those of combinations."""
    for name, part in (schema.get("properties") or {}).items():
        yield part, f"{place}.properties[{name}]"
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield schema[name], f"{place}.{name}"


def combined(schema: Schema, place: str) -> Iterator[tuple[Schema, str]]:
    """The schemas that are combined in *schema*, each with its place."""
    for name in _COMBINATIONS:
        for index, part in enumerate(schema.get(name) or ()):
            yield part, f"{place}.{name}[{index}]"
    if "not" in schema:
        yield schema["not"], f"{place}.not"


def says_either(schema: Schema) -> str:
    """Where a schema repeats what x-kubernetes-int-or-string stands for, "" where it does not."""
    if schema.get("anyOf") == EITHER:
        return ".anyOf"
    if (schema.get("allOf") or [{}])[0].get("anyOf") == EITHER:
        return ".allOf[0].anyOf"
    return ""


def representable(schema: Schema) -> bool:
    """Is it free of all that structural schemas have no form for?"""
    if any(name in schema for name in (*_MAPS[1:], "id", "$ref", "$schema", "additionalItems")):
        return False
    if isinstance(schema.get("items"), list):
        return False
    parts = (*inner(schema, ""), *combined(schema, ""))
    return all(representable(part) for part, _ in parts)


def check(
    schema: Schema, place: str, *, root: bool = False, of_metadata: str = ""
) -> Iterator[Cause]:
    """Complaints about *schema* and all within, structural or not.

    of_metadata: "" outside of what describes metadata, apiVersion and kind; else "top-level
    <which>", or "embedded".
    """
    yield from _check_words(schema, place)
    yield from _check_topology(schema, place)
    yield from _check_rules(schema, place)
    if of_metadata and schema.get("x-kubernetes-embedded-resource"):
        marker = f"{place}.x-kubernetes-embedded-resource"
        yield forbidden_value(marker, "must not be used inside of resource meta")
    if of_metadata.startswith("top-level") and "default" in schema:
        yield forbidden_value(f"{place}.default", f"must not be set in {of_metadata}")
    described = ("metadata", "apiVersion", "kind")
    for part, where in (*inner(schema, place), *combined(schema, place)):
        about = of_metadata
        if root or schema.get("x-kubernetes-embedded-resource"):
            name = where.removeprefix(f"{place}.properties[").rstrip("]")
            if name in described:
                about = f"top-level {name}" if root else "embedded"
        yield from check(part, where, of_metadata=about)


def _check_words(schema: Schema, place: str) -> Iterator[Cause]:
    for name in ("id", "additionalItems", *_MAPS[1:], "$ref"):
        if name in schema:
            yield forbidden_value(f"{place}.{name}", f"{name} is not supported")
    if "$schema" in schema:
        root = f"{place.partition('openAPIV3Schema')[0]}openAPIV3Schema"
        yield invalid_value(root, "", "OpenAPIV3Schema 'schema' is not supported")
    kind = schema.get("type")
    if kind == "null":
        complaint = "type cannot be set to null, use nullable as an alternative"
        yield forbidden_value(f"{place}.type", complaint)
    if kind is not None and kind not in _KINDS:
        yield unsupported(f"{place}.type", kind, _KINDS)
    if isinstance(schema.get("items"), list):
        complaint = "items must be a schema object and not an array"
        yield forbidden_value(f"{place}.items", complaint)
    if schema.get("uniqueItems"):
        complaint = (
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
        yield forbidden_value(f"{place}.uniqueItems", complaint)
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        complaint = "additionalProperties and properties are mutual exclusive"
        yield forbidden_value(f"{place}.additionalProperties", complaint)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        field = f"{place}.x-kubernetes-preserve-unknown-fields"
        yield invalid_value(field, False, "must be true or undefined")
    if found := _LOOK_AROUND.search(schema.get("pattern", "")):
        complaint = (
            "must be a valid regular expression, but isn't: error parsing regexp: invalid or "
            f"unsupported Perl syntax: `(?{found[1]}`"
        )
        yield invalid_value(f"{place}.pattern", schema["pattern"], complaint)


def _check_topology(schema: Schema, place: str) -> Iterator[Cause]:
    """How lists and maps are merged."""
    for name, kind, known in (
        ("x-kubernetes-map-type", "object", ("atomic", "granular")),
        ("x-kubernetes-list-type", "array", ("atomic", "set", "map")),
    ):
        relation = schema.get(name)
        if relation is None:
            continue
        if schema.get("type") != kind:
            yield must_be(schema, place, f"must be {kind} if {name} is specified")
        if relation not in known:
            yield unsupported(f"{place}.{name}", relation, known)
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    relation = schema.get("x-kubernetes-list-type")
    if keys and relation != "map":
        complaint = "must be map if x-kubernetes-list-map-keys is non-empty"
        field = f"{place}.x-kubernetes-list-type"
        yield (
            required(field, complaint)
            if relation is None
            else invalid_value(field, relation, complaint)
        )
    if relation == "map":
        yield from _check_map(schema, place, keys)
    items = schema.get("items")
    if relation not in ("map", "set") or not isinstance(items, dict):
        return
    if items.get("nullable"):
        complaint = f"cannot be nullable when x-kubernetes-list-type is {relation}"
        yield forbidden_value(f"{place}.items.nullable", complaint)
    if relation == "set":
        yield from _check_set(items, f"{place}.items")


def must_be(schema: Schema, place: str, complaint: str) -> Cause:
    """That its type is not what it has to be."""
    kind = schema.get("type")
    field = f"{place}.type"
    return required(field, complaint) if kind is None else invalid_value(field, kind, complaint)


def _check_map(schema: Schema, place: str, keys: Any) -> Iterator[Cause]:
    field = f"{place}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(field, "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items")
    if not isinstance(items, dict):
        complaint = "must have a schema if x-kubernetes-list-type is map"
        yield required(f"{place}.items", complaint)
        return
    if items.get("type") != "object":
        complaint = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{place}.items.type", items.get("type", ""), complaint)
        return
    if len(set(keys)) < len(keys):
        yield invalid_value(field, keys, "must not contain duplicate entries")
    properties = items.get("properties") or {}
    for key in dict.fromkeys(keys):
        part = properties.get(key)
        if part is None:
            yield invalid_value(field, keys, "entries must all be names of item properties")
            continue
        where = f"{place}.items.properties[{key}]"
        if part.get("type") in ("array", "object"):
            complaint = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid_value(f"{where}.type", part["type"], complaint)
        about = "this property is in x-kubernetes-list-map-keys, so it"
        if "default" not in part and key not in (items.get("required") or ()):
            yield required(
                f"{where}.default", f"{about} must have a default or be a required property"
            )
        if part.get("nullable"):
            yield forbidden_value(f"{where}.nullable", f"{about} cannot be nullable")


def _check_set(items: Schema, place: str) -> Iterator[Cause]:
    complaint = "must be atomic as item of a list with x-kubernetes-list-type=set"
    merged = items.get("x-kubernetes-map-type")
    if items.get("type") == "object" and merged != "atomic":
        yield invalid_value(f"{place}.x-kubernetes-map-type", merged, complaint)
    merged = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and merged not in (None, "atomic"):
        yield invalid_value(f"{place}.x-kubernetes-list-type", merged, complaint)


def _check_rules(schema: Schema, place: str) -> Iterator[Cause]:
    """Of CEL rules their form; nobody reads the rules themselves."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{place}.x-kubernetes-validations[{index}]"
        if not rule.get("rule", "").strip():
            yield required(f"{where}.rule", "rule is not specified")
        if "\n" in rule.get("message", ""):
            yield invalid_value(f"{where}.message", rule["message"], "must not contain line breaks")
        if rule.get("reason", _REASONS[0]) not in _REASONS:
            yield unsupported(f"{where}.reason", rule["reason"], _REASONS)
