"""Deciding, explaining, and what flows carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbind.errors import ExpressionFailed, GuardViolation
from kbind.facts import ConflictPolicy, Copy, Verdict
from kbind.rulebook import Rulebook, explain, load
from kbind.rulebook.expressions import BadExpression, Expression
from kbind.steps import Recheck, Side, Step
from kbind.words import Reason

BOOK = load()
FAIL = {"copy": "markerless", "conflictPolicy": "Fail"}


def test_words_of_code_and_plain_text_are_the_same() -> None:
    decision = BOOK.decide(
        "ownership", {"copy": Copy.MARKERLESS, "conflictPolicy": ConflictPolicy.FAIL}
    )
    assert decision is BOOK.decide("ownership", FAIL)
    assert decision.verdict is Verdict.REFUSE
    assert decision.reason is Reason.FOREIGN_OBJECT_EXISTS
    assert decision.steps is None
    assert decision.facts == FAIL


def test_steps_come_in_their_order() -> None:
    decision = BOOK.decide("instance", {"duty": "serve", "verdict": "refuse"})
    assert decision.steps == (Step.WARN, Step.MARK, Step.UNSYNC)
    assert decision.recheck is Recheck.AT_THE_PASS
    assert decision.verdict is None


@pytest.mark.parametrize(
    ("table", "facts", "named"),
    [
        ("ownrship", FAIL, "ownrship"),
        ("ownership", {"copy": "markerless"}, "conflictPolicy is missing"),
        ("ownership", {**FAIL, "copy": "markerles"}, '"markerles"'),
        ("ownership", {**FAIL, "tier": "gold"}, "tier"),
        ("ownership", {}, "copy is missing"),
    ],
)
def test_wrong_questions_are_bugs(table: str, facts: dict[str, str], named: str) -> None:
    with pytest.raises(GuardViolation) as raised:
        BOOK.decide(table, facts)
    assert named in raised.value.message


def test_a_decision_cannot_be_changed() -> None:
    decision = BOOK.decide("ownership", FAIL)
    with pytest.raises(TypeError):
        decision.facts["copy"] = "absent"  # type: ignore[index]


@pytest.mark.parametrize("table", BOOK.tables)
def test_an_explanation_names_exactly_the_facts_that_matter(table: str) -> None:
    facts = BOOK.tables[table].facts
    for situation in BOOK.tables[table].answers:
        asked = dict(zip(facts, situation, strict=True))
        explanation = explain(BOOK, table, asked)
        assert explanation.decision is BOOK.decide(table, asked)
        told = {(change.fact, change.word): change.decision for change in explanation.changes}
        for fact, words in facts.items():
            for word in words:
                other = BOOK.decide(table, {**asked, fact: word})
                if other.rule == explanation.decision.rule:
                    assert (fact, word) not in told
                else:
                    assert told[fact, word] is other


@pytest.mark.parametrize("value", [False, 0, "", [], {}, {"a": [None, {"b": 1.0}]}])
@pytest.mark.parametrize(("flow", "field"), [("instance-up", "spec"), ("instance-down", "status")])
def test_bundled_flows_carry_one_field_as_it_is(flow: str, field: str, value: object) -> None:
    document = {"metadata": {"name": "a"}, "spec": None, "status": None, "data": 1, field: value}
    assert BOOK.copying.carry(flow, document) == {field: value}
    assert BOOK.copying.carry(flow, {**document, field: None}) == {}


def test_the_bundled_flows() -> None:
    up, down = BOOK.copying.flows.values()
    assert (up.name, up.source, up.target) == ("instance-up", Side.CONSUMER, Side.PROVIDER)
    assert (up.through, up.absent, up.force) == ("main", "remove", True)
    assert (down.name, down.source, down.target) == ("instance-down", Side.PROVIDER, Side.CONSUMER)
    assert (down.through, down.absent, down.force) == ("status", "keep", False)


def test_prefixes_carry_labels_up_and_nothing_down() -> None:
    copying = load([Path(__file__).parents[1] / "overlays" / "billing-labels"]).copying
    document = {"metadata": {"labels": {"billing.example.org/a": "1", "b": "2"}}, "spec": {}}
    assert copying.carry("instance-up", document) == {
        "spec": {},
        "metadata": {"labels": {"billing.example.org/a": "1"}},
    }
    assert copying.carry("instance-down", document) == {}
    assert copying.carry("instance-up", {}) == {}


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        ("spec", {"spec"}),
        ('metadata.labels."a/b"', {"metadata"}),
        ("a.b[?c == `1`].d | [0]", {"a"}),
        ("a[*].b || c.d[]", {"a", "c"}),
        ("{x: a.b, y: [c, d.e]}", {"a", "c", "d"}),
        ("sort_by(a.b, &c)[-1:]", {"a"}),
        ("!a && @", {"a"}),
        ("a.*.b", {"a"}),
    ],
)
def test_an_expression_knows_where_it_looks(text: str, roots: set[str]) -> None:
    assert Expression(text).roots() == roots


def test_expressions_that_select() -> None:
    document = {"spec": {"a": [{"b": 1}, {"b": 2}]}}
    assert Expression("spec")(document) is document["spec"]
    assert Expression("spec.a[*].b")(document) == [1, 2]
    assert Expression("nothing")(document) is None
    with pytest.raises(ExpressionFailed) as raised:
        Expression("length(nothing)")(document)
    assert raised.value.expression == "length(nothing)"


@pytest.mark.parametrize("text", ["a.", "a[", "nothing(a)", "length(a", "'open"])
def test_expressions_that_are_none(text: str) -> None:
    with pytest.raises(BadExpression):
        Expression(text)


def test_a_rulebook_is_the_same_each_time(rulebook: Rulebook) -> None:
    assert rulebook.tables == BOOK.tables
