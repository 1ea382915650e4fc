"""Which pauses the rules heed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbind import words
from kbind.facts import Pause
from kbind.pausing import heeded, is_paused
from kbind.rulebook import load
from tests.manifests import ROOT
from tests.unit.build import BOOK

PAUSES = (Pause.INSTANCE, Pause.BINDING, Pause.CONNECTION)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"annotations": {words.PAUSED: "true"}}, True),
        ({"annotations": {words.PAUSED: "TRUE"}}, False),
        ({"annotations": {words.PAUSED: ""}}, False),
        ({"annotations": None}, False),
        ({"labels": {words.PAUSED: "true"}}, False),
        ({}, False),
    ],
)
def test_true_and_nothing_else_pauses(metadata: dict[str, Any], expected: bool) -> None:
    assert is_paused({"metadata": metadata}) is expected


def test_the_bundled_rules_heed_every_pause() -> None:
    assert [pause for pause in Pause if heeded(BOOK, pause)] == list(PAUSES)


def test_what_an_overlay_forbids_is_not_heeded() -> None:
    book = load([ROOT / "tests" / "overlays" / "no-pause-by-instance"])
    assert [pause for pause in Pause if heeded(book, pause)] == [Pause.BINDING, Pause.CONNECTION]


def test_what_an_overlay_makes_depend_on_the_instance_is_taken_as_otherwise(tmp_path: Path) -> None:
    (tmp_path / "duty.yaml").write_text(
        "table: duty\n"
        "facts:\n"
        "  - {fact: tier, from: instance.spec.tier, words: [gold, silver], otherwise: silver}\n"
        "replace:\n"
        "  paused:\n"
        "    - rule: paused\n"
        "      why: Silver waits.\n"
        "      when: {pause: [instance, binding, connection], tier: silver}\n"
        "      then: {steps: [waiting], reason: Paused}\n"
        "    - rule: gold\n"
        "      why: Gold is left alone as well, and not told so.\n"
        "      when: {pause: [instance, binding, connection], tier: gold}\n"
        "      then: {steps: []}\n"
    )
    book = load([tmp_path])
    assert all(heeded(book, pause) for pause in PAUSES)
