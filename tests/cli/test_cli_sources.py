"""The command that shows which schema sources are installed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kbind import __version__
from kbind.cli import main
from kbind.hooks import loading


def test_the_bundled_source_is_listed_with_where_it_comes_from() -> None:
    result = CliRunner().invoke(main, ["sources"])
    assert (result.exit_code, result.stderr) == (0, "")
    listed, _, auto = result.stdout.partition("\n\n")
    head, *rows = [line.split() for line in listed.splitlines()]
    assert head == ["SOURCE", "PLUGIN", "MODULE", "PACKAGE"]
    assert ["CRD", "crd", "kbind_sources.crd", "kbind", __version__] in rows
    assert rows == sorted(rows)
    assert auto.startswith("Auto takes CRD or OpenAPI")


def test_a_broken_plugin_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        name, value = "broken", "nowhere.module"

        def load(self) -> object:
            raise ModuleNotFoundError("No module named 'nowhere'")

    monkeypatch.setattr(loading, "entry_points", lambda group: [Broken()])
    result = CliRunner().invoke(main, ["sources"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: plugin broken: cannot be loaded: No module named")
    assert "repair or uninstall the package behind nowhere.module" in result.stderr
