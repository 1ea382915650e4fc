"""Where the files that ship with kbind stand: inside the wheel, else in the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

_PACKAGE: Final = Path(__file__).resolve().parent
_CHECKOUT: Final = {"rules": Path("rules"), "crds": Path("deploy", "crds")}


def folder(name: Literal["rules", "crds"]) -> Path:
    """The directory of the bundled rule tables, or of the core CRDs."""
    shipped = _PACKAGE / "data" / name
    return shipped if shipped.is_dir() else _PACKAGE.parent / _CHECKOUT[name]


def overlays() -> dict[str, Path]:
    """The overlays that ship with kbind, by name."""
    found = (folder("rules") / "overlays").iterdir()
    return {path.name: path for path in sorted(found) if path.is_dir()}
