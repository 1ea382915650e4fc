"""That every situation of a table meets exactly one rule, shown by walking all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from types import MappingProxyType
from typing import Final

from kbind.errors import RuleFileError, TableGap, TableOverlap
from kbind.plan import Decision
from kbind.rulebook.model import Rule, Situation, Words
from kbind.rulebook.source import Place

_SHOWN: Final = 5  # findings of one kind a table, so that one slip does not fill the screen


@dataclass(frozen=True, slots=True)
class Replaced:
    """A rule that an overlay took out, and where the overlay says so."""

    rule: Rule
    place: Place


Box = tuple[frozenset[str], ...]
"""Situations that differ freely within the words of each fact."""


def prove(
    table: str,
    path: str,
    facts: Mapping[str, Words],
    rules: Sequence[Rule],
    replaced: Sequence[Replaced],
    findings: list[RuleFileError],
) -> dict[Situation, Decision]:
    """Every situation with its decision; what is wrong goes to *findings*.

    path: the file that gaps are reported in where no overlay made them.
    """
    # A bit a rule: a situation is met by the rules whose bits all its words share.
    bits = [
        {
            word: sum(
                1 << index
                for index, rule in enumerate(rules)
                if fact not in rule.when or word in rule.when[fact]
            )
            for word in words
        }
        for fact, words in facts.items()
    ]
    everyone = (1 << len(rules)) - 1
    answers: dict[Situation, Decision] = {}
    gaps: list[Situation] = []
    shared: set[int] = set()
    alone = 0
    for situation in product(*facts.values()):
        met = everyone
        for words, word in zip(bits, situation, strict=True):
            met &= words[word]
        if met == 0:
            gaps.append(situation)
        elif met & (met - 1):
            shared.add(met)
        else:
            alone |= met
            rule = rules[met.bit_length() - 1]
            asked = MappingProxyType(dict(zip(facts, situation, strict=True)))
            answers[situation] = rule.decision(table, asked)
    findings.extend(_gaps(table, path, facts, rules, replaced, gaps))
    findings.extend(_overlaps(path, facts, rules, shared, alone))
    return answers


def text_of(facts: Mapping[str, Words], box: Box) -> str:
    """``copy=absent, conflictPolicy=[Fail, Adopt]``; facts that may be anything are left out."""
    parts = []
    for (fact, words), chosen in zip(facts.items(), box, strict=True):
        if len(chosen) == len(words):
            continue
        parts.append(_named(fact, [word for word in words if word in chosen]))
    return ", ".join(parts) or "any facts"


def compact(situations: Iterable[Situation]) -> list[Box]:
    """The situations as few boxes, each once; boxes that differ in one fact become one."""
    boxes: list[Box] = [tuple(frozenset({word}) for word in found) for found in situations]
    if not boxes:
        return []
    for position in reversed(range(len(boxes[0]))):
        merged: dict[Box, frozenset[str]] = {}
        for box in boxes:
            rest = box[:position] + box[position + 1 :]
            merged[rest] = merged.get(rest, frozenset()) | box[position]
        boxes = [(*rest[:position], words, *rest[position:]) for rest, words in merged.items()]
    return boxes


def _box(facts: Mapping[str, Words], rule: Rule) -> Box:
    return tuple(frozenset(rule.when.get(fact, words)) for fact, words in facts.items())


def _gaps(
    table: str,
    path: str,
    facts: Mapping[str, Words],
    rules: Sequence[Rule],
    replaced: Sequence[Replaced],
    gaps: Sequence[Situation],
) -> list[RuleFileError]:
    boxes = compact(gaps)
    findings: list[RuleFileError] = []
    for box in boxes[:_SHOWN]:
        message = f"{table} has no rule for {text_of(facts, box)}"
        culprit = next((gone for gone in replaced if _meets(facts, gone.rule, box)), None)
        hint = _nearest_rule(facts, rules, box)
        if culprit is None:
            findings.append(TableGap(message, path=path, hint=hint))
            continue
        message += f', which the replaced "{culprit.rule.name}" met'
        findings.append(culprit.place.finding(message, hint=hint, kind=TableGap))
    if len(boxes) > _SHOWN:
        left = len(boxes) - _SHOWN
        findings.append(TableGap(f"{table} has {left} more gaps like these", path=path))
    return findings


def _meets(facts: Mapping[str, Words], rule: Rule, box: Box) -> bool:
    return all(mine & theirs for mine, theirs in zip(_box(facts, rule), box, strict=True))


def _nearest_rule(facts: Mapping[str, Words], rules: Sequence[Rule], box: Box) -> str | None:
    """What the rule that fails in the fewest facts names in those."""

    def misses(rule: Rule) -> list[str]:
        theirs = zip(facts, _box(facts, rule), box, strict=True)
        return [fact for fact, mine, wanted in theirs if not mine & wanted]

    if not rules:
        return None
    # Of those that fail in equally few, the one that agrees in the most facts it names.
    rule = min(rules, key=lambda candidate: 2 * len(misses(candidate)) - len(candidate.when))
    named = ", ".join(_named(fact, rule.when[fact]) for fact in misses(rule))
    return f'the nearest rule is "{rule.name}" ({_where(rule)}); it asks for {named}'


def _named(fact: str, words: Sequence[str]) -> str:
    return f"{fact}={words[0]}" if len(words) == 1 else f"{fact}=[{', '.join(words)}]"


def _where(rule: Rule, seen_from: Place | None = None) -> str:
    """``path:line``, or the line alone where the reader is in that file already."""
    if seen_from is not None and seen_from.path == rule.place.path:
        return f"line {rule.place.line}"
    return f"{rule.place.path}:{rule.place.line}"


def _overlaps(
    path: str, facts: Mapping[str, Words], rules: Sequence[Rule], shared: Iterable[int], alone: int
) -> list[RuleFileError]:
    pairs: set[tuple[int, int]] = set()
    for met in shared:
        pairs.update(combinations([i for i in range(len(rules)) if met >> i & 1], 2))
    findings: list[RuleFileError] = []
    for pair in sorted(pairs)[:_SHOWN]:
        # Point at the rule that an overlay brought, else at the later one.
        first, second = sorted(pair, key=lambda index: (rules[index].place.path != path, index))
        one, other = rules[first], rules[second]
        common: Box = tuple(
            mine & theirs for mine, theirs in zip(_box(facts, one), _box(facts, other), strict=True)
        )
        hint = "leave each situation to one of them"
        useless = [rules[index].name for index in (first, second) if not alone >> index & 1]
        if useless:
            hint = f'nothing is left to "{useless[-1]}" alone: remove it, or narrow the other'
        findings.append(
            other.place.finding(
                f'"{other.name}" and "{one.name}" ({_where(one, other.place)}) '
                f"both meet {text_of(facts, common)}",
                hint=hint,
                kind=TableOverlap,
            )
        )
    if len(pairs) > _SHOWN:
        left = len(pairs) - _SHOWN
        findings.append(TableOverlap(f"{left} more pairs of rules overlap", path=path))
    return findings
