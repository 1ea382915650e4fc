"""Whether a structural schema accepts a value: asked of defaults, which an API server refuses with
the whole CRD where they do not fit.

CEL rules are not looked at, and formats hardly: where a document has them, its defaults were
checked.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kbind_sources.keywords import EMBEDDED, INT_OR_STRING, PRESERVE, Schema, expression

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def accepts(schema: Schema, value: Any) -> bool:
    """Whether *value* is valid and has no field that would be pruned."""
    if value is None:
        return bool(schema.get("nullable"))
    return _has_type(schema, value) and _is_valid(schema, value) and _is_known(schema, value)


def _has_type(schema: Schema, value: Any) -> bool:
    kind = schema.get("type")
    form = schema.get("format")
    if form is not None and (kind is None or value == ""):
        return False  # the zero value of a type of Go
    if form == "date-time" and not _MOMENT.fullmatch(str(value)):
        return False
    if kind is None:
        return not schema.get(INT_OR_STRING) or _is(value, "integer") or _is(value, "string")
    return _is(value, kind)


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean") == isinstance(value, bool)


def _is_valid(schema: Schema, value: Any) -> bool:
    """Of the keywords that constrain values, those of junctors too."""
    if "enum" in schema and not any(_same(value, word) for word in schema["enum"]):
        return False
    if isinstance(value, str):
        fits = _within(schema, "Length", len(value)) and _matches(schema.get("pattern"), value)
    elif isinstance(value, list):
        fits = _within(schema, "Items", len(value))
        inner = schema.get("items")
        fits = fits and (inner is None or all(_is_valid(inner, item) for item in value))
    elif isinstance(value, dict):
        fits = _within(schema, "Properties", len(value))
        fits = fits and all(name in value for name in schema.get("required", ()))
        fields = schema.get("properties") or {}
        fits = fits and all(_is_valid(fields[name], value[name]) for name in fields.keys() & value)
    else:
        fits = isinstance(value, bool) or value is None or _in_bounds(schema, value)
    if not fits:
        return False
    if "oneOf" in schema and sum(_is_valid(part, value) for part in schema["oneOf"]) != 1:
        return False
    if "anyOf" in schema and not schema.get(INT_OR_STRING):
        fits = any(_is_valid(part, value) for part in schema["anyOf"])
    fits = fits and all(_is_valid(part, value) for part in schema.get("allOf", ()))
    return fits and not ("not" in schema and _is_valid(schema["not"], value))


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _within(schema: Schema, what: str, size: int) -> bool:
    least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}", size)
    return bool(least <= size <= most)


def _matches(pattern: str | None, value: str) -> bool:
    known = None if pattern is None else expression(pattern)
    return known is None or known.search(value) is not None


def _in_bounds(schema: Schema, value: float) -> bool:
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    if schema.get("exclusiveMinimum") and value == schema.get("minimum"):
        return False
    if schema.get("exclusiveMaximum") and value == schema.get("maximum"):
        return False
    factor = schema.get("multipleOf")
    return bool(least <= value <= most) and not (factor and value % factor)


def _is_known(schema: Schema, value: Any) -> bool:
    """Whether the parts of a value have their types, and nothing of them would be pruned."""
    if isinstance(value, list):
        items = schema.get("items")
        return items is None or all(accepts(items, item) for item in value)
    if not isinstance(value, dict):
        return True
    fields, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        inner = fields.get(name, rest)
        if inner is not None:
            if not accepts(inner, item):
                return False
        elif not schema.get(PRESERVE) and not schema.get(EMBEDDED):
            return False
    return True
