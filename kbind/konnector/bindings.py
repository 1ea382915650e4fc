"""What a binding's status says: judged from what is known here, without one request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from kbind.apis import BINDINGS, CLUSTER_BINDINGS, Api, Key
from kbind.conditions import Judgement, find, judged
from kbind.cover import Bound, Ref
from kbind.errors import ClusterError, Forbidden, SpecInvalid
from kbind.keeping import is_going
from kbind.konnector import status as statuses
from kbind.konnector.link import Link
from kbind.konnector.shared import Shared
from kbind.schema import connection_of, crd_hash, is_established, objection, top_fields
from kbind.words import Condition, Reason

APIS: dict[str, Api] = {"ClusterBinding": CLUSTER_BINDINGS, "Binding": BINDINGS}


# Reasons of a schema that is not as wanted, but serves.
_SYNCED_ALL_THE_SAME = (
    Reason.PINNED,
    Reason.SCHEMA_REFUSED,
    Reason.SCHEMA_SOURCE_FAILED,
    Reason.API_NOT_EXPORTED,
)


class RunningSyncer(Protocol):
    """What a binding looks at of the syncer of one of its APIs."""

    @property
    def conflicts(self) -> Mapping[Key, str]: ...
    @property
    def paused(self) -> Collection[Key]: ...
    @property
    def synced(self) -> bool: ...
    @property
    def trouble(self) -> ClusterError | None: ...


@dataclass(frozen=True, slots=True)
class ApiState:
    """One bound API. paused: instances that are, by themselves; problem: why it is not Ready;
    unsynced: why nothing is synced; note: what is said of it all the same."""

    name: str
    crd_hash: str = ""
    conflicts: tuple[str, ...] = ()
    paused: int = 0
    problem: tuple[str, str] | None = None
    unsynced: tuple[str, str] | None = None
    denied: str | None = None
    note: str = ""


class BindingStatuses:
    """Writes the status of bindings. syncers: what runs now, by API name."""

    def __init__(self, shared: Shared, syncers: Mapping[str, RunningSyncer]) -> None:
        self._shared = shared
        self._syncers = syncers

    async def turn(self, ref: Ref, binding: Mapping[str, Any]) -> float | None:
        """Judges one live binding; due again after the binding interval. Raises ClusterError."""
        standing = binding.get("status") or {}
        generation = binding["metadata"].get("generation", 1)
        status = dict(standing)
        try:
            bound = Bound.of(ref.kind, binding)
            if bound is None:
                return None
            states = [self._api(bound, api) for api in dict.fromkeys(bound.apis)]
            status["boundAPIs"] = [
                {"name": s.name, "crdHash": s.crd_hash, "conflictCount": len(s.conflicts)}
                for s in states
            ]
            paused = sum(state.paused for state in states)
            notes = [_note(binding["spec"]), *(f"{s.name}: {s.note}" for s in states if s.note)]
            notes.append(f"{paused} instances are paused by themselves" if paused else "")
            note = "; ".join(text for text in notes if text)
            judgements = self._judge(bound, states, note)
        except SpecInvalid as error:
            problem = (Reason.SPEC_INVALID, str(error))
            judgements = [_verdict(c, problem) for c in (Condition.READY, Condition.SYNCED)]
        known = standing.get("observedGeneration") == generation
        if known and any(j.status == "Unknown" for j in judgements):
            # Still being found out, after a start or a reconnect: what stands is not a guess.
            return self._shared.settings.binding_interval
        status |= {
            "observedGeneration": generation,
            "conditions": judged(
                judgements,
                standing.get("conditions") or (),
                generation=generation,
                now=self._shared.timestamp(),
            ),
        }
        cache = self._shared.caches.of(ref.kind)
        await statuses.write(self._shared.consumer, APIS[ref.kind], cache, binding, status)
        return self._shared.settings.binding_interval

    def is_down(self, connection: str) -> bool:
        """Whether a Connection is known to carry nothing, and not just on its way up."""
        problem = self._line_problem(connection)
        return problem is not None and problem[0] != Reason.PENDING

    def _api(self, bound: Bound, name: str) -> ApiState:
        link = self._shared.links.get(bound.connection)
        entry = self._shared.caches.crds.get(Key("", name))
        crd = None if entry is None else orjson.loads(entry.raw)
        digest = "" if crd is None else crd_hash(crd)
        problem = self._problem(bound, name, link, crd)
        note = self._note(name, link, crd)
        syncer = self._syncers.get(name)
        if syncer is None:
            pending = (str(Reason.PENDING), f"{name} is not being synced yet")
            return ApiState(name, digest, problem=problem, unsynced=problem or pending, note=note)
        trouble = syncer.trouble
        unsynced: tuple[str, str] | None = None
        if trouble is not None:
            unsynced = (_reason(trouble), f"{name}: {trouble}")
        elif not syncer.synced:
            unsynced = (Reason.PENDING, f"{name} is being listed")
        coverage = self._shared.coverage()

        def covers(key: Key) -> bool:
            covering = coverage.covering(name, key.namespace)
            return covering is not None and covering.ref == bound.ref

        conflicts = tuple(text for key, text in syncer.conflicts.items() if covers(key))
        paused = sum(covers(key) for key in syncer.paused)
        denied = str(trouble) if isinstance(trouble, Forbidden) else None
        ours = crd is not None and connection_of(crd) == bound.connection
        if problem is not None and not (ours and problem[0] in _SYNCED_ALL_THE_SAME):
            unsynced = problem
        first = coverage.covering(name, bound.ref.key.namespace)
        if problem is None and first is not None and first.connection != bound.connection:
            text = f"{name} is bound by {first.ref} first, through Connection {first.connection}"
            problem = unsynced = (Reason.MANAGED_ELSEWHERE, text)
        return ApiState(name, digest, conflicts, paused, problem, unsynced, denied, note)

    def _note(self, name: str, link: Link | None, crd: Mapping[str, Any] | None) -> str:
        """What there is to say of an API even where nothing is wrong with it."""
        delivered = None if link is None else link.delivered.get(name)
        notes = ["" if delivered is None else delivered.note]
        if crd is not None:
            notes.append(self._rest(crd))
            if is_established(crd):
                notes.append(objection(crd) or "")  # to what came later than it was served
        return "; ".join(text for text in notes if text)

    def _rest(self, crd: Mapping[str, Any]) -> str:
        """What of instances the rules carry nowhere, in words."""
        flows = self._shared.book.copying.flows.values()
        carried = {field for flow in flows for field, _ in flow.select}
        rest = [field for field in top_fields(crd) if field not in carried]
        return f"not synced are the fields {', '.join(rest)} beside the spec" if rest else ""

    def _problem(
        self, bound: Bound, name: str, link: Link | None, crd: Mapping[str, Any] | None
    ) -> tuple[str, str] | None:
        """Why *name* is not as the binding wants it, or None."""
        export = (link.exports or {}).get(name) if link is not None else None
        if export is not None and export.scope != "Namespaced" and bound.ref.kind == "Binding":
            text = f"{name} is cluster-scoped: a Binding cannot bind it, a ClusterBinding can"
            return (Reason.CLUSTER_SCOPED, text)
        delivered = link.delivered.get(name) if link is not None else None
        if delivered is not None and delivered.reason not in (None, Reason.PAUSED):
            return (delivered.reason, delivered.message)
        if crd is None or connection_of(crd) != bound.connection:
            if self._is_going(bound.connection):
                text = f"Connection {bound.connection} is being deleted and brings no {name} over"
                return (Reason.CONNECTION_NOT_READY, text)
            return (Reason.PENDING, f"the schema of {name} is on its way")
        if is_established(crd):
            return None
        refused = objection(crd)
        if refused is not None:
            return (Reason.SCHEMA_NOT_ESTABLISHED, f"CRD {name}: {refused}")
        return (Reason.PENDING, f"CRD {name} is not served yet")

    def _judge(self, bound: Bound, states: list[ApiState], note: str) -> list[Judgement]:
        line = self._line_problem(bound.connection)
        problem = line or _first([s.problem for s in states])
        unsynced = line or _first([s.unsynced for s in states])
        denied = self._denied(bound.connection) or next(
            (s.denied for s in states if s.denied is not None), None
        )
        conflicts = [text for state in states for text in state.conflicts]
        # Until syncers have looked at everything, conflicts and what else is wrong are not known.
        starting = any(s.problem is None and _pending(s.unsynced) for s in states)
        paused = None if line or starting else self._paused(bound)
        return [
            _ready(problem, note, paused),
            _verdict(Condition.SYNCED, (Reason.PAUSED, paused) if paused else unsynced),
            _conflicts(conflicts),
            Judgement(Condition.PERMISSION_DENIED, "False", Reason.AS_EXPECTED)
            if denied is None
            else Judgement(Condition.PERMISSION_DENIED, "True", Reason.FORBIDDEN, denied),
        ]

    def _paused(self, bound: Bound) -> str | None:
        """What is paused of what the binding needs, in words, or None."""
        if self._shared.holds(bound.connection):
            return f"Connection {bound.connection} is paused: nothing is written over it"
        if self._shared.holds_binding(bound):
            return "paused: nothing is written for its instances, their deletion waits"
        return None

    def _line_problem(self, connection: str) -> tuple[str, str] | None:
        """Why the Connection cannot carry anything, or None."""
        entry = self._shared.caches.connections.get(Key("", connection))
        if entry is None:
            text = f"Connection {connection} does not exist"
            return (Reason.CONNECTION_NOT_FOUND, text)
        link = self._shared.links.get(connection)
        if link is not None and link.ready:
            return None
        ready = self._condition(connection, Condition.READY)
        if ready is None or ready["status"] == "True":
            return (Reason.PENDING, f"Connection {connection} is being set up")
        text = f"Connection {connection}: {ready['reason']}: {ready['message']}"
        return (Reason.CONNECTION_NOT_READY, text)

    def _is_going(self, connection: str) -> bool:
        found = self._shared.connection(connection)
        return found is not None and is_going(found)

    def _denied(self, connection: str) -> str | None:
        denied = self._condition(connection, Condition.PERMISSION_DENIED)
        if denied is None or denied["status"] != "True":
            return None
        message: str = denied["message"]
        return message

    def _condition(self, connection: str, condition: Condition) -> Mapping[str, Any] | None:
        return find(self._shared.connection(connection), condition)


def _first(problems: list[tuple[str, str] | None]) -> tuple[str, str] | None:
    """The first reason, with the messages of all; what is pending counts only where nothing
    else does, and what is pinned only where all else is well."""
    met = [problem for problem in problems if problem is not None]
    met = [problem for problem in met if problem[0] != Reason.PINNED] or met
    met = [problem for problem in met if problem[0] != Reason.PENDING] or met
    return (met[0][0], "; ".join(message for _, message in met)) if met else None


def _verdict(condition: Condition, problem: tuple[str, str] | None, note: str = "") -> Judgement:
    if problem is None:
        return Judgement(condition, "True", Reason.AS_EXPECTED, note)
    if problem[0] == Reason.PINNED:  # as the Connection asks for it
        return Judgement(condition, "True", *problem)
    return Judgement(condition, "Unknown" if problem[0] == Reason.PENDING else "False", *problem)


def _pending(problem: tuple[str, str] | None) -> bool:
    return problem is not None and problem[0] == Reason.PENDING


def _ready(problem: tuple[str, str] | None, note: str, paused: str | None) -> Judgement:
    """A pause was asked for and is nothing to mend; but what is wrong is said, and what had not
    come before the pause does not come now."""
    if paused is None or not (problem is None or _pending(problem)):
        return _verdict(Condition.READY, problem, note)
    text = "; ".join(part for part in (paused, note, problem[1] if problem else "") if part)
    return Judgement(Condition.READY, "False" if problem else "True", Reason.PAUSED, text)


def _note(spec: Mapping[str, Any]) -> str:
    """What a user of a Ready binding should know all the same."""
    if spec.get("relatedResources"):
        return "relatedResources are not acted on by this version"
    return ""


def _conflicts(conflicts: list[str]) -> Judgement:
    if not conflicts:
        return Judgement(Condition.CONFLICTS, "False", Reason.AS_EXPECTED)
    # The annotation opens with the reason.
    reason = min(text.split(":", 1)[0] for text in conflicts)
    text = f"{len(conflicts)} instances are refused; see their annotation core.kbind.io/conflict"
    return Judgement(Condition.CONFLICTS, "True", reason, text)


def _reason(error: ClusterError) -> str:
    return Reason.FORBIDDEN if isinstance(error, Forbidden) else Reason.SYNC_FAILED
