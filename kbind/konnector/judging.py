"""What stops a Connection, and what its conditions then say."""

from __future__ import annotations

from kbind.conditions import Judgement, Status
from kbind.facts import Asked
from kbind.konnector.link import Link, Policies
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


def judge(stop: Stop | None, note: str = "") -> list[Judgement]:
    """The conditions of a Connection. Those before the one that stopped the pass are well,
    those behind it unknown; Ready repeats why. note: what is said beside Ready=True."""
    met = len(_ORDER) if stop is None else _ORDER.index(stop.condition)
    judgements = []
    for place, condition in enumerate(_ORDER[:-1]):
        well: Status = "False" if condition is Condition.PERMISSION_DENIED else "True"
        if stop is not None and place == met:
            ill: Status = "True" if condition is Condition.PERMISSION_DENIED else "False"
            status = "Unknown" if stop.reason == Reason.PENDING else ill
            judgements.append(Judgement(condition, status, stop.reason, stop.message))
        elif place < met:
            judgements.append(Judgement(condition, well, Reason.AS_EXPECTED))
        else:
            judgements.append(Judgement(condition, "Unknown", Reason.PENDING))
    if stop is not None:
        status = "Unknown" if stop.reason == Reason.PENDING else "False"
        ready = Judgement(Condition.READY, status, stop.reason, stop.message)
    else:
        ready = Judgement(Condition.READY, "True", Reason.AS_EXPECTED, note)
    return [*judgements, ready]


def note(link: Link, policies: Policies) -> str:
    """What a user of a Ready Connection should know all the same."""
    notes = [link.note]
    if policies.source == Asked.AUTO:
        notes.append(f"schema source Auto uses {link.source_name}")
    if policies.auto_bind:
        notes.append("autoBind is not acted on by this version")
    return "; ".join(text for text in notes if text)
