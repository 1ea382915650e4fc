"""allOf, anyOf, oneOf and not: merged into what is around them, or in the form that structural
schemas have for them.

In a structural schema a junctor constrains values and nothing else: types and structure stand
outside of it, and every field that is named inside is named outside too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kbind_sources.keywords import (
    ANNOTATIONS,
    EMBEDDED,
    INT_OR_STRING,
    JUNCTORS,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    RULES,
    VALUES,
    Schema,
    is_fit,
    says_nothing,
)

EITHER: Final = ({"type": "integer"}, {"type": "string"})
"""The alternatives of an int-or-string."""

_STRUCTURE: Final = frozenset(
    {
        "type", "nullable", "default", "additionalProperties", "uniqueItems", PRESERVE,
        INT_OR_STRING, EMBEDDED, RULES, LIST_TYPE, LIST_KEYS, MAP_TYPE,
    }
)  # fmt: skip
_NUMBERS: Final = (("integer", "number"), ("number", "integer"))
_BOUNDS: Final = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}


def is_either(parts: Any) -> bool:
    """Whether the parts of a junctor say integer or string, and no more than that."""
    if not isinstance(parts, list) or len(parts) != 2:
        return False
    bare = [{k: v for k, v in part.items() if k not in (*ANNOTATIONS, "format")} for part in parts]
    return all(part in bare for part in EITHER)


def merged(schema: Schema, conflicts: list[str]) -> Schema:
    """*schema* with those parts of its allOf merged into it that bring structure. conflicts: takes
    the keywords that the parts do not agree upon, which are left out."""
    parts = schema.get("allOf")
    if parts is None:
        return schema
    result = {name: value for name, value in schema.items() if name != "allOf"}
    kept: list[Schema] = []
    for part in parts:
        part = merged(part, conflicts)
        if is_either(part.get("anyOf")) and len(part) == 1:
            kept.append(part)
        elif _has_structure(part):
            _meet(result, part, kept, conflicts)
        else:
            kept.append(part)
    return result | {"allOf": kept} if kept else result


def _has_structure(part: Schema) -> bool:
    if part.keys() & _STRUCTURE:
        return True
    inner = [*(part.get("properties") or {}).values(), part.get("items"), part.get("not")]
    for name in JUNCTORS:
        inner += part.get(name) or ()
    return any(isinstance(each, dict) and _has_structure(each) for each in inner)


def _meet(into: Schema, part: Schema, kept: list[Schema], conflicts: list[str]) -> None:
    """Merges *part* into a schema. kept: takes what both demand and cannot be one keyword."""
    for bound, exclusive in _BOUNDS.items():
        if bound in into and bound in part:
            kept.append({name: part[name] for name in (bound, exclusive) if name in part})
            part = {name: value for name, value in part.items() if name not in (bound, exclusive)}
    for name, value in part.items():
        had: Any = into.get(name)
        if name == "allOf":
            kept += value
        elif name not in into or had == value:
            into[name] = value
        elif name in ANNOTATIONS or name == "default":
            continue
        elif name == "required":
            into[name] = [*had, *(field for field in value if field not in had)]
        elif name in VALUES or name in (*JUNCTORS, "not"):
            kept.append({name: value})
        elif name == RULES and had is not None:
            into[name] = [*had, *value]
        elif name in ("nullable", "uniqueItems", PRESERVE, EMBEDDED, INT_OR_STRING):
            into[name] = had or value
        elif name == "properties" and had is not None:
            into[name] = had | {
                field: _both(had[field], inner) if field in had else inner
                for field, inner in value.items()
            }
        elif name in ("items", "additionalProperties") and isinstance(had, dict):
            into[name] = _both(had, value) if isinstance(value, dict) else had
        elif name == "additionalProperties" and had is True:
            into[name] = value
        elif name == "type" and (had, value) in _NUMBERS:
            into[name] = "integer"
        elif name in _STRUCTURE:
            into[name] = None
            conflicts.append(name)


def _both(one: Schema, other: Schema) -> Schema:
    return {"allOf": [one, other]}


def named(parts: list[Schema]) -> list[Schema]:
    """The parts of junctors, and of those within them: all that speak of one and the same value."""
    found = list(parts)
    for part in parts:
        found += named(within(part))
    return found


def within(schema: Schema) -> list[Schema]:
    """The parts of the junctors of *schema*."""
    parts = [part for name in JUNCTORS for part in schema.get(name) or ()]
    return [*parts, schema["not"]] if "not" in schema else parts


def nested(part: Mapping[str, Any], outside: Schema) -> Schema | None:
    """A part of a junctor in its structural form; None where it has none that says the same.
    outside: the structural schema that the junctor stands in."""
    result: Schema = {}
    for name, value in part.items():
        if name in ANNOTATIONS or name in ("nullable", "default"):
            continue
        if name in VALUES:
            if says_nothing(value):
                continue
            inner: Any = value if is_fit(name, value) else None
        elif name == "properties":
            fields = outside.get("properties") or {}
            inner = _all({field: _in(each, field, fields) for field, each in value.items()})
        elif name == "items":
            inner = _in(value, name, outside)
        elif name in JUNCTORS:
            parts = [nested(each, outside) for each in value]
            inner = None if None in parts else parts
        elif name == "not":
            inner = nested(value, outside)
        elif _is_redundant(name, value, outside):
            continue
        else:
            inner = None
        if inner is None:
            return None
        result[name] = inner
    return result


def _in(part: Schema, name: str, outside: Schema) -> Schema | None:
    around = outside.get(name)
    return None if around is None or name == "metadata" else nested(part, around)


def _all(parts: dict[str, Schema | None]) -> dict[str, Schema | None] | None:
    return None if None in parts.values() else parts


def _is_redundant(name: str, value: Any, outside: Schema) -> bool:
    """Whether a keyword of structure may be left out of a junctor in *outside*."""
    if name in ("type", INT_OR_STRING):
        return bool(value == outside.get(name))
    if name == "additionalProperties":
        return value is True or value == {}
    if name in (LIST_TYPE, MAP_TYPE):
        return value in ("atomic", "granular")
    return not value or name not in _STRUCTURE
