"""The brake: what nobody on the consumer asked for does not take very much away at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbind import words
from kbind.conditions import find


@dataclass(frozen=True, slots=True)
class Brake:
    """How many copies of one API may go in one pass without a question: all that are no more than
    *count*, or no more than *share* (0 to 1) of them. Where either is 0, any number may."""

    share: float = 0.5
    count: int = 20

    @property
    def on(self) -> bool:
        """Whether it is ever asked."""
        return self.share > 0 and self.count > 0

    def stops(self, going: int, of: int) -> bool:
        """Whether *going* copies of so many are too much."""
        return self.on and going > self.count and going > of * self.share


def is_confirmed(connection: Mapping[str, Any]) -> bool:
    """Whether a Connection lets go what a brake stopped: exactly ``"true"``."""
    annotations = connection["metadata"].get("annotations") or {}
    confirmed: bool = annotations.get(words.CONFIRM) == words.TRUE
    return confirmed


def was_holding(connection: Mapping[str, Any], what: str) -> bool:
    """Whether a Connection's status says that a brake holds something. what: an API, or autoBind,
    which the question opens with."""
    ready = find(connection, words.Condition.READY)
    if ready is None or ready["reason"] != words.Reason.BRAKED:
        return False
    return f"{what}: " in ready["message"]


def question(what: str) -> str:
    """What a brake says. what: what would be deleted, and why."""
    return f'{what}; annotation {words.CONFIRM}: "{words.TRUE}" on the Connection lets it go on'
