"""docs/cli.md has the help of every command, as it is printed.

``make golden`` (``pytest --snapshot-update``) writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kbind.cli import main
from tests.manifests import ROOT

PAGE = ROOT / "docs" / "cli.md"
PART = re.compile(r"(<!-- help: .*? -->\n).*(<!-- /help -->)", flags=re.DOTALL)


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    """The path of every command, groups before what is in them."""
    yield path
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from commands(command.commands[name], *path, name)


def sections() -> Iterator[str]:
    for path in commands(main):
        result = CliRunner().invoke(
            main, [*path, "--help"], prog_name="kbind", terminal_width=88, max_content_width=88
        )
        assert result.exit_code == 0
        yield f"\n## {' '.join(('kbind', *path))}\n\n```text\n{result.stdout}```\n"


def test_golden_help(pytestconfig: pytest.Config) -> None:
    written = PAGE.read_text()
    generated = "".join(sections())
    page = PART.sub(lambda part: f"{part[1]}{generated}\n{part[2]}", written)
    if pytestconfig.option.update_snapshots:
        PAGE.write_text(page)
        return
    assert written == page, "run `make golden` and read the difference"
