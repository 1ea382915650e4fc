"""What ``kbind plan`` refuses before it looks at any cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kbind.cli import main


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs of this process stay as they are."""
    monkeypatch.setattr("kbind.logs.configure", lambda *_: None)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "name either files with -f or an object with --delete KIND NAME"),
        (("-f", "-", "--delete", "Binding", "x"), 2, "name either files with -f or an object"),
        (("--delete", "Binding"), 2, "takes both --delete KIND and a NAME"),
        (("-f", "-", "x"), 2, "takes both --delete KIND and a NAME"),
        (("-f", "/no/such/file"), 1, "error: /no/such/file cannot be read: No such file"),
        (("-f", "/"), 1, "error: / cannot be read: Is a directory"),
        (("-f", "-"), 1, "error: there is nothing to apply"),
        (("--delete", "Binding", "x", "--rules", "/no/such/folder"), 1, "/no/such/folder"),
        (("--delete", "Binding", "x", "--rules", ""), 2, "--rules': it names nothing"),
        (("--delete", "Binding", "x", "--kubeconfig", "/no/such/file"), 1, "/no/such/file"),
    ],
)
def test_what_it_cannot_do_it_says(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = CliRunner().invoke(main, ["plan", *arguments])
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "manifest"
    file.write_bytes(b"\xff\xfe")
    result = CliRunner().invoke(main, ["plan", "-f", str(file)])
    assert result.exit_code == 1
    assert result.stderr == f"error: {file} cannot be read: it is no text\n"
    result = CliRunner().invoke(main, ["plan", "-f", "-"], input=b"\xff\xfe")
    assert result.stderr == "error: - cannot be read: it is no text\n"
