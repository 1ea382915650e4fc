"""What a sequence is played on: two clusters, a konnector that can be killed, and a line that can
be cut. In memory in virtual time, or over HTTPS in real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from kbind import words
from kbind.apis import Key
from kbind.cluster.connect import connect
from kbind.cluster.transport import Request
from kbind.errors import KbindError
from kbind.konnector.shared import Settings, utc_now
from kbind.manifests import documents
from kbind.resources import folder
from kbind.testing.clock import Clock
from kbind.testing.handles import Cluster, Handle, Object, key
from kbind.testing.memory import Connector, MemoryCluster
from kbind.testing.recording import uids
from kbind.testing.running import RunningKonnector
from tests.clusters.access import EVERYTHING, limit
from tests.clusters.relay import Relay
from tests.clusters.widgets import GROUP, WIDGETS, crd
from tests.model.tap import Tap

NAMESPACES: Final = ("blue", "red")
NAMES: Final = ("one", "two")

PACE: Final = 1 / 60  # of a story over HTTPS
QUICK: Final = Settings(0.25, 0.25, 0.25, settle=0.25, patience=3.0)

AGENT: Final = "kbind-konnector"

KINDS: Final = {
    "bindings": (words.API_VERSION, "Binding"),
    "clusterbindings": (words.API_VERSION, "ClusterBinding"),
    "connections": (words.API_VERSION, "Connection"),
    "secrets": ("v1", "Secret"),
    "namespaces": ("v1", "Namespace"),
    "crds": ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    "instances": (f"{GROUP}/v1", "Widget"),
}
_STORED: Final = {
    "bindings": f"bindings.{words.GROUP}",
    "clusterbindings": f"clusterbindings.{words.GROUP}",
    "connections": f"connections.{words.GROUP}",
    "secrets": "secrets",
    "namespaces": "namespaces",
    "crds": "customresourcedefinitions.apiextensions.k8s.io",
    "instances": WIDGETS,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands on both sides at one time. copies: all widgets of the provider."""

    time: float
    bindings: list[Object]
    connections: list[Object]
    secrets: list[Object]
    namespaces: list[Object]
    crds: list[Object]
    instances: dict[Key, Object]
    copies: dict[Key, Object]


class Stage:
    """Two clusters with widgets to bind, and a konnector beside the consumer.

    pace: how long a second of a story takes.
    """

    def __init__(
        self,
        consumer: Handle,
        provider: Handle,
        tap: Tap,
        settings: Settings,
        *,
        pace: float,
        now: Callable[[], datetime] = utc_now,
        overlays: tuple[Path, ...] = (),
    ) -> None:
        self.consumer = consumer
        self.provider = provider
        self.tap = tap
        self.settings = settings
        self.pace = pace
        self.konnector = RunningKonnector(
            consumer.cluster, overlays=overlays, settings=settings, connect=tap, now=now
        )
        self.away = False  # cut
        self.denied = False
        tap.pair = self.pair

    @property
    def time(self) -> float:
        return asyncio.get_running_loop().time()

    async def open(self) -> None:
        for name in (*NAMESPACES, "kbind"):
            await self.consumer.namespace(name)
        await self.provider.install_crd(crd())
        await limit(self.provider, EVERYTHING)
        await self.konnector.start()

    async def close(self) -> None:
        await self.konnector.stop()

    def reach(self) -> Cluster:
        """What Secrets name as the provider."""
        return self.provider.cluster

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self.pace)

    async def kill(self, after: int) -> None:
        """Now, or right after its *after*-th write from now."""
        if not self.tap.dead:
            self.tap.fuse = after
            if not after:
                self.tap.kill()

    async def restart(self) -> None:
        self.tap.kill()
        await self.konnector.stop()
        self.tap.revive()
        await self.konnector.start()

    async def bury(self) -> None:
        """Ends a konnector that was killed."""
        if self.tap.dead and self.konnector.running:
            await self.konnector.stop()

    async def forbid(self, *rules: Object) -> None:
        self.denied = True
        await limit(self.provider, *rules)

    async def permit(self) -> None:
        self.denied = False
        await limit(self.provider, EVERYTHING)

    async def cut(self) -> None:
        raise NotImplementedError

    async def mend(self) -> None:
        raise NotImplementedError

    async def pair(self, place: Key) -> tuple[Object | None, Object | None]:
        """The instance and the copy of that name."""
        raise NotImplementedError

    async def seen(self) -> Seen:
        raise NotImplementedError


class MemoryStage(Stage):
    """In this process: nothing is asked, all is looked up."""

    async def cut(self) -> None:
        if not self.away:
            self.away = True
            self._server(1).faults.disconnect(_is_konnectors)
            self._server(1).break_streams()

    async def mend(self) -> None:
        self.away = False
        self._server(1).faults.clear()

    async def pair(self, place: Key) -> tuple[Object | None, Object | None]:
        found = [self._server(side).server.store.get(WIDGETS, place) for side in (0, 1)]
        return found[0], found[1]

    async def seen(self) -> Seen:
        here, there = (self._server(side).server.store for side in (0, 1))
        all_of = {what: here.objects(name) for what, name in _STORED.items()}
        return _seen(self.time, all_of, there.objects(WIDGETS))

    def _server(self, side: int) -> MemoryCluster:
        cluster = (self.consumer, self.provider)[side].cluster
        assert isinstance(cluster, MemoryCluster)
        return cluster


def _is_konnectors(request: Request) -> bool:
    return request.headers.get("User-Agent", "").startswith(AGENT)


class WiredStage(Stage):
    """Over HTTPS. relay: the line to the provider."""

    def __init__(self, consumer: Handle, provider: Handle, tap: Tap, relay: Relay) -> None:
        super().__init__(consumer, provider, tap, QUICK, pace=PACE)
        self.relay = relay

    def reach(self) -> Cluster:
        return self.relay

    async def cut(self) -> None:
        self.away = True
        await self.relay.cut()

    async def mend(self) -> None:
        if self.away:
            self.away = False
            await self.relay.mend()

    async def pair(self, place: Key) -> tuple[Object | None, Object | None]:
        ref = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Widget",
            "metadata": {"name": place.name, "namespace": place.namespace},
        }
        here, there = await asyncio.gather(_found(self.consumer, ref), _found(self.provider, ref))
        return here, there

    async def seen(self) -> Seen:
        time = self.time
        *found, copies = await asyncio.gather(
            *(_listed(self.consumer, *kind) for kind in KINDS.values()),
            _listed(self.provider, *KINDS["instances"]),
        )
        return _seen(time, dict(zip(KINDS, found, strict=True)), copies)


async def _found(side: Handle, ref: Object) -> Object | None:
    try:
        return await side.find(ref)
    except KbindError:
        return None


async def _listed(side: Handle, version: str, kind: str) -> list[Object]:
    try:
        return await side.list(version, kind)
    except KbindError:
        return []


def _seen(time: float, all_of: Mapping[str, list[Object]], copies: list[Object]) -> Seen:
    kinds = {"bindings": "Binding", "clusterbindings": "ClusterBinding"}
    bindings = [{**obj, "kind": kind} for what, kind in kinds.items() for obj in all_of[what]]
    return Seen(
        time,
        bindings,
        all_of["connections"],
        [s for s in all_of["secrets"] if s["metadata"]["namespace"] == "kbind"],
        [n for n in all_of["namespaces"] if n["metadata"]["name"] in NAMESPACES],
        [c for c in all_of["crds"] if c["metadata"]["name"] == WIDGETS],
        {key(obj): obj for obj in all_of["instances"]},
        {key(obj): obj for obj in copies},
    )


@asynccontextmanager
async def in_memory(time: Clock, overlays: tuple[Path, ...] = ()) -> AsyncIterator[Stage]:
    """A fresh stage in virtual time."""
    here, there = (
        MemoryCluster(name, now=time.now, uid=uids(name)) for name in ("consumer", "provider")
    )
    connector = Connector(here, there)
    consumer, provider = [await Handle.open(c, connect=connector) for c in (here, there)]
    for each in _core():
        await consumer.create(each)
    tap = Tap(connector, lambda c: "consumer" if "consumer" in c.server else "provider")
    stage = MemoryStage(
        consumer, provider, tap, Settings(), pace=1.0, now=time.now, overlays=overlays
    )
    await stage.open()
    try:
        yield stage
    finally:
        await stage.close()


@asynccontextmanager
async def over_https(consumer: Handle, provider: Handle) -> AsyncIterator[Stage]:
    """A stage in real time on two clean clusters; the consumer has the core CRDs."""
    server = consumer.cluster.kubeconfig()["clusters"][0]["cluster"]["server"]
    tap = Tap(connect, lambda c: "consumer" if c.server == server else "provider")
    async with Relay(provider.cluster) as relay:
        stage = WiredStage(consumer, provider, tap, relay)
        await stage.open()
        try:
            yield stage
        finally:
            await stage.close()


@cache
def _core() -> tuple[dict[str, Any], ...]:
    files = sorted(folder("crds").glob("*.yaml"))
    return tuple(crd for file in files for crd in documents(file.read_text(), file.name))
