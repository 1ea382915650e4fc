"""Plain text for people: aligned columns, wrapped sentences, answers of tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from kbind.plan import Decision
from kbind.rulebook import Rule
from kbind.steps import Recheck

WIDTH: Final = 100


def columns(rows: Iterable[tuple[str, ...]], indent: str = "") -> Iterator[str]:
    """Rows with every column but the last padded to its widest cell; long last cells wrap."""
    listed = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*listed, strict=True)][:-1]
    for row in listed:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        yield from wrapped(indent + "".join(f"{cell}  " for cell in cells), row[-1])


def wrapped(lead: str, text: str) -> list[str]:
    """*text* after *lead*, its further lines aligned under its first."""
    return textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead)) or [
        lead.rstrip()
    ]


def answer(row: Rule | Decision) -> str:
    """What a row answers, in one line."""
    if row.verdict is not None:
        parts = [f"verdict {row.verdict}"]
    else:
        parts = [", ".join(row.steps or ()) or "nothing"]
    if row.reason is not None:
        parts.append(f"reason {row.reason}")
    if row.recheck is not Recheck.ON_EVENT:
        parts.append(f"recheck {row.recheck}")
    return "; ".join(parts)
