"""The property test can fail: where a rule is broken the model says so, with a small story."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.manifests import ROOT
from tests.model import promises
from tests.model.drawing import sequence
from tests.model.run import play, told
from tests.model.suite import FIRST

SMALL = 8  # moves
TRIED = 200  # sequences


def overlay(folder: Path, table: str, rule: str, change: Callable[[Any], None]) -> tuple[Path]:
    """An overlay in which the answer of one bundled rule is changed."""
    yaml = YAML()
    rows = yaml.load(ROOT / "rules" / f"{table}.yaml")["rules"]
    row = next(row for row in rows if row["rule"] == rule)
    change(row["then"])
    yaml.dump({"table": table, "replace": {rule: [row]}}, folder / "overlay.yaml")
    return (folder,)


def instead(then: dict[str, Any], **answer: Any) -> None:
    then.clear()
    then.update(answer)


BREAKS: dict[str, tuple[str, str, Callable[[Any], None], str]] = {
    "a deletion that lets go at once": (
        "instance",
        "drain-maintain",
        lambda then: instead(then, steps=["release"]),
        promises.RELEASED,
    ),
    "a creation without a finalizer": (
        "instance",
        "serve-create",
        lambda then: then["steps"].remove("hold"),
        promises.BUG,
    ),
    "an unbinding that leaves copies": (
        "instance",
        "unbind-maintain",
        lambda then: then["steps"].remove("delete"),
        promises.RELEASED,
    ),
    "an unbinding that forgets Orphan": (
        "duty",
        "unbind-orphan",
        lambda then: instead(then, verdict="unbind"),
        promises.ORPHANS,
    ),
    "an adoption that nobody asked for": (
        "ownership",
        "refuse-markerless",
        lambda then: instead(then, verdict="adopt"),
        promises.UNTOUCHED,
    ),
    "a provider that is given up at once": (
        "cleanup",
        "unbind",
        lambda then: then.update(verdict="abandon"),
        promises.RELEASED,
    ),
    "a definition that stays": (
        "cleanup",
        "remove-definition",
        lambda then: instead(then, verdict="done"),
        promises.DEFINITIONS,
    ),
    "a status that stays there": (
        "instance",
        "serve-maintain",
        lambda then: then["steps"].remove("mirror"),
        promises.SYNCED,
    ),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_rule_is_found_and_told_in_few_moves(what: str, tmp_path: Path) -> None:
    table, rule, change, promise = BREAKS[what]
    overlays = overlay(tmp_path, table, rule, change)
    for seed in range(FIRST, FIRST + TRIED):
        story = told(seed, overlays)
        if story is not None:
            break
    assert story is not None
    assert story.broken.promise == promise, story
    assert len(story.moves) <= SMALL, story


def test_a_sequence_is_the_same_every_time(tmp_path: Path) -> None:
    table, rule, change, _ = BREAKS["a deletion that lets go at once"]
    overlays = overlay(tmp_path, table, rule, change)
    assert sequence(7) == sequence(7) != sequence(8)
    seed = next(seed for seed in range(TRIED) if play(sequence(seed), seed, overlays))
    broken = [str(play(sequence(seed), seed, overlays)) for _ in range(2)]
    assert broken[0] == broken[1]
