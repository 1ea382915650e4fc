"""Every rule has a case, every case meets the rule it is called after, and golden/ shows both."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import LiteralScalarString
from syrupy.assertion import SnapshotAssertion
from syrupy.data import Snapshot, SnapshotCollection
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from kbind.errors import RulesInvalid
from kbind.plan import Decision
from kbind.rulebook import FlowCase, Rulebook, load, read_case
from kbind.steps import Recheck
from kbind.tables import TABLES

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation

ROOT: Final = Path(__file__).resolve().parents[2]
GOLDEN: Final = ROOT / "golden"
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


class Line(dict[str, Any]):
    """A mapping that golden files show on one line."""


class GoldenFile(SingleFileSnapshotExtension):
    """``test_golden[ownership/create]`` is ``golden/ownership/create.yaml``, as stable YAML."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"

    def serialize(self, data: Any, **_: Any) -> str:
        yaml = YAML()
        yaml.default_flow_style = None  # innermost mappings and lists on one line
        yaml.width = 10_000
        stream = StringIO()
        yaml.dump(_plain(data), stream)
        return stream.getvalue()

    @classmethod
    def get_location(cls, *, test_location: PyTestLocation, index: object) -> str:
        name = test_location.snapshot_name
        return str(GOLDEN / f"{name.removeprefix('test_golden[').removesuffix(']')}.yaml")

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: object = 0) -> str:
        return test_location.snapshot_name

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(Path(cls.get_location(test_location=test_location, index=0)).parent)

    @classmethod
    def discovery_dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(GOLDEN)

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        return cls.get_location(test_location=test_location, index=0) == snapshot_location

    def owns_snapshot_collection(self, *, filepath: str, test_location: PyTestLocation) -> bool:
        path = Path(filepath).relative_to(GOLDEN)
        return path.parts[0] in OWNED and path.suffix == ".yaml"

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        path = Path(snapshot_location).relative_to(GOLDEN).with_suffix("")
        collection = SnapshotCollection(location=snapshot_location)
        collection.add(Snapshot(name=f"test_golden[{path.as_posix()}]"))
        return collection


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
        shown = _shown(load([OVERLAYS / overlay]), path)
    else:
        shown = _shown(rulebook, CASES / f"{name}.yaml")
    assert shown == snapshot.use_extension(GoldenFile)


def test_golden_holds_nothing_else() -> None:
    found = {
        path.relative_to(GOLDEN).with_suffix("").as_posix()
        for directory in OWNED
        for path in (GOLDEN / directory).rglob("*")
        if path.is_file()
    }
    assert found == set(EXPECTED)


def test_every_rule_has_a_case_and_every_case_a_rule(rulebook: Rulebook) -> None:
    rules = {(name, rule.name) for name, table in rulebook.tables.items() for rule in table.rules}
    rules |= {("copying", flow) for flow in rulebook.copying.flows}
    cases = {(path.parent.name, path.name.split(".")[0]) for path in CASES.glob("*/*")}
    assert cases == rules


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


def _plain(value: Any) -> Any:
    """As YAML shows it best: words as text, text of several lines as a block."""
    if isinstance(value, Line):
        line = CommentedMap({key: _plain(item) for key, item in value.items()})
        line.fa.set_flow_style()
        return line
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return LiteralScalarString(value) if "\n" in value else str(value)
    return value
