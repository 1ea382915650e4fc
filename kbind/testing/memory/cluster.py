"""A whole cluster for tests: the API server, its users, its face to the network, its faults."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from kbind.cluster.transport import Reply, Request, TransportError
from kbind.testing.audit import Entry
from kbind.testing.memory.faults import Faults
from kbind.testing.memory.http import HttpsFace
from kbind.testing.memory.inprocess import Lines, MemoryTransport
from kbind.testing.memory.reads import WatchStream
from kbind.testing.memory.server import ApiServer

Json = dict[str, Any]


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _random_uid() -> str:
    return str(uuid.uuid4())


class MemoryCluster:
    """An API server in this process. A test double: package docstring says what it cannot do.

    name: of the cluster, in its kubeconfigs. now, uid: for tests that need the same times and
    UIDs every time. down: True breaks every request and stream until it is False again.
    """

    def __init__(
        self,
        name: str,
        *,
        now: Callable[[], datetime] = _utc_now,
        uid: Callable[[], str] = _random_uid,
    ) -> None:
        self.name = name
        self.server = ApiServer(now, uid)
        self.faults = Faults()
        self._down = False
        self._lines: set[Lines] = set()
        self._face: HttpsFace | None = None
        self._tokens: dict[str, str] = {}

    # Ways in

    def transport(self, user: str = "admin", *, agent: str = "") -> MemoryTransport:
        """A connection in process. agent: the User-Agent of requests that name none."""
        return MemoryTransport(self, user, agent)

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[MemoryCluster]:
        """Serve HTTPS on 127.0.0.1, at a free port unless *port* says which."""
        face = HttpsFace(self)
        await face.start(port)
        self._face = face
        try:
            yield self
        finally:
            self._face = None
            await face.stop()

    def kubeconfig(self, user: str = "admin") -> Json:
        """A kubeconfig for *user*; one that only kbind's in-process tests can use while the
        cluster is not served."""
        cluster: Json = {"server": f"https://{self.name}.memory"}
        if self._face is not None:
            authority = base64.b64encode(self._face.ca_pem).decode()
            cluster = {"server": self._face.url, "certificate-authority-data": authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.name,
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
        }

    def token(self, user: str) -> str:
        """The bearer token of *user*, the same every time until it is revoked."""
        for token, owner in self._tokens.items():
            if owner == user:
                return token
        token = f"{self.name}-{user}-{len(self._tokens)}"
        self._tokens[token] = user
        return token

    def revoke(self, user: str) -> None:
        """Refuse the tokens given out for *user*; token() then gives a new one."""
        for token, owner in self._tokens.items():
            if owner == user:
                self._tokens[token] = ""

    def user_of(self, token: str) -> str | None:
        """Whose token it is, None for nobody's."""
        return self._tokens.get(token) or None

    # What was asked

    @property
    def requests(self) -> list[Entry]:
        """Every request so far, oldest first."""
        return self.server.requests

    def audit(self, user: str) -> list[Entry]:
        return [entry for entry in self.requests if entry.user == user]

    # What goes wrong

    def deny(self, user: str, verb: str, resource: str, namespace: str = "*") -> None:
        """Answer 403. resource: ``<plural>.<group>`` or ``.../status``; "*" is any, for each."""
        self.server.access.deny(user, verb, resource, namespace)

    def allow(self, user: str, verb: str, resource: str, namespace: str = "*") -> None:
        """Take back what deny() said; what is said last holds."""
        self.server.access.allow(user, verb, resource, namespace)

    @property
    def down(self) -> bool:
        return self._down

    @down.setter
    def down(self, down: bool) -> None:
        self._down = down
        if down:
            self._break_streams("the connection was reset")

    def drop_streams(self, partial: bytes = b"") -> None:
        """End every watch, as a server that restarts does. partial: a piece of a line first."""
        self.server.reader.end_watches(partial=partial)

    def break_streams(self) -> None:
        """Break the connection of every watch."""
        self._break_streams("the connection was reset")

    def compact(self) -> None:
        """Forget the past: older resourceVersions and continue tokens are gone (410)."""
        self.server.store.compact()
        self.server.reader.forget_pages()

    def _break_streams(self, why: str) -> None:
        for lines in list(self._lines):
            lines.break_off(why)

    # For the ways in

    async def answer(self, request: Request, user: str) -> Reply | WatchStream:
        """Raises TransportError where there is none."""
        if self._down:
            raise TransportError("the connection was refused")
        injected = await self.faults.strike(request)
        if injected is not None:
            self.server.record(request, user, injected.status)
            return injected
        if self._down:
            raise TransportError("the connection was reset")
        answer = self.server.handle(request, user)
        return self.faults.alter(request, answer) if isinstance(answer, Reply) else answer

    def opened(self, lines: Lines) -> None:
        self._lines.add(lines)

    def ended(self, lines: Lines) -> None:
        self._lines.discard(lines)
