"""Every rule has a case, every case meets the rule it is called after, and golden/ shows both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from syrupy.assertion import SnapshotAssertion

from kbind import resources
from kbind.errors import RulesInvalid
from kbind.plan import Decision
from kbind.rulebook import FlowCase, Rulebook, load, read_case
from kbind.steps import Recheck
from kbind.tables import TABLES
from tests.golden import ROOT, GoldenFile, Line, files

OWNED: Final = (*TABLES, "copying", "overlays", "errors")
"""Directories of golden/ that these tests write, and where an update removes what is left over."""

CASES: Final = ROOT / "tests" / "cases"
OVERLAYS: Final = ROOT / "tests" / "overlays"
BROKEN: Final = ROOT / "tests" / "broken"


def _golden_files() -> Iterator[str]:
    """What golden/ has to hold, by path below it and without ``.yaml``."""
    for table in TABLES:
        yield f"{table}/_all"
    for path in CASES.glob("*/*.yaml"):
        yield path.relative_to(CASES).with_suffix("").as_posix()
    for path in OVERLAYS.glob("*/cases/*/*.yaml"):
        overlay, _, table, name = path.relative_to(OVERLAYS).with_suffix("").parts
        yield f"overlays/{overlay}/{table}/{name}"
    for path in BROKEN.iterdir():
        yield f"errors/{path.name}"


EXPECTED: Final = sorted(_golden_files())


class RuleFile(GoldenFile):
    """``test_golden[ownership/create]`` is ``golden/ownership/create.yaml``."""

    test = "test_golden"
    owned = OWNED


@pytest.mark.parametrize("name", EXPECTED)
def test_golden(
    name: str,
    rulebook: Rulebook,
    snapshot: SnapshotAssertion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, *rest = name.split("/")
    shown: Any
    if rest == ["_all"]:
        table = rulebook.tables[first]
        shown = [Line({**decision.facts, **_plan(decision)}) for decision in table.answers.values()]
    elif first == "errors":
        monkeypatch.chdir(ROOT)
        with pytest.raises(RulesInvalid) as raised:
            load([Path("tests", "broken", *rest)], bundled=Path("rules"))
        shown = {"findings": [str(finding) for finding in raised.value.findings]}
    elif first == "overlays":
        overlay, table_name, case = rest
        path = OVERLAYS / overlay / "cases" / table_name / f"{case}.yaml"
        shown = _shown(load([_overlay(overlay)]), path)
    else:
        shown = _shown(rulebook, CASES / f"{name}.yaml")
    assert shown == snapshot.use_extension(RuleFile)


def test_golden_holds_nothing_else() -> None:
    assert files(*OWNED) == set(EXPECTED)


def test_every_rule_has_a_case_and_every_case_a_rule(rulebook: Rulebook) -> None:
    rules = {(name, rule.name) for name, table in rulebook.tables.items() for rule in table.rules}
    rules |= {("copying", flow) for flow in rulebook.copying.flows}
    cases = {(path.parent.name, path.name.split(".")[0]) for path in CASES.glob("*/*")}
    assert cases == rules


def test_every_rule_of_a_bundled_overlay_has_a_case(rulebook: Rulebook) -> None:
    rules, cases = set(), set()
    for name, path in resources.overlays().items():
        for table in load([path]).tables.values():
            known = {rule.name for rule in rulebook.tables[table.spec.name].rules}
            rules |= {(name, rule.name) for rule in table.rules if rule.name not in known}
        cases |= {(name, it.name.split(".")[0]) for it in OVERLAYS.glob(f"{name}/cases/*/*")}
    assert cases == rules


def _overlay(name: str) -> Path:
    """One that ships with kbind, or one of these tests."""
    return resources.overlays().get(name, OVERLAYS / name)


def _shown(rulebook: Rulebook, path: Path) -> dict[str, Any]:
    """What a golden file says about one case; the case has to meet the rule it is called after."""
    case = read_case(path, rulebook)
    assert case.why is not None
    rule = path.name.split(".")[0]
    if isinstance(case, FlowCase):
        assert case.flow == rule
        flow = rulebook.copying.flows[case.flow]
        return {
            "why": case.why,
            "situation": {"flow": case.flow, "source": case.source},
            "plan": {
                "from": flow.source,
                "to": flow.target,
                "through": flow.through,
                "carried": rulebook.copying.carry(case.flow, case.source),
            },
        }
    decision = rulebook.decide(case.table, case.facts)
    assert decision.rule == rule
    return {"why": case.why, "situation": dict(case.facts), "plan": _plan(decision)}


def _plan(decision: Decision) -> Line:
    plan = Line(rule=decision.rule)
    if decision.verdict is not None:
        plan["verdict"] = decision.verdict
    if decision.steps is not None:
        plan["steps"] = list(decision.steps)
    if decision.reason is not None:
        plan["reason"] = decision.reason
    if decision.recheck is not Recheck.ON_EVENT:
        plan["recheck"] = decision.recheck
    return plan
