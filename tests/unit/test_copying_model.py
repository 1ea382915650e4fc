"""The comparison held against server-side apply itself, over specs of every shape."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.unit.things import Object, Refused, Server, needs_apply, owned

SERVER = Server()
NAMES = count()

numbers = st.integers(0, 2)
letters = st.sampled_from("abc")


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=fields)


def sets() -> st.SearchStrategy[list[str]]:
    return st.lists(letters, max_size=3, unique=True)


def _port_key(port: Object) -> tuple[Any, ...]:
    return port["port"], port.get("protocol", "TCP")


ports = st.lists(
    st.fixed_dictionaries(
        {"port": st.sampled_from([80, 443])},
        optional={
            "protocol": st.sampled_from(["AAA", "TCP", "UDP"]),
            "name": letters,
            "weight": numbers,
            "tags": st.dictionaries(letters, letters, max_size=1),
        },
    ),
    max_size=3,
    unique_by=_port_key,
)
scalars = st.sampled_from([0, 1, True, False, "1", "", 1.5])
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(letters, inner, max_size=2),
    max_leaves=5,
)


def leaves_trace(value: Any) -> bool:
    """Not so for specs of nothing but empty granular lists, of which an applier owns nothing;
    servers drop such a spec at the next apply, whatever it says."""
    if isinstance(value, dict):
        return not value or any(map(leaves_trace, value.values()))
    return not (isinstance(value, list) and not value)


specs = some(
    size=numbers,
    preset=numbers,
    labels=st.dictionaries(letters, letters, max_size=2),
    maps=st.dictionaries(letters, some(a=numbers, b=numbers), max_size=2),
    nested=some(tags=sets(), x=numbers, y=numbers),
    whole_list=st.lists(numbers, max_size=2),
    whole_map=st.dictionaries(letters, letters, max_size=2),
    tags=sets(),
    ports=ports,
    free=st.dictionaries(letters, anything, max_size=2),
).filter(leaves_trace)


def has_empties(value: Any) -> bool:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return not value or any(map(has_empties, inner))
    return False


# Who wrote what before: us, or another applier that takes everything it names. Where two hold one
# map that is empty, no apply of one of them takes away the last entry.
histories = st.lists(
    st.tuples(st.just("us"), specs)
    | st.tuples(st.just("other"), specs.filter(lambda spec: not has_empties(spec))),
    max_size=3,
)


def live(history: list[tuple[str, Object]], wanted: Object) -> tuple[str, Object]:
    """An object with that past; its name. Now and then *wanted* is what stands there."""
    name = f"thing-{next(NAMES)}"
    thing = SERVER.deliver(name, wanted if not history else history[0][1], None)
    for who, spec in history:
        if who == "us":
            thing = SERVER.deliver(name, spec, thing)
            continue
        try:
            thing = SERVER.apply(name, spec, "other")
        except Refused:  # the other one emptied a map, which is its own trouble
            assume(False)
    return name, thing


def state(thing: Object) -> tuple[Any, Any, str]:
    return thing.get("spec"), owned(thing), thing["metadata"]["resourceVersion"]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(histories, specs)
def test_where_nothing_differs_an_apply_would_change_nothing(
    history: list[tuple[str, Object]], wanted: Object
) -> None:
    name, thing = live(history, wanted)
    differs = needs_apply(wanted, thing)
    event(f"differs: {differs}")
    if not differs:
        after = SERVER.apply(name, wanted)
        assert after.get("spec") == thing.get("spec")
        if all(who == "us" for who, _ in history):
            assert owned(after) == owned(thing)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(histories, specs)
def test_after_a_delivery_nothing_differs(
    history: list[tuple[str, Object]], wanted: Object
) -> None:
    name, thing = live(history, wanted)
    after = SERVER.deliver(name, wanted, thing)
    differs = needs_apply(wanted, after)
    empties = has_empties(wanted) or any(has_empties(spec) for _, spec in history)
    event(f"empties: {empties}, differs: {differs}")
    if not empties:
        assert not differs
    elif differs:
        # An empty map that others or defaults have filled may be one that is to be emptied, and
        # empty lists that nobody owns confuse servers once. Both are at rest one apply later.
        later = SERVER.apply(name, wanted)
        assert not needs_apply(wanted, later) or state(SERVER.apply(name, wanted)) == state(later)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(specs, specs)
def test_what_is_delivered_stands_there_and_what_was_ours_before_is_gone(
    before: Object, wanted: Object
) -> None:
    name, thing = live([("us", before)], before)
    after = SERVER.deliver(name, wanted, thing)
    fresh = SERVER.deliver(f"{name}-fresh", wanted, None)
    if not has_empties(before) and not has_empties(wanted):
        assert after.get("spec") == fresh.get("spec")
        assert owned(after) == owned(fresh)


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ({"labels": {"a": "x"}}, {"labels": {}}),
        ({"labels": {"a": "x"}, "size": 1}, {"labels": {}, "size": 1}),
        ({"maps": {"a": {"b": 1}}}, {"maps": {"a": {}}}),
        ({"maps": {"a": {"b": 1}}}, {"maps": {}}),
        ({"tags": ["a"], "size": 1}, {"tags": [], "size": 1}),
        ({"ports": [{"port": 80}], "size": 1}, {"ports": [], "size": 1}),
        (
            {"ports": [{"port": 80, "tags": {"a": "x"}}], "size": 1},
            {"ports": [{"port": 80, "tags": {}}], "size": 1},
        ),
        ({"nested": {"tags": ["a"]}, "size": 1}, {"nested": {"tags": []}, "size": 1}),
        ({"free": {"a": {"b": 1}}}, {"free": {"a": {}}}),
        ({"free": {"a": {"b": 1}}}, {"free": {}}),
        ({"size": 1}, {}),
        ({"whole_map": {"a": "x"}}, {"whole_map": {}}),
        ({"whole_list": [1]}, {"whole_list": []}),
    ],
)
def test_emptied_maps_and_lists_arrive_as_empty(before: Object, wanted: Object) -> None:
    name, thing = live([("us", before)], before)
    after = SERVER.deliver(name, wanted, thing)
    assert _without_presets(after["spec"]) == wanted
    assert not needs_apply(wanted, after) or wanted == {}


def _without_presets(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_presets(item) for name, item in value.items()}
        for preset in ("preset", "weight", "protocol", "x"):
            kept.pop(preset, None)
        return kept
    return [_without_presets(item) for item in value] if isinstance(value, list) else value


def test_a_map_that_others_still_fill_is_not_sent_twice() -> None:
    name, _ = live([("us", {"labels": {"a": "x"}})], {})
    thing = SERVER.apply(name, {"labels": {"b": "y"}}, "other")
    after = SERVER.deliver(name, {"labels": {}}, thing)
    assert after["spec"]["labels"] == {"b": "y"}
