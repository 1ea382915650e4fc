"""One instance and its copy, as the words that rules compare."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kbind import words
from kbind.apis import Key
from kbind.cover import Bound, Ref
from kbind.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    NotServed,
    ServerFailed,
    Throttled,
    Unauthorized,
    Unreachable,
)
from kbind.facts import ConflictPolicy, Copy, Cover
from kbind.observe.instance import cached, duty_facts, fresh, ownership_facts, paused_by
from tests.unit.build import CLUSTER, PATH, UID, Object, copy, instance

PROVIDER = "provider-a"


def bound(
    connection: str = PROVIDER,
    policy: ConflictPolicy = ConflictPolicy.FAIL,
    *,
    paused: bool = False,
) -> Bound:
    ref = Ref("Binding", Key("team-a", "one"))
    return Bound(
        ref, connection, ("widgets.example.org",), policy, "2026-01-01T00:00:00Z", True, paused
    )


def facts(
    made: Object, binding: Bound | None = None, ending: Cover = Cover.UNCOVERED
) -> tuple[str, ...]:
    found = duty_facts(made, binding, PROVIDER, ending, paused=False)
    assert list(found) == ["life", "cover", "hold", "policy", "pause"]
    assert found.pop("pause") == "none"
    return tuple(found.values())


def annotated(value: Any, annotation: str = words.DELETION_POLICY) -> Object:
    made = instance()
    made["metadata"]["annotations"] = {annotation: value}
    return made


def going() -> Object:
    made = instance()
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


@pytest.mark.parametrize(
    ("made", "binding", "expected"),
    [
        (instance(), bound(), ("alive", "bound", "ours", "Delete")),
        (instance(held=False), bound(), ("alive", "bound", "none", "Delete")),
        (instance(), None, ("alive", "uncovered", "ours", "Delete")),
        (instance(), bound("provider-b"), ("alive", "elsewhere", "ours", "Delete")),
        (going(), None, ("deleting", "uncovered", "ours", "Delete")),
        (annotated("Orphan"), bound(), ("alive", "bound", "ours", "Orphan")),
        (annotated("orphan"), bound(), ("alive", "bound", "ours", "Delete")),
        (annotated(" Orphan"), bound(), ("alive", "bound", "ours", "Delete")),
        (annotated(""), bound(), ("alive", "bound", "ours", "Delete")),
        (
            {"metadata": {"finalizers": None, "annotations": None}},
            bound(),
            ("alive", "bound", "none", "Delete"),
        ),
    ],
)
def test_duty_asks_for_life_cover_hold_and_policy(
    made: Object, binding: Bound | None, expected: tuple[str, ...]
) -> None:
    assert facts(made, binding) == expected


@pytest.mark.parametrize(
    ("value", "binding", "connection", "word", "says"),
    [
        ("true", bound(), False, "instance", "the instance"),
        ("true", None, False, "instance", "the instance"),
        ("True", bound(), False, "none", None),
        (" true", bound(), False, "none", None),
        ("", bound(), False, "none", None),
        (None, bound(paused=True), False, "binding", "Binding team-a/one"),
        ("true", bound(paused=True), False, "binding", "Binding team-a/one"),
        (None, bound("provider-b", paused=True), False, "none", None),
        ("true", bound("provider-b", paused=True), False, "instance", "the instance"),
        (None, None, True, "connection", "Connection provider-a"),
        ("true", bound(paused=True), True, "connection", "Connection provider-a"),
    ],
)
def test_of_several_pauses_the_widest_is_the_word(
    value: str | None, binding: Bound | None, connection: bool, word: str, says: str | None
) -> None:
    found = duty_facts(
        annotated(value, words.PAUSED), binding, PROVIDER, Cover.UNCOVERED, paused=connection
    )
    assert found["pause"] == word
    assert paused_by(word, binding, PROVIDER) == says


@pytest.mark.parametrize(
    ("binding", "policy"),
    [
        (None, "unset"),
        (bound(), "Fail"),
        (bound(policy=ConflictPolicy.ADOPT), "Adopt"),
    ],
)
def test_the_policy_is_that_of_the_covering_binding(binding: Bound | None, policy: str) -> None:
    assert ownership_facts(Copy.MARKERLESS, binding) == {
        "copy": "markerless",
        "conflictPolicy": policy,
    }


def test_what_the_watch_has_not_told_is_taken_for_absent() -> None:
    sight = cached(None, CLUSTER, UID)
    assert (sight.copy, sight.owner, sight.trouble) == (None, Copy.ABSENT, None)


def test_a_copy_from_the_watch_is_read_with_its_owner() -> None:
    there = copy()
    sight = cached(orjson.dumps(there), CLUSTER, UID)
    assert (sight.copy, sight.owner) == (there, Copy.OURS)
    assert cached(orjson.dumps(there), CLUSTER, "another").owner is Copy.ANOTHER_OBJECT


class Provider:
    def __init__(self, answer: bytes | ClusterError) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def get(self, path: str) -> bytes:
        self.asked.append(path)
        if isinstance(self.answer, ClusterError):
            raise self.answer
        return self.answer


async def test_a_fresh_look_is_one_read() -> None:
    provider = Provider(orjson.dumps(copy(markers=False)))
    sight = await fresh(provider, PATH, CLUSTER, UID)
    assert sight.owner is Copy.MARKERLESS
    assert provider.asked == [PATH]


async def test_an_object_that_is_not_found_is_absent() -> None:
    error = NotFound("no", side="provider", verb="get", path=PATH, status=404)
    sight = await fresh(Provider(error), PATH, CLUSTER, UID)
    assert (sight.owner, sight.trouble) == (Copy.ABSENT, None)


@pytest.mark.parametrize(
    "kind", [Forbidden, NotServed, Unreachable, Unauthorized, ServerFailed, Throttled, Conflict]
)
async def test_what_cannot_be_read_is_never_absent(kind: type[ClusterError]) -> None:
    error = kind("no", side="provider", verb="get", path=PATH)
    sight = await fresh(Provider(error), PATH, CLUSTER, UID)
    assert (sight.copy, sight.owner, sight.trouble) == (None, Copy.UNREADABLE, error)


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b'{"a":' * 1025 + b"1" + b"}" * 1025])
async def test_an_answer_that_cannot_be_decoded_is_unreadable(answer: bytes) -> None:
    sight = await fresh(Provider(answer), PATH, CLUSTER, UID)
    assert (sight.copy, sight.owner) == (None, Copy.UNREADABLE)
    assert isinstance(sight.trouble, ServerFailed)
