"""What merging knows of a type: scalar, list or map, and how lists and maps are merged.

Made from OpenAPI schemas as the API server does it. A position without a type may be any of
the three; free-form objects are merged key by key, free-form lists are replaced whole.
Sub-types are made when first asked for, because real CRDs hold thousands of fields.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

UNTYPED: Final = "untyped"
_NUMERIC: Final = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}


class Atom:
    """scalar: None, or one of untyped, numeric, string, boolean."""

    __slots__ = ("list", "map", "scalar")

    def __init__(
        self,
        scalar: str | None = None,
        list: ListType | None = None,
        map: MapType | None = None,
    ) -> None:
        self.scalar = scalar
        self.list = list
        self.map = map

    def branch(self, value: Any) -> str:
        """Which of scalar, list and map to treat *value* as."""
        if isinstance(value, dict):
            if self.map is not None:
                return "map"
        elif isinstance(value, list):
            if self.list is not None:
                return "list"
        elif value is not None and self.scalar is not None:
            return "scalar"
        if self.map is not None:
            return "map"
        return "scalar" if self.scalar is not None else "list"


class ListType:
    """relation: atomic, map (by *keys*) or set."""

    __slots__ = ("_element", "_inherited", "_schema", "defaults", "keys", "relation")

    def __init__(self, schema: Schema | None, inherited: bool) -> None:
        self._schema = schema
        self._inherited = inherited
        self._element: Atom | None = None
        schema = schema or {}
        self.relation: str = schema.get("x-kubernetes-list-type", "atomic")
        self.keys: tuple[str, ...] = tuple(sorted(schema.get("x-kubernetes-list-map-keys", ())))
        properties = schema.get("items", {}).get("properties", {}) if self.keys else {}
        self.defaults = {
            key: properties[key]["default"]
            for key in self.keys
            if properties.get(key, {}).get("default") is not None
        }

    @property
    def element(self) -> Atom:
        if self._element is None:
            items = (self._schema or {}).get("items")
            self._element = WHOLE if items is None else compile_atom(items, self._inherited)
        return self._element


class MapType:
    """atomic: replaced whole."""

    __slots__ = ("_fields", "_free", "_inherited", "_properties", "_rest", "_rest_known", "atomic")

    def __init__(self, schema: Schema | None, inherited: bool, *, atomic: bool = False) -> None:
        schema = schema or {}
        self._inherited = inherited
        self._properties: dict[str, Schema] = schema.get("properties") or {}
        self._fields: dict[str, Atom] = {}
        self._free = schema.get("additionalProperties")
        self._rest: Atom | None = None
        self._rest_known = False
        self.atomic = atomic or schema.get("x-kubernetes-map-type") == "atomic"

    def named(self, name: str) -> bool:
        """Is it a field that the schema names?"""
        return name in self._properties

    def field(self, name: str) -> Atom | None:
        """The type of a value, None where the schema has no place for it."""
        found = self._fields.get(name)
        if found is not None:
            return found
        schema = self._properties.get(name)
        if schema is None:
            return self.rest
        atom = self._fields[name] = compile_atom(schema, self._inherited)
        return atom

    @property
    def rest(self) -> Atom | None:
        """The type of values under names that the schema does not give."""
        if not self._rest_known:
            if isinstance(self._free, dict):
                self._rest = compile_atom(self._free, self._inherited)
            elif self._free is True or (
                self._free is None and (self._inherited or not self._properties)
            ):
                self._rest = DEDUCED
            self._rest_known = True
        return self._rest


class _Free(MapType):
    """A map of whatever comes, each value treated like the map itself or replaced whole."""

    __slots__ = ()

    def bind(self, rest: Atom) -> None:
        self._rest = rest
        self._rest_known = True


def _free(*, atomic: bool) -> Atom:
    mapping = _Free(None, inherited=True, atomic=atomic)
    return Atom(UNTYPED, ListType(None, inherited=True), mapping)


WHOLE: Final = _free(atomic=True)
DEDUCED: Final = _free(atomic=False)
for _atom in (WHOLE, DEDUCED):
    assert isinstance(_atom.map, _Free)
    _atom.map.bind(_atom)


def compile_atom(schema: Schema, inherited: bool = False) -> Atom:
    """inherited: an enclosing schema preserves unknown fields."""
    inherited = inherited or schema.get("x-kubernetes-preserve-unknown-fields") is True
    if schema.get("x-kubernetes-embedded-resource"):
        schema = _with_object_fields(schema)
    kind = schema.get("type")
    if kind == "object":
        return Atom(map=MapType(schema, inherited))
    if kind == "array":
        return Atom(list=ListType(schema, inherited))
    if kind is None:
        return Atom(UNTYPED, ListType(schema, inherited), MapType(schema, inherited))
    return Atom(scalar=_NUMERIC.get(kind, "string"))


def compile_root(schema: Schema) -> Atom:
    """The type of a whole object, whose metadata has a type of its own."""
    return compile_atom({**_with_object_fields(schema), "type": "object"})


def _with_object_fields(schema: Schema) -> Schema:
    properties = {**(schema.get("properties") or {}), "metadata": METADATA}
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string"}
    return {**schema, "properties": properties}


_STRING: Final[Schema] = {"type": "string"}
_STRINGS: Final[Schema] = {"type": "object", "additionalProperties": _STRING}

METADATA: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": _STRING,
        "generateName": _STRING,
        "namespace": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
        "resourceVersion": _STRING,
        "generation": {"type": "integer"},
        "creationTimestamp": _STRING,
        "deletionTimestamp": _STRING,
        "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    "apiVersion": _STRING,
                    "kind": _STRING,
                    "name": _STRING,
                    "uid": _STRING,
                    "controller": {"type": "boolean"},
                    "blockOwnerDeletion": {"type": "boolean"},
                },
            },
        },
        "managedFields": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
}
