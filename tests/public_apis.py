"""CRDs of public projects and objects of theirs, from the folder ../shared. The project does not
need it: tests that do are skipped where it is not there."""

from __future__ import annotations

import pytest

from kbind import words
from kbind.manifests import documents
from kbind.testing.handles import Object
from tests.manifests import ROOT

SHARED = ROOT.parent / "shared"

needs_shared = pytest.mark.skipif(
    not (SHARED / "crds").is_dir(), reason="needs the folder ../shared with public CRDs"
)


def shared(folder: str) -> list[Object]:
    """The objects of the folder's files, as they are; none where it is not there."""
    files = sorted((SHARED / folder).glob("*.yaml"))
    return [obj for file in files for obj in documents(file.read_text(), file.name)]


def crds() -> list[Object]:
    """Labelled for export."""
    found = shared("crds")
    for crd in found:
        # A webhook of theirs does not run here.
        crd["spec"].pop("conversion", None)
        crd["metadata"].setdefault("labels", {})[words.EXPORTED] = words.TRUE
    return found


def samples() -> list[Object]:
    """In no namespace."""
    found = shared("samples")
    for obj in found:
        obj["metadata"].pop("namespace", None)
    return found
