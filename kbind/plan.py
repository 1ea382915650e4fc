"""What was decided: decisions, the steps in order, and when to look again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbind.steps import Recheck, Step


@dataclass(frozen=True, slots=True)
class Decision:
    """The one rule that a situation met in one table.

    facts: the words it was asked with, by fact name.
    verdict: a word of the table's verdicts, or None where the rule gives steps.
    steps: the steps it names, in order; None where it gives a verdict.
    reason: a ``kbind.words.Reason`` for conditions and Events, where the rule names one.
    """

    table: str
    rule: str
    why: str
    facts: Mapping[str, str]
    verdict: str | None = None
    steps: tuple[Step, ...] | None = None
    reason: str | None = None
    recheck: Recheck = Recheck.ON_EVENT

    @property
    def name(self) -> str:
        """``<table>/<rule>``."""
        return f"{self.table}/{self.rule}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One row and one short batch: the decisions that led here, and what will be written."""

    decisions: tuple[Decision, ...]
    steps: tuple[Step, ...] = ()
    reason: str | None = field(default=None)
    recheck: Recheck = Recheck.ON_EVENT

    @property
    def rules(self) -> list[str]:
        """The names of the rules that were met, in order."""
        return [decision.name for decision in self.decisions]
