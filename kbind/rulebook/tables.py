"""Decision tables from their files: bundled ones whole, then what overlays change in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Final

from kbind.facts import FACTS
from kbind.rulebook.model import DeclaredFact, Rule, Table, Words
from kbind.rulebook.proof import Replaced, prove
from kbind.rulebook.reader import Reader
from kbind.rulebook.source import Entries, Place, Scalar, Value
from kbind.steps import Recheck, Step
from kbind.tables import TableSpec
from kbind.words import Reason

LIMIT: Final = 10_000
"""Most situations that one table may have; more is a program, not a table to read."""

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FACT: Final = re.compile(r"[a-z][A-Za-z0-9]*")


@dataclass
class Draft:
    """A table while its files are read. broken: a finding makes the proof pointless."""

    spec: TableSpec
    path: str
    rules: list[Rule] = field(default_factory=list)
    declared: list[DeclaredFact] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    broken: bool = False

    def facts(self) -> dict[str, Words]:
        """Names and words, those of the code first."""
        words: dict[str, Words] = {name: tuple(FACTS[name]) for name in self.spec.facts}
        return words | {fact.name: fact.words for fact in self.declared}


def read_bundled(reader: Reader, draft: Draft, entries: Entries) -> None:
    """A table file as kbind ships it: ``table``, ``facts``, ``rules``."""
    before = len(reader.findings)
    values = reader.entries(entries, "a table file", required=("table", "facts", "rules")) or {}
    if "facts" in values:
        names = reader.words(values["facts"], "facts", draft.spec.facts)
        if names is not None and names != draft.spec.facts:
            expected = ", ".join(draft.spec.facts)
            reader.report(values["facts"].place, f"facts has to be [{expected}]")
    for value in reader.items(values["rules"], "rules") if "rules" in values else ():
        rule = _rule(reader, draft, value)
        if rule is not None:
            draft.rules.append(rule)
    draft.broken = draft.broken or len(reader.findings) > before


def read_overlay(reader: Reader, draft: Draft, entries: Entries) -> None:
    """An overlay of one table: ``table``, ``facts`` (declared), ``replace``."""
    before = len(reader.findings)
    if "rules" in entries.keys:
        reader.report(
            entries.keys["rules"],
            "an overlay cannot add rules to a table that is complete",
            hint="replace one by others: `replace: {its-name: [...]}`",
        )
    values = (
        reader.entries(
            Entries(
                {key: value for key, value in entries.values.items() if key != "rules"},
                {key: place for key, place in entries.keys.items() if key != "rules"},
                entries.place,
            ),
            "an overlay file",
            required=("table",),
            optional=("facts", "replace"),
        )
        or {}
    )
    if "facts" in values:
        for value in reader.items(values["facts"], "facts"):
            _declare(reader, draft, value)
    if "replace" in values:
        for name, place, value in reader.mapping(values["replace"], "replace"):
            _replace(reader, draft, name, place, value)
    draft.broken = draft.broken or len(reader.findings) > before


def finish(reader: Reader, draft: Draft) -> Table | None:
    """The proved table, or None where something is wrong with it."""
    before = len(reader.findings)
    names: dict[str, Rule] = {}
    for rule in draft.rules:
        first = names.setdefault(rule.name, rule)
        if first is not rule:
            where = f"{first.place.path}:{first.place.line}"
            reader.report(
                rule.place, f'two rules are called "{rule.name}"', hint=f"the other: {where}"
            )
    if draft.broken:  # gaps would only echo what is reported already
        return None
    facts = draft.facts()
    answers = prove(
        draft.spec.name, draft.path, facts, draft.rules, draft.replaced, reader.findings
    )
    if len(reader.findings) > before:
        return None
    return Table(
        spec=draft.spec,
        facts=MappingProxyType(facts),
        declared=tuple(draft.declared),
        rules=tuple(draft.rules),
        answers=MappingProxyType(answers),
    )


def _replace(reader: Reader, draft: Draft, name: str, place: Place, value: Value) -> None:
    found = next((index for index, rule in enumerate(draft.rules) if rule.name == name), None)
    rules = [_rule(reader, draft, item) for item in reader.items(value, f'the place of "{name}"')]
    if found is None:
        reader.unknown(place, "rule", name, [rule.name for rule in draft.rules])
        return
    draft.replaced.append(Replaced(draft.rules[found], place))
    draft.rules[found : found + 1] = [rule for rule in rules if rule is not None]


def _declare(reader: Reader, draft: Draft, value: Value) -> None:
    if not draft.spec.documents:
        reader.report(
            value.place,
            f"{draft.spec.name} has no object to take a fact from",
            hint="declared facts belong to duty, ownership and instance",
        )
        return
    keys = ("fact", "from", "words", "otherwise")
    values = reader.entries(value, "a declared fact", required=keys)
    if values is None or any(key not in values for key in keys):
        return
    name = reader.text(values["fact"], "fact")
    if name is not None and _FACT.fullmatch(name) is None:
        reader.report(
            values["fact"].place, f'"{name}" is not a name for a fact', hint="such as costCentre"
        )
        name = None
    if name is not None and (name in FACTS or name in draft.facts()):
        reader.report(values["fact"].place, f"there is a fact {name} already")
        name = None
    expression = reader.expression(values["from"], "from")
    if expression is not None:
        for root in sorted(expression.roots() - set(draft.spec.documents)):
            reader.unknown(values["from"].place, "document", root, draft.spec.documents)
    words = reader.texts(values["words"], "words")
    if words is not None and len(words) < 2:
        reader.report(values["words"].place, "a fact needs two words or more")
        words = None
    otherwise = None if words is None else reader.word(values["otherwise"], "otherwise", words)
    size = prod(map(len, (words or (), *draft.facts().values())))
    if size > LIMIT:
        reader.report(
            values["words"].place,
            f"{draft.spec.name} would have {size} situations, more than {LIMIT}",
            hint="declare fewer facts, or fewer words",
        )
    elif name and expression and words and otherwise:
        draft.declared.append(DeclaredFact(name, expression, words, otherwise))


def _rule(reader: Reader, draft: Draft, value: Value) -> Rule | None:
    before = len(reader.findings)
    required, optional = ("rule", "why", "then"), ("when",)
    values = reader.entries(value, "a rule", required=required, optional=optional) or {}
    name = reader.text(values["rule"], "rule") if "rule" in values else None
    if name is not None and _NAME.fullmatch(name) is None:
        reader.report(
            values["rule"].place,
            f'"{name}" is not a name for a rule',
            hint="lower-case words with hyphens, as refuse-markerless",
        )
    why = reader.text(values["why"], "why") if "why" in values else None
    when = _when(reader, draft, values["when"]) if "when" in values else {}
    then = _then(reader, draft.spec, values["then"]) if "then" in values else None
    if len(reader.findings) > before or not name or not why or then is None:
        return None
    return Rule(
        name=name,
        why=why,
        when=MappingProxyType(when),
        verdict=then.verdict,
        steps=then.steps,
        reason=then.reason,
        recheck=then.recheck,
        place=values["rule"].place,
    )


def _when(reader: Reader, draft: Draft, value: Value) -> dict[str, Words]:
    known = draft.facts()
    found: dict[str, Words] = {}
    for fact, place, words_value in reader.mapping(value, "when"):
        if fact not in known:
            reader.unknown(place, "fact", fact, known)
            continue
        words = reader.any_of(words_value, fact, known[fact])
        if words is not None:
            found[fact] = words
    return found


@dataclass(frozen=True, slots=True)
class _Then:
    verdict: str | None
    steps: tuple[Step, ...] | None
    reason: str | None
    recheck: Recheck


def _then(reader: Reader, spec: TableSpec, value: Value) -> _Then | None:
    optional = ("verdict", "steps", "reason", "recheck")
    values = reader.entries(value, "then", optional=optional)
    if values is None:
        return None
    if ("verdict" in values) == ("steps" in values):
        reader.report(value.place, "then needs either a verdict or steps")
        return None
    verdict = _verdict(reader, spec, values["verdict"]) if "verdict" in values else None
    steps = _steps(reader, spec, values["steps"]) if "steps" in values else None
    reason = reader.word(values["reason"], "reason", Reason) if "reason" in values else None
    if verdict in spec.reasoned and "reason" not in values:
        reader.report(value.place, f"{verdict} is told to users, and needs a reason")
    recheck = reader.word(values["recheck"], "recheck", Recheck) if "recheck" in values else None
    return _Then(
        verdict, steps, Reason(reason) if reason else None, Recheck(recheck or Recheck.ON_EVENT)
    )


def _verdict(reader: Reader, spec: TableSpec, value: Value) -> str | None:
    if spec.verdicts is None:
        reader.report(value.place, f"{spec.name} gives steps, not verdicts")
        return None
    word = reader.word(value, "verdict", spec.verdicts)
    return None if word is None else spec.verdicts(word)


def _steps(reader: Reader, spec: TableSpec, value: Value) -> tuple[Step, ...] | None:
    if isinstance(value, Scalar):
        reader.report(value.place, "steps has to be a list", hint=f"steps: [{value.text}]")
        return None
    allowed = [step for step in Step if step in spec.steps]
    if not allowed:
        reader.report(value.place, f"{spec.name} gives verdicts, not steps")
        return None
    words = reader.words(value, "step", allowed)
    return None if words is None else tuple(Step(word) for word in words)
