"""docs/rules.md says what is so: its words are the code's, and its examples load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kbind.errors import RulesInvalid, UnknownWord
from kbind.facts import FACTS
from kbind.rulebook import load, read_case
from kbind.tables import TABLES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "rules.md").read_text()
BLOCKS = re.findall(r"```(?:yaml)?\n(.*?)```", PAGE, flags=re.DOTALL)
OVERLAYS = [block for block in BLOCKS if "table:" in block and "situation:" not in block][1:]


def test_every_word_is_listed() -> None:
    rows = ["| fact | asked in | words |", "|---|---|---|"]
    for fact, words in FACTS.items():
        asked = ", ".join(f"`{table.name}`" for table in TABLES.values() if fact in table.facts)
        rows.append(f"| `{fact}` | {asked} | {', '.join(f'`{word}`' for word in words)} |")
    listed = re.search(r"<!-- words: .*? -->\n(.*?)\n<!-- /words -->", PAGE, flags=re.DOTALL)
    assert listed is not None
    assert listed[1] == "\n".join(rows)


def test_there_are_examples() -> None:
    assert len(OVERLAYS) == 3


@pytest.mark.parametrize("number", range(len(OVERLAYS)))
def test_examples_of_overlays_load(tmp_path: Path, number: int) -> None:
    (tmp_path / "example.yaml").write_text(OVERLAYS[number])
    load([tmp_path])


def test_the_example_of_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("overlay").mkdir()
    Path("overlay", "ownership.yaml").write_text(
        "table: ownership\n"
        "replace:\n"
        "  refuse-markerless:\n"
        "    - rule: refuse-markerless\n"
        "      why: Nobody marked it.\n"
        "      when: {copy: markerles, conflictPolicy: [Fail, unset]}\n"
        "      then: {verdict: refuse, reason: ForeignObjectExists}\n"
    )
    with pytest.raises(RulesInvalid) as raised:
        load([Path("overlay")])
    (finding,) = raised.value.findings
    assert isinstance(finding, UnknownWord)
    assert f"{finding}\n" in BLOCKS


def test_the_example_of_a_case(tmp_path: Path) -> None:
    (example,) = (block for block in BLOCKS if "situation:" in block)
    (tmp_path / "case.yaml").write_text(example)
    assert read_case(tmp_path / "case.yaml", load()).why is None
