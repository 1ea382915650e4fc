"""When an instance is due again, from what came of a pass over it."""

from __future__ import annotations

import asyncio

import structlog

from kbind.cluster.answers import causes
from kbind.cluster.backoff import delay
from kbind.errors import (
    ClusterError,
    Conflict,
    NotFound,
    NotServed,
    Throttled,
    Unauthorized,
    Unreachable,
)
from kbind.konnector.passes import Memory, Report, in_the_way, says
from kbind.perform import SPEC_STEPS
from kbind.situation import Situation
from kbind.steps import Recheck, Step

log = structlog.get_logger(__name__)

# Of a server that answers no longer as it did when it was engaged.
LOST = (Unauthorized, Unreachable, NotServed)


def seconds() -> float:
    """The loop's time."""
    return asyncio.get_running_loop().time()


def due(report: Report, memory: Memory, recheck: float) -> float | None:
    """Seconds until the next pass, or None where an event will tell. memory: takes what is to be
    remembered until then. recheck: seconds until a pass that a rule asks for."""
    if Step.TELL in report.plan.steps:
        memory.told = memory.trouble
    if report.batch.failed is None:
        memory.homeless = False
        if report.batch.calls:
            # An answer may hold other than what was sent, and what somebody else changed meanwhile:
            # nothing is at rest until a pass finds nothing left to write.
            if any(call.step in SPEC_STEPS for call in report.batch.calls):
                memory.retry_at = 0.0
            if not memory.retry_at:
                memory.failures = 0
            return 0.0
        if report.plan.recheck is Recheck.AT_THE_PASS:
            return recheck
        if memory.retry_at:
            # The refusal stands: events of the object do not send its spec again.
            return max(memory.retry_at - seconds(), 0.0)
        memory.failures = 0
        memory.outdated = False
        memory.trouble = memory.told = None
        return None
    again = _after_failure(*report.batch.failed, report.batch.situation, memory, recheck)
    if again is not None and report.batch.calls:
        return min(again, delay(1))  # what was written before the failure: as above
    return again


def _after_failure(
    step: Step, error: ClusterError, situation: Situation, memory: Memory, recheck: float
) -> float | None:
    memory.failures += 1
    first = memory.failures == 1
    entries = in_the_way(situation, error) if step in SPEC_STEPS else None
    match step, error:
        case (Step.CREATE, NotFound()) if not memory.homeless:
            memory.homeless = True
            return 0.0
        case (Step.CREATE | Step.ADOPT | Step.DELIVER | Step.DELETE, Conflict() | NotFound()):
            memory.doubt = True
            return 0.0 if first else delay(memory.failures)
        case (Step.DELIVER, _) if entries and entries.alone and not memory.outdated:
            memory.outdated = True
            del memory.settled[step]
            return 0.0
        case (_, NotFound()):
            return None  # the instance is gone, the watch will say so
    memory.trouble = says(error, entries) or memory.trouble
    log.info(
        "a step failed",
        step=str(step),
        api=situation.scope.api.name,
        error=str(error),
        failures=memory.failures,
    )
    pause = delay(memory.failures)
    if _of_the_server(error):
        pause = delay(memory.failures, cap=recheck)
    if step in SPEC_STEPS and step in memory.settled:
        memory.retry_at = seconds() + pause
    return pause


def _of_the_server(error: ClusterError) -> bool:
    """Whether a call would have failed whatever the object: it is not to wait for long after
    its server has healed, as one that was refused for itself may."""
    if isinstance(error, (*LOST, Throttled)):
        return True
    return error.status in (502, 503, 504) or _of_a_going_namespace(error)


def _of_a_going_namespace(error: ClusterError) -> bool:
    """Whether nothing is created because the namespace is being deleted."""
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes(error.body))
