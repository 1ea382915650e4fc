"""Case files: a situation typed by hand, checked like rule files are.

A case of a decision table gives a word for each fact; a case of ``copying`` names a flow and
gives the object that it reads from. The table is the file's ``table``, else its directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kbind.errors import RulesInvalid
from kbind.rulebook.flows import NAME as COPYING
from kbind.rulebook.model import Rulebook
from kbind.rulebook.reader import Reader
from kbind.rulebook.source import Entries, Value, read


@dataclass(frozen=True, slots=True)
class Case:
    """facts: one word for each fact of the table."""

    table: str
    why: str | None
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FlowCase:
    """source: the object that the flow reads from, as JSON."""

    flow: str
    why: str | None
    source: Mapping[str, Any]


def read_case(path: Path, rulebook: Rulebook) -> Case | FlowCase:
    """The case in *path*. Raises RulesInvalid with every finding."""
    reader = Reader()
    case = _case(reader, path, rulebook)
    if case is None or reader.findings:
        raise RulesInvalid(reader.findings)
    return case


def _case(reader: Reader, path: Path, rulebook: Rulebook) -> Case | FlowCase | None:
    root = read(path, reader.findings)
    if root is None:
        return None
    optional = ("table", "why")
    values = reader.entries(root, "a case", required=("situation",), optional=optional) or {}
    known = (*rulebook.tables, COPYING)
    if "table" in values:
        table = reader.word(values["table"], "table", known)
    else:
        table = path.resolve().parent.name
        if table not in known:
            reader.report(
                root.place,
                "a case outside a directory called as its table has to name the table",
                hint=f"table: {' | '.join(known)}",
            )
            table = None
    why = reader.text(values["why"], "why") if "why" in values else None
    if table is None or "situation" not in values:
        return None
    if table == COPYING:
        return _flow_case(reader, path, rulebook, why, values["situation"])
    facts = rulebook.tables[table].facts
    situation = reader.entries(values["situation"], "the situation", required=tuple(facts)) or {}
    words = {
        fact: reader.word(situation[fact], fact, facts[fact]) for fact in facts if fact in situation
    }
    return Case(table, why, {fact: word for fact, word in words.items() if word is not None})


def _flow_case(
    reader: Reader, path: Path, rulebook: Rulebook, why: str | None, value: Value
) -> FlowCase | None:
    situation = reader.entries(value, "the situation", required=("flow", "source"))
    if situation is None or "flow" not in situation or "source" not in situation:
        return None
    flow = reader.word(situation["flow"], "flow", rulebook.copying.flows)
    if not isinstance(situation["source"], Entries):
        reader.report(situation["source"].place, "source has to be a mapping")
        return None
    if flow is None:
        return None
    # An object, not rules: taken as YAML gives it.
    content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    return FlowCase(flow, why, content["situation"]["source"])
