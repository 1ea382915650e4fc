"""Loading: completeness is proved, and every kind of mistake is found where it stands."""

from __future__ import annotations

import re
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kbind import resources
from kbind.errors import (
    RuleFileError,
    RulesInvalid,
    RuleUnreachable,
    TableGap,
    TableOverlap,
    UnknownWord,
)
from kbind.plan import Decision
from kbind.rulebook import Rulebook, load
from kbind.rulebook.proof import compact
from kbind.tables import TABLES

BUNDLED = resources.folder("rules")
RULES = [
    (name, rule["rule"])
    for name in TABLES
    for rule in YAML(typ="safe").load((BUNDLED / f"{name}.yaml").read_text())["rules"]
]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A copy of the bundled set, to spoil."""
    return Path(shutil.copytree(BUNDLED, tmp_path / "rules"))


def findings_of(rules: Path) -> tuple[RuleFileError, ...]:
    with pytest.raises(RulesInvalid) as raised:
        load(bundled=rules)
    return raised.value.findings


def only(rules: Path, kind: type[RuleFileError]) -> RuleFileError:
    """The one finding there is; its line is the one it says."""
    findings = findings_of(rules)
    assert [type(finding) for finding in findings] == [kind]
    finding = findings[0]
    if finding.line is not None:
        assert finding.source == Path(finding.path).read_text().splitlines()[finding.line - 1]
    return finding


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def spoil(rules: Path, table: str, old: str, new: str) -> tuple[str, int, int]:
    """Edits a table and gives the place that ``^`` in *new* marks: path, line, column."""
    path = rules / f"{table}.yaml"
    edit(path, old, new)
    before, _, after = path.read_text().partition("^")
    path.write_text(before + after)
    lines = before.split("\n")
    return str(path), len(lines), len(lines[-1]) + 1


def rewrite(rules: Path, table: str, change: Any) -> Path:
    path = rules / f"{table}.yaml"
    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(path)
    change(content["rules"])
    yaml.dump(content, path)
    return path


@pytest.mark.parametrize(("table", "name"), RULES)
def test_no_rule_can_be_left_out(rules: Path, table: str, name: str) -> None:
    path = rewrite(
        rules, table, lambda rows: rows.remove(next(r for r in rows if r["rule"] == name))
    )
    findings = findings_of(rules)
    assert {type(finding) for finding in findings} == {TableGap}
    assert {finding.path for finding in findings} == {str(path)}
    assert all(finding.hint and "nearest" in finding.hint for finding in findings)


@pytest.mark.parametrize(("table", "name"), RULES)
def test_no_rule_can_stand_twice(rules: Path, table: str, name: str) -> None:
    def double(rows: Any) -> None:
        row = next(row for row in rows if row["rule"] == name)
        rows.append(deepcopy({**row, "rule": "the-same-again"}))

    path = rewrite(rules, table, double)
    findings = findings_of(rules)
    assert [type(finding) for finding in findings] == [TableOverlap]
    assert findings[0].path == str(path)
    assert "the-same-again" in findings[0].message
    assert name in findings[0].message


def test_every_situation_has_one_answer(rulebook: Rulebook) -> None:
    for name, table in rulebook.tables.items():
        assert table.spec is TABLES[name]
        for situation, decision in table.answers.items():
            facts = dict(zip(table.facts, situation, strict=True))
            met = [
                rule.name
                for rule in table.rules
                if all(facts[fact] in words for fact, words in rule.when.items())
            ]
            assert met == [decision.rule]
            assert dict(decision.facts) == facts
            assert isinstance(decision, Decision)


def test_a_gap_is_named_compactly() -> None:
    situations = [(a, b) for a in "xyz" for b in "12"] + [("w", "1")]
    assert compact(situations) == [
        (frozenset("xyz"), frozenset("12")),
        (frozenset("w"), frozenset("1")),
    ]


def test_a_gap_says_where_it_comes_closest(rules: Path) -> None:
    edit(rules / "ownership.yaml", "conflictPolicy: [Fail, unset]", "conflictPolicy: [Fail]")
    finding = only(rules, TableGap)
    assert finding.message == "ownership has no rule for copy=markerless, conflictPolicy=unset"
    assert finding.hint is not None
    assert '"refuse-markerless"' in finding.hint
    assert "conflictPolicy=Fail" in finding.hint


def test_many_gaps_do_not_fill_the_screen(rules: Path) -> None:
    rewrite(rules, "delivery", lambda rows: rows.clear())
    assert [finding.message for finding in findings_of(rules)] == [
        "delivery has no rule for any facts"
    ]
    edit(rules / "ownership.yaml", "when: {copy: absent}", "when: {copy: ours}")
    edit(rules / "ownership.yaml", "when: {copy: partial}", "when: {copy: ours}")
    edit(rules / "ownership.yaml", "when: {copy: another-object}", "when: {copy: ours}")
    edit(rules / "ownership.yaml", "when: {copy: another-cluster}", "when: {copy: ours}")
    overlaps = [finding for finding in findings_of(rules) if isinstance(finding, TableOverlap)]
    assert len(overlaps) == 6  # five of the ten pairs, and how many more there are


def test_a_rule_that_nothing_meets(rules: Path) -> None:
    edit(rules / "ownership.yaml", "when: {copy: partial}", "when: {copy: []}")
    assert '"' not in only(rules, RuleUnreachable).message


@pytest.mark.parametrize(
    ("table", "old", "new", "meant"),
    [
        ("ownership", "copy: absent", "copy: ^absnt", "absent"),
        ("ownership", "when: {copy: absent", "when: {^kopy: absent", "copy"),
        ("ownership", "verdict: create", "verdict: ^creat", "create"),
        ("ownership", "verdict: create", "^verdct: create", "verdict"),
        ("instance", "[tell, hold,", "[tell, ^hodl,", "hold"),
        ("delivery", "reason: SchemaMissing", "reason: ^SchemaMising", "SchemaMissing"),
        ("instance", "recheck: at-the-pass", "recheck: ^at-pass", "at-the-pass"),
        ("instance", "table: instance", "table: ^instence", "instance"),
        ("instance", "rules:", "^rulse:", "rules"),
        ("ownership", "why: Nothing", "^wy: Nothing", "why"),
        ("copying", "from: consumer", "from: ^consmer", "consumer"),
        ("copying", "flow: instance-up", "flow: ^instance-upp", "instance-up"),
        ("copying", "manager: kbind-k", "manager: ^kbnd-k", "kbind-konnector"),
        ("copying", "labels: []", "^label: []", "labels"),
    ],
)
def test_unknown_words(rules: Path, table: str, old: str, new: str, meant: str) -> None:
    place = spoil(rules, table, old, new)
    found = [finding for finding in findings_of(rules) if isinstance(finding, UnknownWord)]
    assert [(finding.path, finding.line, finding.column) for finding in found] == [place]
    assert found[0].hint is not None
    assert f'"{meant}"' in found[0].hint


WHY = "why: Nothing stands under the copy's name yet."


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("ownership", WHY, "why: ^' '"),
        ("ownership", WHY, "^why:"),
        ("ownership", "rule: maintain", "rule: ^create"),
        ("ownership", "rule: maintain", "rule: ^Maintain it"),
        ("ownership", "{copy: absent}", "{copy: absent, ^copy: ours}"),
        ("ownership", "{copy: absent}", "{copy: [absent, ^absent]}"),
        ("ownership", "{copy: absent}", "{copy: ^true}"),
        ("ownership", "{copy: absent}", "{copy: ^{is: absent}}"),
        ("ownership", "{copy: absent}", "{^1: absent}"),
        ("ownership", "{copy: absent}", "^absent"),
        ("ownership", "{verdict: create}", "{steps: ^[create]}"),
        ("ownership", "{verdict: create}", "{steps: ^create}"),
        ("ownership", "{verdict: create}", "^{verdict: create, steps: []}"),
        ("ownership", "{verdict: create}", "^{}"),
        ("ownership", "{verdict: create}", "^create"),
        ("ownership", "- rule: create", "- ^why: Which one?"),
        ("ownership", "[copy, conflictPolicy]", "^[copy]"),
        ("ownership", "[copy, conflictPolicy]", "^[conflictPolicy, copy]"),
        ("ownership", "table: ownership", "table: ^instance"),
        ("ownership", "table: ownership\n", "^"),
        ("instance", "{steps: [tell, hold, n", "{verdict: ^serve, why: [n"),
        ("copying", "to: provider", "to: ^consumer"),
        ("copying", "{spec: spec}", "{spec: ^'spec['}"),
        ("copying", "{spec: spec}", "{spec: ^'sum_of(spec)'}"),
        ("copying", "{spec: spec}", "^{}"),
        ("copying", "{spec: spec}", "{^metadata: metadata}"),
        ("copying", "{status: status}", "{^state: status}"),
        ("copying", "force: true", "force: ^yes please"),
        ("copying", "absent: keep", "absent: keep\n    force: ^true"),
        ("copying", "flow: instance-down", "^flow: instance-up"),
        ("copying", "labels: []", "labels: ^[core]"),
        ("copying", "labels: []", "labels: ^[core.kbind.io/managed]"),
        ("copying", "labels: []", "labels: [^'']"),
        ("copying", "annotations: []", "annotations: ^core"),
    ],
)
def test_other_mistakes(rules: Path, table: str, old: str, new: str) -> None:
    place = spoil(rules, table, old, new)
    assert place in [(finding.path, finding.line, finding.column) for finding in findings_of(rules)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "table: [ownership",
        "table: ownership\n\tfacts: []",
        "- ownership",
        "a: 1\n---\nb: 2",
        "facts: []",
        "table: ownership\nfacts: &f [copy]\nrules: *f",
        "table: &t [*t]",
        "table: \x07",
        'table: "\\UFFFFFFFF"',
        "[" * 5000,
        "- " * 5000,
        "".join(" " * level + "a:\n" for level in range(400)),
    ],
)
def test_files_that_are_no_tables(rules: Path, text: str) -> None:
    path = rules / "ownership.yaml"
    path.write_text(text)
    findings = findings_of(rules)
    assert {finding.path for finding in findings} == {str(path)}


def test_a_file_that_is_not_text(rules: Path) -> None:
    (rules / "ownership.yaml").write_bytes(b"table: \xff\xfe")
    assert only(rules, RuleFileError).line is None


def test_an_overlay_that_is_a_link_to_itself(rules: Path, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    path = overlay / "a.yaml"
    path.symlink_to(path)
    with pytest.raises(RulesInvalid) as caught:
        load([overlay], bundled=rules)
    (finding,) = caught.value.findings
    assert finding.path == str(path)
    assert finding.message.startswith("cannot be read: Too many levels of symbolic links")


def test_missing_and_unknown_tables(rules: Path) -> None:
    (rules / "ownership.yaml").rename(rules / "copying.yml")
    (rules / "owner.yaml").write_text("table: ownership\n")
    (rules / "notes.txt").write_text("not a rule file")
    paths = {Path(finding.path).name for finding in findings_of(rules)}
    assert paths == {"rules", "copying.yml", "owner.yaml"}


def test_a_missing_flow(rules: Path) -> None:
    path = rules / "copying.yaml"
    text = path.read_text()
    path.write_text(re.sub(r"  - flow: instance-down.*?\n\n", "", text, flags=re.DOTALL))
    assert "instance-down" in only(rules, RuleFileError).message


def test_all_findings_of_all_files_come_at_once(rules: Path) -> None:
    edit(rules / "ownership.yaml", "copy: absent", "copy: absnt")
    edit(rules / "ownership.yaml", "verdict: adopt", "verdict: adpt")
    edit(rules / "duty.yaml", "life: alive", "live: alive")
    edit(rules / "source.yaml", "listing: unread", "listing: exports")
    findings = findings_of(rules)
    assert [(Path(finding.path).name, type(finding)) for finding in findings] == [
        ("duty.yaml", UnknownWord),
        ("ownership.yaml", UnknownWord),
        ("ownership.yaml", UnknownWord),
        ("source.yaml", TableOverlap),
        ("source.yaml", TableOverlap),
        ("source.yaml", TableGap),
    ]
