"""The steps of one plan, one after the other, until one fails."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import orjson

from kbind.calls import Call, Verb, call, digest
from kbind.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    GuardViolation,
    Invalid,
    ServerFailed,
)
from kbind.facts import Copy
from kbind.perform.sending import Writer, send
from kbind.situation import Situation
from kbind.steps import BEST_EFFORT, Side, Step


@dataclass(slots=True)
class Batch:
    """What a batch did.

    situation: as it stands after the calls that succeeded. answers: objects as servers answered
    them. failed: the first step that failed, and why; it ended the batch, unless it was a spec
    that the provider refused. gone: the copy's deletion was answered with the proof that it is
    no more.
    """

    situation: Situation
    calls: list[Call] = field(default_factory=list)
    answers: list[tuple[Side, bytes]] = field(default_factory=list)
    failed: tuple[Step, ClusterError] | None = None
    gone: bool = False


async def perform(
    steps: Sequence[Step],
    situation: Situation,
    writers: Mapping[Side, Writer],
    settled: MutableMapping[Step, bytes],
) -> Batch:
    """Carries out *steps*. settled: fingerprints of writes that a server answered with something
    else than was sent; they are not repeated until either side changes."""
    batch = Batch(situation)
    for step in steps:
        try:
            todo = call(step, batch.situation)
        except RecursionError:
            if step in BEST_EFFORT:
                continue
            batch.failed = batch.failed or (step, _too_deep(step, situation))
            if step is Step.DELIVER:
                continue  # as of a spec that was refused
            return batch
        if todo is None:
            settled.pop(step, None)
            continue
        if step in settled and settled[step] == digest(todo):
            continue
        guard(todo, batch.situation)
        traces = step in BEST_EFFORT and not todo.answers_object
        try:
            answer = await send(todo, writers[todo.side])
        except ClusterError as error:
            if step in BEST_EFFORT:
                # An Event that is there already is a conflict of names; one in a namespace that is
                # being deleted is forbidden, and stays so.
                known = traces and isinstance(error, Conflict | Forbidden)
                if isinstance(error, Invalid) or known:
                    settled[step] = digest(todo)
                continue
            if step is Step.NAMESPACE and isinstance(error, Conflict):
                continue  # somebody else created it
            batch.failed = batch.failed or (step, error)
            if step in SPEC_STEPS and isinstance(error, _SPEC_REFUSED):
                settled[step] = digest(todo)
                if step is Step.DELIVER:
                    continue  # what became of the spec that stands there still comes down
            return batch
        batch.calls.append(todo)
        try:
            _take(batch, todo, answer)
        except orjson.JSONDecodeError:
            batch.failed = (step, _unread(todo))
            return batch
        if traces:
            settled[step] = digest(todo)  # said once
        if not todo.unfinished:
            _settle(batch, step, settled)
    return batch


SPEC_STEPS = (Step.CREATE, Step.ADOPT, Step.DELIVER)
"""Steps that send the spec. One that was refused is settled until either side changes, or until
the caller wants it tried again."""

_SPEC_REFUSED = (Invalid, Forbidden, ServerFailed)

_OWN = (Copy.OURS, Copy.GOING)
_MAY_WRITE: dict[Step, tuple[Copy, ...]] = {
    Step.ADOPT: (Copy.MARKERLESS, Copy.ANOTHER_OBJECT),  # what Adopt, or an overlay, may take
    Step.RENEW: _OWN,
    Step.DELIVER: _OWN,
    Step.MIRROR: _OWN,  # where an overlay turned the flow of the status round
    Step.DELETE: _OWN,
}


def guard(todo: Call, situation: Situation) -> None:
    """Raises GuardViolation for a call that no rule may lead to: a write on the provider before
    our finalizer stands, to an object that is not ours, or while the Connection is not Ready."""
    if todo.side is not Side.PROVIDER:
        return
    if not situation.held:
        raise GuardViolation(
            f"{todo.step} of {situation.key}: our finalizer is not on the instance",
            hint="the rule must name the step hold before it",
        )
    if situation.owner is Copy.OUT_OF_REACH:
        raise GuardViolation(f"{todo.step} of {situation.key}: the Connection is not Ready")
    if situation.owner not in _MAY_WRITE.get(todo.step, (situation.owner,)):
        raise GuardViolation(
            f"{todo.step} of {situation.key}: the object on the provider is {situation.owner}"
        )


def _take(batch: Batch, todo: Call, answer: bytes) -> None:
    if todo.verb is Verb.DELETE:
        # A finished deletion is answered with a Status, one that waits with the object.
        told = orjson.loads(answer)
        if (told.get("apiVersion"), told.get("kind")) == ("v1", "Status"):
            batch.gone = True
        else:
            batch.answers.append((todo.side, answer))
    elif todo.answers_object:
        batch.situation = batch.situation.after(todo.side, orjson.loads(answer))
        batch.answers.append((todo.side, answer))


# After which step a server may have stored something else than was sent, and which step would
# then want to write it again.
_REPEATS = {
    Step.CREATE: Step.DELIVER,
    Step.ADOPT: Step.DELIVER,
    Step.RENEW: Step.RENEW,
    Step.DELIVER: Step.DELIVER,
    Step.MIRROR: Step.MIRROR,
    Step.UNSYNC: Step.UNSYNC,
}


def _settle(batch: Batch, step: Step, settled: MutableMapping[Step, bytes]) -> None:
    if step not in _REPEATS:
        return
    try:
        repeat = call(_REPEATS[step], batch.situation)
    except RecursionError:
        return  # The next pass will tell.
    if repeat is not None:
        settled[repeat.step] = digest(repeat)


def _too_deep(step: Step, situation: Situation) -> Invalid:
    """Comparing what is to be sent with what stands there is the one thing that recurses."""
    side = Side.CONSUMER if step is Step.MIRROR else Side.PROVIDER
    path = situation.scope.api.path(situation.key)
    message = f"{side}: {step} {path}: nested too deep to be sent"
    return Invalid(message, side=side, verb=step, path=path)


def _unread(todo: Call) -> ServerFailed:
    message = f"{todo.side}: {todo.verb} {todo.path}: the answer cannot be decoded"
    return ServerFailed(message, side=todo.side, verb=todo.verb, path=todo.path)
