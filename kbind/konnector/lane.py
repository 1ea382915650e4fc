"""Work queued by key: deduplicated, never two at a time for one key, bounded in number.

Each API has a lane of its own, so that a slow or busy one holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)

FEW = 4  # keys at a time of those that may wait
AFTER_A_BUG = 60.0  # seconds until a key is tried again whose handler broke


class Lane(Generic[K]):
    """Calls ``handle(key)`` for every key that was added; what it answers is the number of
    seconds until the key is due again, or None. on_idle: called when no key is due any more.

    later: whether a key may wait until others have had their turn. At least one of those is
    handled at any time, and FEW at the most, so that neither they nor anybody else is kept waiting.
    """

    def __init__(
        self,
        handle: Callable[[K], Awaitable[float | None]],
        *,
        limit: int = 16,
        on_idle: Callable[[], None] = lambda: None,
        later: Callable[[K], bool] = lambda key: False,
    ) -> None:
        self._handle = handle
        self._on_idle = on_idle
        self._may_wait = later
        self._limit = limit
        self._waiting: dict[K, None] = {}
        self._later: dict[K, None] = {}
        self._unhurried: set[K] = set()  # those of later that are running
        self._running: dict[K, asyncio.Task[None]] = {}
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many keys wait for their turn or have it."""
        return len(self._waiting) + len(self._later) + len(self._running)

    def add(self, key: K) -> None:
        """*key* is due now; added while it is being handled, it has another turn."""
        if self._closed:
            return
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting and key not in self._later:
            queue = self._later if self._may_wait(key) else self._waiting
            queue[key] = None
            self._start()

    def add_all(self, keys: Iterable[K]) -> None:
        for key in keys:
            self.add(key)

    def add_after(self, key: K, seconds: float) -> None:
        """*key* is due in *seconds*, unless it was due earlier anyway."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._ring, key)

    async def close(self, grace: float) -> None:
        """Takes nothing new, lets what runs finish within *grace* seconds, then ends it."""
        self._closed = True
        self._waiting.clear()
        self._later.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        running = list(self._running.values())
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=grace)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _start(self) -> None:
        while len(self._running) < self._limit:
            few = len(self._unhurried) < (1 if self._waiting else FEW)
            if self._later and few:
                queue = self._later
                self._unhurried.add(next(iter(queue)))
            elif self._waiting:
                queue = self._waiting
            else:
                return
            key = next(iter(queue))
            del queue[key]
            self._running[key] = asyncio.create_task(self._turn(key))

    async def _turn(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        again: float | None = None
        try:
            again = await self._handle(key)
        except Exception:
            log.exception("a pass broke; please report it", key=str(key))
            again = AFTER_A_BUG
        finally:
            del self._running[key]
            self._unhurried.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            elif again is not None:
                self.add_after(key, again)
            if not self._closed:
                self._start()
                if not self._running:
                    self._on_idle()
