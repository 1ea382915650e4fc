"""Virtual time: no waiting, the order of timers, and errors where a run would never end."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from kbind.testing import clock
from kbind.testing.clock import START, Clock, Deadlock, Restless, run


def test_hours_pass_at_once() -> None:
    async def main(time: Clock) -> tuple[float, timedelta]:
        await asyncio.sleep(7200)
        return asyncio.get_running_loop().time(), time.now() - START

    began = time.monotonic()
    assert run(main) == (7200.0, timedelta(hours=2))
    assert time.monotonic() - began < 5


def test_timers_ring_in_their_order() -> None:
    rung: list[tuple[str, float]] = []

    async def ring(name: str, after: float) -> None:
        await asyncio.sleep(after)
        rung.append((name, asyncio.get_running_loop().time()))

    async def main(_: Clock) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.gather(ring("late", 3600), ring("third", 2), ring("first", 0.1))

    run(main)
    assert rung == [("first", 0.1), ("third", 2.0)]


def test_each_run_begins_anew() -> None:
    async def main(time: Clock) -> float:
        before = time.seconds
        await asyncio.sleep(5)
        return before

    assert run(main) == run(main) == 0.0


def test_a_deadlock_names_who_waits_and_where() -> None:
    async def main(_: Clock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"no timer.*\n.*main.*|begin") as raised:
        run(main)
    assert f"waits at {__file__}:" in str(raised.value)


def test_a_loop_without_a_pause_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "RESTLESS", 1000)

    async def main(_: Clock) -> None:
        await asyncio.sleep(3)
        loop = asyncio.get_running_loop()
        loop.call_soon(again, loop)
        await asyncio.sleep(3)

    def again(loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon(again, loop)

    with pytest.raises(Restless, match="1000 turns at second 3\n"):
        run(main)


def test_errors_come_through() -> None:
    async def main(_: Clock) -> None:
        await asyncio.sleep(1)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run(main)


def test_what_goes_to_a_thread_takes_no_time() -> None:
    def fail() -> None:
        raise ValueError("no")

    async def main(clock: Clock) -> float:
        async with asyncio.timeout(1):
            assert await asyncio.to_thread(sum, [1, 2]) == 3
            with pytest.raises(ValueError, match="no"):
                await asyncio.to_thread(fail)
        return clock.seconds

    assert run(main) == 0.0
