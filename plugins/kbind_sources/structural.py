"""From an OpenAPI v3 schema, as ``references.expand`` gives it, to a structural schema, which a
CRD can hold.

What has no structural form is made permissive at the smallest spot: the result accepts all that
the original accepts, and keeps all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kbind_sources.junctors import EITHER, is_either, merged, named, nested, within
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
    TYPES,
    VALUES,
    Path,
    Schema,
    is_fit,
    says_nothing,
)
from kbind_sources.values import accepts

_RULE: Final = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
# What an API server does not take at the root beside a status subresource.
_NOT_AT_ROOT: Final = ("enum", "minProperties", "maxProperties", *JUNCTORS, "not")
_FIXED: Final = frozenset({"additionalProperties", INT_OR_STRING})


@dataclass(frozen=True, slots=True)
class Structural:
    """loosened: where something was made permissive, once for each constraint."""

    schema: Schema
    loosened: tuple[Path, ...] = ()


def structural(schema: Schema, *, cut: Iterable[Path] = (), status: bool = False) -> Structural:
    """The structural schema of a whole object. cut: where *schema* is permissive already.
    status: whether it goes with a status subresource."""
    work = _Work(cut)
    result = work.schema({"type": "object"} | schema, (), root=True)
    loosened = [*work.cut, *work.loosened]
    if result.get("type") != "object":
        result = {"type": "object", PRESERVE: True, "properties": _of_objects({})}
        loosened.append(())
    for name in ("nullable", "default", MAP_TYPE, EMBEDDED, *(_NOT_AT_ROOT if status else ())):
        if result.pop(name, None) is not None and name in _NOT_AT_ROOT:
            loosened.append(())
    return Structural(result, tuple(loosened))


class _Work:
    def __init__(self, cut: Iterable[Path]) -> None:
        self.cut = tuple(cut)
        self._above = {place[:depth] for place in self.cut for depth in range(len(place) + 1)}
        self.loosened: list[Path] = []

    def schema(self, given: Schema, path: Path, *, root: bool = False) -> Schema:
        before = len(self.loosened)
        conflicts: list[str] = []
        schema = merged(given, conflicts)
        self.loosened += [path] * len(conflicts)
        either = _is_int_or_string(schema)
        if either:
            schema = _bare(schema)
        result: Schema = {name: schema[name] for name in ANNOTATIONS if schema.get(name)}
        if schema.get("nullable") is True:
            result["nullable"] = True
        if either:
            result[INT_OR_STRING] = True
        else:
            self._shape(result, schema, path, root)
        self._values(result, schema, path)
        self._junctors(result, schema, path)
        if either:
            _add_either(result)
        self._lists(result, schema, path)
        self._rules(result, schema, path, before)
        default = schema.get("default")
        if default is not None and accepts(result, default):
            result["default"] = default
        return result

    def _shape(self, result: Schema, schema: Schema, path: Path, root: bool) -> None:
        """Type, markers and what is nested."""
        kind = self._type(result, schema, path)
        if kind is not None:
            result["type"] = kind
        if kind is None or schema.get(PRESERVE) is True:
            result[PRESERVE] = True
        if kind in (None, "object"):
            self._fields(result, schema, path, root)
        items = schema.get("items")
        if kind in (None, "array") and items is not None:
            result["items"] = self.schema(items, (*path, "[]"))
        elif kind == "array":
            result["items"] = {PRESERVE: True}

    def _type(self, result: Schema, schema: Schema, path: Path) -> str | None:
        """The type, told from what stands beside it where it is missing; None for any."""
        kind = schema.get("type")
        if isinstance(kind, list):
            if "null" in kind:
                result["nullable"] = True
            kinds = [each for each in kind if each != "null"]
            kind = kinds[0] if len(kinds) == 1 else str(kinds)
        if kind is None and schema.get(PRESERVE) is not True:
            if schema.get("properties") or schema.get("additionalProperties") is not None:
                return "object"
            if schema.get("items"):
                return "array"
            for name in ("anyOf", "oneOf"):
                kinds = [part.get("type") for part in schema.get(name) or ()]
                if kinds and kinds == kinds[:1] * len(kinds):
                    kind = kinds[0]
        if isinstance(kind, str) and kind in TYPES:
            return kind
        if kind is not None:
            self.loosened.append(path)
        return None

    def _fields(self, result: Schema, schema: Schema, path: Path, root: bool) -> None:
        embedded = schema.get(EMBEDDED) is True and "type" in result
        if embedded:
            result[EMBEDDED] = True
        given = schema.get("properties") or {}
        own = _of_objects(given) if root or embedded else {}
        fields = {
            name: self.schema(part, (*path, name))
            for name, part in given.items()
            if name not in own
        } | own
        rest = schema.get("additionalProperties")
        if isinstance(rest, dict) and rest and fields:
            # A server takes one of the two.
            self.loosened.append((*path, "*"))
        if rest is not None and rest is not False:
            if fields:
                result[PRESERVE] = True
            elif rest is True:
                result["additionalProperties"] = {PRESERVE: True}
            else:
                result["additionalProperties"] = self.schema(rest, (*path, "*"))
        if root and not given:
            # Published so where the definition's own schema could not be.
            result[PRESERVE] = True
        if not result.get(PRESERVE) and "additionalProperties" not in result:
            # Else it would be pruned before it is missed.
            for name in schema.get("required") or ():
                fields.setdefault(name, {PRESERVE: True})
        if fields:
            result["properties"] = fields

    def _values(self, result: Schema, schema: Schema, path: Path) -> None:
        for name in VALUES:
            value = schema.get(name)
            if says_nothing(value):
                continue
            if is_fit(name, value):
                result[name] = value
            else:
                self.loosened.append(path)
        if schema.get("uniqueItems"):
            self.loosened.append(path)

    def _junctors(self, result: Schema, schema: Schema, path: Path) -> None:
        _make_room(result, within(schema))
        for name in (*JUNCTORS, "not"):
            given = schema.get(name)
            if not given:
                continue
            parts = [nested(part, result) for part in ([given] if name == "not" else given)]
            kept = [part for part in parts if part is not None]
            if name == "allOf":
                self.loosened += [path] * (len(parts) - len(kept))
            elif len(kept) < len(parts):
                self.loosened.append(path)
                continue
            if kept:
                result[name] = kept[0] if name == "not" else kept

    def _lists(self, result: Schema, schema: Schema, path: Path) -> None:
        relation, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS) or []
        if result.get("type") != "array":
            relation = None
        if relation == "atomic":
            result[LIST_TYPE] = relation
        elif relation in ("set", "map"):
            items = result["items"]
            if _is_map(items, keys) if relation == "map" else _is_set(items):
                result[LIST_TYPE] = relation
                if relation == "map":
                    result[LIST_KEYS] = keys
            else:
                self.loosened.append(path)
        if result.get(LIST_TYPE) != "map":
            for part in parts(result.get("items") or {}):
                self._drop_transitions(part, path)
        if schema.get(MAP_TYPE) in ("atomic", "granular") and result.get("type") == "object":
            result[MAP_TYPE] = schema[MAP_TYPE]

    def _drop_transitions(self, part: Schema, path: Path) -> None:
        """A server takes rules that look back at oldSelf only where it can find the old item."""
        rules = part.get(RULES, ())
        kept = [rule for rule in rules if "oldSelf" not in rule["rule"]]
        self.loosened += [path] * (len(rules) - len(kept))
        if len(kept) < len(rules):
            part[RULES] = kept

    def _rules(self, result: Schema, schema: Schema, path: Path, before: int) -> None:
        """CEL rules, where all that they may speak of is as it was."""
        rules = [rule for rule in schema.get(RULES) or () if rule.get("rule")]
        touched = len(self.loosened) > before
        if touched or path in self._above:
            self.loosened += [path] * len(rules)
        elif rules:
            result[RULES] = [
                {name: rule[name] for name in _RULE if rule.get(name) not in (None, "")}
                for rule in rules
            ]


def _is_int_or_string(schema: Schema) -> bool:
    marked = schema.get(INT_OR_STRING) is True or schema.get("format") == "int-or-string"
    return marked or is_either(schema.get("oneOf")) or is_either(schema.get("anyOf"))


def _bare(schema: Schema) -> Schema:
    """An int-or-string without the ways to say so."""
    without = ("type", PRESERVE, EMBEDDED, LIST_TYPE, MAP_TYPE)
    bare = {name: value for name, value in schema.items() if name not in without}
    if bare.get("format") == "int-or-string":
        del bare["format"]
    for name in ("oneOf", "anyOf"):
        if is_either(bare.get(name)):
            del bare[name]
    if "allOf" in bare:
        bare["allOf"] = [part for part in bare["allOf"] if not is_either(part.get("anyOf"))]
    return bare


def _add_either(result: Schema) -> None:
    """The alternatives spelled out beside the marker, as a server publishes them."""
    either = [dict(part) for part in EITHER]
    if "anyOf" not in result:
        result["anyOf"] = either
    else:
        result["allOf"] = [{"anyOf": either}, *result.get("allOf", ())]


def _of_objects(given: Schema) -> Schema:
    """The fields of every object. The server knows metadata itself, and takes no word on it."""
    texts = {}
    for name in ("apiVersion", "kind"):
        described = given.get(name, {}).get("description")
        texts[name] = ({"description": described} if described else {}) | {"type": "string"}
    return texts | {"metadata": {"type": "object"}}


def _make_room(around: Schema, parts: list[Schema]) -> None:
    """Fields that only junctors name, so that they are not pruned."""
    for part in named(parts):
        if isinstance(part.get("items"), dict) and "items" in around:
            _make_room(around["items"], [part["items"]])
        if around.get("type", "object") != "object" or not _FIXED.isdisjoint(around):
            continue
        if part.get(PRESERVE) or part.get("additionalProperties") not in (None, False):
            around[PRESERVE] = True
        for name, inner in (part.get("properties") or {}).items():
            fields = around.setdefault("properties", {})
            _make_room(fields.setdefault(name, {PRESERVE: True}), [inner])


def _is_set(items: Schema) -> bool:
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        return False
    return items.get(LIST_TYPE, "atomic") == "atomic" and not items.get("nullable")


def _is_map(items: Schema, keys: list[str]) -> bool:
    fields, must = items.get("properties") or {}, items.get("required", ())
    if items.get("type") != "object" or items.get("nullable") or not keys:
        return False
    return len(set(keys)) == len(keys) and all(
        name in fields
        and fields[name].get("type") not in ("array", "object")
        and not fields[name].get("nullable")
        and (name in must or "default" in fields[name])
        for name in keys
    )


def parts(schema: Schema) -> Iterator[Schema]:
    """A structural schema and all that is nested in it, junctors aside."""
    yield schema
    inner = [*(schema.get("properties") or {}).values()]
    inner += [schema[name] for name in ("items", "additionalProperties") if name in schema]
    for part in inner:
        yield from parts(part)
