"""The pinned packages: all hashed, nothing that names a place, the agent's among those tested."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.manifests import ROOT

FILES = ("dev", "konnector")
each_file = pytest.mark.parametrize("name", FILES)


def normal(name: str) -> str:
    """A package's name as the lock files spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name: str) -> dict[str, list[str]]:
    """The lines of each pin, by package: the version's first, then the hashes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    found = [line.split() for line in text.splitlines()]
    return {normal(words[0].partition("==")[0]): words for words in found}


def named(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in requirements} - {"kbind"}


@each_file
def test_every_line_is_a_hashed_pin(name: str) -> None:
    assert pins(name)
    for first, *rest in pins(name).values():
        assert re.fullmatch(r"[\w.-]+==[\w.+!]+", first)
        hashes = [word for word in rest if word.startswith("--hash=")]
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for word in hashes)
        assert "://" not in " ".join(rest)


def test_the_agent_runs_on_what_was_tested() -> None:
    tested = pins("dev")
    for package, (version, *_) in pins("konnector").items():
        assert tested[package][0] == version


def test_everything_asked_for_is_pinned() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime = named(asked["project"]["dependencies"])
    extras = asked["project"]["optional-dependencies"].values()
    assert runtime <= set(pins("konnector"))
    for requirements in (*extras, asked["build-system"]["requires"]):
        assert named(requirements) <= set(pins("dev"))


def test_what_runs_beside_a_cluster_imports_nothing_else() -> None:
    runtime = set(pins("konnector"))
    distributions = packages_distributions()
    of_tests = (ROOT / "kbind" / "testing", ROOT / "kbind" / "demo")
    for folder in ("kbind", "plugins/kbind_sources"):
        for file in (ROOT / folder).rglob("*.py"):
            if any(part in file.parents for part in of_tests):
                continue
            for name in imports(file) - set(sys.stdlib_module_names) - {"kbind", "kbind_sources"}:
                assert {normal(each) for each in distributions[name]} & runtime, f"{file}: {name}"


def imports(file: Path) -> set[str]:
    """The packages that a module imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}
