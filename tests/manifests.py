"""The project's manifests as tests read them: the core CRDs and the samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

Object = dict[str, Any]

ROOT = Path(__file__).parents[1]
CRDS = ROOT / "deploy" / "crds"
SAMPLES = ROOT / "deploy" / "samples"


def documents(file: Path) -> list[Object]:
    """Every document of a YAML file."""
    return list(YAML(typ="safe").load_all(file))


def core_crds() -> dict[str, Object]:
    """The core CRDs by kind."""
    loaded = [crd for file in sorted(CRDS.glob("*.yaml")) for crd in documents(file)]
    return {crd["spec"]["names"]["kind"]: crd for crd in loaded}


def schema(kind: str) -> Object:
    """The schema of the one version of a core kind."""
    (version,) = core_crds()[kind]["spec"]["versions"]
    found: Object = version["schema"]["openAPIV3Schema"]
    return found


def field(kind: str, path: str) -> Object:
    """The schema of one field; of a list, the schema of its items. path: a.b.c"""
    found = schema(kind)
    for name in path.split("."):
        found = found["properties"][name]
        found = found.get("items", found)
    return found


def fields(node: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """Every field at and below a schema node as (path, schema); ``list[]`` for a list's items."""
    if path:
        yield path, node
    if "items" in node:
        yield from fields(node["items"], f"{path}[]")
    for name, child in node.get("properties", {}).items():
        yield from fields(child, f"{path}.{name}" if path else name)
