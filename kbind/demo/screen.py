"""What the demo shows: plain aligned text, with colours where a terminal takes them.

Knows words and lines, no clusters.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence

import click

from kbind.plan import Decision
from kbind.steps import MEANING, Side, Step

WIDEST = 100
BELOW = " " * 11  # in front of what stands below a line with a time
_SIDES = {Side.CONSUMER: "blue", Side.PROVIDER: "magenta"}


class Screen:
    """Writes to stdout. elapsed: seconds since it was made; stirred: when something that a
    cluster's agents did was last shown, in the same seconds."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
        # None leaves it to click: colours on a terminal only.
        self._colour = False if os.environ.get("NO_COLOR") else None
        self._told: set[str] = set()
        self.stirred = 0.0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begin

    def line(self, text: str = "") -> None:
        try:
            click.echo(text.rstrip(), color=self._colour)
        except BrokenPipeError:
            # Whoever read has left; the demo goes on to its end and its exit code.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def say(self, text: str, indent: str = "   ", **style: bool) -> None:
        """A sentence, wrapped."""
        for line in self._wrap(text, indent):
            self.line(click.style(line, **style))

    def chapter(self, number: int, title: str, about: str) -> None:
        self.line()
        self.line()
        self.line(click.style(f"{number:>2}  {title}", bold=True))
        self.say(about, "    ", dim=True)
        self.line()

    def act(self, who: str, where: Side, what: str) -> None:
        """Something that a person or the provider's operator does."""
        self.stirred = self.elapsed
        self._hang(self._dim(f"{self._time()}  {who:<9}  ") + _side(where), what)

    def decided(
        self, subject: str, decisions: Sequence[Decision], steps: Sequence[tuple[Side, Step]]
    ) -> None:
        """What the konnector decided about *subject*, by which rules, and what it wrote.

        A rule's why is told when it is met first, and always for the rule that named the steps.
        """
        self.stirred = self.elapsed
        self.line(f"{self._dim(self._time() + '  ' + 'konnector'.ljust(9))}  {subject}")
        rows: list[tuple[str, str]] = []
        for decision in decisions:
            name = f"{decision.table}/{decision.rule}"
            known = name in self._told and decision is not decisions[-1]
            self._told.add(name)
            if known and rows and not rows[-1][1]:
                rows[-1] = (f"{rows[-1][0]}, {name}", "")
            else:
                rows.append((name, "" if known else decision.why))
        width = max(len(name) for name, why in rows if why)
        for name, why in rows:
            if why:
                self._hang(BELOW + _rule(name.ljust(width)) + "  ", why)
            else:
                self.line(BELOW + _rule(name))
        for side, step in steps:
            self._hang(
                f"{BELOW}  {click.style(f'{step:<9}', bold=True)}  {_side(side)}", MEANING[step]
            )

    def outcome(self, kept: bool, where: Side, what: str) -> None:
        """A promise, and whether what it promises came."""
        word = click.style("ok    ", fg="green") if kept else click.style("failed", fg="red")
        self._hang(f"{'':>9}{word}     {_side(where)}", what)

    def _hang(self, lead: str, text: str) -> None:
        """*text* after *lead*, its further lines aligned under its first."""
        first, *rest = self._wrap(text, " " * len(click.unstyle(lead)))
        self.line(lead + first.lstrip())
        for line in rest:
            self.line(line)

    def _time(self) -> str:
        return f"{self.elapsed:7.2f}"

    def _dim(self, text: str) -> str:
        return click.style(text, dim=True)

    def _wrap(self, text: str, indent: str) -> list[str]:
        # However narrow the terminal, a sentence keeps some room.
        width = max(self._width, len(indent) + 24)
        return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)


def _side(side: Side) -> str:
    return click.style(f"{side:<8}", fg=_SIDES[side]) + "  "


def _rule(name: str) -> str:
    return click.style(name, fg="cyan")
