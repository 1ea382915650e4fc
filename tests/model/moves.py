"""What can happen to two clusters and a konnector: moves.

A move is what somebody asks for. Where a cluster refuses it (the object is not there, or there
already, or its namespace is going), nothing happens, so that any part of a sequence is a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
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
class Rebind(Move):
    namespace: str
    policy: str

    def __str__(self) -> str:
        return f"edit {called(self.namespace)}: {self.policy}"

    async def play(self, stage: Stage) -> None:
        policy = {"spec": {"conflictPolicy": self.policy}}
        await stage.consumer.merge(bound(self.namespace), policy)


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
    """what: a kind and a key, such as ``Binding red/bound``."""

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
        if kind == "Widget":
            namespace, _, name = place.partition("/")
            return widget(name, namespace)
        return bound(place.partition("/")[0] if kind == "Binding" else "")


PAUSES: Final = (
    "Connection provider",
    *(called(namespace) for namespace in ("", *NAMESPACES)),
    *(f"Widget {namespace}/{name}" for namespace in NAMESPACES for name in NAMES),
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
