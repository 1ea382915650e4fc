"""One pass: what is looked at, what is decided, what is remembered."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest

from kbind import words
from kbind.apis import Key
from kbind.cluster.client import Client
from kbind.cover import Bound, Ref
from kbind.errors import (
    ClusterError,
    Conflict,
    Disengaged,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    ServerFailed,
    Throttled,
    Unreachable,
)
from kbind.facts import ConflictPolicy
from kbind.konnector.passes import Memory, Passes, Report, says, untold
from kbind.managed import Outdated
from kbind.steps import Recheck, Side, Step
from tests.unit.build import BOOK, NOW, PATH, UID, Object, copy, instance, scope
from tests.unit.servers import Server, consumer, failed, provider

KEY = Key("team-a", "one")


def bound(
    policy: ConflictPolicy = ConflictPolicy.FAIL,
    connection: str = "provider-a",
    *,
    paused: bool = False,
) -> Bound:
    return Bound(
        Ref("Binding", KEY), connection, ("widgets.example.org",), policy, NOW, True, paused
    )


def going(**fields: Any) -> Object:
    made = instance(**fields)
    made["metadata"]["deletionTimestamp"] = NOW
    return made


async def run(
    made: Object,
    known: Object | None,
    *servers: Server,
    binding: Bound | None = None,
    memory: Memory | None = None,
    fits: bool = True,
    unserved: ClusterError | None = None,
    paused: bool = False,
) -> Report:
    """known: the copy as the watch told it."""
    clients = {Side.CONSUMER: consumer(), Side.PROVIDER: provider()}
    clients |= {server.side: server for server in servers}
    passes = Passes(scope(fits=fits), BOOK, cast("dict[Side, Client]", clients))
    raw = None if known is None else orjson.dumps(known)
    memory = memory or Memory(UID)
    return await passes.run(KEY, made, raw, binding, memory, NOW, unserved=unserved, paused=paused)


def rules(report: Report) -> list[str]:
    return [decision.rule for decision in report.plan.decisions]


def asked(server: Server) -> list[str]:
    return [verb for verb, _, _ in server.seen]


async def test_an_instance_at_rest_costs_no_request() -> None:
    ours, theirs = consumer(), provider()
    report = await run(instance(), copy(), ours, theirs, binding=bound())
    assert rules(report) == ["serve", "maintain", "serve-maintain"]
    assert ours.seen + theirs.seen == []


async def test_a_new_instance_is_held_and_created_without_a_look() -> None:
    ours, theirs = consumer(), provider()
    report = await run(instance(held=False), None, ours, theirs, binding=bound())
    assert rules(report) == ["serve", "create", "serve-create"]
    assert (asked(ours), asked(theirs)) == (["merge"], ["apply"])


@pytest.mark.parametrize("binding", [None, bound(connection="provider-b")])
async def test_an_instance_that_is_not_covered_is_neither_read_nor_written(
    binding: Bound | None,
) -> None:
    ours, theirs = consumer(), provider()
    report = await run(instance(), None, ours, theirs, binding=binding)
    assert report.sight is None
    assert ours.seen + theirs.seen == []


@pytest.mark.parametrize(
    ("made", "memory"),
    [
        (instance(), Memory(UID)),
        (instance(held=False, refused="x"), Memory(UID)),
        (instance(held=False), Memory(UID, doubt=True)),
    ],
    ids=["held before", "refused before", "doubt"],
)
async def test_where_the_watch_proves_nothing_the_provider_is_asked(
    made: Object, memory: Memory
) -> None:
    theirs = provider(copy(markers=False))
    report = await run(made, None, theirs, binding=bound(), memory=memory)
    assert theirs.seen == [("get", PATH, None)]
    assert rules(report)[1] == "refuse-markerless"
    assert report.plan.recheck is Recheck.AT_THE_PASS


@pytest.mark.parametrize(
    ("made", "binding", "paused"),
    [
        (instance(spec={"size": 9}), bound(paused=True), False),
        (instance(held=False), bound(), True),
        (instance(), None, True),
    ],
)
async def test_what_is_paused_is_neither_read_nor_written(
    made: Object, binding: Bound | None, paused: bool
) -> None:
    ours, theirs = consumer(), provider()
    report = await run(made, None, ours, theirs, binding=binding, paused=paused)
    assert rules(report) == ["paused"]
    assert report.plan.reason == words.Reason.PAUSED
    assert ours.seen + theirs.seen == []


async def test_a_deletion_under_a_pause_is_told_once_and_waits() -> None:
    memory, ours, theirs = Memory(UID), consumer(), provider()
    for _ in range(3):
        report = await run(going(), copy(), ours, theirs, memory=memory, paused=True)
        assert report.plan.recheck is Recheck.ON_EVENT
    ((_, path, said),) = ours.seen
    assert path == "/api/v1/namespaces/team-a/events"
    assert "Connection provider-a is paused" in str(said)
    assert theirs.seen == []


async def test_an_instance_that_goes_is_released_when_the_copy_is_proved_gone() -> None:
    absent, ours = provider(failed(NotFound)), consumer()
    report = await run(going(), None, ours, absent)
    assert rules(report) == ["drain", "create", "drain-absent"]
    assert asked(ours) == ["merge"]

    unasked = provider()
    report = await run(going(), None, unasked, memory=Memory(UID, gone=True))
    assert rules(report)[-1] == "drain-absent"
    assert unasked.seen == []


async def test_a_copy_is_deleted_before_its_instance_is_released() -> None:
    ours, theirs = consumer(), provider({"kind": "Status", "apiVersion": "v1"})
    report = await run(going(), copy(), ours, theirs)
    assert report.batch.gone
    assert (asked(ours), asked(theirs)) == ([], ["delete"])


async def test_an_orphan_is_let_go_without_a_look_at_the_provider() -> None:
    made = going()
    made["metadata"]["annotations"] = {words.DELETION_POLICY: "Orphan"}
    ours, theirs = consumer(), provider()
    report = await run(made, copy(), ours, theirs, binding=bound())
    assert rules(report) == ["let-go"]
    assert (asked(ours), asked(theirs)) == (["merge"], [])


@pytest.mark.parametrize("kind", [Forbidden, ServerFailed, Unreachable])
@pytest.mark.parametrize("made", [going(), instance()], ids=["drain", "serve"])
async def test_a_copy_that_cannot_be_seen_is_neither_written_nor_given_up(
    made: Object, kind: type[ClusterError]
) -> None:
    ours, theirs = consumer(), provider(failed(kind))
    memory = Memory(UID)
    report = await run(made, None, ours, theirs, binding=bound(), memory=memory)
    assert rules(report)[-1].endswith("-blind")
    assert asked(theirs) == ["get"]
    # Silence of the whole provider is the Connection's to report.
    assert asked(ours) == ([] if kind is Unreachable else ["create"])
    assert report.plan.recheck is Recheck.AT_THE_PASS


@pytest.mark.parametrize("held", [True, False])
async def test_an_api_that_is_not_served_is_not_asked_for_a_copy(held: bool) -> None:
    ours, theirs = consumer(), provider()
    gone = failed(NotServed)
    report = await run(instance(held=held), None, ours, theirs, binding=bound(), unserved=gone)
    assert rules(report)[1:] == ["cannot-tell", "serve-blind"]
    assert not ours.seen  # the binding says it
    report = await run(going(), None, ours, theirs, unserved=gone)
    assert rules(report)[1:] == ["cannot-tell", "drain-blind"]
    assert [call[2]["reason"] for call in ours.seen] == ["SyncFailed"]
    assert not theirs.seen


async def test_while_the_connection_is_away_only_what_is_deleted_is_told() -> None:
    away = failed(Disengaged)
    ours, theirs = consumer(), provider()
    report = await run(instance(), None, ours, theirs, binding=bound(), unserved=away)
    assert rules(report)[1:] == ["defer", "serve-defer"]
    assert not ours.seen
    report = await run(going(), None, ours, theirs, unserved=away)
    assert rules(report)[1:] == ["defer", "drain-defer"]
    assert [call[2]["reason"] for call in ours.seen] == ["ConnectionNotReady"]
    assert report.plan.recheck is Recheck.ON_EVENT
    assert not theirs.seen


async def test_where_the_scopes_differ_an_instance_goes_and_the_provider_is_not_asked() -> None:
    ours, theirs = consumer(), provider()
    report = await run(going(), None, ours, theirs, fits=False, unserved=failed(NotServed))
    assert rules(report)[1:] == ["create", "drain-absent"]
    assert asked(ours) == ["merge"]
    assert not theirs.seen


async def test_adoption_takes_a_policy_and_the_version_that_was_read() -> None:
    theirs = provider(copy(markers=False), copy())
    report = await run(
        instance(), None, theirs, binding=bound(ConflictPolicy.ADOPT), memory=Memory(UID)
    )
    assert rules(report)[1:] == ["adopt-markerless", "serve-adopt"]
    assert theirs.seen[1][2]["metadata"]["resourceVersion"] == "40"


async def test_trouble_is_told_once() -> None:
    memory = Memory(UID, trouble="403", told=None)
    ours = consumer()
    report = await run(instance(), copy(), ours, binding=bound(), memory=memory)
    assert asked(ours) == ["create"]
    assert Step.TELL in report.plan.steps
    memory.told = "403"
    silent = consumer()
    await run(instance(), copy(), silent, binding=bound(), memory=memory)
    assert silent.seen == []


@pytest.mark.parametrize(
    ("trouble", "told", "expected"),
    [(None, None, None), ("a", None, "a"), ("a", "a", None), ("b", "a", "b"), (None, "a", None)],
)
def test_trouble_that_nobody_was_told(
    trouble: str | None, told: str | None, expected: str | None
) -> None:
    assert untold(Memory(UID, trouble=trouble, told=told)) == expected


@pytest.mark.parametrize(
    ("kind", "heard"),
    [
        (Forbidden, True),
        (Invalid, True),
        (ServerFailed, True),
        (Conflict, False),
        (NotFound, False),
        (Throttled, False),
        (Unreachable, False),
    ],
)
def test_users_hear_of_what_does_not_heal_by_itself(kind: type[ClusterError], heard: bool) -> None:
    assert says(failed(kind)) == ("no" if heard else None)


def test_entries_that_an_apply_failed_over_are_told_with_what_to_do() -> None:
    entries = Outdated("example.org/v1alpha1", ours=True, others=("operator",))
    text = says(failed(ServerFailed), entries)
    assert text is not None
    assert text.startswith("no: managedFields of the copy still name that version")
    assert "for the manager operator" in text
    assert "list example.org/v1alpha1 again" in text
    assert says(failed(ServerFailed), Outdated("example.org/v1alpha1", True, ())) == "no"
    assert says(failed(Conflict), entries) is None
