"""Values and their types together: what server-side apply is made of.

Each function walks a value along its type. Values are never changed in place; results share
what did not change.
"""

from __future__ import annotations

from typing import Any

import orjson

from kbind.jsons import encode
from kbind.testing.memory.atoms import Atom, ListType, MapType
from kbind.testing.memory.fields import OWN, FieldSet, attach, element_text, insert

Path = tuple[str, ...]

_ABSENT: Any = object()


class Untypable(Exception):
    """A value that does not fit its type; the message starts with the field's path."""


def same(left: Any, right: Any) -> bool:
    """Equal as JSON values: 1, "1" and true are three things."""
    if left is right:
        return True
    if isinstance(left, (dict, list)) and isinstance(right, (dict, list)):
        # Comparing first is cheap and settles most; Python's == alone takes true for 1.
        return left == right and _canonical(left) == _canonical(right)
    return type(left) is type(right) and bool(left == right)


def _canonical(value: Any) -> bytes:
    return encode(value, sort=True)


def element_of(kind: ListType, item: Any) -> str:
    """The path element of an item in a list of kind map or set. Raises Untypable."""
    if kind.keys:
        if item is None:
            raise Untypable("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise Untypable("associative list with keys may not have non-map elements")
        keys = {}
        for key in kind.keys:
            if key in item:
                keys[key] = item[key]
            elif key in kind.defaults:
                keys[key] = kind.defaults[key]
        if not keys:
            names = " ".join(f'"{key}"' for key in kind.keys)
            raise Untypable(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return "k:" + orjson.dumps(keys).decode()
    if isinstance(item, dict):
        raise Untypable("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise Untypable("not supported: associative list with lists as elements")
    if item is None:
        raise Untypable("associative list without keys has an element that's an explicit null")
    return "v:" + orjson.dumps(item).decode()


def validate(atom: Atom, value: Any, *, duplicates: bool) -> list[str]:
    """What does not fit, as ``.path: complaint``. duplicates: list items may repeat a key."""
    return [f"{path}: {complaint}" for path, complaint in _validate(atom, value, duplicates)]


def _validate(atom: Atom, value: Any, duplicates: bool) -> list[tuple[str, str]]:
    """Complaints with their paths below *value*; paths are only made where there is one."""
    if value is None:
        return []
    branch = atom.branch(value)
    if branch == "map":
        return _validate_map(atom.map, value, duplicates)
    if branch == "list":
        return _validate_list(atom.list, value, duplicates)
    complaint = _wrong_scalar(atom.scalar, value)
    return [("", complaint)] if complaint else []


def _validate_map(kind: MapType | None, value: Any, duplicates: bool) -> list[tuple[str, str]]:
    assert kind is not None
    if not isinstance(value, dict):
        return [("", f"expected map, got &{{{_go(value)}}}")]
    found: list[tuple[str, str]] = []
    for name, item in value.items():
        inner = kind.field(name)
        if inner is None:
            return [*found, (f".{name}", "field not declared in schema")]
        below = _validate(inner, item, duplicates)
        if below:
            found += [(f".{name}{path}", complaint) for path, complaint in below]
    return found


def _validate_list(kind: ListType | None, value: Any, duplicates: bool) -> list[tuple[str, str]]:
    assert kind is not None
    if not isinstance(value, list):
        return [("", f"expected list, got &{{{_go(value)}}}")]
    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = ""
        if kind.relation != "atomic":
            try:
                element = element_of(kind, item)
            except Untypable as reason:
                return [*found, ("", f"element {index}: {reason}")]
            if element in seen and not duplicates:
                found.append(("", f"duplicate entries for key {element_text(element)}"))
            seen.add(element)
        below = _validate(kind.element, item, duplicates)
        if below:
            place = element_text(element) if element else f"[{index}]"
            found += [(f"{place}{path}", complaint) for path, complaint in below]
    return found


def _wrong_scalar(scalar: str | None, value: Any) -> str | None:
    if scalar == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{_go(value)}}}"
    if scalar == "numeric" and (isinstance(value, bool) or not isinstance(value, (int, float))):
        return f"expected numeric (int or float), got {_go_type(value)}"
    if scalar == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{_go(value)}}}"
    if scalar == "untyped" and isinstance(value, (dict, list)):
        return f"expected any scalar, got &{{{_go(value)}}}"
    return None


def _go(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go, value))}]"
    return encode(value).decode()


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "float64")


def to_set(atom: Atom, value: Any) -> FieldSet:
    """Every field that *value* states."""
    node: FieldSet = {}
    _to_set(atom, value, node)
    node.pop(OWN, None)
    return node


def _to_set(atom: Atom, value: Any, node: FieldSet) -> None:
    branch = atom.branch(value)
    if branch == "map":
        mapping = atom.map
        assert mapping is not None
        if mapping.atomic:
            node[OWN] = {}
            return
        for name, item in (value or {}).items():
            inner = mapping.field(name)
            child: FieldSet = {}
            if inner is not None:
                _to_set(inner, item, child)
            if item is None or item == {} or not mapping.named(name):
                child[OWN] = {}
            if child:
                node[f"f:{name}"] = child
    elif branch == "list":
        kind = atom.list
        assert kind is not None
        if kind.relation == "atomic":
            node[OWN] = {}
            return
        seen: set[str] = set()
        for item in value or ():
            element = element_of(kind, item)
            child = {OWN: {}}
            if element not in seen:
                _to_set(kind.element, item, child)
            seen.add(element)
            node[element] = child
    else:
        node[OWN] = {}


class Comparison:
    """The fields that two values differ in."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: FieldSet = {}
        self.modified: FieldSet = {}
        self.removed: FieldSet = {}


def compare(atom: Atom, left: Any, right: Any) -> Comparison:
    result = Comparison()
    _compare(atom, left, right, (), result)
    return result


def _compare(atom: Atom, left: Any, right: Any, path: Path, out: Comparison) -> None:
    if left is _ABSENT:
        attach(out.added, path, _every(atom, right))
        return
    if right is _ABSENT:
        attach(out.removed, path, _every(atom, left))
        return
    if same(left, right):
        return
    leaf = False
    for branch in {atom.branch(left), atom.branch(right)}:
        if branch == "map":
            leaf |= _compare_maps(atom.map, left, right, path, out)
        elif branch == "list":
            leaf |= _compare_lists(atom.list, left, right, path, out)
        else:
            leaf = True
    if leaf and path:
        insert(out.modified, path)


def _every(atom: Atom, value: Any) -> FieldSet:
    """The node of a value that stands on one side only: it and all within it."""
    node: FieldSet = {OWN: {}}
    branch = atom.branch(value)
    if branch == "map" and isinstance(value, dict):
        mapping = atom.map
        assert mapping is not None
        if not mapping.atomic:
            for name, item in value.items():
                inner = mapping.field(name)
                if inner is not None:
                    node[f"f:{name}"] = _every(inner, item)
    elif branch == "list" and isinstance(value, list):
        kind = atom.list
        assert kind is not None
        if kind.relation != "atomic":
            for element, items in _by_element(kind, value).items():
                # Of items that repeat a key only the key is told.
                node[element] = _every(kind.element, items[0]) if len(items) == 1 else {OWN: {}}
    return node


def _compare_maps(kind: MapType | None, left: Any, right: Any, path: Path, out: Comparison) -> bool:
    """Records what is inside; True where the map counts as one field."""
    assert kind is not None
    mine = left if isinstance(left, dict) else {}
    other = right if isinstance(right, dict) else {}
    if kind.atomic or not (mine or other):
        return True
    for name in mine.keys() | other.keys():
        inner = kind.field(name)
        if inner is not None:
            _compare(
                inner,
                mine.get(name, _ABSENT),
                other.get(name, _ABSENT),
                (*path, f"f:{name}"),
                out,
            )
    return False


def _compare_lists(
    kind: ListType | None, left: Any, right: Any, path: Path, out: Comparison
) -> bool:
    assert kind is not None
    mine = left if isinstance(left, list) else []
    other = right if isinstance(right, list) else []
    if kind.relation == "atomic" or not (mine or other):
        return True
    lefts, rights = _by_element(kind, mine), _by_element(kind, other)
    for element in {**lefts, **rights}:
        before, after = lefts.get(element, []), rights.get(element, [])
        place = (*path, element)
        if len(before) <= 1 and len(after) <= 1:
            _compare(
                kind.element,
                before[0] if before else _ABSENT,
                after[0] if after else _ABSENT,
                place,
                out,
            )
        elif len(before) >= 2 and len(after) >= 2:
            if not same(before, after):
                insert(out.modified, place)
        elif len(before) >= 2:
            if after:
                _compare(kind.element, _ABSENT, after[0], place, out)
            insert(out.removed, place)
        else:
            if before:
                _compare(kind.element, before[0], _ABSENT, place, out)
            insert(out.added, place)
    return False


def _by_element(kind: ListType, items: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(element_of(kind, item), []).append(item)
    return groups


def merge(atom: Atom, left: Any, right: Any) -> Any:
    """*right* laid over *left*. Both present; None is a value like others."""
    merged = _merge(atom, left, right)
    return {} if merged is _ABSENT else merged


def _merge(atom: Atom, left: Any, right: Any) -> Any:
    if right is _ABSENT:
        return left
    branch = atom.branch(right)
    if left is not _ABSENT and right is None:
        # An explicit null takes the form of what stands there.
        branch = atom.branch(left)
    if branch == "map":
        return _merge_maps(atom.map, left, right)
    if branch == "list":
        return _merge_lists(atom.list, left, right)
    return right


def _merge_maps(kind: MapType | None, left: Any, right: Any) -> Any:
    assert kind is not None
    mine = left if isinstance(left, dict) else {}
    other = right if isinstance(right, dict) else {}
    if kind.atomic or not (mine or other):
        return right
    merged = dict(mine)
    for name, item in other.items():
        inner = kind.field(name)
        if inner is None:
            continue
        value = _merge(inner, mine.get(name, _ABSENT), item)
        if value is _ABSENT:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged or _ABSENT


def _merge_lists(kind: ListType | None, left: Any, right: Any) -> Any:
    assert kind is not None
    mine = left if isinstance(left, list) else []
    other = right if isinstance(right, list) else []
    if kind.relation == "atomic" or not (mine or other):
        return right
    rights = {element_of(kind, item): item for item in other}
    lefts: dict[str, Any] = {}
    before = [element_of(kind, item) for item in mine]
    for element, item in zip(before, mine, strict=True):
        # Items that repeat a key are not merged with, only replaced.
        lefts[element] = None if element in lefts else item
    order = list(rights)
    merged: list[Any] = []
    shared = [element for element in order if element in lefts]
    done: set[str] = set()

    def take(element: str) -> None:
        done.add(element)
        value = _merge(kind.element, lefts.get(element, _ABSENT), rights[element])
        if value is not _ABSENT:
            merged.append(value)
        if shared and shared[0] == element:
            shared.pop(0)

    i = j = 0
    while i < len(before) or j < len(order):
        if i < len(before) and j < len(order):
            if before[i] == order[j]:
                take(before[i])
                i, j = i + 1, j + 1
                continue
            if before[i] in rights and shared and shared[0] != before[i]:
                i += 1
                continue
        if i < len(before):
            if before[i] not in rights:
                merged.append(mine[i])
                i += 1
                continue
            if before[i] in done:
                i += 1
        if j < len(order):
            take(order[j])
            j += 1
    return merged or _ABSENT


def remove(atom: Atom, value: Any, fields: FieldSet) -> Any:
    """*value* without the members of *fields*; what becomes empty by it is null."""
    branch = atom.branch(value)
    if branch == "map":
        mapping = atom.map
        assert mapping is not None
        if not isinstance(value, dict) or not value or mapping.atomic:
            return None
        kept: dict[str, Any] = {}
        for name, item in value.items():
            node = fields.get(f"f:{name}")
            if node is not None and OWN in node:
                continue
            inner = mapping.field(name)
            kept[name] = remove(inner, item, node) if node and inner is not None else item
        return kept or None
    if branch == "list":
        kind = atom.list
        assert kind is not None
        if not isinstance(value, list) or not value or kind.relation == "atomic":
            return None
        left: list[Any] = []
        for item in value:
            node = fields.get(element_of(kind, item))
            if node is not None and OWN in node:
                continue
            left.append(remove(kind.element, item, node) if node else item)
        return left or None
    return value


def with_named(atom: Atom, fields: FieldSet) -> FieldSet:
    """*fields*, and each named field that has a member below it."""
    result: FieldSet = {}
    for element, node in fields.items():
        if element == OWN:
            result[OWN] = {}
            continue
        inner: Atom | None = None
        named = False
        if element[0] == "f" and atom.map is not None:
            inner = atom.map.field(element[2:])
            named = atom.map.named(element[2:])
        elif atom.list is not None:
            inner = atom.list.element
        child = with_named(inner, node) if inner is not None else node
        if named and OWN not in child:
            child = {**child, OWN: {}}
        result[element] = child
    return result
