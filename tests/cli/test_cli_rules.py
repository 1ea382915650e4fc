"""The commands over the rules, run as a person runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kbind import __version__
from kbind.cli import main
from kbind.facts import FACTS
from kbind.rulebook.schema import language
from kbind.tables import TABLES

TESTS = Path(__file__).resolve().parents[1]
OVERLAYS = TESTS / "overlays"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_check_counts_what_it_proved() -> None:
    result = run("rules", "check")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "9 tables, 96 rules, 584 situations: complete\n"


def test_check_takes_overlays() -> None:
    result = run(
        "rules", "check", "--rules", OVERLAYS / "guarded-tier", "--rules", OVERLAYS / "status-up"
    )
    assert result.stdout == "9 tables, 97 rules, 611 situations: complete\n"


def test_check_reports_findings_on_stderr() -> None:
    result = run("rules", "check", "--rules", TESTS / "broken" / "misspelled")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ownership.yaml:8:20: " in result.stderr
    assert result.stderr.endswith("error: 10 findings\n")


def test_show_lists_the_tables() -> None:
    result = run("rules", "show")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [*TABLES, "copying"]


@pytest.mark.parametrize("table", [*TABLES, "copying"])
def test_show_prints_a_table(table: str) -> None:
    result = run("rules", "show", table)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{table}: ")
    assert all(len(line) <= 100 for line in result.stdout.splitlines())
    if table in TABLES:
        words = result.stdout.replace(",", " ").split()
        for fact in TABLES[table].facts:
            assert {fact, *FACTS[fact]} <= set(words)


def test_show_says_what_steps_mean() -> None:
    assert "create the CRD on the consumer" in run("rules", "show", "delivery").stdout


def test_show_with_an_overlay() -> None:
    result = run("rules", "show", "ownership", "--rules", OVERLAYS / "guarded-tier")
    assert "refuse-gold" in result.stdout
    assert "tier is declared" in result.stdout
    result = run("rules", "show", "copying", "--rules", OVERLAYS / "billing-labels")
    assert "billing.example.org/" in result.stdout


def test_show_of_an_unknown_table() -> None:
    result = run("rules", "show", "onership")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert '"ownership"' in result.stderr


def test_schema() -> None:
    assert json.loads(run("rules", "schema").stdout) == language()


def test_explain_a_case() -> None:
    result = run("explain", TESTS / "cases" / "ownership" / "refuse-markerless.yaml")
    assert result.exit_code == 0
    assert "rule  refuse-markerless (" in result.stdout
    changes = [line.split() for line in result.stdout.splitlines() if "=" in line]
    assert ["conflictPolicy=Adopt", "adopt-markerless", "verdict", "adopt"] in changes
    assert not any(change[0] == "conflictPolicy=unset" for change in changes)


def test_explain_with_an_overlay() -> None:
    case = OVERLAYS / "guarded-tier" / "cases" / "ownership" / "refuse-gold.yaml"
    assert run("explain", case).exit_code == 1
    result = run("explain", case, "--rules", OVERLAYS / "guarded-tier")
    assert "tier=silver" in result.stdout


def test_explain_a_flow() -> None:
    result = run("explain", TESTS / "cases" / "copying" / "instance-up.yaml")
    assert result.exit_code == 0
    assert '"instances": 3' in result.stdout


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("situation: {copy: ours}\n", "1:1"),
        ("table: ownrship\nsituation: {copy: ours}\n", "1:8"),
        ("table: ownership\nsituation: {copy: our, conflictPolicy: Fail}\n", "2:19"),
        ("table: ownership\nsituation: {copy: ours}\n", "2:12"),
        ("table: ownership\nsituation: {copy: ours, conflictPolicy: Fail, tier: a}\n", "2:47"),
        ("table: ownership\nsituation: [ours]\n", "2:12"),
        ("table: ownership\n", "1:1"),
        ("table: copying\nsituation: {flow: instance-up}\n", "2:12"),
        ("table: copying\nsituation: {flow: up, source: {}}\n", "2:19"),
        ("table: copying\nsituation: {flow: instance-up, source: 1}\n", "2:40"),
    ],
)
def test_explain_points_at_mistakes_in_a_case(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(text)
    result = run("explain", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{path}:{place}: " in result.stderr


def test_explain_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = run("explain", tmp_path / "none.yaml")
    assert (result.exit_code, result.stdout) == (1, "")


@pytest.mark.parametrize(
    "command", [(), ("rules",), ("rules", "check"), ("rules", "show"), ("explain",)]
)
def test_help_is_everywhere(command: tuple[str, ...]) -> None:
    short, long = run(*command, "-h"), run(*command, "--help")
    assert short.exit_code == long.exit_code == 0
    assert short.stdout == long.stdout != ""


def test_version() -> None:
    assert run("--version").stdout == f"kbind {__version__}\n"


def test_starting_the_command_line_loads_no_cluster() -> None:
    code = "import sys, kbind.cli; print({'kubernetes', 'aiohttp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
