"""Sequences of moves, drawn by a seed.

By hand and not by Hypothesis: the next move depends on what is probably there, the same seeds are
played over HTTPS, and leaving out moves is all the shrinking that they need.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.model.moves import (
    DENIALS,
    PAUSES,
    Begin,
    Bind,
    Connect,
    Create,
    Cut,
    Delete,
    DeleteDefinition,
    DeleteNamespace,
    DeleteThere,
    Disconnect,
    Edit,
    Export,
    FillSecret,
    Forbid,
    GiveSecret,
    Hold,
    Intrude,
    Kill,
    MakeNamespace,
    Mend,
    Move,
    Pause,
    Permit,
    Policy,
    Rebind,
    Report,
    Restart,
    TakeSecret,
    Unbind,
    Wait,
)
from tests.model.stage import NAMES, NAMESPACES


@dataclass(slots=True)
class Draw:
    """What somebody who makes a sequence has in mind: what is probably there, so that most moves
    do something, and what was broken is mended again."""

    chance: random.Random
    bound: set[str] = field(default_factory=set)
    there: set[str] = field(default_factory=set)
    broken: dict[str, Move] = field(default_factory=dict)
    errand: list[Move] = field(default_factory=list)  # what somebody has begun

    def one(self) -> Move:
        if self.errand and self.chance.random() < 0.6:
            return self.errand.pop(0)
        if self.broken and self.chance.random() < 0.12 * len(self.broken):
            return self.broken.pop(self.chance.choice(sorted(self.broken)))
        weights = [weight for weight, _ in MAKERS]
        _, make = self.chance.choices(MAKERS, weights)[0]
        return make(self)

    def place(self) -> tuple[str, str]:
        return self.chance.choice(NAMESPACES), self.chance.choice(NAMES)

    def size(self) -> int:
        return self.chance.randint(1, 9)

    def breaks(self, what: str, move: Move, mended_by: Move) -> Move:
        self.broken[what] = mended_by
        return move

    def binding(self) -> Move:
        """One that is there goes, or one that is not comes: mostly a single one is there."""
        scope = self.chance.choice(("", *NAMESPACES))
        if self.bound and self.chance.random() < 0.6:
            scope = self.chance.choice(sorted(self.bound))
        if scope in self.bound:
            self.bound.discard(scope)
            return Unbind(scope)
        self.bound.add(scope)
        return Bind(scope, self.policy())

    def policy(self) -> str:
        return self.chance.choice(("Fail", "Adopt"))

    def succession(self) -> Move:
        """An instance leaves its copy behind, and another one takes its name."""
        place = self.place()
        self.errand = [Delete(*place), Wait(1), Create(*place, self.size())]
        return Policy(*place, orphan=True)

    def intrusion(self) -> Move:
        """An object that is nobody's stands in the way of an instance, for a while."""
        place = self.place()
        self.errand = [Create(*place, self.size()), Wait(1)]
        if self.chance.random() < 0.5:
            self.errand.append(DeleteThere(*place))
        return Intrude(*place, self.size())

    def connection(self) -> Move:
        return self.breaks("connection", Disconnect(), Connect())

    def secret(self) -> Move:
        if self.chance.random() < 0.4:
            return self.breaks("secret", TakeSecret(), GiveSecret())
        return self.breaks("filling", FillSecret(good=False), FillSecret(good=True))

    def namespace(self) -> Move:
        name = self.chance.choice(NAMESPACES)
        return self.breaks(name, DeleteNamespace(name), MakeNamespace(name))

    def hold(self) -> Move:
        namespace, name = self.place()
        held = Hold(namespace, name, on=True)
        if self.chance.random() < 0.5:
            self.errand = [Delete(namespace, name)]
        return self.breaks(f"hold {namespace}/{name}", held, Hold(namespace, name, on=False))

    def pause(self) -> Move:
        what = self.chance.choice(PAUSES)
        return self.breaks(f"pause {what}", Pause(what, on=True), Pause(what, on=False))

    def outage(self) -> Move:
        if self.chance.random() < 0.5:
            return self.breaks("line", Cut(), Mend())
        return self.breaks("rights", Forbid(self.chance.choice(sorted(DENIALS))), Permit())

    def kill(self) -> Move:
        return self.breaks("konnector", Kill(self.chance.choice((0, 1, 2, 3, 5))), Restart())


Maker = Callable[[Draw], Move]

MAKERS: Final[tuple[tuple[int, Maker], ...]] = (
    (22, lambda draw: Wait(draw.chance.choice((0.1, 1, 1, 1, 5, 35, 70)))),
    (14, lambda draw: Create(*draw.place(), draw.size())),
    (4, lambda draw: Edit(*draw.place(), draw.size())),
    (3, lambda draw: Policy(*draw.place(), orphan=draw.chance.random() < 0.6)),
    (9, lambda draw: Delete(*draw.place())),
    (4, lambda draw: Report(*draw.place(), draw.size())),
    (7, Draw.intrusion),
    (3, Draw.succession),
    (3, lambda draw: DeleteThere(*draw.place())),
    (4, Draw.hold),
    (12, Draw.binding),
    (2, lambda draw: Rebind(draw.chance.choice(("", *NAMESPACES)), draw.policy())),
    (3, Draw.connection),
    (3, Draw.secret),
    (2, lambda draw: DeleteDefinition()),
    (1, lambda draw: draw.breaks("export", Export(on=False), Export(on=True))),
    (2, Draw.namespace),
    (4, Draw.pause),
    (5, Draw.outage),
    (5, Draw.kill),
)


def sequence(seed: int, length: int = 30) -> list[Move]:
    """The same for the same seed. Most begin with something bound and synced."""
    draw = Draw(random.Random(seed))
    moves: list[Move] = []
    if draw.chance.random() < 0.95:
        scope = draw.chance.choice(("", *NAMESPACES))
        draw.bound.add(scope)
        moves = [Begin(), Bind(scope, draw.policy()), Wait(1)]
        moves += [Create(scope or draw.chance.choice(NAMESPACES), name, 1) for name in NAMES]
        moves.append(Wait(1))
    while len(moves) < length:
        moves.append(draw.one())
    return moves
