"""What can happen to two clusters and a konnector: moves, and sequences of them drawn by a seed.

A move is what somebody asks for. Where a cluster refuses it (the object is not there, or there
already, or its namespace is going), nothing happens, so that any part of a sequence is a sequence.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from kbind import words
from kbind.testing.handles import Object, new
from kbind.testing.running import binding, connection, connection_secret
from tests.clusters.access import CRDS, IDENTITY, USER, may
from tests.clusters.scenes import crd_ref, kubeconfig_data, secret
from tests.clusters.widgets import WIDGETS, widget
from tests.model.stage import NAMES, NAMESPACES, Stage

HOLD: Final = "example.org/backup"
"""Somebody's finalizer on copies."""

READING: Final = (may("get list watch", "*", "*"),)
NO_DELETES: Final = (may("get list watch create update patch", "*", "*"),)
NO_WIDGETS: Final = (IDENTITY, CRDS)
DENIALS: Final = {
    "everything": (),
    "writes": READING,
    "deletes": NO_DELETES,
    "widgets": NO_WIDGETS,
}


class Move:
    """hands: whether it is a request to a cluster, which no write of the konnector overlaps."""

    hands: ClassVar[bool] = True

    async def play(self, stage: Stage) -> None:
        """Raises KbindError where a cluster refuses it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Wait(Move):
    hands: ClassVar[bool] = False
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:g} seconds go by"

    async def play(self, stage: Stage) -> None:
        await stage.wait(self.seconds)


# --- instances ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OfWidget(Move):
    namespace: str
    name: str

    @property
    def ref(self) -> Object:
        return widget(self.name, self.namespace)

    @property
    def place(self) -> str:
        return f"widget {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Create(OfWidget):
    size: int

    def __str__(self) -> str:
        return f"create {self.place} of size {self.size}"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.create(widget(self.name, self.namespace, size=self.size))


@dataclass(frozen=True, slots=True)
class Edit(OfWidget):
    size: int

    def __str__(self) -> str:
        return f"edit {self.place}: size {self.size}"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.merge(self.ref, {"spec": {"size": self.size}})


@dataclass(frozen=True, slots=True)
class Policy(OfWidget):
    orphan: bool

    def __str__(self) -> str:
        return f"annotate {self.place}: {'Orphan' if self.orphan else 'no deletion policy'}"

    async def play(self, stage: Stage) -> None:
        policy = words.ORPHAN if self.orphan else None
        await stage.consumer.merge(self.ref, _annotated(words.DELETION_POLICY, policy))


@dataclass(frozen=True, slots=True)
class Delete(OfWidget):
    def __str__(self) -> str:
        return f"delete {self.place}"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.delete(self.ref)


# --- the provider's side -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report(OfWidget):
    count: int

    def __str__(self) -> str:
        return f"the operator reports count {self.count} of {self.place}"

    async def play(self, stage: Stage) -> None:
        await stage.provider.set_status(self.ref, {"count": self.count})


@dataclass(frozen=True, slots=True)
class Intrude(OfWidget):
    size: int

    def __str__(self) -> str:
        return f"create {self.place} on the provider, nobody's copy"

    async def play(self, stage: Stage) -> None:
        await stage.provider.namespace(self.namespace)
        await stage.provider.create(widget(self.name, self.namespace, size=self.size))


@dataclass(frozen=True, slots=True)
class DeleteThere(OfWidget):
    def __str__(self) -> str:
        return f"delete {self.place} on the provider"

    async def play(self, stage: Stage) -> None:
        await stage.provider.delete(self.ref)


@dataclass(frozen=True, slots=True)
class Hold(OfWidget):
    on: bool

    def __str__(self) -> str:
        return f"{'put a finalizer on' if self.on else 'take it off'} {self.place} on the provider"

    async def play(self, stage: Stage) -> None:
        finalizers = [HOLD] if self.on else None
        await stage.provider.merge(self.ref, {"metadata": {"finalizers": finalizers}})


@dataclass(frozen=True, slots=True)
class Export(Move):
    on: bool

    def __str__(self) -> str:
        return f"{'put the label on' if self.on else 'take the label off'} the provider's CRD"

    async def play(self, stage: Stage) -> None:
        label = words.TRUE if self.on else None
        await stage.provider.merge(crd_ref(), {"metadata": {"labels": {words.EXPORTED: label}}})


@dataclass(frozen=True, slots=True)
class Cut(Move):
    def __str__(self) -> str:
        return "the provider goes down"

    async def play(self, stage: Stage) -> None:
        await stage.cut()


@dataclass(frozen=True, slots=True)
class Mend(Move):
    def __str__(self) -> str:
        return "the provider comes up"

    async def play(self, stage: Stage) -> None:
        await stage.mend()


@dataclass(frozen=True, slots=True)
class Forbid(Move):
    what: str

    def __str__(self) -> str:
        return f"the provider forbids {self.what}"

    async def play(self, stage: Stage) -> None:
        await stage.forbid(*DENIALS[self.what])


@dataclass(frozen=True, slots=True)
class Permit(Move):
    def __str__(self) -> str:
        return "the provider permits everything again"

    async def play(self, stage: Stage) -> None:
        await stage.permit()


# --- kbind's own objects -----------------------------------------------------------------------


def bound(namespace: str, policy: str = "Fail") -> Object:
    """The one binding of a namespace, or for "" the ClusterBinding."""
    return binding([WIDGETS], namespace or None, conflictPolicy=policy)


def called(namespace: str) -> str:
    return f"Binding {namespace}/bound" if namespace else "ClusterBinding bound"


@dataclass(frozen=True, slots=True)
class Bind(Move):
    namespace: str
    policy: str

    def __str__(self) -> str:
        return f"create {called(self.namespace)} with {self.policy}"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.create(bound(self.namespace, self.policy))


@dataclass(frozen=True, slots=True)
class Unbind(Move):
    namespace: str

    def __str__(self) -> str:
        return f"delete {called(self.namespace)}"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.delete(bound(self.namespace))


@dataclass(frozen=True, slots=True)
class Connect(Move):
    def __str__(self) -> str:
        return "create Connection provider"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.create(connection())


@dataclass(frozen=True, slots=True)
class Disconnect(Move):
    def __str__(self) -> str:
        return "delete Connection provider"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.delete(connection())


@dataclass(frozen=True, slots=True)
class Begin(Move):
    def __str__(self) -> str:
        return "create Connection provider and its Secret"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.create(connection_secret(stage.reach(), user=USER))
        await stage.consumer.create(connection())


@dataclass(frozen=True, slots=True)
class GiveSecret(Move):
    def __str__(self) -> str:
        return "create its Secret"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.create(connection_secret(stage.reach(), user=USER))


@dataclass(frozen=True, slots=True)
class TakeSecret(Move):
    def __str__(self) -> str:
        return "delete its Secret"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.delete(secret(None))


@dataclass(frozen=True, slots=True)
class FillSecret(Move):
    good: bool

    def __str__(self) -> str:
        return f"the Secret gets {'the right kubeconfig' if self.good else 'no kubeconfig'}"

    async def play(self, stage: Stage) -> None:
        data = kubeconfig_data(stage.reach().kubeconfig(USER))
        spoiled = {words.DEFAULT_KEY: ""}
        await stage.consumer.merge(secret(None), {"data": data if self.good else spoiled})


@dataclass(frozen=True, slots=True)
class DeleteDefinition(Move):
    def __str__(self) -> str:
        return "delete the consumer's CRD"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.delete(crd_ref())


@dataclass(frozen=True, slots=True)
class MakeNamespace(Move):
    name: str

    def __str__(self) -> str:
        return f"create namespace {self.name}"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.create(new("v1", "Namespace", self.name))


@dataclass(frozen=True, slots=True)
class DeleteNamespace(Move):
    name: str

    def __str__(self) -> str:
        return f"delete namespace {self.name}"

    async def play(self, stage: Stage) -> None:
        await stage.consumer.delete(new("v1", "Namespace", self.name))


@dataclass(frozen=True, slots=True)
class Pause(Move):
    """what: a word and a key, such as ``binding red``."""

    what: str
    on: bool

    def __str__(self) -> str:
        return f"{'pause' if self.on else 'resume'} {self.what}"

    async def play(self, stage: Stage) -> None:
        patch = _annotated(words.PAUSED, words.TRUE if self.on else None)
        await stage.consumer.merge(self.ref, patch)

    @property
    def ref(self) -> Object:
        kind, _, place = self.what.partition(" ")
        if kind == "Connection":
            return connection()
        if kind == "widget":
            namespace, _, name = place.partition("/")
            return widget(name, namespace)
        return bound(place.partition("/")[0] if kind == "Binding" else "")


PAUSES: Final = (
    "Connection provider",
    *(called(namespace) for namespace in ("", *NAMESPACES)),
    *(f"widget {namespace}/{name}" for namespace in NAMESPACES for name in NAMES),
)


# --- the konnector -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kill(Move):
    """after: so many more writes; 0 for at once."""

    hands: ClassVar[bool] = False
    after: int

    def __str__(self) -> str:
        return f"the konnector is killed {f'at write {self.after}' if self.after else 'at once'}"

    async def play(self, stage: Stage) -> None:
        await stage.kill(self.after)


@dataclass(frozen=True, slots=True)
class Restart(Move):
    hands: ClassVar[bool] = False

    def __str__(self) -> str:
        return "the konnector starts again"

    async def play(self, stage: Stage) -> None:
        await stage.restart()


def _annotated(name: str, value: str | None) -> Object:
    return {"metadata": {"annotations": {name: value}}}


# --- sequences ---------------------------------------------------------------------------------


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
        """One that is there goes, or one that is not comes, so that one or two are there."""
        scope = self.chance.choice(("", *NAMESPACES))
        if scope in self.bound:
            self.bound.discard(scope)
            return Unbind(scope)
        self.bound.add(scope)
        return Bind(scope, self.chance.choice(("Fail", "Fail", "Adopt")))

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
    (5, Draw.intrusion),
    (3, Draw.succession),
    (3, lambda draw: DeleteThere(*draw.place())),
    (4, Draw.hold),
    (12, Draw.binding),
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
        moves = [Begin(), Bind(scope, "Fail"), Wait(1)]
        moves += [Create(scope or draw.chance.choice(NAMESPACES), name, 1) for name in NAMES]
        moves.append(Wait(1))
    while len(moves) < length:
        moves.append(draw.one())
    return moves
