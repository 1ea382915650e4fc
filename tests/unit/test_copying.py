"""Whether an apply would change anything, on fieldsV1 as servers write them."""

from __future__ import annotations

from typing import Any

import pytest

from kbind.copying import differs, field_differs, same, without_emptied
from kbind.managed import owned_fields
from tests.unit.build import managed

NESTED: dict[str, Any] = {".": {}}  # a map or item that is itself a member beside what is in it
TCP = 'k:{"port":80,"protocol":"TCP"}'
UDP = 'k:{"port":80,"protocol":"UDP"}'
AAA = 'k:{"port":80,"protocol":"AAA"}'
PORT: dict[str, Any] = {".": {}, "f:port": {}}
BOTH = PORT | {"f:protocol": {}}


def tcp(**more: Any) -> dict[str, Any]:
    return {"port": 80, "protocol": "TCP", "weight": 3} | more


def udp(**more: Any) -> dict[str, Any]:
    return {"port": 80, "protocol": "UDP", "weight": 3} | more


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (0.0, False, False),
        (True, True, True),
        (1, "1", False),
        (True, "true", False),
        (None, None, True),
        (None, False, False),
        (None, 0, False),
        (None, {}, False),
        ({}, [], False),
        ("", None, False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": {"b": [1, {"c": True}]}}, {"a": {"b": [1, {"c": True}]}}, True),
        ({"a": {"b": [1, {"c": True}]}}, {"a": {"b": [1, {"c": 1}]}}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        (9007199254740993, 9007199254740992.0, False),
    ],
)
def test_json_values_are_the_same_in_type_too(one: Any, other: Any, expected: bool) -> None:
    assert same(one, other) is expected
    assert same(other, one) is expected


# wanted, standing, ours, whether it differs
MAPS: list[Any] = [
    ({"a": 1}, {"a": 1}, {"f:a": {}}, False),
    ({"a": 2}, {"a": 1}, {"f:a": {}}, True),
    ({"a": 1}, {}, {"f:a": {}}, True),
    ({"a": 1}, {"a": 1, "preset": 7}, {"f:a": {}}, False),
    # removed from a map that is owned by keys
    ({"a": 1}, {"a": 1, "b": 2}, {"f:a": {}, "f:b": {}}, True),
    ({"a": 1}, {"a": 1}, {"f:a": {}, "f:b": {}}, True),
    ({}, {"a": 1}, {"f:a": {}}, True),
    # taken over by somebody else, with our value or another
    ({"a": 1}, {"a": 1}, {}, False),
    ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"f:b": {}}, True),
    # replaced whole
    ({"a": "x"}, {"a": "x", "b": "y"}, {}, True),
    ({}, {}, {}, False),
    # odd names of keys
    ({"b.c/d": "y", "f:x": 1, ".": 2}, {"b.c/d": "y", "f:x": 1, ".": 2},
     {"f:b.c/d": {}, "f:f:x": {}, "f:.": {}}, False),
    ({"b.c/d": "y"}, {"b.c/d": "y", ".": 2}, {"f:b.c/d": {}, "f:.": {}}, True),
    # nulls
    ({"a": None}, {"a": None}, {"f:a": {}}, False),
    ({"a": None, "b": 1}, {"b": 1}, {"f:a": {}, "f:b": {}}, False),
    ({"a": None, "b": 1}, {"b": 1}, {"f:b": {}}, False),
    ({"a": None}, {"a": {"b": 1}}, {"f:a": {".": {}, "f:b": {}}}, True),
    ({"a": {}}, {"a": None}, {"f:a": {}}, True),
    # other types
    ({"a": 1}, {"a": "1"}, {"f:a": {}}, True),
    ({"a": True}, {"a": 1}, {"f:a": {}}, True),
    ({"a": 1.0}, {"a": 1}, {"f:a": {}}, False),
    ({"a": [1]}, {"a": {"b": 1}}, {"f:a": {".": {}, "f:b": {}}}, True),
    ({"a": {"b": 1}}, {"a": [1]}, {"f:a": {}}, True),
    ({"a": {"b": 1}}, {"a": "text"}, {"f:a": {".": {}, "f:b": {}}}, True),
    ({"a": "text"}, {"a": {"b": 1}}, {"f:a": {".": {}, "f:b": {}}}, True),
]  # fmt: skip
PRESERVED: list[Any] = [
    ({"m": {"x": {"y": 1}}}, {"m": {"x": {"y": 1}}},
     {"f:m": {".": {}, "f:x": {".": {}, "f:y": {}}}}, False),
    ({"m": {"x": {"y": "1"}}}, {"m": {"x": {"y": 1}}},
     {"f:m": {".": {}, "f:x": {".": {}, "f:y": {}}}}, True),
    ({"m": {"x": {"y": True}}}, {"m": {"x": {"y": "true"}}},
     {"f:m": {".": {}, "f:x": {".": {}, "f:y": {}}}}, True),
    ({"a": {}, "l": [], "n": None}, {"a": {}, "l": [], "n": None},
     {"f:a": {}, "f:l": {}, "f:n": {}}, False),
    ({"l": [{"k": 1}]}, {"l": [{"k": 1, "j": 2}]}, {"f:l": {}}, True),
    ({"l": [{"k": 1}]}, {"l": [{"k": True}]}, {"f:l": {}}, True),
    ({"l": []}, {"l": [1]}, {"f:l": {}}, True),
]  # fmt: skip
SETS: list[Any] = [
    (["a", "b"], ["a", "b"], {'v:"a"': {}, 'v:"b"': {}}, False),
    (["a", "b"], ["a", "x", "b"], {'v:"a"': {}, 'v:"b"': {}}, False),
    (["b", "a"], ["a", "b"], {'v:"a"': {}, 'v:"b"': {}}, True),
    (["a"], ["a", "b"], {'v:"a"': {}, 'v:"b"': {}}, True),
    ([], ["a"], {'v:"a"': {}}, True),
    (["a", "b"], ["a", "b"], {'v:"a"': {}}, True),
    (["a", "b"], ["a"], {'v:"a"': {}, 'v:"b"': {}}, True),
    (["a", "a"], ["a"], {'v:"a"': {}}, True),
    ([1, 2], [1, 2], {"v:1": {}, "v:2": {}}, False),
    ([1.0], [1], {"v:1": {}}, False),
    ([True], [1], {"v:1": {}}, True),
    (["1"], [1], {"v:1": {}}, True),
    (["a"], {"a": 1}, {'v:"a"': {}}, True),
    (["a"], None, {'v:"a"': {}}, True),
]
KEYED: list[Any] = [
    ([{"port": 80}], [tcp()], {TCP: PORT}, False),
    ([{"port": 80, "protocol": "TCP"}], [tcp()], {TCP: BOTH}, False),
    ([{"port": 80, "protocol": "TCP"}], [tcp()], {TCP: PORT}, True),
    ([{"port": 80}], [tcp()], {TCP: BOTH}, True),
    ([{"port": 80}], [udp(), tcp()], {TCP: PORT}, False),
    ([{"port": 80}], [tcp(), udp()], {TCP: PORT, UDP: BOTH}, True),
    ([], [tcp()], {TCP: PORT}, True),
    ([{"port": 443}], [tcp()], {TCP: PORT}, True),
    ([{"port": "80"}], [tcp()], {TCP: PORT}, True),
    ([{"port": True}], [tcp(port=1)], {'k:{"port":1,"protocol":"TCP"}': PORT}, True),
    # in the order that is wanted
    ([{"port": 80}, {"port": 80, "protocol": "UDP"}], [tcp(), udp()], {TCP: PORT, UDP: BOTH},
     False),
    ([{"port": 80, "protocol": "UDP"}, {"port": 80}], [tcp(), udp()], {TCP: PORT, UDP: BOTH},
     True),
    # the item without the key is not the one that says another word than the default
    ([{"port": 80}, {"port": 80, "protocol": "AAA"}], [tcp(), udp(protocol="AAA")],
     {AAA: BOTH, TCP: PORT}, False),
    # inside of an item
    ([{"port": 80, "name": "a"}], [tcp(name="a")], {TCP: PORT | {"f:name": {}}}, False),
    ([{"port": 80, "name": "b"}], [tcp(name="a")], {TCP: PORT | {"f:name": {}}}, True),
    ([{"port": 80}], [tcp(name="a")], {TCP: PORT | {"f:name": {}}}, True),
    ([{"port": 80}], [tcp(name="theirs")], {TCP: PORT}, False),
    # what a server refuses or never has
    ([{"port": 80}, {"port": 80}], [tcp()], {TCP: PORT}, True),
    (["text"], [tcp()], {TCP: PORT}, True),
    ([{"port": 80}], {"port": 80}, {TCP: PORT}, True),
    ([{"port": 80}], ["text"], {TCP: PORT}, True),
    ([{"port": 80}], None, {TCP: PORT}, True),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "standing", "owned", "expected"), MAPS + PRESERVED)
def test_maps(wanted: Any, standing: Any, owned: dict[str, Any], expected: bool) -> None:
    assert differs(wanted, standing, owned) is expected
    assert differs(wanted, standing, owned | NESTED) is expected


@pytest.mark.parametrize(("wanted", "standing", "owned", "expected"), SETS + KEYED)
def test_lists_that_are_owned_by_entries(
    wanted: Any, standing: Any, owned: dict[str, Any], expected: bool
) -> None:
    assert differs(wanted, standing, owned) is expected


@pytest.mark.parametrize(
    ("wanted", "standing", "expected"),
    [
        ([1, 2], [1, 2], False),
        ([1, 2], [2, 1], True),
        ([], [], False),
        ([], [1], True),
        ("text", "text", False),
        ("text", ["text"], True),
        (5, 5.0, False),
        (True, 1, True),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
    ],
)
def test_what_is_owned_as_a_whole_has_to_stand_as_wanted(
    wanted: Any, standing: Any, expected: bool
) -> None:
    assert differs(wanted, standing, {}) is expected


@pytest.mark.parametrize(
    ("value", "standing", "owned", "expected"),
    [
        ({"size": 1}, {"spec": {"size": 1}}, {}, True),
        ({}, {"spec": {}}, {}, True),
        ([], {"spec": []}, {}, False),
        ([], {}, {}, True),
        ([], {"spec": ["theirs"]}, {}, True),
        ({"tags": []}, {"spec": {"tags": []}}, {}, False),
        ({"tags": []}, {"spec": {"tags": [], "preset": 7}}, {}, False),
        ({"tags": []}, {"spec": {"preset": 7}}, {}, True),
        ({"tags": []}, {"spec": None}, {}, True),
        ({"tags": []}, {}, {}, True),
        ({"tags": [], "size": 1}, {"spec": {"tags": [], "size": 1}}, {}, True),
        ({"tags": [], "size": 1}, {"spec": {"tags": [], "size": 1}},
         {"f:spec": {"f:size": {}}}, False),
        ({"tags": [], "size": 1}, {"spec": {"size": 1}}, {"f:spec": {"f:size": {}}}, True),
        ("text", {"spec": "text"}, {"f:spec": {}}, False),
        (None, {}, {"f:spec": {}}, True),
    ],
)  # fmt: skip
def test_a_field_is_ours_or_leaves_no_trace(
    value: Any, standing: dict[str, Any], owned: dict[str, Any], expected: bool
) -> None:
    assert field_differs("spec", value, standing, owned) is expected


ENTRIES = [
    managed({"f:spec": {"f:theirs": {}}}, "flux"),
    managed({"f:spec": {"f:updated": {}}}, operation="Update"),
    managed({"f:status": {}}, subresource="status"),
    managed({"f:spec": {"f:ours": {}}}),
]


def test_only_what_we_applied_to_the_main_resource_is_ours() -> None:
    target = {"metadata": {"managedFields": ENTRIES}}
    assert owned_fields(target, "kbind-konnector") == {"f:spec": {"f:ours": {}}}


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"metadata": None},
        {"metadata": {"managedFields": None}},
        {"metadata": {"managedFields": ENTRIES[:3]}},
        {"metadata": {"managedFields": [{"manager": "kbind-konnector", "operation": "Apply"}]}},
    ],
)
def test_what_was_never_applied_is_nothing(target: dict[str, Any]) -> None:
    assert owned_fields(target, "kbind-konnector") == {}


@pytest.mark.parametrize(
    ("fields", "standing", "owned", "expected"),
    [
        ({"a": 1}, {"a": 1}, {"f:a": {}}, {"a": 1}),
        ({"m": {}}, {"m": {"a": 1}}, {"f:m": {"f:a": {}}}, {}),
        ({"m": {}, "n": 1}, {"m": {"a": 1}}, {"f:m": {"f:a": {}}}, {"n": 1}),
        ({"m": {}}, {"m": {"a": 1, "theirs": 2}}, {"f:m": {"f:a": {}}}, {"m": {}}),
        ({"m": {}}, {"m": {"theirs": 2}}, {"f:m": {}}, {"m": {}}),
        ({"m": {}}, {"m": {"a": 1}}, {}, {"m": {}}),
        ({"m": {"n": {}}}, {"m": {"n": {"a": 1}}}, {"f:m": {"f:n": {".": {}, "f:a": {}}}}, {}),
        ({"l": []}, {"l": ["a"]}, {"f:l": {'v:"a"': {}}}, {}),
        ({"l": []}, {"l": [1]}, {"f:l": {}}, {"l": []}),
        ({"m": {"l": []}}, {"m": {"l": ["a"], "x": 1}}, {"f:m": {"f:l": {'v:"a"': {}}}}, {}),
        ({"m": {"l": []}}, {"m": {"l": [1]}}, {"f:m": {".": {}, "f:l": {}}}, {"m": {"l": []}}),
        ({"p": [{"port": 80, "m": {}}]}, {"p": [tcp(m={"a": 1})]},
         {"f:p": {TCP: PORT | {"f:m": {"f:a": {}}}}}, {"p": [{"port": 80}]}),
    ],
)  # fmt: skip
def test_what_is_emptied_is_left_out_first(
    fields: dict[str, Any],
    standing: dict[str, Any],
    owned: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    assert without_emptied(fields, standing, owned) == expected


def test_long_keyed_lists_are_compared_in_good_time() -> None:
    wanted = [{"name": f"n{i}", "value": "x"} for i in range(2000)]
    entry: dict[str, Any] = {".": {}, "f:name": {}, "f:value": {}}
    owned = {f'k:{{"name":"n{i}"}}': entry for i in range(2000)}
    assert not differs(wanted, wanted, owned)
