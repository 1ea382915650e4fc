"""What stops a Connection, and what its conditions then say."""

from __future__ import annotations

from kbind.conditions import Judgement, Status
from kbind.facts import Asked
from kbind.konnector.link import Link, Outcome, Policies
from kbind.words import Condition, Reason


class Stop(Exception):
    """The pass ends here: what its condition says of the Connection."""

    def __init__(self, condition: Condition, reason: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition
        self.reason = reason
        self.message = message


_ORDER = (
    Condition.SECRET_VALID,
    Condition.CONNECTED,
    Condition.PERMISSION_DENIED,
)


def judge_stopped(stop: Stop) -> list[Judgement]:
    """The conditions of a Connection whose pass was stopped. Those before the one that stopped
    it are well, those behind it unknown; Ready repeats why."""
    met = _ORDER.index(stop.condition) if stop.condition in _ORDER else len(_ORDER)
    unknown = stop.reason == Reason.PENDING
    judgements = [_well(condition) for condition in _ORDER[:met]]
    for condition in _ORDER[met:]:
        if condition is stop.condition:
            ill: Status = "True" if condition is Condition.PERMISSION_DENIED else "False"
            status = "Unknown" if unknown else ill
            judgements.append(Judgement(condition, status, stop.reason, stop.message))
        else:
            judgements.append(Judgement(condition, "Unknown", Reason.PENDING))
    return [
        *judgements,
        Judgement(Condition.SCHEMA_IN_SYNC, "Unknown", stop.reason, stop.message),
        Judgement(Condition.READY, "Unknown" if unknown else "False", stop.reason, stop.message),
    ]


def judge_ready(link: Link, policies: Policies, *, paused: bool) -> list[Judgement]:
    """The conditions of a Connection that can be used: also of one that is paused, as somebody
    asked for that and nothing has to be mended."""
    braked = Reason.BRAKED if link.questions else None
    reason = Reason.PAUSED if paused else braked or link.auto_bound.reason or Reason.AS_EXPECTED
    return [
        *(_well(condition) for condition in _ORDER),
        _in_sync(link),
        Judgement(Condition.READY, "True", reason, _note(link, policies, paused)),
    ]


def _well(condition: Condition) -> Judgement:
    good: Status = "False" if condition is Condition.PERMISSION_DENIED else "True"
    return Judgement(condition, good, Reason.AS_EXPECTED)


_OUT_OF_SYNC = (  # the first that is met is the condition's reason
    Reason.SCHEMA_REFUSED,
    Reason.UNMANAGED,
    Reason.MANAGED_ELSEWHERE,
    Reason.SCHEMA_MISSING,
    Reason.SCHEMA_TERMINATING,
    Reason.PINNED,
    Reason.PAUSED,
)
_UNREAD = (Reason.SCHEMA_SOURCE_FAILED, Reason.PENDING)
_NAMED = 10  # parts that one message spells out


def _in_sync(link: Link) -> Judgement:
    """Whether every definition on the consumer is what the policies want."""

    delivered = dict(sorted(link.delivered.items()))

    def among(reasons: tuple[Reason, ...]) -> list[Outcome]:
        found = [it for it in delivered.values() if it.reason in reasons]
        return sorted(found, key=lambda it: reasons.index(Reason(it.reason or "")))

    if link.failed:
        return _schemas("Unknown", Reason.SCHEMA_SOURCE_FAILED, [link.failed])
    if off := among(_OUT_OF_SYNC):
        return _schemas("False", off[0].reason, [it.message for it in off])
    if unread := among(_UNREAD):
        return _schemas("Unknown", unread[0].reason, [it.message for it in unread])
    parts = [
        f"{name}: {link.unread[part]}"
        for name in delivered
        for part in (name, name.partition(".")[2])
        if part in link.unread
    ]
    if parts:
        return _schemas("Unknown", Reason.SCHEMA_SOURCE_FAILED, parts)
    notes = [f"{name}: {it.note}" for name, it in delivered.items() if it.note]
    return _schemas("True", Reason.AS_EXPECTED, notes)


def _schemas(status: Status, reason: str | None, parts: list[str]) -> Judgement:
    return Judgement(Condition.SCHEMA_IN_SYNC, status, reason or "", listed(parts))


def listed(parts: list[str]) -> str:
    """Some parts of a message, and how many more there are."""
    more = len(parts) - _NAMED
    return "; ".join([*parts[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _note(link: Link, policies: Policies, paused: bool) -> str:
    """What a user of a Ready Connection should know all the same."""
    notes = []
    if paused:
        notes.append("paused: nothing is written on either cluster, deletions wait")
    if link.failed:
        notes.append(f"discovery failed, what was known stands: {link.failed}")
    if link.unread:
        parts = [f"{name} ({why})" for name, why in sorted(link.unread.items())]
        notes.append(f"not to be read, what was known of it stands: {listed(parts)}")
        if policies.auto_bind:
            notes.append("autoBind waits until all can be read")
    if link.reserved:
        notes.append(
            "passed over, as their groups come with Kubernetes or kbind: "
            f"{listed(list(link.reserved))}"
        )
    if (room := len(link.shown)) < (count := len(link.exports or ())):
        notes.append(f"exportedAPIs shows the first {room} of {count}")
    if policies.source == Asked.AUTO:
        notes.append(f"schema source Auto uses {link.source_name}")
    if link.parting:
        notes.append(link.parting)
    notes.extend(link.questions.values())
    if link.auto_bound.message and link.auto_bound.message not in notes:
        notes.append(link.auto_bound.message)
    if link.heartbeat.note:
        notes.append(link.heartbeat.note)
    return "; ".join(notes)
