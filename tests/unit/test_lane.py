"""Work by key: once, in turn, later, and to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kbind.konnector.lane import AFTER_A_BUG, FEW, Lane


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only when nothing is left to do, and then at once."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def time(self) -> float:
        return self.passed

    def _run_once(self) -> None:
        waiting = [timer for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        if waiting and not self._ready:  # type: ignore[attr-defined]
            self.passed = max(self.passed, min(timer.when() for timer in waiting))
        super()._run_once()  # type: ignore[misc]


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scene()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(whole())


def now() -> float:
    return asyncio.get_running_loop().time()


class Work:
    """A handler that notes when each key begins, takes its time, and answers as it is told."""

    def __init__(self, takes: float = 1.0, again: dict[str, list[Any]] | None = None) -> None:
        self.takes = takes
        self.again = again or {}
        self.begun: list[tuple[str, float]] = []
        self.ended: list[str] = []
        self.at_once = 0
        self.most = 0

    async def __call__(self, key: str) -> float | None:
        self.begun.append((key, now()))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.at_once -= 1
        self.ended.append(key)
        answers = self.again.get(key)
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            raise answer
        result: float | None = answer
        return result

    def times(self, key: str) -> list[float]:
        return [at for begun, at in self.begun if begun == key]


def test_a_key_that_waits_is_handled_once() -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work, limit=1)
        lane.add_all(["a", "b", "b", "c", "b"])
        assert len(lane) == 3
        await asyncio.sleep(10)
        assert work.begun == [("a", 0.0), ("b", 1.0), ("c", 2.0)]
        assert len(lane) == 0

    play(scene)


def test_a_key_that_is_added_while_it_is_handled_has_one_turn_more() -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work)
        lane.add("a")
        await asyncio.sleep(0.5)
        lane.add_all(["a", "a", "a"])
        await asyncio.sleep(10)
        assert work.times("a") == [0.0, 1.0]
        assert work.most == 1

    play(scene)


def test_a_key_that_was_added_meanwhile_waits_behind_the_others() -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work, limit=1)
        lane.add_all(["a", "b"])
        await asyncio.sleep(0.5)
        lane.add("a")
        await asyncio.sleep(10)
        assert [key for key, _ in work.begun] == ["a", "b", "a"]

    play(scene)


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_than_the_limit_at_once(limit: int) -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work, limit=limit)
        lane.add_all("abcdefg")
        await asyncio.sleep(20)
        assert work.most == limit
        assert len(work.ended) == 7

    play(scene)


def test_what_is_answered_is_when_the_key_is_due_again() -> None:
    async def scene() -> None:
        work = Work(again={"a": [5.0, 0.0, None]})
        lane = Lane(work)
        lane.add("a")
        await asyncio.sleep(100)
        assert work.times("a") == [0.0, 6.0, 7.0]

    play(scene)


@pytest.mark.parametrize(
    ("delays", "expected"),
    [([5.0, 3.0], [3.0]), ([3.0, 5.0], [3.0]), ([3.0, 3.0], [3.0]), ([0.0], [0.0])],
)
def test_of_several_times_the_earliest_counts(delays: list[float], expected: list[float]) -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work)
        for seconds in delays:
            lane.add_after("a", seconds)
        assert len(lane) == 0
        await asyncio.sleep(100)
        assert work.times("a") == expected

    play(scene)


def test_a_turn_now_stands_for_the_later_one() -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work)
        lane.add_after("a", 5.0)
        lane.add("a")
        await asyncio.sleep(100)
        assert work.times("a") == [0.0]

    play(scene)


def test_a_time_that_comes_while_the_key_is_handled_is_not_lost() -> None:
    async def scene() -> None:
        work = Work(takes=5.0)
        lane = Lane(work)
        lane.add("a")
        await asyncio.sleep(1)
        lane.add_after("a", 1.0)
        await asyncio.sleep(100)
        assert work.times("a") == [0.0, 5.0]

    play(scene)


def test_an_earlier_time_that_was_set_meanwhile_counts_against_the_answer() -> None:
    async def scene() -> None:
        work = Work(again={"a": [50.0]})
        lane = Lane(work)
        lane.add("a")
        await asyncio.sleep(0.5)
        lane.add_after("a", 2.0)
        await asyncio.sleep(200)
        assert work.times("a") == [0.0, 2.5]

    play(scene)


def test_a_handler_that_breaks_holds_up_no_other_key_and_is_tried_again() -> None:
    async def scene() -> None:
        work = Work(again={"a": [RuntimeError("broken")]})
        lane = Lane(work, limit=1)
        lane.add_all(["a", "b"])
        await asyncio.sleep(10 * AFTER_A_BUG)
        assert work.times("a") == [0.0, 1.0 + AFTER_A_BUG]
        assert work.times("b") == [1.0]

    play(scene)


def test_rest_is_told_each_time_that_nothing_is_left() -> None:
    async def scene() -> None:
        idle: list[float] = []
        lane = Lane(Work(again={"a": [5.0]}), limit=1, on_idle=lambda: idle.append(now()))
        lane.add_all(["a", "b"])
        await asyncio.sleep(100)
        assert idle == [2.0, 7.0]

    play(scene)


def test_closing_waits_for_what_runs_and_starts_nothing_more() -> None:
    async def scene() -> None:
        idle: list[float] = []
        work = Work(again={"a": [1.0]})
        lane = Lane(work, limit=1, on_idle=lambda: idle.append(now()))
        lane.add_all(["a", "b"])
        lane.add_after("c", 0.5)
        await asyncio.sleep(0.1)
        lane.add("a")
        await lane.close(5.0)
        assert now() == 1.0
        lane.add("d")
        lane.add_after("e", 0.1)
        await asyncio.sleep(100)
        assert work.ended == ["a"]
        assert len(work.begun) == 1
        assert idle == []

    play(scene)


def test_closing_ends_what_does_not_finish_within_the_grace() -> None:
    async def scene() -> None:
        work = Work(takes=60.0)
        lane = Lane(work)
        lane.add_all(["a", "b"])
        await asyncio.sleep(1)
        await lane.close(grace=2.0)
        assert now() == 3.0
        assert (work.ended, work.at_once, len(lane)) == ([], 0, 0)

    play(scene)


def test_closing_at_once_ends_what_has_not_begun() -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work)
        lane.add("a")
        await lane.close(grace=0.0)
        await asyncio.sleep(10)
        assert (work.ended, now()) == ([], 10.0)

    play(scene)


def test_what_may_wait_leaves_room_for_others() -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work, limit=FEW + 2, later=lambda key: key.startswith("later"))
        lane.add_all([f"later-{number}" for number in range(10 * FEW)])
        await asyncio.sleep(0.5)
        assert (work.at_once, len(lane)) == (FEW, 10 * FEW)
        lane.add_all(["a", "b"])
        assert work.times("a") == []
        await asyncio.sleep(0)
        assert work.times("a") == work.times("b") == [0.5]
        await asyncio.sleep(20)
        assert (work.most, len(work.begun), len(lane)) == (FEW + 2, 10 * FEW + 2, 0)

    play(scene)


def test_what_may_wait_has_its_turn_however_much_else_there_is() -> None:
    async def scene() -> None:
        work = Work()
        lane = Lane(work, limit=FEW, later=lambda key: key.startswith("later"))
        lane.add_all([f"{number}" for number in range(10 * FEW)])
        lane.add_all([f"later-{number}" for number in range(FEW)])
        await asyncio.sleep(FEW + 1.5)
        at = [begun for key, begun in work.begun if key.startswith("later")]
        assert at == [float(second) for second in range(1, FEW + 1)]
        await lane.close(0.0)

    play(scene)


def test_closing_twice_or_at_rest_is_nothing() -> None:
    async def scene() -> None:
        lane = Lane(Work())
        await lane.close(5.0)
        await lane.close(5.0)
        assert now() == 0.0

    play(scene)
