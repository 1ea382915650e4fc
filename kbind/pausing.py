"""The annotation that pauses a Connection, a binding or an instance, and whether rules heed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbind import words
from kbind.facts import Cover, DeletionPolicy, Hold, Life, Pause
from kbind.rulebook import Rulebook


def is_paused(obj: Mapping[str, Any]) -> bool:
    """Whether *obj* asks to be paused: exactly ``"true"``, everything else does not."""
    return (obj["metadata"].get("annotations") or {}).get(words.PAUSED) == words.TRUE


def heeded(book: Rulebook, pause: Pause) -> bool:
    """Whether the rules have a bound instance wait for *pause*: what an overlay forbids is not
    heeded for schemas and conditions either. Facts that an overlay declares are left open."""
    facts: dict[str, str] = {
        "life": Life.ALIVE,
        "cover": Cover.BOUND,
        "hold": Hold.OURS,
        "policy": DeletionPolicy.DELETE,
        "pause": pause,
    }
    for fact in book.declared("duty"):
        facts[fact.name] = fact.word({"instance": {}})
    return book.decide("duty", facts).reason == words.Reason.PAUSED
