"""What a rehearsal did and why: every write, with the decisions that led to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from kbind import words
from kbind.apis import EVENTS, LEASES, NAMESPACES, SECRETS
from kbind.konnector.passes import Report
from kbind.plan import Decision
from kbind.planning.served import Object, Place
from kbind.rulebook import Rulebook
from kbind.steps import Side, Step


@dataclass(slots=True)
class Write:
    """One write that a draft took. connection: whose provider it went to, "" for the consumer.
    before, after: the object, None where there is none; echo: whether the server did it by
    itself, after another write; user: whether it is the action that is planned."""

    side: Side
    connection: str
    place: Place
    before: Object | None
    after: Object | None
    echo: bool = False
    user: bool = False
    decisions: tuple[Decision, ...] = ()
    step: Step | None = None

    @property
    def is_trace(self) -> bool:
        """Whether it tells and changes nothing: Events, heartbeats, statuses of kbind's own."""
        place = self.place
        if (place.group, place.plural) in (
            (EVENTS.group, EVENTS.plural),
            (LEASES.group, LEASES.plural),
        ):
            return True
        if place.group != words.GROUP or self.before is None or self.after is None:
            return False
        return _told(self.before) == _told(self.after)


def _told(obj: Object) -> Object:
    """What of one of kbind's own objects says what is wanted."""
    metadata = {
        name: obj["metadata"].get(name)
        for name in ("uid", "labels", "annotations", "finalizers", "deletionTimestamp")
    }
    return {"metadata": metadata, "spec": obj.get("spec")}


@dataclass(slots=True)
class Turn:
    """What one piece of the konnector's work decided and wrote."""

    connection: str = ""
    user: bool = False
    decisions: list[Decision] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    explained: int = 0

    def wrote(self, write: Write) -> None:
        write.user = self.user
        if (write.place.group, write.place.plural) != (NAMESPACES.group, NAMESPACES.plural):
            write.decisions = tuple(self.decisions[-1:])  # not so one for a heartbeat's Lease
        if write.decisions and not write.echo:
            write.step = _step(write)
        self.writes.append(write)

    def explain(self, report: Report) -> None:
        """A pass over an instance says itself which decisions and step each of its writes had."""
        steps = iter(call.step for call in report.batch.calls)
        for write in self.writes[self.explained :]:
            write.decisions = report.plan.decisions
            write.step = None if write.echo else next(steps)
        self.explained = len(self.writes)


def _step(write: Write) -> Step | None:
    """Which of the decision's steps a write outside of passes was: of two, one is the Secret's."""
    steps = write.decisions[-1].steps or ()
    of_secret = (write.place.group, write.place.plural) == (SECRETS.group, SECRETS.plural)
    return next((step for step in steps if step.endswith("-secret") is of_secret), None)


_turn: ContextVar[Turn] = ContextVar("turn")


def current() -> Turn:
    """The turn that is under way in this task."""
    return _turn.get()


class Journal:
    """All writes in order. effects: how many of them are no traces."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.effects = 0

    @contextmanager
    def turn(self, connection: str = "", *, user: bool = False) -> Iterator[Turn]:
        turn = Turn(connection, user)
        token = _turn.set(turn)
        try:
            yield turn
        finally:
            _turn.reset(token)
            self.writes += turn.writes
            self.effects += sum(not write.is_trace for write in turn.writes)


class Noting(Rulebook):
    """A rulebook that tells the current turn what it decides."""

    __slots__ = ()

    def __init__(self, book: Rulebook) -> None:
        super().__init__(book.tables, book.copying)

    def decide(self, table: str, facts: Mapping[str, str]) -> Decision:
        decision = super().decide(table, facts)
        current().decisions.append(decision)
        return decision
