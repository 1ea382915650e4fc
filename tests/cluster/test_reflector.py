from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from kbind.apis import Key
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.cluster.reflector import Reflector
from kbind.cluster.transport import AnswerTooLong, TransportError
from kbind.errors import Forbidden, NotServed, ServerFailed, Unreachable
from tests.cluster.scripted import (
    Scripted,
    Watch,
    bookmark,
    line,
    listing,
    refusal,
    reply,
    status,
    until,
    widget,
)

PATH = "/apis/example.org/v1/widgets"


def key(name: str) -> Key:
    return Key("team-a", name)


class Following:
    def __init__(self, transport: Scripted, **options: Any) -> None:
        self.transport = transport
        self.cache = Cache()
        self.changes: list[str] = []
        self.states = 0
        self.reflector = Reflector(
            Client(transport, side="provider"),
            PATH,
            self.cache,
            on_change=lambda key: self.changes.append(key.name),
            on_state=self._state,
            **options,
        )

    def _state(self) -> None:
        self.states += 1

    def names(self) -> set[str]:
        return {key.name for key in self.cache}

    def spec(self, name: str) -> Any:
        entry = self.cache.get(key(name))
        assert entry is not None
        return orjson.loads(entry.raw)["spec"]

    def taken(self) -> list[str]:
        changes, self.changes[:] = list(self.changes), []
        return changes


@asynccontextmanager
async def following(transport: Scripted, **options: Any) -> AsyncIterator[tuple[Following, Watch]]:
    """A reflector whose first list has been answered and whose first watch is open."""
    it = Following(transport, **options)
    task = asyncio.create_task(it.reflector.run())
    try:
        watch = await transport.watch()
        yield it, watch
    finally:
        task.cancel()
        assert isinstance(
            (await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError
        )


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbind.cluster.reflector.BACKOFF_CAP", 0.01)


async def test_lists_in_pages_and_then_watches_from_there() -> None:
    transport = Scripted(
        listing(7, widget("a", 3), widget("b", 4), more="next"), listing(7, widget("c", 5))
    )
    async with following(transport, page=2, label_selector="x=y") as (it, watch):
        assert it.reflector.synced.is_set()
        assert it.names() == {"a", "b", "c"}
        assert it.taken() == ["a", "b", "c"]
        first, second = transport.requests
        assert first.query == {"labelSelector": "x=y", "limit": "2"}
        assert second.query == {"labelSelector": "x=y", "limit": "2", "continue": "next"}
        query = dict(watch.request.query)
        assert 240 <= int(query.pop("timeoutSeconds")) <= 480
        assert query == {
            "labelSelector": "x=y",
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": "7",
        }
        watch.send(
            line("ADDED", widget("d", 8)),
            line("MODIFIED", widget("a", 9, size=2)) + line("DELETED", widget("b", 10)),
        )
        await until(lambda: it.names() == {"a", "c", "d"})
        assert it.taken() == ["d", "a", "b"]
        assert it.spec("a") == {"size": 2}


async def test_entries_hold_what_the_server_wrote_byte_for_byte() -> None:
    raw = (
        b'{"metadata":{"name":"a","namespace":"team-a","uid":"u","resourceVersion":"9"},'
        b'"spec":{"big":12345678901234567890123, "e":1E+2,"s":"\xc3\xa9\\u00e9"}}'
    )
    async with following(Scripted(listing(7))) as (it, watch):
        watch.send(b'{"type":"ADDED","object":' + raw + b"}\n")
        await until(lambda: it.taken())
        entry = it.cache.get(key("a"))
        assert entry is not None
        assert entry.raw == raw


@pytest.mark.parametrize("cut", [1_000_003, 4096, 997])
async def test_lines_of_any_size_arrive_whole_in_one_watch(cut: int) -> None:  # B09
    sizes = [60_000, 66_000, 130_000, 700_000, 1_400_000, 100_000]
    letters = random.Random(0)
    texts = ["".join(letters.choices('ab"\\\n\u00e9', k=size)) for size in sizes]
    sent = b"".join(
        line("ADDED", widget(f"w{index}", 10 + index, text=text))
        for index, text in enumerate(texts)
    )
    async with following(Scripted(listing(7))) as (it, watch):
        watch.send(*(sent[start : start + cut] for start in range(0, len(sent), cut)))
        await until(lambda: len(it.cache) == len(sizes))
        assert [it.spec(f"w{index}")["text"] for index in range(len(sizes))] == texts
        assert it.transport.attempts == 1


async def test_a_line_over_the_limit_is_fetched_by_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbind.cluster.wire.lines.__defaults__", (1000,))
    big = widget("big", 8, text="x" * 2000)
    async with following(Scripted(listing(7), listing(8, big))) as (it, watch):
        watch.send(line("ADDED", big)[:1500])
        again = await it.transport.watch()
        assert again.request.query["resourceVersion"] == "8"
        assert it.names() == {"big"}


async def test_a_last_line_without_its_end_is_dropped() -> None:
    async with following(Scripted(listing(7))) as (it, watch):
        watch.send(line("ADDED", widget("a", 8)), line("ADDED", widget("b", 9)).rstrip(b"\n"))
        watch.end()
        again = await it.transport.watch()
        assert again.request.query["resourceVersion"] == "8"
        assert it.names() == {"a"}
        again.send(line("ADDED", widget("b", 9)))
        await until(lambda: it.names() == {"a", "b"})
        assert it.taken() == ["a", "b"]


@pytest.mark.parametrize(
    "error",
    [
        status(410, "Expired", "too old resource version"),
        status(500, "InternalError", "no"),
        {"kind": "Status", "apiVersion": "v1", "metadata": {}},
    ],
    ids=["410", "500", "without code"],
)
async def test_an_error_inside_a_watch_lists_again(error: dict[str, Any]) -> None:  # B11
    transport = Scripted(listing(7), listing(60, widget("b", 55)))
    async with following(transport) as (it, watch):
        watch.send(line("ADDED", widget("a", 8)), bookmark(50), line("ERROR", error))
        watch.end()
        again = await transport.watch()
        assert again.request.query["resourceVersion"] == "60"
        assert it.names() == {"b"}
        assert it.taken() == ["a", "b", "a"]
        assert it.reflector.error is None
        assert len(transport.requests) == 2


async def test_410_to_the_watch_request_lists_again() -> None:  # B11
    transport = Scripted(listing(7, widget("a", 3)), listing(60))
    transport.refused.append(refusal(410, "Expired"))
    async with following(transport) as (it, watch):
        assert watch.request.query["resourceVersion"] == "60"
        assert it.names() == set()
        assert it.taken() == ["a", "a"]


async def test_a_bookmark_only_moves_the_version() -> None:
    async with following(Scripted(listing(7, widget("a", 3)))) as (it, watch):
        it.taken()
        watch.send(bookmark(50), line("ADDED", widget("z", 51)))
        await until(lambda: it.taken() == ["z"])
        watch.send(bookmark(70))
        watch.end()
        again = await it.transport.watch()
        assert again.request.query["resourceVersion"] == "70"
        assert it.names() == {"a", "z"}


async def test_a_status_or_an_unheard_of_event_is_no_object() -> None:
    async with following(Scripted(listing(7))) as (it, watch):
        watch.send(
            line("ADDED", status(200, "")),
            line("RENAMED", widget("x", 8)),
            line("ADDED", widget("a", 9)),
        )
        await until(lambda: it.names())
        assert it.names() == {"a"}
        assert it.transport.attempts == 1


@pytest.mark.parametrize("fresh", ["", "fresh"])
async def test_an_expired_page_starts_the_list_over(fresh: str) -> None:  # B14
    expired = status(410, "Expired", "the provided continue parameter is too old")
    expired["metadata"] = {"continue": fresh}
    transport = Scripted(
        listing(7, widget("a", 3), more="2"),
        listing(7, widget("b", 4), more="3"),
        reply(410, expired),
        listing(9, widget("a", 3), more="2"),
        listing(9, widget("c", 8)),
    )
    async with following(transport) as (it, _watch):
        assert it.names() == {"a", "c"}
        assert it.taken() == ["a", "c"]
        assert [request.query.get("continue") for request in transport.requests] == [
            None,
            "2",
            "3",
            None,
            "2",
        ]


async def test_nothing_is_gone_before_the_last_page() -> None:  # B14
    transport = Scripted(listing(7, widget("a", 3), widget("b", 4)))
    async with following(transport) as (it, watch):
        it.taken()
        seen: list[set[str]] = []

        def answer(request: Any) -> Any:
            seen.append(it.names())
            if "continue" in request.query:
                return listing(20, widget("c", 15))
            return listing(20, widget("a", 3), more="2")

        transport.otherwise = answer
        watch.send(line("ERROR", status(410, "Gone")))
        await transport.watch()
        assert seen == [{"a", "b"}, {"a", "b"}]
        assert it.names() == {"a", "c"}
        assert it.taken() == ["c", "b"]


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (TransportError("refused"), Unreachable),
        (refusal(403, "Forbidden", "no"), Forbidden),
        (reply(404, b"404 page not found\n"), NotServed),
        (refusal(500, "InternalError"), ServerFailed),
        (reply(200, b"<html>sign in</html>"), ServerFailed),
        (reply(200, status(200, "Success")), ServerFailed),
        (reply(200, {"metadata": {"resourceVersion": "9"}, "items": [{}]}), ServerFailed),
    ],
)
async def test_a_failing_list_leaves_the_cache_alone_and_heals(  # B15, B52
    failing: Any, error: type[Exception]
) -> None:
    transport = Scripted(listing(7, widget("a", 3)))
    async with following(transport) as (it, watch):
        it.taken()
        broken = True

        def answer(request: Any) -> Any:
            if not broken:
                return listing(30, widget("a", 3))
            if isinstance(failing, Exception):
                raise failing
            return failing

        transport.otherwise = answer
        watch.send(line("ERROR", status(410, "Gone")))
        await until(lambda: it.reflector.error is not None)
        assert isinstance(it.reflector.error, error)
        assert str(it.reflector.error).startswith("provider: ")
        assert it.reflector.synced.is_set()
        assert it.names() == {"a"}
        told = it.states
        broken = False
        await transport.watch()
        await until(lambda: it.reflector.error is None)
        assert it.states > told
        assert it.taken() == []


async def test_a_silent_peer_is_left() -> None:  # B12
    transport = Scripted(listing(7, widget("a", 3)))
    async with following(transport, silence=0.05) as (it, watch):
        transport.refused.extend([TransportError("no connection in time")] * 2)
        again = await transport.watch()
        assert watch.closed
        assert again.request.query["resourceVersion"] == "7"
        assert it.names() == {"a"}
        await until(lambda: it.reflector.error is None)
        again.send(line("MODIFIED", widget("a", 8, size=1)))
        await until(lambda: it.spec("a") == {"size": 1})


async def test_the_silence_that_is_asked_for_notices_a_dead_peer_soon() -> None:
    async with following(Scripted(listing(7))) as (_it, watch):
        assert 60 < watch.silence <= 120


async def test_a_broken_watch_that_told_something_resumes_without_an_error() -> None:
    transport = Scripted(listing(7))
    async with following(transport) as (it, watch):
        states = it.states
        watch.send(line("ADDED", widget("a", 8)))
        watch.break_off()
        again = await transport.watch()
        assert again.request.query["resourceVersion"] == "8"
        assert it.states == states
        assert len(transport.requests) == 1


async def test_watches_that_end_at_once_are_spaced_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []

    def delay(attempt: int, *, cap: float) -> float:
        pauses.append(attempt)
        return 0.0

    monkeypatch.setattr("kbind.cluster.reflector.delay", delay)
    transport = Scripted(listing(7))
    async with following(transport) as (_it, watch):
        for _ in range(5):
            watch.send(bookmark(7))  # no event: a bookmark proves nothing
            watch.end()
            watch = await transport.watch()
        assert pauses == [1, 2, 3, 4, 5]
        watch.send(line("ADDED", widget("a", 8)))
        watch.end()
        watch = await transport.watch()
        assert pauses == [1, 2, 3, 4, 5]


async def test_replayed_events_are_no_progress() -> None:
    transport = Scripted(listing(7, widget("a", 3)))
    async with following(transport) as (it, watch):
        it.taken()
        watch.send(line("ADDED", widget("a", 3)), line("ADDED", widget("a", 2, old=True)))
        watch.end()
        again = await transport.watch()
        assert again.request.query["resourceVersion"] == "7"
        assert it.taken() == []
        assert it.spec("a") == {}


async def test_a_server_that_went_back_in_history_is_listed_anew() -> None:
    transport = Scripted(listing(700, widget("a", 650), widget("b", 600)))
    async with following(transport) as (it, watch):
        it.taken()
        transport.answers.append(listing(90, widget("a", 80, restored=True)))
        watch.send(bookmark(95))
        again = await transport.watch()
        assert again.request.query["resourceVersion"] == "90"
        assert it.names() == {"a"}
        assert it.taken() == ["a", "b"]
        again.send(line("MODIFIED", widget("a", 91, size=1)))
        await until(lambda: it.spec("a") == {"size": 1})


async def test_our_own_writes_are_not_told_again() -> None:
    async with following(Scripted(listing(7, widget("a", 3)))) as (it, watch):
        it.taken()
        for version in (8, 9):
            it.cache.learn(orjson.dumps(widget("a", version, size=1)))
        watch.send(line("MODIFIED", widget("a", 8)), line("MODIFIED", widget("a", 9, size=1)))
        watch.send(line("ADDED", widget("z", 10)))
        await until(lambda: "z" in it.names())
        assert it.taken() == ["z"]
        assert it.spec("a") == {"size": 1}


async def test_what_somebody_else_wrote_before_us_is_told() -> None:
    async with following(Scripted(listing(7, widget("a", 3)))) as (it, watch):
        it.taken()
        it.cache.learn(orjson.dumps(widget("a", 9, size=1)))
        watch.send(line("MODIFIED", widget("a", 8)), line("MODIFIED", widget("a", 9, size=1)))
        watch.send(line("ADDED", widget("z", 10)))
        await until(lambda: "z" in it.names())
        assert it.taken() == ["a", "z"]
        assert it.spec("a") == {"size": 1}


async def test_metadata_alone_is_asked_for() -> None:
    transport = Scripted(listing(7))
    async with following(transport, metadata_only=True) as (_it, watch):
        asked = transport.requests[0].headers["Accept"]
        assert asked == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        asked = watch.request.headers["Accept"]
        assert asked == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def test_a_callback_that_fails_does_not_end_the_following() -> None:
    transport = Scripted(listing(7))
    async with following(transport) as (it, watch):
        heard = it.reflector._on_change

        def fail(_key: Key) -> None:
            it.reflector._on_change = heard
            raise RuntimeError("a bug")

        it.reflector._on_change = fail
        transport.answers.append(listing(9, widget("a", 8), widget("b", 9)))
        watch.send(line("ADDED", widget("a", 8)))
        await transport.watch()
        assert it.taken() == ["b"]


async def test_an_object_that_is_nested_too_deep_hides_no_other() -> None:
    deep = orjson.dumps(widget("deep", 5)).replace(
        b'"spec":', b'"x":' + b"[" * 1100 + b"]" * 1100 + b',"spec":'
    )
    listed = reply(
        200,
        b'{"metadata":{"resourceVersion":"7"},"items":['
        + deep
        + b","
        + orjson.dumps(widget("a", 3))
        + b"]}",
    )
    with capture_logs() as logs:
        async with following(Scripted(listed)) as (it, watch):
            assert it.names() == {"a"}
            watch.send(
                b'{"type":"MODIFIED","object":' + deep + b"}\n", line("ADDED", widget("b", 9))
            )
            await until(lambda: it.names() == {"a", "b"})
            assert it.reflector.error is None
            assert len(it.transport.requests) == 1
    warned = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [(entry["path"], entry["object"]) for entry in warned] == [(PATH, "team-a/deep")] * 2


async def test_a_page_that_is_too_long_is_asked_for_in_smaller_ones() -> None:
    transport = Scripted(
        listing(7, widget("a", 3), more="next"), AnswerTooLong("long"), listing(7, widget("b", 4))
    )
    async with following(transport, page=8) as (it, _):
        assert it.names() == {"a", "b"}
        asked = [(sent.query["limit"], sent.query.get("continue")) for sent in transport.requests]
        assert asked == [("8", None), ("8", "next"), ("2", "next")]
