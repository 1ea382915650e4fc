"""Whose a copy is, told from its two markers alone."""

from __future__ import annotations

from typing import Any

import pytest

from kbind import words
from kbind.facts import Copy
from kbind.ownership import markers, owner, refusal

ONE = {words.CLUSTER_UID: "c"}
TWO = {words.OBJECT_UID: "u"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"annotations": ONE | TWO}, Copy.OURS),
        ({"annotations": ONE | TWO | {"more": "x"}}, Copy.OURS),
        ({"annotations": ONE | TWO, "deletionTimestamp": "now"}, Copy.GOING),
        ({}, Copy.MARKERLESS),
        ({"annotations": None, "labels": None}, Copy.MARKERLESS),
        ({"deletionTimestamp": "now"}, Copy.MARKERLESS),
        ({"labels": {words.MANAGED: "true", words.CONSUMER: "c"}}, Copy.MARKERLESS),
        ({"annotations": ONE}, Copy.PARTIAL),
        ({"annotations": TWO}, Copy.PARTIAL),
        ({"annotations": ONE, "deletionTimestamp": "now"}, Copy.PARTIAL),
        ({"annotations": ONE | {words.OBJECT_UID: "v"}}, Copy.ANOTHER_OBJECT),
        ({"annotations": ONE | {words.OBJECT_UID: ""}}, Copy.ANOTHER_OBJECT),
        ({"annotations": TWO | {words.CLUSTER_UID: "d"}}, Copy.ANOTHER_CLUSTER),
        ({"annotations": {words.CLUSTER_UID: "d", words.OBJECT_UID: "v"}}, Copy.ANOTHER_CLUSTER),
        (
            {"annotations": TWO | {words.CLUSTER_UID: "d"}, "deletionTimestamp": "now"},
            Copy.ANOTHER_CLUSTER,
        ),
    ],
)
def test_both_markers_together_tell_the_owner(metadata: dict[str, Any], expected: Copy) -> None:
    assert owner({"metadata": metadata}, "c", "u") is expected


def test_nothing_there_is_absent() -> None:
    assert owner(None, "c", "u") is Copy.ABSENT


def test_what_is_written_as_markers_is_read_as_ours() -> None:
    assert owner({"metadata": markers("c", "u")}, "c", "u") is Copy.OURS


def test_labels_hold_nothing_that_may_be_longer_than_a_label_value() -> None:
    assert markers("c", "u" * 253)["labels"] == {words.MANAGED: "true", words.CONSUMER: "c"}


def test_every_refusal_has_words_of_its_own() -> None:
    refusable = (Copy.MARKERLESS, Copy.PARTIAL, Copy.ANOTHER_OBJECT, Copy.ANOTHER_CLUSTER)
    assert len({refusal(word) for word in refusable}) == len(refusable)


@pytest.mark.parametrize("word", [Copy.ABSENT, Copy.OURS, Copy.GOING, Copy.UNREADABLE])
def test_what_only_an_overlay_refuses_is_told_by_its_word(word: Copy) -> None:
    assert word in refusal(word)
