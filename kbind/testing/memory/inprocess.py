"""The transport of a cluster in this very process: no socket, no bytes copied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kbind.cluster.transport import Reply, Request, Stream, TransportError
from kbind.testing.memory.reads import WatchStream

if TYPE_CHECKING:
    from kbind.testing.memory.cluster import MemoryCluster


class Lines:
    """The lines of a watch as they come, until it ends.

    Raises TransportError where the cluster goes down or nothing comes for *silence* seconds.
    """

    status = 200
    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self, watch: WatchStream, timeout: float | None, silence: float) -> None:
        self._watch = watch
        self._silence = silence
        self._news = asyncio.Event()
        self._broken: str | None = None
        watch.notify = self._news.set
        loop = asyncio.get_running_loop()
        self._timer = None if timeout is None else loop.call_later(timeout, self._expire)

    def _expire(self) -> None:
        self._watch.bookmark()
        self._watch.close()

    def break_off(self, why: str) -> None:
        """End as a lost connection does."""
        self._broken = why
        self._news.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            while self._watch.lines and self._broken is None:
                yield self._watch.lines.popleft()
            if self._broken is not None:
                raise TransportError(self._broken)
            if self._watch.ended:
                return
            self._news.clear()
            try:
                async with asyncio.timeout(self._silence):
                    await self._news.wait()
            except TimeoutError:
                raise TransportError(f"nothing came for {self._silence:g} seconds") from None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._watch.close()


class Whole:
    """An answer that is no watch, read as a stream."""

    def __init__(self, reply: Reply) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self._body = reply.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body


class MemoryTransport:
    """Implements kbind.cluster.transport.Transport for one user."""

    def __init__(self, cluster: MemoryCluster, user: str, agent: str) -> None:
        self._cluster = cluster
        self._user = user
        self._agent = agent
        self._open: set[Lines] = set()
        self._closed = False

    async def send(self, request: Request, *, timeout: float) -> Reply:
        try:
            async with asyncio.timeout(timeout):
                answer = await self._answer(request)
        except TimeoutError:
            raise TransportError(f"no answer within {timeout:g} seconds") from None
        if isinstance(answer, WatchStream):
            answer.close()
            raise TransportError("a watch has no end to wait for")
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, silence: float) -> AsyncIterator[Stream]:
        try:
            async with asyncio.timeout(silence):
                answer = await self._answer(request)
        except TimeoutError:
            raise TransportError(f"no answer within {silence:g} seconds") from None
        if isinstance(answer, Reply):
            yield Whole(answer)
            return
        limit = request.query.get("timeoutSeconds")
        lines = Lines(answer, float(limit) if limit else None, silence)
        self._open.add(lines)
        self._cluster.opened(lines)
        try:
            yield lines
        finally:
            self._open.discard(lines)
            self._cluster.ended(lines)
            lines.close()

    async def close(self) -> None:
        self._closed = True
        for lines in list(self._open):
            lines.close()

    async def _answer(self, request: Request) -> Reply | WatchStream:
        if self._closed:
            raise TransportError("the transport is closed")
        if self._agent and not any(name.lower() == "user-agent" for name in request.headers):
            headers = {**request.headers, "user-agent": self._agent}
            request = Request(request.method, request.path, request.query, headers, request.body)
        return await self._cluster.answer(request, self._user)
