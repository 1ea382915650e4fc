"""Sets of fields, in the very shape that managedFields carry (FieldsV1).

A set is a tree of dicts by path element: ``f:<field>``, ``k:<json of list-map keys>``,
``v:<json of a set's value>``. A node is itself a member where it holds the key ``"."``. On the
wire a member without children is ``{}``; in here every member says so, which makes the algebra
uniform. Sets are never changed once built; functions return new ones and share what stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

FieldSet = dict[str, Any]

OWN: Final = "."


def decode(wire: FieldSet) -> FieldSet:
    """FieldsV1 as a set."""
    return {
        element: {} if element == OWN else decode(child) if child else {OWN: {}}
        for element, child in wire.items()
    }


def encode(fields: FieldSet) -> FieldSet:
    """A set as FieldsV1, its elements sorted."""
    wire: FieldSet = {}
    for element in sorted(fields):
        child = fields[element]
        wire[element] = (
            {} if element == OWN or (OWN in child and len(child) == 1) else encode(child)
        )
    return wire


def insert(fields: FieldSet, path: tuple[str, ...]) -> None:
    """Make *path* a member of a set that is still being built."""
    for element in path:
        fields = fields.setdefault(element, {})
    fields[OWN] = {}


def attach(fields: FieldSet, path: tuple[str, ...], node: FieldSet) -> None:
    """Put *node* at *path* of a set that is still being built, where nothing is yet."""
    for element in path[:-1]:
        fields = fields.setdefault(element, {})
    fields[path[-1]] = node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not right:
        return left
    if not left:
        return right
    merged = dict(left)
    for element, child in right.items():
        mine = merged.get(element)
        merged[element] = child if mine is None else union(mine, child)
    return merged


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of both."""
    both: FieldSet = {}
    for element, child in left.items():
        other = right.get(element)
        if other is None:
            continue
        if element == OWN:
            both[OWN] = {}
        elif inner := intersection(child, other):
            both[element] = inner
    return both


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of left that are not members of right; children of a removed member stay."""
    if not right:
        return left
    rest: FieldSet = {}
    for element, child in left.items():
        other = right.get(element)
        if other is None:
            rest[element] = child
        elif element != OWN and (inner := difference(child, other)):
            rest[element] = inner
    return rest


def without(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of left that are neither in right nor below a member of right."""
    rest: FieldSet = {}
    for element, child in left.items():
        other = right.get(element)
        if other is None:
            rest[element] = child
        elif element != OWN and OWN not in other and (inner := without(child, other)):
            rest[element] = inner
    return rest


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member: those of one node first, then what is below, each sorted."""
    elements = sorted(element for element in fields if element != OWN)
    for element in elements:
        if OWN in fields[element]:
            yield (*prefix, element)
    for element in elements:
        yield from paths(fields[element], (*prefix, element))


def text(path: tuple[str, ...]) -> str:
    """A path as the server prints it: ``.spec.env[name="A"].value``."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    kind, rest = element[0], element[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = orjson.loads(rest)
        return "[" + ",".join(f"{key}={_scalar(value)}" for key, value in keys.items()) + "]"
    return f"[={_scalar(orjson.loads(rest))}]"


def _scalar(value: Any) -> str:
    return orjson.dumps(value).decode()
