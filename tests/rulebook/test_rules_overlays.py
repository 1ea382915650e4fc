"""Overlays: what they may change, and what they are answered when they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbind.errors import RuleFileError, RulesInvalid, TableGap, TableOverlap, UnknownWord
from kbind.rulebook import Rulebook, load
from kbind.steps import Side

OVERLAYS = Path(__file__).resolve().parents[1] / "overlays"

TIERS = """
table: {table}
facts:
  - {{fact: tier, from: {source}, words: [gold, silver], otherwise: silver}}
"""


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    directory = tmp_path / "overlay"
    directory.mkdir()
    return directory


def findings_of(*overlays: Path) -> tuple[RuleFileError, ...]:
    with pytest.raises(RulesInvalid) as raised:
        load(overlays)
    return raised.value.findings


def test_a_replaced_rule_is_gone_and_the_others_stay(rulebook: Rulebook) -> None:
    changed = load([OVERLAYS / "adopt-restored"])
    before = {rule.name: rule for rule in rulebook.tables["ownership"].rules}
    after = {rule.name: rule for rule in changed.tables["ownership"].rules}
    assert set(after) - set(before) == {"adopt-another-object"}
    for name in set(before) - {"refuse-another-object"}:
        assert after[name] == before[name]
    for name in set(rulebook.tables) - {"ownership"}:
        assert changed.tables[name] == rulebook.tables[name]
    adopt = {"copy": "another-object", "conflictPolicy": "Adopt"}
    assert rulebook.decide("ownership", adopt).verdict == "refuse"
    assert changed.decide("ownership", adopt).verdict == "adopt"


def test_a_flow_can_be_turned_round() -> None:
    flow = load([OVERLAYS / "status-up"]).copying.flows["instance-down"]
    assert (flow.source, flow.target, flow.through) == (Side.CONSUMER, Side.PROVIDER, "status")


def test_overlays_add_up() -> None:
    both = load([OVERLAYS / "status-up", OVERLAYS / "billing-labels", OVERLAYS / "adopt-restored"])
    assert both.copying.flows["instance-down"].source is Side.CONSUMER
    assert both.copying.labels == ("billing.example.org/",)


def test_a_later_overlay_changes_what_an_earlier_one_brought(overlay: Path) -> None:
    (overlay / "ownership.yaml").write_text(
        "table: ownership\n"
        "replace:\n"
        "  adopt-another-object:\n"
        "    - rule: adopt-never\n"
        "      why: Not here.\n"
        "      when: {copy: another-object, conflictPolicy: Adopt}\n"
        "      then: {verdict: refuse, reason: OwnedByAnother}\n"
    )
    changed = load([OVERLAYS / "adopt-restored", overlay])
    decision = changed.decide("ownership", {"copy": "another-object", "conflictPolicy": "Adopt"})
    assert decision.rule == "adopt-never"
    assert [type(finding) for finding in findings_of(overlay, OVERLAYS / "adopt-restored")] == [
        UnknownWord
    ]


def test_declared_facts_are_words_of_their_table_alone(rulebook: Rulebook) -> None:
    changed = load([OVERLAYS / "guarded-tier"])
    assert rulebook.declared("ownership") == ()
    assert changed.declared("instance") == ()
    (tier,) = changed.declared("ownership")
    assert (tier.name, tier.words, tier.otherwise) == ("tier", ("gold", "silver"), "silver")
    assert list(changed.tables["ownership"].facts) == ["copy", "conflictPolicy", "tier"]


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        ({"example.org/tier": "gold"}, "gold"),
        ({"example.org/tier": "platinum"}, "silver"),
        ({"example.org/tier": 7}, "silver"),
        ({"example.org/tier": None}, "silver"),
        ({"example.org/tier": ["gold"]}, "silver"),
        ({}, "silver"),
        (None, "silver"),
    ],
)
def test_a_declared_fact_has_a_word_for_everything(labels: object, word: str) -> None:
    (tier,) = load([OVERLAYS / "guarded-tier"]).declared("ownership")
    assert tier.word({"instance": {"metadata": {"labels": labels}}, "copy": None}) == word


def test_an_expression_that_does_not_fit_is_otherwise(overlay: Path) -> None:
    source = "join('-', instance.spec.parts)"
    (overlay / "a.yaml").write_text(TIERS.format(table="instance", source=f'"{source}"'))
    (tier,) = load([overlay]).declared("instance")
    assert tier.word({"instance": {"spec": {}}, "copy": None}) == "silver"
    assert tier.word({"instance": {"spec": {"parts": ["gold"]}}, "copy": None}) == "gold"


def test_a_declared_fact_that_no_rule_names_changes_nothing(overlay: Path) -> None:
    (overlay / "a.yaml").write_text(TIERS.format(table="duty", source="instance.spec.tier"))
    changed = load([overlay])
    facts = {"life": "alive", "cover": "bound", "hold": "none", "policy": "Delete", "pause": "none"}
    for tier in ("gold", "silver"):
        assert changed.decide("duty", {**facts, "tier": tier}).rule == "serve"


def test_a_mounted_config_map_is_read_once(overlay: Path) -> None:
    content = overlay / "..2026_01_01"
    content.mkdir()
    for path in (OVERLAYS / "adopt-restored").glob("*.yaml"):
        (content / path.name).write_text(path.read_text())
    (overlay / "..data").symlink_to(content.name)
    (overlay / "ownership.yaml").symlink_to(Path("..data", "ownership.yaml"))
    (overlay / ".hidden.yaml").write_text("nonsense")
    assert "adopt-another-object" in {
        rule.name for rule in load([overlay, overlay]).tables["ownership"].rules
    }


def test_an_empty_overlay_changes_nothing(rulebook: Rulebook, overlay: Path) -> None:
    assert load([overlay]).tables == rulebook.tables


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    (finding,) = findings_of(tmp_path / "nowhere")
    assert finding.path == str(tmp_path / "nowhere")


def test_a_gap_points_at_the_replacement_that_made_it(overlay: Path) -> None:
    path = overlay / "ownership.yaml"
    path.write_text(
        "table: ownership\n"
        "replace:\n"
        "  maintain: []\n"
        "  refuse-markerless:\n"
        "    - rule: refuse-unset\n"
        "      why: Nobody asked.\n"
        "      when: {copy: markerless, conflictPolicy: unset}\n"
        "      then: {verdict: refuse, reason: ForeignObjectExists}\n"
    )
    findings = findings_of(overlay)
    assert [(type(finding), finding.path, finding.line) for finding in findings] == [
        (TableGap, str(path), 3),
        (TableGap, str(path), 4),
    ]


def test_an_overlap_points_at_the_overlay(overlay: Path) -> None:
    path = overlay / "ownership.yaml"
    path.write_text(
        "table: ownership\n"
        "replace:\n"
        "  create:\n"
        "    - rule: create\n"
        "      why: Nothing there, or ours.\n"
        "      when: {copy: [absent, ours]}\n"
        "      then: {verdict: create}\n"
    )
    (finding,) = findings_of(overlay)
    assert (type(finding), finding.path, finding.line) == (TableOverlap, str(path), 4)
    assert '"maintain"' in finding.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("table: ownership\nrules: []\n", 2),
        ("table: ownership\nreplce: {}\n", 2),
        ("table: ownership\nreplace: {creat: []}\n", 2),
        ("table: ownership\nreplace: {create: {}}\n", 2),
        ("table: ownership\nreplace: []\n", 2),
        (
            "table: ownership\nreplace:\n  create:\n"
            "  - {rule: no, why: No., when: {copy: absent}, then: {verdict: refuse}}\n",
            4,
        ),
        ("table: ownrship\n", 1),
        ("table: ownership\nfacts: [copy]\n", 2),
        (TIERS.format(table="delivery", source="instance.spec"), 4),
        (TIERS.format(table="source", source="instance.spec"), 4),
        (TIERS.format(table="ownership", source="instnce.spec"), 4),
        (TIERS.format(table="ownership", source="\"join('', [copy.a, nstance.b])\""), 4),
        (TIERS.format(table="ownership", source="'instance.['"), 4),
        (TIERS.format(table="duty", source="copy.spec"), 4),
        (TIERS.format(table="ownership", source="copy.spec").replace("tier", "copy"), 4),
        (TIERS.format(table="ownership", source="copy.spec").replace("tier", "listing"), 4),
        (TIERS.format(table="ownership", source="copy.spec").replace("tier", "Tier 1"), 4),
        (TIERS.format(table="ownership", source="copy.spec").replace("gold, ", ""), 4),
        (TIERS.format(table="ownership", source="copy.spec").replace("gold", "silver"), 4),
        (TIERS.format(table="ownership", source="copy.spec").replace(": silver", ": iron"), 4),
        (TIERS.format(table="ownership", source="copy.spec").replace("gold", "true"), 4),
        ("table: copying\nflows:\n  - {flow: instance-sideways}\n", 3),
        ("table: copying\nmetadata: {labels: [core.kbind.io/]}\n", 2),
    ],
)
def test_what_an_overlay_may_not_do(overlay: Path, text: str, line: int) -> None:
    path = overlay / "any-name.yaml"
    path.write_text(text)
    findings = findings_of(overlay)
    assert {(finding.path, finding.line) for finding in findings} == {(str(path), line)}


def test_two_flows_cannot_write_the_same_field(overlay: Path) -> None:
    path = overlay / "copying.yaml"
    path.write_text(
        (OVERLAYS / "status-up" / "copying.yaml")
        .read_text()
        .replace("through: status", "through: main")
        .replace("{status: status}", "{spec: status}")
    )
    (finding,) = findings_of(overlay)
    assert (finding.path, finding.line) == (str(path), 4)


def test_too_many_situations(overlay: Path) -> None:
    words = ", ".join(f"w{number}" for number in range(60))
    (overlay / "a.yaml").write_text(
        "table: ownership\n"
        "facts:\n"
        f"  - {{fact: a, from: instance.a, words: [{words}], otherwise: w0}}\n"
        f"  - {{fact: b, from: instance.b, words: [{words}], otherwise: w0}}\n"
    )
    (finding,) = findings_of(overlay)
    assert "97200" in finding.message
