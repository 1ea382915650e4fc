"""managedFields: who holds what, at which version."""

from __future__ import annotations

from typing import Any

import pytest

from kbind import words
from kbind.managed import Outdated, is_at, outdated, place, versions
from tests.unit.build import managed

OLD, NEW = "example.org/v1alpha1", "example.org/v1"
GONE = f"request to convert CR to an invalid group/version: {OLD}"


def having(*entries: Any) -> Any:
    return {"metadata": {"managedFields": list(entries)}}


OURS_OLD = managed({}, apiVersion=OLD)
OURS_NEW = managed({}, apiVersion=NEW)
STATUS_OLD = managed({}, "operator", operation="Update", subresource="status", apiVersion=OLD)
NAMESAKE_OLD = managed({}, operation="Update", apiVersion=OLD)


def test_ours_is_what_we_applied_to_the_main_resource() -> None:
    there = having(NAMESAKE_OLD, managed({}, subresource="status"), OURS_NEW)
    assert place(there, words.MANAGER) == 2
    assert place(having(NAMESAKE_OLD), words.MANAGER) is None
    assert versions(there)[0] == (words.MANAGER, OLD)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (having(STATUS_OLD, OURS_NEW), True),
        (having(STATUS_OLD, OURS_OLD), False),
        (having(NAMESAKE_OLD), True),
        (having(), True),
        ({}, True),
    ],
)
def test_what_we_applied_is_at_a_version(there: Any, expected: bool) -> None:
    assert is_at(there, words.MANAGER, NEW) is expected


@pytest.mark.parametrize(
    ("there", "message", "expected"),
    [
        (having(OURS_OLD), GONE, Outdated(OLD, True, ())),
        (having(STATUS_OLD, OURS_OLD), GONE, Outdated(OLD, True, ("operator",))),
        (having(STATUS_OLD, OURS_NEW), GONE, Outdated(OLD, False, ("operator",))),
        (having(NAMESAKE_OLD, OURS_OLD), GONE, Outdated(OLD, True, (words.MANAGER,))),
        (having(STATUS_OLD, STATUS_OLD), GONE, Outdated(OLD, False, ("operator",))),
        (having(OURS_NEW), GONE, None),
        (having(OURS_OLD), "the webhook does not answer", None),
        (having(OURS_NEW), f"failed to create typed patch object (a/b; {NEW}, Kind=X)", None),
        (having(OURS_OLD), f"{GONE}2", None),
        (having(OURS_OLD), f"/apis/{OLD}/namespaces/a: 500", None),
        ({}, GONE, None),
    ],
)
def test_a_message_names_what_stands_in_the_way(
    there: Any, message: str, expected: Outdated | None
) -> None:
    found = outdated(there, words.MANAGER, NEW, message)
    assert found == expected
    assert found is None or found.alone is (found.ours and not found.others)
