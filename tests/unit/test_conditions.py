"""Conditions: complete, and stamped only when their status flips."""

from __future__ import annotations

from typing import Any

import pytest

from kbind.conditions import (
    Judgement,
    Status,
    judged,
    standing_synced,
    takes_conditions,
    with_synced,
    without_synced,
)
from kbind.words import Condition, Reason

THEN, NOW = "2025-01-01T00:00:00Z", "2026-01-02T03:04:05Z"
FOREIGN, OWNED = Reason.FOREIGN_OBJECT_EXISTS, Reason.OWNED_BY_ANOTHER


def standing(kind: str = "Ready", status: str = "False", **fields: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": "Pending",
        "message": "wait",
        "observedGeneration": 1,
        "lastTransitionTime": THEN,
    } | fields


def judge(status: Status, before: list[dict[str, Any]], message: str = "") -> list[dict[str, Any]]:
    said = Judgement(Condition.READY, status, Reason.AS_EXPECTED, message)
    return judged([said], before, generation=3, now=NOW)


def test_a_new_condition_is_complete() -> None:
    assert judge("True", []) == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AsExpected",
            "message": "",
            "observedGeneration": 3,
            "lastTransitionTime": NOW,
        }
    ]
    assert all(type(value) in (str, int) for value in judge("True", [])[0].values())


@pytest.mark.parametrize(
    ("before", "after", "since"),
    [
        ("False", "True", NOW),
        ("True", "False", NOW),
        ("Unknown", "False", NOW),
        ("False", "False", THEN),
        ("Unknown", "Unknown", THEN),
    ],
)
def test_the_transition_time_changes_with_the_status_alone(
    before: str, after: Status, since: str
) -> None:
    said = judge(after, [standing(status=before)], "other words")[0]
    assert (said["lastTransitionTime"], said["message"]) == (since, "other words")
    assert said["reason"] == "AsExpected"


def test_a_condition_that_stands_without_a_time_gets_one() -> None:
    incomplete = standing()
    del incomplete["lastTransitionTime"]
    assert judge("False", [incomplete])[0]["lastTransitionTime"] == NOW


def test_conditions_of_others_and_the_order_stay() -> None:
    others = [standing("Custom"), standing(), standing("Last")]
    said = judge("True", others)
    assert [entry["type"] for entry in said] == ["Custom", "Ready", "Last"]
    assert said[::2] == others[::2]
    assert others[1]["status"] == "False"


def test_judging_again_changes_nothing() -> None:
    once = judge("True", [standing()])
    assert (
        judged(
            [Judgement(Condition.READY, "True", Reason.AS_EXPECTED)],
            once,
            generation=3,
            now="later",
        )
        == once
    )


def test_a_message_is_cut_to_what_the_schema_takes() -> None:
    assert len(judge("False", [], "x" * 40000)[0]["message"]) == 32768


# --- Synced on instances ---------------------------------------------------------------------


def synced(reason: str = FOREIGN, status: str = "False", **fields: Any) -> dict[str, Any]:
    return {
        "type": "Synced",
        "status": status,
        "reason": reason,
        "message": "no",
        "lastTransitionTime": THEN,
    } | fields


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, False),
        ({}, False),
        ("text", False),
        ([], False),
        ({"conditions": None}, False),
        ({"conditions": [None, "text", standing()]}, False),
        ({"conditions": [synced()]}, True),
        ({"conditions": [standing(), synced()]}, True),
        ({"conditions": [synced(OWNED)]}, False),
        ({"conditions": [synced(message="other words")]}, False),
        ({"conditions": [synced("Reconciled", "True")]}, True),
        ({"conditions": [{"type": "Synced"}]}, True),
    ],
)
def test_a_refusal_stands_or_the_word_is_somebody_elses(status: Any, expected: bool) -> None:
    assert standing_synced(status, FOREIGN, "no") is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, True),
        ({}, True),
        ({"conditions": None}, True),
        ({"conditions": []}, True),
        ({"conditions": {}}, False),
        ({"conditions": "text"}, False),
        ("text", False),
        ([], False),
        (0, False),
    ],
)
def test_a_condition_fits_only_beside_what_is_no_loss(status: Any, expected: bool) -> None:
    assert takes_conditions(status) is expected


@pytest.mark.parametrize(
    ("status", "since", "others"),
    [
        (None, NOW, []),
        ({"phase": "x"}, NOW, []),
        ({"conditions": [standing()]}, NOW, [standing()]),
        ({"conditions": [synced(OWNED), standing()]}, THEN, [standing()]),
        ({"conditions": [{"type": "Synced", "reason": OWNED}]}, NOW, []),
    ],
)
def test_a_refusal_is_added_once_and_dated_from_the_first(
    status: Any, since: str, others: list[Any]
) -> None:
    before = repr(status)
    said = with_synced(status, FOREIGN, "no", NOW)
    assert said == (status or {}) | {"conditions": [*others, synced(lastTransitionTime=since)]}
    assert repr(status) == before


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"a": 1, "conditions": [synced(), standing()]}, {"a": 1, "conditions": [standing()]}),
        ({"a": 1, "conditions": [synced(OWNED)]}, {"a": 1}),
    ],
)
def test_a_refusal_that_is_over_is_taken_out(status: Any, expected: Any) -> None:
    before = repr(status)
    assert without_synced(status) == expected
    assert repr(status) == before


@pytest.mark.parametrize(
    "status",
    [None, "text", [], {}, {"conditions": []}, {"conditions": [synced("Reconciled", "True")]}],
)
def test_what_is_not_ours_is_left_as_it_is(status: Any) -> None:
    assert without_synced(status) is status


def test_taking_out_undoes_putting_in() -> None:
    for status in ({"a": 1}, {"a": 1, "conditions": [standing()]}):
        assert without_synced(with_synced(status, FOREIGN, "no", NOW)) == status
