"""Time that jumps: an event loop that never waits, for clusters in this very process.

When nothing is ready to run, the loop's clock moves to the next timer at once, so that half an
hour of rechecks takes as long as its work. What would go to a thread is done on the spot, in no
time. Otherwise only what happens inside the loop is known to it: a socket or a child process looks
like nothing at all. Knows no cluster.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

T = TypeVar("T")

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""What the wall clock shows when a run begins."""

RESTLESS: Final = 1_000_000
"""Turns of the loop without a jump until it counts as turning for ever."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set: the run would wait for ever."""


class Restless(Exception):
    """The loop turns and turns, and no time passes: something wakes itself without a pause."""


class Clock:
    """One run's time. seconds: since its beginning."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return START + timedelta(seconds=self.seconds)


def run(main: Callable[[Clock], Awaitable[T]]) -> T:
    """The answer of ``main(clock)``, awaited on a loop of its own whose time is that clock's.

    Raises what *main* raises; Deadlock, which names every task and the line where it waits; or
    Restless, likewise.
    """

    async def begin() -> T:
        return await main(clock)

    clock = Clock()
    with asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
        return runner.run(begin())


class _Loop(asyncio.SelectorEventLoop):
    """The stock loop on a clock that its selector moves."""

    def __init__(self, clock: Clock) -> None:
        self._virtual = clock
        super().__init__(_Selector(clock, self))

    def time(self) -> float:
        return self._virtual.seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class _Selector(selectors.DefaultSelector):
    """Where the loop would sleep until its next timer, it is that time already."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._clock = clock
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None = None) -> Any:
        # A look without waiting: signals and other threads knock on a socket of the loop's own.
        met = super().select(0)
        if met:
            return met
        if timeout is None:
            raise Deadlock(f"nothing is ready and no timer is set\n{_tasks(self._loop)}")
        if timeout > 0:
            self._clock.seconds += timeout
            self._turns = 0
            return met
        self._turns += 1
        if self._turns > RESTLESS:
            raise Restless(
                f"{RESTLESS} turns at second {self._clock.seconds:g}\n{_tasks(self._loop)}"
            )
        return met


def _tasks(loop: asyncio.AbstractEventLoop) -> str:
    """A line for each task: its name, its coroutine, and where that waits."""
    shown = []
    for task in asyncio.all_tasks(loop):
        name = getattr(task.get_coro(), "__qualname__", "?")
        shown.append(f"  {task.get_name()} {name} waits at {_place(task)}")
    return "\n".join(sorted(shown))


def _place(task: asyncio.Task[Any]) -> str:
    """file:line of a task's innermost frame outside of asyncio."""
    place = "?"
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and frame.f_globals.get("__name__", "").split(".")[0] != "asyncio":
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return place
