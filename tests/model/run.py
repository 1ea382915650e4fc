"""Plays one sequence against the promises, heals everything, and looks at how it ended.

A run in virtual time is the same every time and costs a tenth of a second, so a sequence that
breaks a promise is shrunk by leaving out moves and playing the rest anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from kbind.errors import KbindError
from kbind.pausing import is_paused
from kbind.testing import clock
from kbind.testing.clock import Clock
from kbind.testing.handles import key
from tests.model.drawing import sequence
from tests.model.moves import (
    Connect,
    Cut,
    Disconnect,
    Export,
    FillSecret,
    GiveSecret,
    Hold,
    Kill,
    Mend,
    Move,
    Pause,
    Permit,
    Restart,
    TakeSecret,
    Unbind,
    Wait,
)
from tests.model.promises import BUG, REST, Broken, Complaint, Model, World
from tests.model.stage import NAMESPACES, Seen, Stage, in_memory
from tests.model.tap import Write

# Seconds in which all has to come right, as refusals wait for five minutes, and between two looks;
# and discoveries during which nothing may be written.
CONVERGE, LOOK = 900.0, 5.0
QUIET = 4
PLAYS = 300  # of a sequence that is shrunk
PATIENT = 90.0  # seconds that clusters may take in real time


class Run:
    """One sequence on one stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        settings = stage.settings
        self.model = Model(settings.patience, settings.discovery_interval)
        self.written: list[Write] = []
        stage.tap.on_write = self._wrote

    def _wrote(self, write: Write) -> None:
        self.model.wrote(write)
        if write.resource != "leases":
            self.written.append(write)

    async def play(self, moves: Sequence[Move], chance: random.Random) -> None:
        """All of *moves*, and then one of two ends: everything is mended, and then taken apart; or
        the provider is gone for good, as far as anybody knows, while everything is taken apart.
        Raises Broken."""
        for move in moves:
            await self.move(move)
        if chance.random() < 0.25:
            await self.resume()
            await self.move(Cut())
            await self.take_apart(chance)
            await self.settle()
            await self.heal()
            await self.settle()
        else:
            await self.heal()
            await self.settle()
            await self.take_apart(chance)
            await self.settle()

    async def move(self, move: Move) -> None:
        if move.hands:
            # The model knows of it before the konnector's next write.
            async with self.stage.tap.lock:
                with contextlib.suppress(KbindError):
                    await move.play(self.stage)
                await self.note()
        else:
            await move.play(self.stage)
            await self.stage.bury()
            async with self.stage.tap.lock:
                await self.note()
        self.check(self.model.complaints)

    async def note(self) -> Seen:
        world = await self.look()
        self.model.note(world)
        return world.seen

    def check(self, complaints: list[Complaint]) -> None:
        if complaints:
            raise Broken(complaints)

    async def look(self) -> World:
        seen = await self.stage.seen()
        filled = any((s.get("data") or {}).get("kubeconfig") for s in seen.secrets)
        bare = not (filled and seen.connections)
        return World(seen, self.stage.away or self.stage.denied, bare)

    async def heal(self) -> None:
        """All that was broken is mended, and what is missing is there again; what was deleted
        stays deleted."""
        stage = self.stage
        await self.move(Mend())
        await self.move(Permit())
        await self.resume()
        for place in (await stage.seen()).copies:
            await self.move(Hold(place.namespace, place.name, on=False))
        for move in (Export(on=True), GiveSecret(), FillSecret(good=True), Connect()):
            await self.move(move)

    async def resume(self) -> None:
        """Nothing is paused, and the konnector runs."""
        seen = await self.stage.seen()
        for obj in [*seen.connections, *seen.bindings, *seen.instances.values()]:
            if is_paused(obj):
                await self.move(Pause(f"{obj['kind']} {key(obj)}", on=False))
        await self.move(Restart())

    async def settle(self) -> None:
        """Waits until everything is as it has to be, and then nothing is written any more."""
        end = self.stage.time + max(CONVERGE * self.stage.pace, PATIENT)
        wrong = [Complaint(REST, "not looked at yet")]
        while wrong and self.stage.time < end:
            await self.stage.wait(LOOK)
            self.check(self.model.complaints)
            wrong = self.model.wrong(await self.note())
        self.check(wrong)
        while self.stage.time < end:
            count = len(self.written)
            await asyncio.sleep(QUIET * self.stage.settings.discovery_interval)
            self.check(self.model.complaints)
            if len(self.written) == count:
                break
        else:
            self.check([Complaint(REST, f"{self.written[-1]}")])
        self.check(self.model.wrong((await self.look()).seen))

    async def take_apart(self, chance: random.Random) -> None:
        """Everything that binds is deleted, in any order."""
        moves: list[Move] = [Unbind(scope) for scope in ("", *NAMESPACES)]
        moves += [Disconnect(), TakeSecret()]
        chance.shuffle(moves)
        for move in moves:
            await self.move(move)


def play(moves: Sequence[Move], seed: int, overlays: tuple[Path, ...] = ()) -> Broken | None:
    """In memory and in virtual time: the same every time. Answers what was broken."""

    async def story(time: Clock) -> None:
        async with in_memory(time, overlays) as stage:
            await Run(stage).play(moves, random.Random(seed))

    state = random.getstate()
    random.seed(seed)
    try:
        with capture_logs() as logs:
            clock.run(story)
    except Broken as broken:
        return bugs(logs) or broken
    finally:
        random.setstate(state)
    return bugs(logs)


def bugs(logs: Sequence[MutableMapping[str, Any]]) -> Broken | None:
    """What the konnector logged that must never happen."""
    found = [str(line) for line in logs if line["log_level"] in ("error", "critical")]
    return Broken([Complaint(BUG, found[0])]) if found else None


@dataclass(frozen=True, slots=True)
class Story:
    """A sequence that breaks a promise, made small."""

    seed: int
    moves: tuple[Move, ...]
    broken: Broken

    def __str__(self) -> str:
        lines = [f"  {number:2}. {move}" for number, move in enumerate(self.moves, 1)]
        told = "\n".join(lines) or "  (nothing but the end)"
        return f"seed {self.seed}, {len(self.moves)} moves:\n{told}\n{self.broken}"


Player = Callable[[Sequence[Move]], Broken | None]


def shrink(seed: int, moves: Sequence[Move], broken: Broken, again: Player) -> Story:
    """Leaves out what the same promise is broken without, and makes simpler what is left."""
    left = PLAYS
    best, size = list(moves), len(moves)

    def breaks(tried: list[Move]) -> bool:
        nonlocal best, broken, left
        if not left:
            return False
        left -= 1
        found = again(tried)
        if found is None or found.promise != broken.promise:
            return False
        best, broken = tried, found
        return True

    while size:
        at = 0
        while at < len(best):
            if not breaks(best[:at] + best[at + size :]):
                at += size
        size //= 2
    for at, move in enumerate(best):
        for simpler in _simpler(move):
            if breaks([*best[:at], simpler, *best[at + 1 :]]):
                break
    return Story(seed, tuple(best), broken)


def _simpler(move: Move) -> list[Move]:
    if isinstance(move, Wait):
        return [Wait(seconds) for seconds in (1, 5, 35) if seconds < move.seconds]
    if isinstance(move, Kill) and move.after:
        return [replace(move, after=after) for after in range(move.after)]
    return []


def told(seed: int, overlays: tuple[Path, ...] = ()) -> Story | None:
    """Plays the sequence of a seed; where it breaks a promise, answers it made small."""
    moves = sequence(seed)
    broken = play(moves, seed, overlays)
    if broken is None:
        return None
    return shrink(seed, moves, broken, lambda tried: play(tried, seed, overlays))
