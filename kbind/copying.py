"""What travels between an instance and its copy, and whether it already stands there.

Pure. Values are JSON values: 1, "1" and true are three things, 1 and 1.0 are one (servers store
the latter as the former).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values; Python alone would take True for 1."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(value, other[name]) for name, value in one.items())
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def owned_fields(target: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """The fieldsV1 tree that *manager* applied to the main resource of *target*; {} where it
    never did. Source: metadata.managedFields of server-side apply."""
    for entry in (target.get("metadata") or {}).get("managedFields") or ():
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            fields: dict[str, Any] = entry.get("fieldsV1") or {}
            return fields
    return {}


def differs(wanted: Any, standing: Any, owned: Mapping[str, Any]) -> bool:
    """Whether applying *wanted* would change *standing*, as far as can be told without asking.

    owned: our fieldsV1 subtree at this place; {} where the place is owned as a whole, and then
    it must stand as wanted. In maps and lists that are owned by parts, what stands there beyond
    *wanted* counts only where it is ours (a removal to be made); the rest are defaults of the
    server or fields of others.
    """
    if isinstance(wanted, dict) and any(name.startswith("f:") for name in owned):
        return _map_differs(wanted, standing, owned)
    if isinstance(wanted, list) and any(name.startswith("k:") for name in owned):
        return _keyed_list_differs(wanted, standing, owned)
    if isinstance(wanted, list) and any(name.startswith("v:") for name in owned):
        return _set_differs(wanted, standing, owned)
    return not same(wanted, standing)


def _map_differs(wanted: Mapping[str, Any], standing: Any, owned: Mapping[str, Any]) -> bool:
    if not isinstance(standing, dict):
        return True
    for name, value in wanted.items():
        if value is None and name not in standing:
            continue  # servers drop nulls on their way in
        below = owned.get(f"f:{name}")
        # Where somebody else took the field over, it has to be owned again.
        if below is None or name not in standing or differs(value, standing[name], below):
            return True
    return any(name.startswith("f:") and name[2:] not in wanted for name in owned)


def _set_differs(wanted: list[Any], standing: Any, owned: Mapping[str, Any]) -> bool:
    if not isinstance(standing, list):
        return True
    ours = [orjson.loads(name[2:]) for name in owned if name.startswith("v:")]
    return not all(any(same(value, own) for own in ours) for value in wanted) or not all(
        any(same(own, value) for value in wanted) and any(same(own, there) for there in standing)
        for own in ours
    )


def _keyed_list_differs(wanted: list[Any], standing: Any, owned: Mapping[str, Any]) -> bool:
    if not isinstance(standing, list):
        return True
    ours = {name: orjson.loads(name[2:]) for name in owned if name.startswith("k:")}
    met = set()
    place = -1
    for item in wanted:
        if not isinstance(item, dict):
            return True
        # A key that the item leaves out was defaulted by the server.
        name = next(
            (
                name
                for name, keys in ours.items()
                if name not in met and all(same(item.get(k, v), v) for k, v in keys.items())
            ),
            None,
        )
        if name is None:
            return True
        met.add(name)
        found = _find(standing, ours[name])
        if found <= place:
            return True  # missing, or in another order than wanted
        place = found
        if differs(item, standing[place], owned[name]):
            return True
    return len(met) != len(ours)


def _find(items: list[Any], keys: Mapping[str, Any]) -> int:
    for index, item in enumerate(items):
        if isinstance(item, dict) and all(k in item and same(item[k], v) for k, v in keys.items()):
            return index
    return -1
