"""One instance and its copy, as facts. Reads at most one object, and only where caches cannot
tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from kbind import words
from kbind.cover import Bound
from kbind.errors import ClusterError, NotFound, ServerFailed
from kbind.facts import ConflictPolicy, Copy, Cover, DeletionPolicy, Hold, Life, Pause
from kbind.keeping import is_going, is_held
from kbind.ownership import owner
from kbind.pausing import is_paused
from kbind.steps import Side


class Reader(Protocol):
    """The reading face of a client."""

    async def get(self, path: str) -> bytes:
        """The object's JSON. Raises ClusterError."""
        ...


def duty_facts(
    instance: Mapping[str, Any],
    bound: Bound | None,
    connection: str,
    ending: Cover,
    *,
    paused: bool,
) -> dict[str, str]:
    """The facts of the duty table. bound: the covering binding; connection: the schema's; ending:
    the cover where that binding does not name it; paused: whether that Connection is."""
    annotations = instance["metadata"].get("annotations") or {}
    orphan = annotations.get(words.DELETION_POLICY) == words.ORPHAN
    if bound is not None and bound.connection == connection:
        cover = Cover.BOUND
    elif bound is not None and ending is Cover.UNCOVERED:
        cover = Cover.ELSEWHERE
    else:
        cover = ending
    return {
        "life": Life.DELETING if is_going(instance) else Life.ALIVE,
        "cover": cover,
        "hold": Hold.OURS if is_held(instance) else Hold.NONE,
        "policy": DeletionPolicy.ORPHAN if orphan else DeletionPolicy.DELETE,
        "pause": _pause(instance, bound if cover is Cover.BOUND else None, paused),
    }


def _pause(instance: Mapping[str, Any], bound: Bound | None, paused: bool) -> Pause:
    if paused:
        return Pause.CONNECTION
    if bound is not None and bound.paused:
        return Pause.BINDING
    return Pause.INSTANCE if is_paused(instance) else Pause.NONE


def paused_by(pause: str, bound: Bound | None, connection: str) -> str | None:
    """What the fact ``pause`` speaks of, by kind and name."""
    match pause:
        case Pause.CONNECTION:
            return f"Connection {connection}"
        case Pause.BINDING if bound is not None:
            return str(bound.ref)
        case Pause.INSTANCE:
            return "the instance"
    return None


def ownership_facts(copy: Copy, bound: Bound | None) -> dict[str, str]:
    """The facts of the ownership table."""
    return {"copy": copy, "conflictPolicy": bound.policy if bound else ConflictPolicy.UNSET}


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen under the copy's key. trouble: why it could not be looked at."""

    copy: dict[str, Any] | None
    owner: Copy
    raw: bytes | None = None
    trouble: ClusterError | None = None


def cached(raw: bytes | None, cluster: str, uid: str) -> Sight:
    """The copy as the provider's watch told it. It asks only for copies with our label, so that
    absence here is a belief, which creation then has the server check."""
    copy = None if raw is None else orjson.loads(raw)
    return Sight(copy, owner(copy, cluster, uid), raw)


async def fresh(provider: Reader, path: str, cluster: str, uid: str) -> Sight:
    """The copy as the provider has it now: one read. What cannot be read, or not be decoded, is
    UNREADABLE."""
    try:
        raw = await provider.get(path)
    except NotFound:
        return Sight(None, Copy.ABSENT)
    except ClusterError as error:
        return Sight(None, Copy.UNREADABLE, trouble=error)
    try:
        return cached(raw, cluster, uid)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        message = f"{Side.PROVIDER}: get {path}: the answer is nested too deep, or no object"
        trouble = ServerFailed(message, side=Side.PROVIDER, verb="get", path=path)
        return Sight(None, Copy.UNREADABLE, trouble=trouble)
