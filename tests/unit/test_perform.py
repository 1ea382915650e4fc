"""Steps carried out: guards, traces, writes that servers change, deletions."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import orjson
import pytest

from kbind import words
from kbind.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    GuardViolation,
    Invalid,
    NotFound,
    ServerFailed,
    Unreachable,
)
from kbind.facts import Copy
from kbind.perform import Batch, perform
from kbind.situation import Situation
from kbind.steps import Side, Step
from tests.unit.build import (
    CLUSTER,
    PATH,
    UID,
    Object,
    copy,
    flow,
    instance,
    managed,
    refused,
    scope,
    situation,
)
from tests.unit.servers import Server, consumer, failed, provider


async def run(
    steps: list[Step],
    state: Situation,
    *servers: Server,
    settled: MutableMapping[Step, bytes] | None = None,
) -> Batch:
    writers = {Side.CONSUMER: consumer(), Side.PROVIDER: provider()}
    writers |= {server.side: server for server in servers}
    return await perform(steps, state, writers, {} if settled is None else settled)


# --- in order --------------------------------------------------------------------------------


async def test_each_step_is_made_from_what_the_one_before_it_answered() -> None:
    ours, theirs = consumer(), provider(copy(status={"phase": "New"}))
    unheld = instance(held=False)
    batch = await run([Step.HOLD, Step.CREATE, Step.MIRROR], situation(unheld), ours, theirs)
    assert [verb for verb, _, _ in ours.seen] == ["merge", "patch"]
    assert ours.seen[1][2][1]["value"] == {"phase": "New"}
    assert [(verb, path) for verb, path, _ in theirs.seen] == [("apply", PATH)]
    assert theirs.how == [(words.MANAGER, True)]
    assert [side for side, _ in batch.answers] == [Side.CONSUMER, Side.PROVIDER, Side.CONSUMER]
    assert batch.situation.held
    assert batch.situation.owner is Copy.OURS
    assert batch.failed is None


async def test_a_failed_effect_ends_the_batch() -> None:
    error = failed(Forbidden)
    theirs = provider(error)
    ours = consumer()
    steps = [Step.HOLD, Step.CREATE, Step.MIRROR]
    batch = await run(steps, situation(instance(held=False)), ours, theirs)
    assert batch.failed == (Step.CREATE, error)
    assert [call.step for call in batch.calls] == [Step.HOLD]
    assert len(ours.seen) == 1


@pytest.mark.parametrize(
    ("kind", "goes_on"),
    [(Invalid, True), (Forbidden, True), (ServerFailed, True), (Conflict, False),
     (NotFound, False), (Unreachable, False)],
)  # fmt: skip
async def test_the_status_comes_down_although_the_spec_is_refused(
    kind: type[ClusterError], goes_on: bool
) -> None:
    ours = consumer()
    state = situation(instance(spec={"size": 2}), copy(status={"phase": "Ready"}))
    batch = await run([Step.DELIVER, Step.MIRROR], state, ours, provider(failed(kind)))
    assert batch.failed is not None
    assert batch.failed[0] is Step.DELIVER
    assert [verb for verb, _, _ in ours.seen] == (["patch"] if goes_on else [])


async def test_of_two_failures_the_first_is_told() -> None:
    refused, later = failed(Invalid), failed(Unreachable)
    state = situation(instance(spec={"size": 2}), copy(status={"phase": "Ready"}))
    batch = await run([Step.DELIVER, Step.MIRROR], state, consumer(later), provider(refused))
    assert batch.failed == (Step.DELIVER, refused)


async def test_nothing_is_sent_where_nothing_would_change() -> None:
    ours, theirs = consumer(), provider()
    steps = [Step.TELL, Step.HOLD, Step.DELIVER, Step.MIRROR, Step.RESOLVED, Step.UNMARK]
    batch = await run(steps, situation(there=copy()), ours, theirs)
    assert not ours.seen
    assert not theirs.seen
    assert not batch.calls


@pytest.mark.parametrize("step", [Step.TELL, Step.WARN, Step.UNSYNC, Step.RESOLVED, Step.HELD])
@pytest.mark.parametrize("kind", [Conflict, Forbidden, Invalid, NotFound, Unreachable])
async def test_a_trace_that_fails_stops_nothing(step: Step, kind: type[ClusterError]) -> None:
    marked = instance(refused="standing: refusal")
    state = refused(made=marked, trouble="x")
    ours = consumer(failed(kind))
    batch = await run([step, Step.RELEASE], state, ours)
    assert batch.failed is None
    assert [call.step for call in batch.calls] == [Step.RELEASE]


async def test_a_namespace_that_somebody_else_created_is_there() -> None:
    theirs = provider(failed(Conflict))
    batch = await run([Step.NAMESPACE, Step.CREATE], situation(homeless=True), theirs)
    assert batch.failed is None
    assert [verb for verb, _, _ in theirs.seen] == ["create", "apply"]


async def test_a_namespace_that_is_refused_ends_the_batch() -> None:
    theirs = provider(failed(Forbidden))
    batch = await run([Step.NAMESPACE, Step.CREATE], situation(homeless=True), theirs)
    assert batch.failed is not None
    assert batch.failed[0] is Step.NAMESPACE


# --- guards ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [Step.CREATE, Step.ADOPT, Step.RENEW, Step.DELIVER, Step.DELETE, Step.NAMESPACE],
)
async def test_nothing_is_written_on_the_provider_before_our_finalizer_stands(step: Step) -> None:
    theirs = provider()
    there = {
        Step.ADOPT: copy(markers=False),
        Step.RENEW: copy(applied="example.org/v1alpha1"),
        Step.DELIVER: copy(spec={"size": 9}),
        Step.DELETE: copy(),
    }.get(step)
    state = situation(instance(held=False), there, homeless=True, outdated=True)
    with pytest.raises(GuardViolation, match="finalizer"):
        await run([step], state, theirs)
    assert not theirs.seen


@pytest.mark.parametrize("step", [Step.NAMESPACE, Step.CREATE])
async def test_nothing_is_written_on_a_provider_that_is_out_of_reach(step: Step) -> None:
    state = situation(owner=Copy.OUT_OF_REACH, homeless=True)
    with pytest.raises(GuardViolation, match="not Ready"):
        await run([step], state)


async def test_a_finalizer_that_the_server_did_not_take_is_not_there() -> None:
    theirs = provider()
    stubborn = consumer(instance(held=False))
    with pytest.raises(GuardViolation, match="finalizer"):
        await run([Step.HOLD, Step.CREATE], situation(instance(held=False)), stubborn, theirs)
    assert not theirs.seen


def alien(**annotations: str) -> Object:
    there = copy(spec={"size": 9}, status={"a": 1}, applied="example.org/v1alpha1")
    there["metadata"]["annotations"] = {**annotations}
    return there


ALIENS = {
    Copy.MARKERLESS: alien(),
    Copy.PARTIAL: alien(**{words.CLUSTER_UID: CLUSTER}),
    Copy.ANOTHER_OBJECT: alien(**{words.CLUSTER_UID: CLUSTER, words.OBJECT_UID: "other"}),
    Copy.ANOTHER_CLUSTER: alien(**{words.CLUSTER_UID: "other", words.OBJECT_UID: UID}),
}


@pytest.mark.parametrize("owner", ALIENS)
@pytest.mark.parametrize("step", [Step.RENEW, Step.DELIVER, Step.DELETE])
async def test_what_is_not_ours_is_neither_changed_nor_deleted(step: Step, owner: Copy) -> None:
    theirs = provider()
    state = situation(there=ALIENS[owner], outdated=True)
    assert state.owner is owner
    with pytest.raises(GuardViolation, match=str(owner)):
        await run([step], state, theirs)
    assert not theirs.seen


@pytest.mark.parametrize("owner", ALIENS)
async def test_a_status_goes_up_to_what_is_ours_alone(owner: Copy) -> None:
    up = flow("instance-down", source=Side.CONSUMER, target=Side.PROVIDER)
    theirs = provider()
    state = situation(instance(status={"b": 2}), ALIENS[owner], within=scope(copying=up))
    with pytest.raises(GuardViolation, match=str(owner)):
        await run([Step.MIRROR], state, theirs)
    assert not theirs.seen


async def test_a_status_goes_up_to_a_copy_that_was_created_just_now() -> None:
    up = flow("instance-down", source=Side.CONSUMER, target=Side.PROVIDER)
    theirs = provider()
    state = situation(instance(status={"b": 2}), within=scope(copying=up))
    await run([Step.CREATE, Step.MIRROR], state, theirs)
    assert [verb for verb, _, _ in theirs.seen] == ["apply", "patch"]


@pytest.mark.parametrize("owner", [Copy.PARTIAL, Copy.ANOTHER_CLUSTER])
async def test_what_others_marked_is_never_adopted(owner: Copy) -> None:
    theirs = provider()
    with pytest.raises(GuardViolation, match=str(owner)):
        await run([Step.ADOPT], situation(there=ALIENS[owner]), theirs)
    assert not theirs.seen


@pytest.mark.parametrize("owner", [Copy.MARKERLESS, Copy.ANOTHER_OBJECT])
async def test_what_may_be_adopted_is_ours_afterwards(owner: Copy) -> None:
    theirs = provider(copy(spec={"size": 9}))
    batch = await run([Step.ADOPT, Step.DELIVER], situation(there=ALIENS[owner]), theirs)
    assert [verb for verb, _, _ in theirs.seen] == ["apply"]
    assert batch.situation.owner is Copy.OURS


# --- deletions -------------------------------------------------------------------------------

DONE: Object = {"kind": "Status", "apiVersion": "v1", "status": "Success"}


async def test_a_deletion_that_is_done_is_the_proof_that_the_copy_is_gone() -> None:
    theirs = provider(DONE)
    batch = await run([Step.DELETE], situation(there=copy()), theirs)
    assert theirs.seen == [("delete", PATH, "copy-uid")]
    assert batch.gone
    assert batch.answers == []


@pytest.mark.parametrize("kind", ["Widget", "Status"])
async def test_a_copy_that_waits_for_finalizers_is_not_gone(kind: str) -> None:
    waiting = copy() | {"kind": kind}
    batch = await run([Step.DELETE], situation(there=copy()), provider(waiting))
    assert not batch.gone
    assert batch.answers == [(Side.PROVIDER, orjson.dumps(waiting))]


# --- servers that store something else -------------------------------------------------------


def rounded(sent: Object) -> Object:
    """What a webhook makes of it: another size."""
    return copy(spec=sent["spec"] | {"size": 100})


async def test_a_server_that_changes_what_is_sent_is_written_to_once() -> None:
    settled: dict[Step, bytes] = {}
    theirs = provider(rounded, rounded)
    first = await run([Step.CREATE], situation(), theirs, settled=settled)
    state = situation(there=first.situation.copy)
    for _ in range(3):
        await run([Step.DELIVER], state, theirs, settled=settled)
    assert len(theirs.seen) == 1

    changed = situation(instance(spec={"size": 2}), first.situation.copy)
    await run([Step.DELIVER], changed, theirs, settled=settled)
    await run([Step.DELIVER], changed, theirs, settled=settled)
    assert len(theirs.seen) == 2


async def test_a_change_of_the_copy_is_answered_although_the_last_write_is_settled() -> None:
    settled: dict[Step, bytes] = {}
    theirs = provider(rounded, rounded)
    batch = await run([Step.CREATE], situation(), theirs, settled=settled)
    drifted = copy(spec={"size": 5})
    assert drifted["spec"] != (batch.situation.copy or {})["spec"]
    await run([Step.DELIVER], situation(there=drifted), theirs, settled=settled)
    assert len(theirs.seen) == 2


@pytest.mark.parametrize("kind", [Conflict, Forbidden, Invalid, ServerFailed])
async def test_a_renewal_that_fails_leaves_the_rest_to_deliver(kind: type[ClusterError]) -> None:
    theirs = provider(failed(kind), failed(ServerFailed))
    state = situation(there=copy(applied="example.org/v1alpha1"), outdated=True)
    batch = await run([Step.RENEW, Step.DELIVER], state, theirs)
    assert [verb for verb, _, _ in theirs.seen] == ["patch", "apply"]
    assert batch.failed is not None
    assert batch.failed[0] is Step.DELIVER


async def test_a_renewal_that_the_server_does_not_take_is_sent_once() -> None:
    """Which it is where others have entries at versions that are gone."""
    stale = copy(applied="example.org/v1alpha1")
    settled: dict[Step, bytes] = {}
    theirs = provider(stale)
    await run([Step.RENEW], situation(there=stale, outdated=True), theirs, settled=settled)
    moved = copy(applied="example.org/v1alpha1", status={"phase": "Ready"})
    moved["metadata"]["resourceVersion"] = "41"
    await run([Step.RENEW], situation(there=moved, outdated=True), theirs, settled=settled)
    assert len(theirs.seen) == 1

    others_too = copy(applied="example.org/v1alpha1")
    others_too["metadata"]["managedFields"].append(managed({}, "operator"))
    await run([Step.RENEW], situation(there=others_too, outdated=True), theirs, settled=settled)
    assert len(theirs.seen) == 2


async def test_what_is_in_order_again_is_forgotten() -> None:
    settled = {Step.DELIVER: b"earlier"}
    await run([Step.DELIVER], situation(there=copy()), settled=settled)
    assert settled == {}


async def test_a_status_that_the_schema_prunes_is_written_once() -> None:
    settled: dict[Step, bytes] = {}
    ours = consumer(instance(status={"phase": "x"}))
    there = copy(status={"phase": "x", "unknown": 1})
    first = await run([Step.MIRROR], situation(there=there), ours, settled=settled)
    again = situation(first.situation.instance, there)
    await run([Step.MIRROR], again, ours, settled=settled)
    assert len(ours.seen) == 1


@pytest.mark.parametrize("answer", [{"kind": "Event"}, failed(Conflict), failed(Forbidden)])
async def test_an_event_is_posted_once(answer: Any) -> None:
    settled: dict[Step, bytes] = {}
    ours = consumer(answer)
    for minute in range(3):
        state = situation(there=copy(), now=f"2026-01-01T00:0{minute}:00Z")
        await run([Step.HELD], state, ours, settled=settled)
    assert len(ours.seen) == 1


@pytest.mark.parametrize("step", [Step.UNSYNC, Step.TELL, Step.WARN])
async def test_a_trace_that_the_server_finds_invalid_is_not_repeated(step: Step) -> None:
    settled: dict[Step, bytes] = {}
    ours = consumer(failed(Invalid))
    for minute in range(3):
        now = f"2026-01-01T00:0{minute}:00Z"
        await run([step], refused(trouble="x", now=now), ours, settled=settled)
    assert len(ours.seen) == 1
    await run([step], refused(Copy.PARTIAL, trouble="y"), ours, settled=settled)
    assert len(ours.seen) == 2


async def test_a_condition_that_the_schema_prunes_is_written_once() -> None:
    settled: dict[Step, bytes] = {}
    ours = consumer()
    for minute in range(3):
        state = refused(now=f"2026-01-01T00:0{minute}:00Z")
        await run([Step.UNSYNC], state, ours, settled=settled)
    assert len(ours.seen) == 1


# --- emptied maps ----------------------------------------------------------------------------


async def test_an_emptied_map_is_finished_in_the_next_pass() -> None:
    settled: dict[Step, bytes] = {}
    before = copy(
        owned={"f:spec": {"f:size": {}, "f:labels": {"f:a": {}}}},
        spec={"size": 1, "labels": {"a": "x"}},
    )
    owned: Object = {"f:spec": {"f:size": {}, "f:labels": {}}}
    after = copy(owned=owned, spec={"size": 1, "labels": {}})
    theirs = provider(copy(), after)
    made = instance(spec={"size": 1, "labels": {}})

    first = await run([Step.DELIVER], situation(made, before), theirs, settled=settled)
    assert first.calls[-1].unfinished
    second = await run(
        [Step.DELIVER], situation(made, first.situation.copy), theirs, settled=settled
    )
    assert not second.calls[-1].unfinished
    assert [sent["spec"] for _, _, sent in theirs.seen] == [
        {"size": 1},
        {"size": 1, "labels": {}},
    ]
    rest = await run([Step.DELIVER], situation(made, second.situation.copy), settled=settled)
    assert not rest.calls


# --- nested deep -----------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


async def test_a_spec_that_is_nested_too_deep_fails_alone() -> None:
    ours, theirs = consumer(), provider()
    deep = nested(1000)
    owned: Object = {"f:spec": {"f:a": {}}}
    there = copy(spec=deep, status={"phase": "New"})
    there["metadata"]["managedFields"] = [
        {"manager": words.MANAGER, "operation": "Apply", "fieldsV1": owned}
    ]
    state = situation(instance(spec=deep), there)
    batch = await run([Step.DELIVER, Step.MIRROR], state, ours, theirs)
    assert batch.failed is not None
    step, error = batch.failed
    assert (step, type(error), error.side) == (Step.DELIVER, Invalid, Side.PROVIDER)
    assert "nested too deep to be sent" in str(error)
    assert [call.step for call in batch.calls] == [Step.MIRROR]


async def test_an_answer_that_cannot_be_decoded_fails_the_step() -> None:
    class Odd(Server):
        async def apply(self, path: str, body: bytes, *, manager: str, force: bool) -> bytes:
            return b"["

    batch = await run([Step.CREATE, Step.MIRROR], situation(instance()), Odd(Side.PROVIDER, copy()))
    assert batch.failed is not None
    assert (batch.failed[0], type(batch.failed[1])) == (Step.CREATE, ServerFailed)
    assert batch.answers == []
