"""A transport in process whose answers the test writes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from kbind.cluster.transport import Reply, Request, Stream, TransportError

DEADLINE = 5.0


def widget(name: str, version: int, *, uid: str | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": spec,
    }


def status(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return {**body, "details": details} if details else body


def reply(code: int, body: Any, **headers: str) -> Reply:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return Reply(code, {name.replace("_", "-"): text for name, text in headers.items()}, raw)


def refusal(code: int, reason: str, message: str = "", **details: Any) -> Reply:
    return reply(code, status(code, reason, message, **details))


def listing(version: int, *items: dict[str, Any], more: str = "") -> Reply:
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return reply(200, {"kind": "WidgetList", "metadata": metadata, "items": list(items)})


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Widget", "metadata": {"resourceVersion": str(version)}})


@dataclass
class Watch:
    """A watch that was opened: what it is sent, and how it ends, is the test's to say."""

    request: Request
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    queue: asyncio.Queue[bytes | Exception | None] = field(default_factory=asyncio.Queue)
    silence: float = 0.0
    closed: bool = False

    def send(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self.queue.put_nowait(chunk)

    def end(self) -> None:
        self.queue.put_nowait(None)

    def break_off(self) -> None:
        self.queue.put_nowait(TransportError("the connection broke"))

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self.silence):
                    chunk = await self.queue.get()
            except TimeoutError as error:
                raise TransportError("sent nothing") from error
            if chunk is None:
                return
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


class Scripted:
    """``answers`` are given one by one, else ``otherwise`` answers; ``watches`` likewise."""

    def __init__(self, *answers: Reply | Exception) -> None:
        self.answers: deque[Reply | Exception] = deque(answers)
        self.otherwise: Callable[[Request], Reply] | None = None
        self.refused: deque[Reply | Exception] = deque()  # instead of the next watches
        self.requests: list[Request] = []
        self.opened: asyncio.Queue[Watch] = asyncio.Queue()
        self.attempts = 0  # of watching

    async def send(self, request: Request, *, timeout: float) -> Reply:
        self.requests.append(request)
        if self.answers:
            answer = self.answers.popleft()
        else:
            assert self.otherwise is not None, f"an unexpected request: {request}"
            answer = self.otherwise(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, silence: float) -> AsyncIterator[Stream]:
        self.attempts += 1
        watch = Watch(request, silence=silence)
        if self.refused:
            refused = self.refused.popleft()
            if isinstance(refused, Exception):
                raise refused
            watch.status, watch.headers = refused.status, refused.headers
            watch.send(refused.body)
            watch.end()
        else:
            self.opened.put_nowait(watch)
        try:
            yield watch
        finally:
            watch.closed = True

    async def close(self) -> None:
        return

    async def watch(self) -> Watch:
        """The next watch that is opened."""
        async with asyncio.timeout(DEADLINE):
            return await self.opened.get()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110  (the condition has no event of its own)
            await asyncio.sleep(0.001)
