"""What all parts of one konnector share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from kbind.apis import Key
from kbind.brake import Brake
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.cluster.kubeconfig import Credentials
from kbind.cluster.transport import Transport
from kbind.cover import Bound, Coverage, Ending, Ref
from kbind.errors import SpecInvalid
from kbind.facts import Pause
from kbind.hooks import Sources
from kbind.konnector.link import Link
from kbind.konnector.passes import Report
from kbind.pausing import heeded
from kbind.rulebook import Rulebook
from kbind.schema import Served
from kbind.situation import Scope
from kbind.words import PERIOD


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds. recheck: until a refusal, or what else no event ends, is looked at again.
    settle: between two discoveries that find no export until autoBind takes that for true.
    patience: until a provider that cannot be asked counts as unreachable for an unbinding.
    heartbeat: between two writes of a Connection's Lease at least. brake: how much may go at once
    unasked."""

    discovery_interval: float = PERIOD
    binding_interval: float = PERIOD
    recheck: float = PERIOD
    settle: float = PERIOD
    patience: float = 2 * PERIOD
    heartbeat: float = PERIOD
    brake: Brake = field(default_factory=Brake)


@dataclass(slots=True)
class Caches:
    """The consumer's objects that the konnector follows from its start."""

    connections: Cache = field(default_factory=Cache)
    cluster_bindings: Cache = field(default_factory=Cache)
    bindings: Cache = field(default_factory=Cache)
    crds: Cache = field(default_factory=Cache)

    def of(self, kind: str) -> Cache:
        """The cache of one kind of binding."""
        return self.cluster_bindings if kind == "ClusterBinding" else self.bindings


@dataclass(slots=True)
class Shared:
    """cluster: the consumer cluster's UID. connect: opens a line to a provider. retired:
    clients of lines that were given up, to be closed once no syncer uses them. paused, confirmed:
    the Connections that ask for it. endings: APIs of bindings that are being undone. held: how many
    instances of an API carry our finalizer, as far as they are followed. failed: by Connection, the
    loop time of the last pass that did not reach its provider. bare: Connections that were found
    without credentials."""

    consumer: Client
    cluster: str
    book: Rulebook
    sources: Sources
    connect: Callable[[Credentials], Awaitable[Transport]]
    settings: Settings
    now: Callable[[], datetime]
    on_report: Callable[[Report], None]
    caches: Caches = field(default_factory=Caches)
    links: dict[str, Link] = field(default_factory=dict)
    retired: list[Client] = field(default_factory=list)
    endings: dict[tuple[Ref, str], Ending] = field(default_factory=dict)
    held: Callable[[str], int] = lambda api: 0
    paused: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    failed: dict[str, float] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)
    _coverage: Coverage | None = None

    def timestamp(self) -> str:
        """Now, RFC 3339 in UTC, to the second."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def connection(self, name: str) -> dict[str, Any] | None:
        """A Connection as it is known now."""
        entry = self.caches.connections.get(Key("", name))
        found: dict[str, Any] | None = None if entry is None else orjson.loads(entry.raw)
        return found

    def scope(self, how: Served, connection: str, *, fits: bool = True) -> Scope:
        """What all instances of an API have in common that comes through *connection*."""
        return Scope(
            how.api,
            connection,
            self.cluster,
            self.book.copying,
            how.status_subresource,
            how.keeps_synced,
            fits,
        )

    def holds(self, connection: str) -> bool:
        """Whether nothing but conditions is to be written for a Connection itself."""
        return connection in self.paused and heeded(self.book, Pause.CONNECTION)

    def holds_binding(self, bound: Bound) -> bool:
        """Whether nothing is to be written because of a binding."""
        return bound.paused and heeded(self.book, Pause.BINDING)

    def coverage(self) -> Coverage:
        """All live bindings as they are known now."""
        if self._coverage is None:
            known = (self.bound(ref) for ref in self.all_bindings())
            live = [bound for bound in known if bound is not None]
            self._coverage = Coverage(live, self.endings.values())
        return self._coverage

    def bindings_changed(self) -> None:
        """What ``coverage`` answered so far is out of date."""
        self._coverage = None

    def bound(self, ref: Ref) -> Bound | None:
        """A live binding, or None; one that cannot be read binds nothing, and its status says
        so."""
        entry = self.caches.of(ref.kind).get(ref.key)
        if entry is None:
            return None
        try:
            return Bound.of(ref.kind, orjson.loads(entry.raw))
        except SpecInvalid:
            return None

    def all_bindings(self) -> list[Ref]:
        """Every binding that is known, also those that are being deleted."""
        return [
            Ref(kind, key) for kind in ("ClusterBinding", "Binding") for key in self.caches.of(kind)
        ]
