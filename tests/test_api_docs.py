"""docs/api.md is complete and says what the core CRDs and the words say."""

from __future__ import annotations

import json
import re

import pytest

from kbind import words
from tests.manifests import ROOT, Object, core_crds, fields, schema

PAGE = (ROOT / "docs" / "api.md").read_text()
SECTIONS = {
    "Connection": ("Connection",),
    "ClusterBinding and Binding": ("ClusterBinding", "Binding"),
}

# Standard types of Kubernetes, which have their own documentation.
STANDARD = ("status.conditions[]", "spec.relatedResources[].selector.labelSelector.")


def rows(section: str) -> dict[str, list[str]]:
    """The cells of a section's table by the word in the first one."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    table = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in table[2:]]
    assert all(cells[0] for cells in cells)
    return {first.strip("*`"): [first, *rest] for first, *rest in cells}


def keys() -> set[str]:
    """The values in kbind.words that are keys of our group: labels, annotations, finalizers."""
    values = (value for name, value in vars(words).items() if name.isupper())
    return {
        value
        for value in values
        if isinstance(value, str)
        and value.startswith(f"{words.GROUP}/")
        and value != words.API_VERSION
    }


def known_fields(kind: str) -> dict[str, tuple[Object, bool]]:
    """Our fields by path, each with its schema and whether its parent requires it."""
    nodes = {"": schema(kind), **dict(fields(schema(kind)))}
    found: dict[str, tuple[Object, bool]] = {}
    for path, node in nodes.items():
        parent, _, name = path.rpartition(".")
        if not path.startswith(("spec", "status")) or path.startswith(STANDARD):
            continue
        if not path.endswith("[]"):
            found[path] = (node, name in nodes[parent].get("required", []))
    return found


@pytest.mark.parametrize(
    ("section", "kind"), [(section, kind) for section, kinds in SECTIONS.items() for kind in kinds]
)
def test_every_field_is_documented(section: str, kind: str) -> None:
    documented = rows(section)
    known = known_fields(kind)
    assert list(documented) == list(known)
    for path, (node, required) in known.items():
        first, type_, default, meaning = documented[path]
        assert first.startswith("**") is required, path
        assert type_ == node["type"], path
        if "default" in node:
            value = node["default"]
            shown = value if isinstance(value, str) and value else json.dumps(value)
            assert default == f"`{shown}`", path
        else:
            assert default == "", path
        for word in node.get("enum", []):
            assert not word or f"`{word}`" in meaning, path


def test_every_kind_is_documented() -> None:
    for kind, crd in core_crds().items():
        assert (
            f"| `{kind}` | {crd['spec']['scope']} | `{crd['spec']['names']['shortNames'][0]}`"
            in (PAGE)
        )


def test_every_reason_is_documented_and_no_other() -> None:
    documented = rows("Reasons")
    assert list(documented) == [reason.value for reason in words.Reason]
    assert all(means for _, means in documented.values())


def test_every_condition_is_documented_and_no_other() -> None:
    assert set(rows("Conditions")) == {condition.value for condition in words.Condition}


def test_every_key_is_documented_and_no_other() -> None:
    tables = [rows(section) for section in ("Labels", "Annotations", "Finalizers")]
    documented = [key for table in tables for key in table]
    assert len(documented) == len(set(documented))
    assert set(documented) == keys()


def test_field_managers_are_documented() -> None:
    assert set(rows("Field managers")) == {
        value for name, value in vars(words).items() if name.endswith("MANAGER")
    }
