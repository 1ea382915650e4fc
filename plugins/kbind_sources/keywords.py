"""The words of schemas: which of them a structural schema keeps, and the schema that accepts all.

Structural are the schemas that an API server takes in a CRD.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import re2

Schema = dict[str, Any]
Path = tuple[str, ...]
"""Where a part of a schema stands: names of fields, ``[]`` for items, ``*`` for a map's values."""

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
RULES: Final = "x-kubernetes-validations"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
MAP_TYPE: Final = "x-kubernetes-map-type"

TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean"})
JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
ANNOTATIONS: Final = ("description", "title")
"""What is kept of all that says something of values and demands nothing of them."""

# Every value keyword with the types that its own value may have. Servers leave out what is
# false or empty, but keep a limit of 0.
_NUMBER: Final = (int, float)
VALUES: Final[Mapping[str, tuple[type, ...]]] = {
    "format": (str,), "pattern": (str,),
    "minimum": _NUMBER, "exclusiveMinimum": (bool,),
    "maximum": _NUMBER, "exclusiveMaximum": (bool,), "multipleOf": _NUMBER,
    "minLength": (int,), "maxLength": (int,),
    "minItems": (int,), "maxItems": (int,),
    "minProperties": (int,), "maxProperties": (int,),
    "enum": (list,), "required": (list,),
}  # fmt: skip


_SHAPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "type": (str, list), "properties": dict, "not": dict, "items": dict,
    "additionalProperties": (dict, bool), **dict.fromkeys(JUNCTORS, list),
    "nullable": bool, "uniqueItems": bool, PRESERVE: bool, INT_OR_STRING: bool, EMBEDDED: bool,
    RULES: list, LIST_TYPE: str, LIST_KEYS: list, MAP_TYPE: str,
    "description": str, "title": str, "format": str, "enum": list, "required": list, "$ref": str,
}  # fmt: skip
_ITEMS: Final[Mapping[str, type]] = {RULES: dict, LIST_KEYS: str, "required": str}


def is_shaped(name: str, value: Any) -> bool:
    """Whether a keyword's value is of the form that OpenAPI 3.0 has for it."""
    shape: Any = _SHAPES.get(name, object)
    items = _ITEMS.get(name)
    if not isinstance(value, shape):
        return False
    return items is None or all(isinstance(item, items) for item in value)


def says_nothing(value: Any) -> bool:
    """Whether a value keyword with this value is as good as left out."""
    return value is None or value is False or value in ("", [])


def is_fit(name: str, value: Any) -> bool:
    """Whether an API server takes this value for this value keyword."""
    kinds: Any = VALUES[name]
    if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
        return False
    if kinds == (int,) and not -(2**63) <= value < 2**63:
        return False
    if name == "multipleOf":
        # The server takes the whole part, and refuses all integers where that is 0.
        return bool(value >= 1 and value == int(value))
    return name != "pattern" or expression(str(value)) is not None


def permissive(schema: Mapping[str, Any]) -> Schema:
    """What accepts and keeps all that *schema* does, whatever is nested in it."""
    kept = {name: schema[name] for name in ("description", "nullable") if schema.get(name)}
    kind = schema.get("type")
    if kind == "object":
        return kept | {"type": "object", PRESERVE: True}
    if kind == "array":
        return kept | {"type": "array", "items": {PRESERVE: True}}
    return kept | {PRESERVE: True}


_QUIET: Final = re2.Options()
_QUIET.log_errors = False


@lru_cache(maxsize=1024)
def expression(pattern: str) -> Any:
    """A pattern as an API server takes it, which knows RE2's syntax; None where it does not.
    Matching takes linear time, whatever a provider's document says."""
    try:
        return re2.compile(pattern, _QUIET)
    except re2.error:
        return None
