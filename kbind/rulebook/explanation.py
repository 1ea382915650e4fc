"""Why a table answers as it does, and which single fact would change that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbind.plan import Decision
from kbind.rulebook.model import Rulebook


@dataclass(frozen=True, slots=True)
class Change:
    """One fact with another word, and the different rule that would then be met."""

    fact: str
    word: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision, and every change of a single fact that leads to another row."""

    decision: Decision
    changes: tuple[Change, ...]


def explain(rulebook: Rulebook, table: str, facts: Mapping[str, str]) -> Explanation:
    """Raises GuardViolation on facts that the table does not know."""
    decision = rulebook.decide(table, facts)
    changes = []
    for fact, words in rulebook.tables[table].facts.items():
        for word in words:
            other = rulebook.decide(table, {**facts, fact: word})
            if other.rule != decision.rule:
                changes.append(Change(fact, word, other))
    return Explanation(decision, tuple(changes))
