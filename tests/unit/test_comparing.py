"""The comparison behind ``make fidelity`` counts what it says."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.comparing import Tally, compare, table

Object = dict[str, Any]

EITHER = [{"type": "integer"}, {"type": "string"}]
SPEC: Object = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [{"rule": "self.size > 1"}, {"rule": "self.size < 9"}],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 2},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": EITHER},
        "deep": {"type": "object", "properties": {"color": {"type": "string", "enum": ["red"]}}},
    },
}  # fmt: skip


def crd(spec: Object = SPEC, **version: Any) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"plural": "widgets", "kind": "Widget"}
    versions = [{"name": "v1", "schema": schema} | version]
    return {"spec": {"names": names, "scope": "Namespaced", "versions": versions}}


def missing(made: Object, original: Object | None = None) -> dict[Any, int]:
    counts = compare(original or crd(), made).counts
    return {key: count for key, count in counts.items() if key[1] != "kept"}


def without(*path: str) -> Object:
    spec = copy.deepcopy(SPEC)
    place = spec
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return spec


def test_a_crd_has_all_of_itself() -> None:
    tally = compare(crd(), crd())
    assert tally.missing == 0
    assert tally.share == 1.0
    assert tally.nodes == 6
    assert tally.counts["types", "kept"] == 5
    assert tally.counts["CEL rules", "kept"] == 2
    assert tally.counts["unions", "kept"] == 0


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (without("required"), {("required", "lost"): 1}),
        (without("properties", "size", "default"), {("defaults", "lost"): 1}),
        (SPEC | {"x-kubernetes-validations": []}, {("CEL rules", "lost"): 2}),
        (without("properties", "port"), {("int-or-string", "lost"): 1}),
        (without("properties", "deep"), {("types", "lost"): 2, ("enums", "lost"): 1}),
    ],
)
def test_what_is_gone_is_lost(spec: Object, expected: dict[Any, int]) -> None:
    assert missing(crd(spec)) == expected


def test_what_a_free_part_takes_in_is_permissive() -> None:
    spec = copy.deepcopy(SPEC)
    spec["properties"]["deep"] = {"x-kubernetes-preserve-unknown-fields": True}
    assert missing(crd(spec)) == {("types", "permissive"): 2, ("enums", "permissive"): 1}
    assert compare(crd(), crd(spec)).nodes_kept == 4


def test_what_stands_beside_the_schema_counts_too() -> None:
    original = crd(
        subresources={"status": {}, "scale": {"specReplicasPath": ".spec.size"}},
        additionalPrinterColumns=[{"name": "Size"}, {"name": "Age"}],
        selectableFields=[{"jsonPath": ".spec.size"}],
    )
    made = crd(subresources={"status": {}}, additionalPrinterColumns=[{"name": "Age"}])
    made["spec"]["names"] = {"plural": "widgets", "kind": "Other"}
    assert missing(made, original) == {
        ("names", "lost"): 1,
        ("subresources", "lost"): 1,
        ("printer columns", "lost"): 1,
        ("selectable fields", "lost"): 1,
    }


def test_only_the_versions_that_came_over_are_compared() -> None:
    original = crd()
    original["spec"]["versions"].append(crd(name="v2")["spec"]["versions"][0])
    assert compare(original, crd()).nodes == 6


def test_a_table_has_a_row_a_construct_and_the_shares_last() -> None:
    tally = compare(crd(), crd(without("properties", "size", "default")))
    rows = {row[0]: row[1:] for row in table({"OpenAPI": tally + Tally()})}
    assert rows[""] == ["OpenAPI: kept", "OpenAPI: permissive", "OpenAPI: lost"]
    assert rows["defaults"] == ["0", "0", "1"]
    assert rows["constrained nodes kept"] == ["83.3%", "", ""]
