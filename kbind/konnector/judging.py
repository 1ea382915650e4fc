"""What stops a Connection, and what its conditions then say."""

from __future__ import annotations

from kbind.conditions import Judgement, Status
from kbind.facts import Asked
from kbind.konnector.link import Link
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
    Condition.READY,
)


def judge(stop: Stop | None, link: Link | None) -> list[Judgement]:
    """The conditions of a Connection. Those before the one that stopped the pass are well,
    those behind it unknown; Ready repeats why."""
    met = len(_ORDER) if stop is None else _ORDER.index(stop.condition)
    judgements = []
    for place, condition in enumerate(_ORDER[:-1]):
        well: Status = "False" if condition is Condition.PERMISSION_DENIED else "True"
        if stop is not None and place == met:
            ill: Status = "True" if condition is Condition.PERMISSION_DENIED else "False"
            judgements.append(Judgement(condition, ill, stop.reason, stop.message))
        elif place < met:
            judgements.append(Judgement(condition, well, Reason.AS_EXPECTED))
        else:
            judgements.append(Judgement(condition, "Unknown", Reason.PENDING))
    if stop is not None:
        ready = Judgement(Condition.READY, "False", stop.reason, stop.message)
    else:
        note = "" if link is None else _source_note(link)
        ready = Judgement(Condition.READY, "True", Reason.AS_EXPECTED, note)
    return [*judgements, ready]


def _source_note(link: Link) -> str:
    if link.note:
        return link.note
    if link.asked == Asked.AUTO:
        return f"schema source Auto uses {link.source_name}"
    return ""
