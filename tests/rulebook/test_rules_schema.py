"""The published JSON Schema is the code's, and agrees with the loader on the files there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from kbind import resources
from kbind.rulebook.schema import language

TESTS = Path(__file__).resolve().parents[1]
RULES = resources.folder("rules")
GOOD = sorted([*RULES.glob("*.yaml"), *(TESTS / "overlays").glob("*/*.yaml")])


def _load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def test_the_published_schema_is_current() -> None:
    """``kbind rules schema > rules/schema.json`` writes it anew."""
    assert json.loads((RULES / "schema.json").read_text()) == language()


@pytest.mark.parametrize("path", GOOD, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_accepts_what_loads(path: Path) -> None:
    jsonschema.Draft7Validator(language()).validate(_load(path))


@pytest.mark.parametrize("name", ["instance", "ownership"])
def test_it_refuses_misspelled_words(name: str) -> None:
    assert not jsonschema.Draft7Validator(language()).is_valid(
        _load(TESTS / "broken" / "misspelled" / f"{name}.yaml")
    )


def test_it_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(language())
