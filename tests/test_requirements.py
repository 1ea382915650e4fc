"""The pinned packages: all hashed, nothing that names a place, the agent's among those tested."""

from __future__ import annotations

import re
import tomllib

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
