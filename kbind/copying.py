"""What travels between an instance and its copy, and whether it already stands there.

Pure. Values are JSON values: 1, "1" and true are three things, 1 and 1.0 are one (servers store
the latter as the former).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


def field_differs(
    name: str, value: Any, standing: Mapping[str, Any], owned: Mapping[str, Any]
) -> bool:
    """``differs`` for the field *name* of a map that stands there and is owned by parts."""
    below = owned.get(f"f:{name}")
    if below is None:
        if not _leaves_no_trace(value, None):
            return True  # never ours, or somebody else took it over: to be owned again
        if isinstance(value, dict):
            return _map_differs(value, standing.get(name), {})
    return name not in standing or differs(value, standing[name], below or {})


def _leaves_no_trace(value: Any, owned: Mapping[str, Any] | None) -> bool:
    """Whether an applier may own nothing of *value*: an empty list is in no fieldsV1 unless it
    is atomic, as one that *owned* has as a whole, and neither is a map of nothing else."""
    if isinstance(value, dict):
        below = owned or {}
        return bool(value) and all(
            _leaves_no_trace(item, below.get(f"f:{name}")) for name, item in value.items()
        )
    return isinstance(value, list) and not value and owned != {}


def _map_differs(wanted: Mapping[str, Any], standing: Any, owned: Mapping[str, Any]) -> bool:
    if not isinstance(standing, dict):
        return True
    for name, value in wanted.items():
        if value is None and name not in standing:
            continue  # servers drop nulls on their way in
        if field_differs(name, value, standing, owned):
            return True
    return any(name.startswith("f:") and name[2:] not in wanted for name in owned)


def _set_differs(wanted: list[Any], standing: Any, owned: Mapping[str, Any]) -> bool:
    if not isinstance(standing, list):
        return True
    ours = [orjson.loads(name[2:]) for name in owned if name.startswith("v:")]
    place = -1
    for value in wanted:
        found = next((i for i, there in enumerate(standing) if same(value, there)), -1)
        if found <= place or not any(same(value, own) for own in ours):
            return True  # missing, in another order than wanted, or not ours
        place = found
    return len(wanted) != len(ours)


def _keyed_list_differs(wanted: list[Any], standing: Any, owned: Mapping[str, Any]) -> bool:
    if not isinstance(standing, list):
        return True
    names = _names(wanted, owned)
    places = _places(standing, owned)
    place = -1
    for item, name in zip(wanted, names, strict=True):
        found = -1 if name is None else places.get(name, -1)
        if name is None or found <= place:
            return True  # not ours, missing, or in another order than wanted
        place = found
        if differs(item, standing[place], owned[name]):
            return True
    return len(wanted) != len(_keys(owned))


def _keys(owned: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What each ``k:`` of a keyed list says."""
    return {name: orjson.loads(name[2:]) for name in owned if name.startswith("k:")}


def _names(items: list[Any], owned: Mapping[str, Any]) -> list[str | None]:
    """Under which ``k:`` of *owned* each item goes; None for those that we do not own. A key
    that an item leaves out was defaulted by the server."""
    places = _places(items, owned)
    found: dict[int, str] = {place: name for name, place in places.items()}
    left = {name: keys for name, keys in _keys(owned).items() if name not in places}
    for place, item in enumerate(items):
        if place not in found and isinstance(item, dict):
            for name, keys in left.items():
                if all(same(item.get(key, value), value) for key, value in keys.items()):
                    found[place] = name
                    del left[name]
                    break
    return [found.get(place) for place in range(len(items))]


def _places(items: list[Any], owned: Mapping[str, Any]) -> dict[str, int]:
    """Where each ``k:`` of *owned* stands, among *items* that spell out all of their keys."""
    keys = _keys(owned)
    spelled = next(iter(keys.values()), {})
    index: dict[bytes, int] = {}
    for place, item in enumerate(items):
        if isinstance(item, dict) and all(key in item for key in spelled):
            index.setdefault(_canonical({key: item[key] for key in spelled}), place)
    return {name: index[text] for name, k in keys.items() if (text := _canonical(k)) in index}


def _canonical(keys: Mapping[str, Any]) -> bytes:
    return orjson.dumps(keys, option=orjson.OPT_SORT_KEYS)


def without_emptied(
    fields: Mapping[str, Any], standing: Mapping[str, Any], owned: Mapping[str, Any]
) -> dict[str, Any]:
    """*fields* without the maps and lists that are to be emptied of what we own in them.

    Servers that are to take away the last of our entries in a map or list make it null, or drop
    what is around it, though ``{}`` or ``[]`` was applied. After one apply without it, it is
    taken as it is. (structured-merge-diff, issue 305.)
    """
    kept = {}
    for name, value in fields.items():
        rest = _without_emptied(value, standing.get(name), owned.get(f"f:{name}"))
        if rest is not _LEFT_OUT:
            kept[name] = rest
    return kept


_LEFT_OUT: Final = object()


def _without_emptied(value: Any, standing: Any, owned: Mapping[str, Any] | None) -> Any:
    if owned is None:
        return value
    if _leaves_no_trace(value, owned):
        return _LEFT_OUT
    rest = value
    if isinstance(value, dict) and isinstance(standing, dict):
        rest = without_emptied(value, standing, owned)
    elif isinstance(value, list) and isinstance(standing, list):
        places = _places(standing, owned)
        rest = [
            without_emptied(item, standing[places[name]], owned[name]) if name in places else item
            for item, name in zip(value, _names(value, owned), strict=True)
        ]
    ours = sum(name != "." for name in owned)
    if rest in ({}, []) and ours and isinstance(standing, dict | list) and len(standing) <= ours:
        return _LEFT_OUT
    return rest
