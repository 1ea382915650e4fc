"""What loaded rules are: tables with their answers, flows, and the whole book. Immutable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Literal

from kbind.errors import ExpressionFailed, GuardViolation
from kbind.plan import Decision
from kbind.rulebook.expressions import Expression
from kbind.rulebook.source import Place
from kbind.steps import Recheck, Side, Step
from kbind.tables import TableSpec

INSTANCE_UP: Final = "instance-up"
INSTANCE_DOWN: Final = "instance-down"

Words = tuple[str, ...]
Situation = tuple[str, ...]
"""One word a fact, in the order of the table's facts."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. when: the words it names, by fact; a fact that is not there means any."""

    name: str
    why: str
    when: Mapping[str, Words]
    verdict: str | None
    steps: tuple[Step, ...] | None
    reason: str | None
    recheck: Recheck
    place: Place = field(compare=False, repr=False)

    def decision(self, table: str, facts: Mapping[str, str]) -> Decision:
        """This row as the answer to *facts*."""
        return Decision(
            table=table,
            rule=self.name,
            why=self.why,
            facts=facts,
            verdict=self.verdict,
            steps=self.steps,
            reason=self.reason,
            recheck=self.recheck,
        )


@dataclass(frozen=True, slots=True)
class DeclaredFact:
    """A fact that an overlay adds to one table.

    expression: applied to the documents of ``TableSpec.documents``, by name.
    words: what it may be; otherwise: the word for every other result.
    """

    name: str
    expression: Expression
    words: Words
    otherwise: str

    def word(self, documents: Mapping[str, Any]) -> str:
        """The fact's word for ``{"instance": {...}, "copy": {...} or None}``.

        Only text counts: a result that is null, a number or a list is ``otherwise``, and so is
        an expression that does not fit.
        """
        try:
            found = self.expression(documents)
        except ExpressionFailed:
            return self.otherwise
        return found if isinstance(found, str) and found in self.words else self.otherwise


@dataclass(frozen=True, slots=True)
class Table:
    """A complete table: *answers* has exactly one decision for each situation.

    facts: names and words in order, those of the code first, declared ones after them.
    """

    spec: TableSpec
    facts: Mapping[str, Words]
    declared: tuple[DeclaredFact, ...]
    rules: tuple[Rule, ...]
    answers: Mapping[Situation, Decision] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Flow:
    """What travels one way between an instance and its copy.

    select: fields of the target and where each comes from in the source.
    through: the main resource, written by server-side apply as *manager*, or the status
    subresource, which is set whole.
    absent: what becomes of a field of the target that the source has no longer.
    """

    name: str
    why: str
    source: Side
    target: Side
    select: tuple[tuple[str, Expression], ...]
    through: Literal["main", "status"]
    absent: Literal["remove", "keep"]
    manager: str
    force: bool

    def carry(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The fields to write. Null is nothing; the values are shared with *document*.

        Raises ExpressionFailed.
        """
        found = ((name, pick(document)) for name, pick in self.select)
        return {name: value for name, value in found if value is not None}


@dataclass(frozen=True, slots=True)
class Copying:
    """All flows by name; prefixes of the labels and annotations that go with instance-up."""

    flows: Mapping[str, Flow]
    labels: tuple[str, ...]
    annotations: tuple[str, ...]

    def carry(self, flow: str, source: Mapping[str, Any]) -> dict[str, Any]:
        """What *flow* writes, as part of an object: its fields, and with instance-up the labels
        and annotations that travel, under ``metadata`` where there are any.

        Values are shared with *source*. Raises ExpressionFailed.
        """
        carried = self.flows[flow].carry(source)
        if flow == INSTANCE_UP and (self.labels or self.annotations):
            metadata = source.get("metadata") or {}
            travels = {
                name: found
                for name, prefixes in (("labels", self.labels), ("annotations", self.annotations))
                if (found := _matching(metadata.get(name) or {}, prefixes))
            }
            if travels:
                carried["metadata"] = travels
        return carried


def _matching(entries: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in entries.items() if key.startswith(prefixes)}


class Rulebook:
    """Every table, proved complete. Shared by all workers; nothing in it changes."""

    __slots__ = ("_lookup", "copying", "tables")

    def __init__(self, tables: Mapping[str, Table], copying: Copying) -> None:
        self.tables = tables
        self.copying = copying
        self._lookup: dict[
            str,
            tuple[Callable[[Mapping[str, str]], Situation], int, Mapping[Situation, Decision]],
        ] = {
            name: (itemgetter(*table.facts), len(table.facts), table.answers)
            for name, table in tables.items()
        }

    def decide(self, table: str, facts: Mapping[str, str]) -> Decision:
        """The one row that *facts* meet: one word for each fact of the table, and no others.

        Decisions are made when rules are loaded; each call returns the same object for the same
        situation. Raises GuardViolation on facts that the table does not know: a bug.
        """
        try:
            situation_of, size, answers = self._lookup[table]
            decision = answers[situation_of(facts)]
        except KeyError:
            raise self._misfit(table, facts) from None
        if len(facts) != size:
            raise self._misfit(table, facts)
        return decision

    def declared(self, table: str) -> tuple[DeclaredFact, ...]:
        """The facts that overlays added to *table*; whoever asks it has to give their words."""
        return self.tables[table].declared

    def _misfit(self, name: str, facts: Mapping[str, str]) -> GuardViolation:
        table = self.tables.get(name)
        if table is None:
            return GuardViolation(f"there is no table {name}")
        wrong = [f"{fact} is missing" for fact in table.facts if fact not in facts]
        for fact, word in facts.items():
            if fact not in table.facts:
                wrong.append(f"it does not look at {fact}")
            elif word not in table.facts[fact]:
                wrong.append(f'{fact} "{word}" is not one of {", ".join(table.facts[fact])}')
        return GuardViolation(f"the table {name} was asked wrongly: {'; '.join(wrong)}")
