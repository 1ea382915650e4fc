"""Where the story happens: two clusters, who acts on them, and promises that are checked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import orjson

from kbind.apis import LEASES
from kbind.demo.agent import running
from kbind.demo.operator import Operator
from kbind.demo.screen import Screen
from kbind.errors import KbindError
from kbind.rulebook import Rulebook
from kbind.steps import Side
from kbind.testing.handles import Handle, Object
from kbind.testing.running import USER

POLL = 0.03  # seconds between two looks at what was promised
QUIET = 0.12  # seconds without a stir after which a chapter has come to its end
RESTLESS = 1.5  # seconds after which it ends all the same


@dataclass(frozen=True, slots=True)
class Promise:
    """What has to be seen on one cluster.

    look: answers what stands there now; met: whether that is it. A field that is not there
    counts as not met.
    """

    side: Side
    text: str
    look: Callable[[Handle], Awaitable[Any]]
    met: Callable[[Any], Any]


class Broken(Exception):
    """A promise that was not kept in time. seen: what stood there last, or why nothing could
    be read."""

    def __init__(self, promise: Promise, deadline: float, seen: str) -> None:
        super().__init__(f"{promise.side}: {promise.text}: not so after {deadline:g} s")
        self.promise = promise
        self.seen = seen


def one(ref: Mapping[str, Any]) -> Callable[[Handle], Awaitable[Object | None]]:
    """Looks at one object, or at None where it is not there."""
    return lambda handle: handle.find(ref)


def every(api_version: str, kind: str) -> Callable[[Handle], Awaitable[list[Object]]]:
    """Looks at all objects of a kind."""
    return lambda handle: handle.list(api_version, kind)


class Stage:
    """Both clusters by side, and the hands that act on them. book: of the konnector."""

    def __init__(
        self,
        handles: Mapping[Side, Handle],
        screen: Screen,
        stack: AsyncExitStack,
        book: Rulebook,
    ) -> None:
        self.consumer, self.provider = handles[Side.CONSUMER], handles[Side.PROVIDER]
        self.screen = screen
        self._handles = handles
        self._stack = stack
        self._book = book

    def you(self, side: Side, what: str) -> Handle:
        """Shows that a person does *what*, and gives the hands to do it with."""
        self.screen.act("you", side, what)
        return self._handles[side]

    async def start_operator(self) -> None:
        self.screen.act("operator", Side.PROVIDER, "starts to run databases")
        operator = Operator(
            self.provider.client,
            lambda what: self.screen.act("operator", Side.PROVIDER, what),
        )
        task = asyncio.create_task(operator.run())
        self._stack.push_async_callback(_end, task)

    async def start_konnector(self) -> None:
        cluster = self.consumer.cluster
        await self._stack.enter_async_context(running(cluster, self._book, self.screen))

    def writes(self) -> int:
        """How many the konnector has made so far, on both clusters, but for heartbeats."""
        return sum(
            entry.writes and entry.resource != LEASES.plural
            for handle in self._handles.values()
            for entry in handle.cluster.audit(USER)
        )

    async def keep(self, promise: Promise, deadline: float) -> None:
        """Waits until *promise* is kept. Raises Broken after *deadline* seconds."""
        handle = self._handles[promise.side]
        seen: Any = None
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        while True:
            try:
                seen = await promise.look(handle)
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    if promise.met(seen):
                        return
            except KbindError as error:
                seen = str(error)  # not served yet, say
            if loop.time() > end:
                raise Broken(promise, deadline, _shown(seen))
            await asyncio.sleep(POLL)

    async def quiet(self) -> None:
        """Waits until nothing stirs, so that a chapter shows all that it led to."""
        end = self.screen.elapsed + RESTLESS
        while True:
            left = min(self.screen.stirred + QUIET, end) - self.screen.elapsed
            if left <= 0:
                return
            await asyncio.sleep(left)


def _shown(seen: Any) -> str:
    if isinstance(seen, str):
        return seen
    if seen is None:
        return "nothing is there"
    for obj in seen if isinstance(seen, list) else [seen]:
        if isinstance(obj, dict):
            obj.get("metadata", {}).pop("managedFields", None)
    return orjson.dumps(seen, option=orjson.OPT_INDENT_2).decode()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
