"""Injected answers: what a test wants the server to do wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kbind.cluster.transport import Reply, Request, TransportError
from kbind.testing.memory.server import failure

Match = Callable[[Request], bool]


@dataclass(frozen=True)
class Change:
    """What becomes of the body that the server answers."""

    body: Callable[[bytes], bytes]


# What is answered instead: a reply, an error to raise, what the server says with another body, or
# a function that takes its time and returns a reply, or None to go on to the server.
Answer = Reply | TransportError | Change | Callable[[Request], Awaitable[Reply | None]]


@dataclass
class Fault:
    """times: how often it still strikes, None for ever. struck: how often it has."""

    match: Match
    answer: Answer
    times: int | None
    struck: int = 0


class Faults:
    """The faults of one cluster; the one added first is looked at first."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, match: Match, answer: Answer, times: int | None = None) -> Fault:
        """Answer requests that *match* with *answer*, *times* times."""
        fault = Fault(match, answer, times)
        self._faults.append(fault)
        return fault

    def fail(
        self, match: Match, code: int, reason: str, message: str, times: int | None = None
    ) -> Fault:
        """Answer with a Status."""
        return self.add(match, failure(code, reason, message), times)

    def change(
        self, match: Match, body: Callable[[bytes], bytes], times: int | None = None
    ) -> Fault:
        """Let the server answer, and put what *body* makes of its body in the place of it. Status
        and headers stay; watches are left alone."""
        return self.add(match, Change(body), times)

    def delay(self, match: Match, seconds: float, times: int | None = None) -> Fault:
        """Let the server answer after *seconds*."""

        async def wait(_request: Request) -> None:
            await asyncio.sleep(seconds)

        return self.add(match, wait, times)

    def hang(self, match: Match, times: int | None = None) -> Fault:
        """Never answer."""

        async def wait(_request: Request) -> None:
            await asyncio.get_running_loop().create_future()

        return self.add(match, wait, times)

    def disconnect(self, match: Match, times: int | None = None) -> Fault:
        """Break the connection instead of answering."""
        return self.add(match, TransportError("the connection was reset"), times)

    def remove(self, fault: Fault) -> None:
        self._faults.remove(fault)

    def clear(self) -> None:
        self._faults.clear()

    async def strike(self, request: Request) -> Reply | None:
        """The injected answer to *request*, None where the server is to answer.

        Raises TransportError where the connection is to break.
        """
        fault = self._due(request, changing=False)
        if fault is None or isinstance(fault.answer, Change):
            return None
        if isinstance(fault.answer, TransportError):
            raise fault.answer
        if isinstance(fault.answer, Reply):
            return fault.answer
        return await fault.answer(request)

    def alter(self, request: Request, reply: Reply) -> Reply:
        """The server's answer to *request* as it is to be sent."""
        fault = self._due(request, changing=True)
        if fault is None or not isinstance(fault.answer, Change):
            return reply
        return Reply(reply.status, reply.headers, fault.answer.body(reply.body))

    def _due(self, request: Request, *, changing: bool) -> Fault | None:
        for fault in self._faults:
            if isinstance(fault.answer, Change) is not changing:
                continue
            if fault.times == 0 or not fault.match(request):
                continue
            if fault.times is not None:
                fault.times -= 1
            fault.struck += 1
            return fault
        return None
