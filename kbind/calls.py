"""From a step and a situation to the one call it means, or to nothing.

Pure. A call that would change nothing is not made: this module is the one place where that is
compared, so that rules need not speak of drift.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from kbind import ownership, words
from kbind.apis import NAMESPACES
from kbind.conditions import standing_synced, takes_conditions, with_synced, without_synced
from kbind.copying import field_differs, same, without_emptied
from kbind.events import event
from kbind.facts import Copy
from kbind.jsons import encode
from kbind.managed import is_at, owned_fields, renewal, versions
from kbind.rulebook import Flow
from kbind.situation import Situation
from kbind.steps import Side, Step


class Verb(StrEnum):
    """How a call reaches the server."""

    CREATE = "create"
    APPLY = "apply"
    MERGE = "merge"  # JSON merge patch
    PATCH = "patch"  # JSON patch
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Call:
    """One request. body: the JSON value to send (for DELETE: the uid it is conditional on).

    answers_object: whether the answer is the instance or the copy as it stands afterwards.
    standing: for writes that a server may normalise, what stood at their place before.
    sense: what tells this write from another, where the body holds a time or version; else None.
    unfinished: whether another apply has to follow that brings the rest.
    """

    step: Step
    side: Side
    verb: Verb
    path: str
    body: Any
    manager: str = words.MANAGER
    force: bool = False
    answers_object: bool = True
    standing: Any = None
    sense: str | None = None
    unfinished: bool = False


def call(step: Step, situation: Situation) -> Call | None:
    """The call of *step*, or None where it would change nothing."""
    return _MAKERS[step](situation)


def digest(call: Call) -> bytes:
    """A fingerprint of what is sent and of what stood at its place."""
    sent = call.body if call.sense is None else call.sense
    return hashlib.sha256(encode((sent, call.standing), sort=True)).digest()


# --- the consumer instance ----------------------------------------------------------------


def _merge(step: Step, situation: Situation, metadata: dict[str, Any]) -> Call:
    path = situation.scope.api.path(situation.key)
    return Call(step, Side.CONSUMER, Verb.MERGE, path, {"metadata": metadata})


def _finalizers(step: Step, situation: Situation, finalizers: list[str]) -> Call:
    # The version makes the patch fail where another finalizer came or went meanwhile.
    version = situation.instance["metadata"]["resourceVersion"]
    return _merge(step, situation, {"resourceVersion": version, "finalizers": finalizers})


def _hold(situation: Situation) -> Call | None:
    if situation.held:
        return None
    current = situation.instance["metadata"].get("finalizers") or []
    return _finalizers(Step.HOLD, situation, [*current, words.SYNCER])


def _release(situation: Situation) -> Call | None:
    if not situation.held:
        return None
    current = situation.instance["metadata"].get("finalizers") or []
    return _finalizers(Step.RELEASE, situation, [f for f in current if f != words.SYNCER])


def _conflict_text(situation: Situation) -> str:
    return f"{situation.reason}: {ownership.refusal(situation.owner)}"


def _annotate(step: Step, situation: Situation, value: str | None) -> Call:
    metadata = {"uid": situation.uid, "annotations": {words.CONFLICT: value}}
    return _merge(step, situation, metadata)


def _mark(situation: Situation) -> Call | None:
    if situation.reason is None:
        return None
    text = _conflict_text(situation)
    return None if situation.refused == text else _annotate(Step.MARK, situation, text)


def _unmark(situation: Situation) -> Call | None:
    return None if situation.refused is None else _annotate(Step.UNMARK, situation, None)


def _clear(situation: Situation) -> Call | None:
    status = without_synced(situation.instance.get("status"))
    return _set_status(Step.CLEAR, situation, Side.CONSUMER, words.MANAGER, status)


# --- Events --------------------------------------------------------------------------------


def _event(
    step: Step, situation: Situation, kind: str, reason: str, message: str, cause: str = ""
) -> Call:
    api, now = situation.scope.api, situation.now
    path, body = event(
        api, situation.instance, now, kind=kind, reason=reason, message=message, cause=cause
    )
    name = body["metadata"]["name"]
    return Call(step, Side.CONSUMER, Verb.CREATE, path, body, answers_object=False, sense=name)


def _tell(situation: Situation) -> Call | None:
    if situation.trouble is None:
        return None
    reason = situation.reason or words.Reason.SYNC_FAILED
    return _event(Step.TELL, situation, "Warning", reason, situation.trouble)


def _warn(situation: Situation) -> Call | None:
    if situation.reason is None or situation.refused == _conflict_text(situation):
        return None
    stranger = ((situation.copy or {}).get("metadata") or {}).get("uid", "")
    message = ownership.refusal(situation.owner)
    return _event(Step.WARN, situation, "Warning", situation.reason, message, stranger)


def _resolved(situation: Situation) -> Call | None:
    if situation.refused is None:
        return None
    message = "the conflict is over, the instance is synced again"
    cause = f"{situation.refused} {situation.instance['metadata']['resourceVersion']}"
    reason = words.Reason.CONFLICT_RESOLVED
    return _event(Step.RESOLVED, situation, "Normal", reason, message, cause)


def _held(situation: Situation) -> Call | None:
    message = _holders(situation)
    return _event(Step.HELD, situation, "Normal", words.Reason.AWAITING_FINALIZERS, message)


def _waiting(situation: Situation) -> Call | None:
    going = situation.instance["metadata"].get("deletionTimestamp")
    if situation.paused is None or not going or not situation.held:
        return None
    message = (
        f"the deletion waits, for {situation.paused} is paused; it goes on once the annotation "
        f"{words.PAUSED} is taken off there"
    )
    return _event(Step.WAITING, situation, "Normal", words.Reason.PAUSED, message)


def _holders(situation: Situation) -> str:
    holders = ((situation.copy or {}).get("metadata") or {}).get("finalizers") or []
    return f"the copy on the provider waits for its finalizers: {', '.join(sorted(holders))}"


# --- the copy ------------------------------------------------------------------------------


def _namespace(situation: Situation) -> Call | None:
    if not situation.homeless:
        return None
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": situation.key.namespace},
    }
    path = NAMESPACES.collection("")
    return Call(Step.NAMESPACE, Side.PROVIDER, Verb.CREATE, path, body, answers_object=False)


def _metadata(situation: Situation) -> dict[str, Any]:
    """Labels and annotations of the copy: what an overlay lets travel, below our markers."""
    ours = ownership.markers(situation.scope.cluster, situation.uid)
    travels = situation.scope.copying.carry("instance-up", situation.instance).get("metadata", {})
    return {part: travels.get(part, {}) | values for part, values in ours.items()}


def _fields(flow: Flow, situation: Situation) -> dict[str, Any]:
    """What *flow* carries, by top-level field; a field that selects nothing is left out."""
    return flow.carry(situation.object_on(flow.source) or {})


def _apply(
    step: Step,
    situation: Situation,
    side: Side,
    flow: Flow,
    metadata: dict[str, Any],
    fields: dict[str, Any],
) -> Call:
    api = situation.scope.api
    target = situation.object_on(side) or {}
    now = without_emptied(fields, target, owned_fields(target, flow.manager))
    name: dict[str, Any] = {"name": situation.key.name}
    if situation.key.namespace:
        name["namespace"] = situation.key.namespace
    body = {
        "apiVersion": api.api_version,
        "kind": api.kind,
        "metadata": name | metadata,
        **now,
    }
    standing = {name: target.get(name) for name, _ in flow.select}
    for part, values in _string_maps(metadata):
        there = (target.get("metadata") or {}).get(part) or {}
        standing[f"metadata.{part}"] = {name: there.get(name) for name in values}
    path = api.path(situation.key)
    todo = Call(step, side, Verb.APPLY, path, body, flow.manager, flow.force, standing=standing)
    return todo if same(now, fields) else replace(todo, unfinished=True)


def _string_maps(metadata: Mapping[str, Any]) -> list[tuple[str, Mapping[str, str]]]:
    return [(part, metadata[part]) for part in ("labels", "annotations") if part in metadata]


def _up(situation: Situation) -> tuple[Flow, dict[str, Any]]:
    """The instance-up flow and the fields that a new copy starts with."""
    flow = situation.scope.copying.flows["instance-up"]
    fields = _fields(flow, situation) if flow.target is Side.PROVIDER else {}
    return flow, fields


def _create(situation: Situation) -> Call | None:
    flow, fields = _up(situation)
    # No object was ever at version 1, so that this fails where anything is there.
    metadata = _metadata(situation) | {"resourceVersion": "1"}
    return _apply(Step.CREATE, situation, Side.PROVIDER, flow, metadata, fields)


def _adopt(situation: Situation) -> Call | None:
    if situation.copy is None:
        return None
    flow, fields = _up(situation)
    standing = situation.copy["metadata"]
    based_on = {"uid": standing["uid"], "resourceVersion": standing["resourceVersion"]}
    metadata = _metadata(situation) | based_on
    return _apply(Step.ADOPT, situation, Side.PROVIDER, flow, metadata, fields)


def _renew(situation: Situation) -> Call | None:
    target, api = situation.copy, situation.scope.api
    manager = situation.scope.copying.flows["instance-up"].manager
    if not situation.outdated or target is None or is_at(target, manager, api.api_version):
        return None
    return Call(
        Step.RENEW,
        Side.PROVIDER,
        Verb.PATCH,
        api.path(situation.key),
        renewal(target, manager, api.api_version),
        manager,
        standing=versions(target),
        sense=f"{target['metadata']['uid']} {api.api_version}",
    )


def _deliver(situation: Situation) -> Call | None:
    return _carry(Step.DELIVER, "instance-up", situation)


def _mirror(situation: Situation) -> Call | None:
    return _carry(Step.MIRROR, "instance-down", situation)


def _carry(step: Step, name: str, situation: Situation) -> Call | None:
    flow = situation.scope.copying.flows[name]
    if flow.through == "status":
        return _status(step, flow, situation)
    target = situation.object_on(flow.target)
    if target is None:
        return None
    fields = _fields(flow, situation)
    metadata = _metadata(situation) if flow.target is Side.PROVIDER else {}
    owned = owned_fields(target, flow.manager)
    if not (
        _fields_differ(flow, fields, target, owned)
        or _metadata_differs(metadata, target["metadata"], owned.get("f:metadata") or {})
        # An apply takes our entry along to its version, before the old one is dropped.
        or not is_at(target, flow.manager, situation.scope.api.api_version)
    ):
        return None
    metadata["uid"] = target["metadata"]["uid"]
    return _apply(step, situation, flow.target, flow, metadata, fields)


def _fields_differ(
    flow: Flow, fields: Mapping[str, Any], target: Mapping[str, Any], owned: Mapping[str, Any]
) -> bool:
    for name, _ in flow.select:
        if name not in fields:
            if flow.absent == "remove" and f"f:{name}" in owned:
                return True
        elif field_differs(name, fields[name], target, owned):
            return True
    return False


def _metadata_differs(
    wanted: Mapping[str, Mapping[str, str]], standing: Mapping[str, Any], owned: Mapping[str, Any]
) -> bool:
    for part, values in wanted.items():
        there = standing.get(part) or {}
        if any(there.get(name) != value for name, value in values.items()):
            return True
        below = owned.get(f"f:{part}") or {}
        if any(name.startswith("f:") and name[2:] not in values for name in below):
            return True
    return False


def _delete(situation: Situation) -> Call | None:
    if situation.copy is None:
        return None
    path = situation.scope.api.path(situation.key)
    uid = situation.copy["metadata"]["uid"]
    return Call(Step.DELETE, Side.PROVIDER, Verb.DELETE, path, uid, answers_object=False)


# --- status --------------------------------------------------------------------------------


def _status(step: Step, flow: Flow, situation: Situation) -> Call | None:
    target = situation.object_on(flow.target)
    if target is None:
        return None
    fields = _fields(flow, situation)
    if "status" in fields:
        wanted = fields["status"]
    elif flow.absent == "remove":
        wanted = None
    else:
        # Kept where the source has none, but for the refusal that is over.
        wanted = without_synced(target.get("status"))
    return _set_status(step, situation, flow.target, flow.manager, wanted)


def _unsync(situation: Situation) -> Call | None:
    if not situation.scope.keeps_synced or situation.reason is None:
        return None
    status = situation.instance.get("status")
    going = situation.owner is Copy.GOING
    message = _holders(situation) if going else ownership.refusal(situation.owner)
    if not takes_conditions(status) or standing_synced(status, situation.reason, message):
        return None
    wanted = with_synced(status, situation.reason, message, situation.now)
    todo = _set_status(Step.UNSYNC, situation, Side.CONSUMER, words.MANAGER, wanted)
    return None if todo is None else replace(todo, sense=message)


def _set_status(
    step: Step, situation: Situation, side: Side, manager: str, status: Any
) -> Call | None:
    target = situation.object_on(side) or {}
    standing = target.get("status")
    if same(status, standing):
        return None
    scope = situation.scope
    path = scope.api.path(situation.key, "status" if scope.status_subresource else None)
    body = status_patch(target, status)
    return Call(step, side, Verb.PATCH, path, body, manager, standing=standing)


def status_patch(obj: Mapping[str, Any], status: Any) -> list[dict[str, Any]]:
    """The JSON patch that sets the status of this very object, or removes it for None. Whole: a
    merge would keep what the source has removed."""
    whole = {"op": "add", "path": "/status", "value": status}
    if status is None:
        whole = {"op": "remove", "path": "/status"}
    return [{"op": "test", "path": "/metadata/uid", "value": obj["metadata"]["uid"]}, whole]


_MAKERS: Final[dict[Step, Callable[[Situation], Call | None]]] = {
    Step.TELL: _tell,
    Step.HOLD: _hold,
    Step.RELEASE: _release,
    Step.NAMESPACE: _namespace,
    Step.CREATE: _create,
    Step.ADOPT: _adopt,
    Step.RENEW: _renew,
    Step.DELIVER: _deliver,
    Step.MIRROR: _mirror,
    Step.DELETE: _delete,
    Step.WARN: _warn,
    Step.MARK: _mark,
    Step.UNSYNC: _unsync,
    Step.RESOLVED: _resolved,
    Step.UNMARK: _unmark,
    Step.HELD: _held,
    Step.CLEAR: _clear,
    Step.WAITING: _waiting,
}
