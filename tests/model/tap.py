"""The konnector's lines, tapped: what it writes is seen, and all of them can be cut at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import orjson

from kbind.apis import Key
from kbind.cluster.kubeconfig import Credentials
from kbind.cluster.transport import Reply, Request, Stream, Transport, TransportError
from kbind.testing.handles import Connect, Object, key
from kbind.testing.memory.server import route

WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class Write:
    """One write of the konnector that a server carried out.

    instance, copy: as they stood before it, where it is about a widget; after: what was answered.
    """

    time: float
    side: str
    method: str
    resource: str
    subresource: str
    key: Key
    instance: Object | None
    copy: Object | None
    after: Object | None

    def __str__(self) -> str:
        place = "/".join(p for p in (self.resource, self.subresource) if p)
        return f"{self.method} {place} {self.key} on the {self.side}"


class Tap:
    """Opens the konnector's lines, tells *on_write* of what went through, and kills them all at
    once. lives: how often it was killed; fuse: kills at the so manieth write from now."""

    def __init__(self, open_line: Connect, side: Callable[[Credentials], str]) -> None:
        self._open = open_line
        self._side = side
        self.lives = 0
        self.fuse = 0
        self.dead = False
        self.on_write: Callable[[Write], None] = lambda write: None
        self.pair: Callable[[Key], Awaitable[tuple[Object | None, Object | None]]]
        self.lock = asyncio.Lock()  # a write and what is seen before it are one

    async def __call__(self, credentials: Credentials) -> Transport:
        return _Line(self, self._side(credentials), await self._open(credentials))

    def kill(self) -> None:
        self.dead, self.fuse = True, 0

    def revive(self) -> None:
        self.dead, self.fuse = False, 0
        self.lives += 1

    async def write(self, side: str, line: Transport, request: Request, timeout: float) -> Reply:
        where = route(request.path)
        assert where is not None
        async with self.lock:
            self.check(self.lives)
            place = Key(where.namespace, where.name)
            about = where.plural == "widgets" and bool(where.name)
            instance, copy = await self.pair(place) if about else (None, None)
            reply = await line.send(request, timeout=timeout)
            if reply.status < 300:
                after = orjson.loads(reply.body)
                self.on_write(
                    Write(
                        asyncio.get_running_loop().time(),
                        side,
                        request.method,
                        where.plural,
                        where.subresource,
                        place if where.name else key(after),
                        instance,
                        copy,
                        after if after.get("kind") != "Status" else None,
                    )
                )
            if self.fuse:
                self.fuse -= 1
                if not self.fuse:
                    self.kill()
            self.check(self.lives)
            return reply

    def check(self, life: int) -> None:
        if self.dead or life != self.lives:
            raise TransportError("the konnector was killed")


class _Line:
    def __init__(self, tap: Tap, side: str, line: Transport) -> None:
        self._tap = tap
        self._side = side
        self._line = line
        self._life = tap.lives

    async def send(self, request: Request, *, timeout: float) -> Reply:
        self._tap.check(self._life)
        if request.method not in WRITES:
            return await self._line.send(request, timeout=timeout)
        return await self._tap.write(self._side, self._line, request, timeout)

    @asynccontextmanager
    async def stream(self, request: Request, *, silence: float) -> AsyncIterator[Stream]:
        self._tap.check(self._life)
        async with self._line.stream(request, silence=silence) as stream:
            yield stream

    async def close(self) -> None:
        await self._line.close()
