"""What the tests of the rulebook share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kbind.rulebook import Rulebook, load

Overlay = Callable[..., Path]


@pytest.fixture(scope="session")
def rulebook() -> Rulebook:
    """The bundled rules."""
    return load()


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Overlay:
    """Writes an overlay directory from ``name=text`` and gives its path, relative and short."""
    monkeypatch.chdir(tmp_path)

    def write(**files: str) -> Path:
        directory = Path("overlay")
        directory.mkdir(exist_ok=True)
        for name, text in files.items():
            (directory / f"{name}.yaml").write_text(text, encoding="utf-8")
        return directory

    return write
