"""Conditions: complete when written, and re-stamped only when their status flips.

Source: the metav1.Condition conventions of the Kubernetes API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal

from kbind.words import Condition, Reason

Status = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be said under one condition type."""

    type: Condition
    status: Status
    reason: str
    message: str = ""


def find(obj: Mapping[str, Any] | None, type_: Condition) -> Mapping[str, Any] | None:
    """The condition of that type on one of kbind's own objects, or None."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == type_), None)


def judged(
    judgements: Iterable[Judgement],
    standing: Iterable[Mapping[str, Any]],
    *,
    generation: int,
    now: str,
) -> list[dict[str, Any]]:
    """The conditions list to write: *judgements* over what stands there, others kept as they
    are. now: RFC 3339, taken as transition time where a status flips or is new."""
    result = {entry["type"]: dict(entry) for entry in standing}
    for judgement in judgements:
        before = result.get(judgement.type)
        flipped = before is None or before.get("status") != judgement.status
        result[judgement.type] = {
            "type": str(judgement.type),
            "status": judgement.status,
            "reason": str(judgement.reason),
            # What no server could read goes: half of a character, as in the name of a file.
            "message": judgement.message[:32768].encode("utf-8", "replace").decode(),
            "observedGeneration": generation,
            "lastTransitionTime": now
            if flipped or before is None
            else before.get("lastTransitionTime") or now,
        }
    return list(result.values())


_REASONS = (Reason.FOREIGN_OBJECT_EXISTS, Reason.OWNED_BY_ANOTHER, Reason.AWAITING_FINALIZERS)


def _is_ours(condition: Any) -> bool:
    return (
        isinstance(condition, dict)
        and condition.get("type") == Condition.SYNCED
        and condition.get("reason") in _REASONS
    )


def _conditions(status: Any) -> list[Any]:
    found = status.get("conditions") if isinstance(status, dict) else None
    return found if isinstance(found, list) else []


def takes_conditions(status: Any) -> bool:
    """Whether a condition can be put into a status without the loss of what stands there."""
    if not isinstance(status, dict):
        return status is None
    return isinstance(status.get("conditions"), (list, NoneType))


def standing_synced(status: Any, reason: str, message: str) -> bool:
    """Whether an instance's status already says that it is not synced for *reason*, or has a
    ``Synced`` of somebody else's, which is theirs to write."""
    for condition in _conditions(status):
        if isinstance(condition, dict) and condition.get("type") == Condition.SYNCED:
            if not _is_ours(condition):
                return True
            return condition.get("reason") == reason and condition.get("message") == message
    return False


def with_synced(status: Any, reason: str, message: str, now: str) -> dict[str, Any]:
    """*status* with ``Synced=False``; the transition time of an earlier one of ours is kept."""
    base = dict(status) if isinstance(status, dict) else {}
    conditions = _conditions(status)
    since = next((c.get("lastTransitionTime", now) for c in conditions if _is_ours(c)), now)
    ours = {
        "type": str(Condition.SYNCED),
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }
    return base | {"conditions": [*(c for c in conditions if not _is_ours(c)), ours]}


def without_synced(status: Any) -> Any:
    """*status* without the ``Synced`` that we wrote; the same value where there is none. A
    conditions list that we alone filled goes with it."""
    conditions = _conditions(status)
    kept = [c for c in conditions if not _is_ours(c)]
    if len(kept) == len(conditions):
        return status
    rest = {name: value for name, value in status.items() if name != "conditions"}
    return rest | {"conditions": kept} if kept else rest
