"""The one narrow face of HTTP: what a client needs of a connection to an API server.

``kbind.cluster`` implements it over the session of the ``kubernetes`` package;
``kbind.testing`` implements it in process. A faster one can replace either.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """path: absolute and percent-encoded, without query; query: decoded; body: raw bytes."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """headers: by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer that goes on: chunks are cut anywhere, also inside a line."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[bytes]:
        """Yields until the server ends the answer. Raises TransportError when it breaks or
        stays silent for longer than the read limit."""
        ...


class Transport(Protocol):
    """One server, one identity."""

    async def send(self, request: Request, *, timeout: float) -> Reply:
        """The whole answer within *timeout* seconds, whatever its status. Raises
        TransportError where there is none."""
        ...

    def stream(self, request: Request, *, silence: float) -> AbstractAsyncContextManager[Stream]:
        """An answer read as it comes; *silence*: seconds without a byte until the peer counts
        as dead. Raises TransportError."""
        ...

    async def close(self) -> None:
        """Frees every connection; open streams end."""
        ...


class TransportError(Exception):
    """No (complete) answer. The message says what happened; it holds no credential."""


class AnswerTooLong(TransportError):
    """The answer is longer than what is held in memory; it would be so again."""
