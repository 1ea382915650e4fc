"""What a rehearsal comes to: for every object what becomes of it, and what is waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kbind import words
from kbind.apis import CONNECTIONS, EVENTS, Key
from kbind.conditions import find
from kbind.facts import Cover, Duty, Life, Some, Standing, Undoing, Verdict
from kbind.keeping import is_going
from kbind.konnector.passes import Report
from kbind.konnector.shared import Settings
from kbind.plan import Decision
from kbind.planning.journal import Journal, Write
from kbind.planning.rehearsal import Rehearsal
from kbind.planning.served import Object, Place
from kbind.steps import Side, Step
from kbind.words import Condition, Reason


class Act(StrEnum):
    """What becomes of an object."""

    CREATE = "create"
    CHANGE = "change"
    REFUSE = "refuse"  # an instance is told that its copy is not ours to write
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """The net effect on one object. connection: whose provider, "" for the consumer; user:
    whether it is what was asked for; decisions, steps: what led there, each once, in order;
    waits: it is being deleted and finalizers hold it, these."""

    side: Side
    act: Act
    api: str
    kind: str
    key: Key
    connection: str = ""
    user: bool = False
    decisions: tuple[Decision, ...] = ()
    steps: tuple[Step, ...] = ()
    waits: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As ``kbind plan -o json`` has it."""
        place = {"namespace": self.key.namespace} if self.key.namespace else {}
        return {
            "side": str(self.side),
            **({"connection": self.connection} if self.connection else {}),
            "action": str(self.act),
            "kind": self.kind,
            "api": self.api,
            **place,
            "name": self.key.name,
            "by": "you" if self.user else "kbind",
            "rules": [decision.name for decision in self.decisions],
            "steps": [str(step) for step in self.steps],
            **({"waits": list(self.waits)} if self.waits else {}),
        }


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is waited for or left out, in words. names: the objects, where there may be
    many."""

    text: str
    decision: Decision | None = None
    names: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        rule = {} if self.decision is None else {"rule": self.decision.name}
        return {"text": self.text, **({"names": list(self.names)} if self.names else {}), **rule}


@dataclass(frozen=True, slots=True)
class Foreseen:
    """action: what was asked about; incomplete: what could not be read that the konnector can, so
    that something else may happen."""

    action: str
    changes: tuple[Change, ...]
    notes: tuple[Note, ...] = ()
    incomplete: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        noted = [note.decision for note in self.notes if note.decision is not None]
        met = [*(each for change in self.changes for each in change.decisions), *noted]
        return {
            "action": self.action,
            "changes": [change.as_json() for change in self.changes],
            "notes": [note.as_json() for note in self.notes],
            "rules": dict(sorted({each.name: each.why for each in met}.items())),
            "incomplete": list(self.incomplete),
        }


def foreseen(action: str, rehearsal: Rehearsal) -> Foreseen:
    """What *rehearsal* came to, once it is at rest."""
    changes = sorted(
        _changes(rehearsal.journal, rehearsal.reports),
        key=lambda c: (not c.user, c.side, list(Act).index(c.act), c.api, c.key, c.connection),
    )
    notes = tuple(_notes(rehearsal, changes))
    return Foreseen(action, tuple(changes), notes, tuple(_unseen(rehearsal)))


# --- changes ---------------------------------------------------------------------------------


def _changes(journal: Journal, reports: dict[tuple[str, Key], Report]) -> Iterator[Change]:
    lives: dict[tuple[Side, str, Place], list[list[Write]]] = {}
    for write in journal.writes:
        if write.is_trace:
            continue
        found = lives.setdefault((write.side, write.connection, write.place), [])
        if not found or found[-1][-1].after is None:
            found.append([])  # another object of the same name
        found[-1].append(write)
    for (_, _, place), each in lives.items():
        for writes in each:
            change = _change(writes, reports.get((place.api, place.key)))
            if change is not None:
                yield change


def _change(writes: list[Write], report: Report | None) -> Change | None:
    before, after = writes[0].before, writes[-1].after
    if before is None and after is None:
        return None
    shown = after or before or {}
    refused = report is not None and writes[0].side is Side.CONSUMER and _refuses(report)
    waits: tuple[str, ...] = ()
    if after is None or (is_going(after) and not (before and is_going(before))):
        act = Act.DELETE
        waits = tuple((after or {"metadata": {}})["metadata"].get("finalizers") or ())
    elif before is None:
        act = Act.CREATE
    elif _bare(before) == _bare(after):
        return None
    else:
        act = Act.REFUSE if refused else Act.CHANGE
    place = writes[0].place
    return Change(
        writes[0].side,
        act,
        place.api,
        shown["kind"],
        place.key,
        writes[0].connection,
        any(write.user for write in writes),
        tuple(_once(decision for write in writes for decision in write.decisions)),
        tuple(dict.fromkeys(write.step for write in writes if write.step is not None)),
        waits,
    )


def _once(decisions: Iterable[Decision]) -> Iterator[Decision]:
    seen = set()
    for decision in decisions:
        if decision.name not in seen:
            seen.add(decision.name)
            yield decision


def _bare(obj: Object) -> Object:
    metadata = {
        k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "generation")
    }
    return {**obj, "metadata": metadata}


def _refuses(report: Report) -> bool:
    verdicts = {decision.table: decision.verdict for decision in report.plan.decisions}
    return (verdicts.get("duty"), verdicts.get("ownership")) == (Duty.SERVE, Verdict.REFUSE)


# --- notes -----------------------------------------------------------------------------------


def _notes(rehearsal: Rehearsal, changes: list[Change]) -> Iterator[Note]:
    yield from _left_out(rehearsal)
    yield from _waiting_instances(rehearsal)
    yield from _failed(rehearsal)
    yield from _held_by_others(changes)
    yield from _copies_left(rehearsal)
    yield from _conditions(rehearsal)


def _left_out(rehearsal: Rehearsal) -> Iterator[Note]:
    """APIs of deleted bindings that nothing is done about."""
    for (ref, api), decision in sorted(rehearsal.undone.items()):
        if decision.verdict != Undoing.DONE:
            continue
        if decision.facts["others"] == Some.SOME:
            others = [b.ref for b in rehearsal.shared.coverage().listing(api) if b.ref != ref]
            listed = ", ".join(str(other) for other in others)
            yield Note(
                f"{ref}: nothing of {api} is undone, it is also listed by {listed}", decision
            )
        elif decision.facts["standing"] not in (Standing.HERE, Standing.GOING):
            yield Note(f"{ref}: nothing of {api} is undone", decision)


def _waiting_instances(rehearsal: Rehearsal) -> Iterator[Note]:
    """Instances that are to be let go and are not."""
    groups: dict[tuple[str, str, str], list[Report]] = {}
    for report in rehearsal.reports.values():
        api, duty, last = report.scope.api, report.plan.decisions[0], report.plan.decisions[-1]
        obj = rehearsal.draft.standing(Place(api.group, api.plural, report.key))
        held = obj is not None and words.SYNCER in (obj["metadata"].get("finalizers") or ())
        cover = duty.facts["cover"] in (Cover.UNBINDING, Cover.ABANDONED)
        if held and (cover or duty.facts["life"] == Life.DELETING):
            groups.setdefault((api.name, last.table, last.rule), []).append(report)
    for _, reports in sorted(groups.items()):
        names = tuple(sorted(str(report.key) for report in reports))
        decision = reports[0].plan.decisions[-1]
        yield Note(f"{len(names)} {reports[0].scope.api.name} not let go yet", decision, names)


def _failed(rehearsal: Rehearsal) -> Iterator[Note]:
    """Instances whose passes end in a failure that can be seen beforehand."""
    groups: dict[tuple[Step, str], list[Report]] = {}
    for report in rehearsal.reports.values():
        if report.batch.failed is not None:
            step, error = report.batch.failed
            groups.setdefault((step, type(error).__name__), []).append(report)
    for (step, _), reports in sorted(groups.items()):
        names = tuple(sorted(str(report.key) for report in reports))
        assert reports[0].batch.failed is not None
        error = reports[0].batch.failed[1]
        yield Note(
            f"{step} fails for {len(names)} {reports[0].scope.api.name}: {error}", None, names
        )


def _held_by_others(changes: list[Change]) -> Iterator[Note]:
    """Objects that are asked to go, and that finalizers of others hold."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for change in changes:
        others = tuple(f for f in change.waits if f not in (words.SYNCER, words.CLEANUP))
        if others:
            groups.setdefault((change.side, change.api, others), []).append(str(change.key))
    for (side, api, others), names in groups.items():
        text = f"{len(names)} {api} on the {side} will wait for finalizers: {', '.join(others)}"
        yield Note(text, None, tuple(names))


def _copies_left(rehearsal: Rehearsal) -> Iterator[Note]:
    for write in rehearsal.journal.writes:
        obj = write.after
        event = (write.place.group, write.place.plural) == (EVENTS.group, EVENTS.plural)
        if event and obj is not None and obj.get("reason") == Reason.COPIES_LEFT:
            patience = Settings().patience
            waits = f"once the provider has not answered for {patience:.0f} s"
            yield Note(f"{waits}, or at once without credentials: {obj['message']}")


def _conditions(rehearsal: Rehearsal) -> Iterator[Note]:
    """What Connections and bindings concerned would say that is not well."""
    seen: list[tuple[str, Object | None]] = [
        (f"Connection {each}", _connection(rehearsal, each))
        for each in sorted(rehearsal.connections)
    ]
    seen += [(str(ref), rehearsal.binding(ref)) for ref in sorted(rehearsal.refs)]
    for title, obj in seen:
        ready = find(obj, Condition.READY)
        if ready is not None and _speaks(ready):
            yield Note(f"{title}: {ready['reason']}: {ready['message']}")


def _connection(rehearsal: Rehearsal, each: str) -> Object | None:
    place = Place(CONNECTIONS.group, CONNECTIONS.plural, Key("", each))
    return rehearsal.draft.standing(place)


def _speaks(condition: Mapping[str, Any]) -> bool:
    usual = (Reason.AS_EXPECTED, Reason.PENDING, Reason.UNBINDING)
    return condition["reason"] not in usual


def _unseen(rehearsal: Rehearsal) -> Iterator[str]:
    """Connections that are Ready, and could not be used from here."""
    for each in sorted(rehearsal.connections & rehearsal.ready_before):
        connection = _connection(rehearsal, each)
        link = rehearsal.shared.links.get(each)
        if connection is None or (link is not None and link.ready):
            continue
        ready = find(connection, Condition.READY)
        why = f": {ready['message']}" if ready is not None and ready["status"] == "False" else ""
        yield (
            f"Connection {each} is Ready for the konnector and could not be used from here, so its "
            f"provider was taken for one that does not answer{why}"
        )
