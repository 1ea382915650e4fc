"""A plan as text: by side and action, with counts and names, and the rules of each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from kbind.cli.text import columns, wrapped
from kbind.planning.foreseen import Act, Change, Foreseen, Note
from kbind.steps import Side

NAMED: Final = 10
"""Names that a group spells out."""

_MEANS = {
    Act.CREATE: "created",
    Act.CHANGE: "changed",
    Act.REFUSE: "refused",
    Act.DELETE: "deleted",
}


def lines(found: Foreseen, *, all_names: bool) -> Iterator[str]:
    """all_names: spell out everything."""
    yield from wrapped("you       ", found.action)
    for side in Side:
        changes = [c for c in found.changes if c.side is side]
        yield from wrapped(f"{side}  ", _counts(changes))
    for change in [c for c in found.changes if c.user]:
        yield ""
        yield from _group([change], all_names)
    for side in Side:
        for act in Act:
            of = [c for c in found.changes if (c.side, c.act, c.user) == (side, act, False)]
            for _, group in groupby(sorted(of, key=_likeness), key=_likeness):
                yield ""
                yield from _group(list(group), all_names)
    if found.notes:
        yield ""
    for note in found.notes:
        yield from _note(note, all_names)


def _likeness(change: Change) -> tuple[str, ...]:
    rules = (decision.name for decision in change.decisions)
    return (change.kind, change.api, change.connection, *rules, "", *change.steps)


def _counts(changes: Sequence[Change]) -> str:
    counts = Counter(change.act for change in changes)
    found = [f"{counts[act]} {_MEANS[act]}" for act in Act if counts[act]]
    return ", ".join(found) or "nothing changes"


def _group(changes: Sequence[Change], all_names: bool) -> Iterator[str]:
    first = changes[0]
    where = first.side + (f" ({first.connection})" if first.connection else "")
    by = "you " if first.user else ""
    yield f"{where}: {by}{first.act} {len(changes)} {first.api}"
    yield from wrapped("  ", _names([str(change.key) for change in changes], all_names))
    yield from columns(((each.name, each.why) for each in first.decisions), "    ")
    if first.steps:
        yield from wrapped("    steps  ", ", ".join(first.steps))


def _names(names: Iterable[str], all_names: bool) -> str:
    listed = list(names)
    shown = listed if all_names else listed[:NAMED]
    more = f" and {len(listed) - len(shown)} more" if len(listed) > len(shown) else ""
    return ", ".join(shown) + more


def _note(note: Note, all_names: bool) -> Iterator[str]:
    yield from wrapped("note  ", note.text)
    if note.names:
        yield from wrapped("      ", _names(note.names, all_names))
    if note.decision is not None:
        yield from columns([(note.decision.name, note.decision.why)], "      ")
