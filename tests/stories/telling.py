"""Stories: a consumer, a provider and a konnector in virtual time, and what is told of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from structlog.testing import capture_logs

from kbind.cluster.transport import Request
from kbind.errors import NotServed
from kbind.testing import clock
from kbind.testing.audit import Entry
from kbind.testing.clock import Clock
from kbind.testing.handles import Handle, Object, condition, find_condition, new
from kbind.testing.memory import Connector, MemoryCluster
from kbind.testing.recording import Recorder, uids
from kbind.testing.running import USER, RunningKonnector, add_connection, binding
from tests.clusters.widgets import WIDGETS, crd
from tests.golden import Block, Line

SEED: Final = 1
"""Of the random numbers that pauses are drawn with."""


class Story:
    """What a story is told with.

    It opens on two clusters that have nothing of each other, with a konnector running beside the
    consumer. ``chapter`` begins each of its parts; ``end`` says what to show of both sides.
    """

    def __init__(
        self,
        time: Clock,
        consumer: MemoryCluster,
        provider: MemoryCluster,
        plugins: Sequence[object] = (),
    ) -> None:
        self.time = time
        self.clusters = (consumer, provider)
        self.connect = Connector(consumer, provider)
        self.recorder = Recorder(lambda: time.seconds)
        self.konnector = RunningKonnector(
            consumer,
            plugins=plugins,
            connect=self.connect,
            now=time.now,
            on_report=self.recorder,
        )
        self.consumer: Handle
        self.provider: Handle
        self.told: list[Block] = []
        self.shown: dict[str, list[Object]] = {}
        self._seen: dict[str, int] = {}
        self._ready: list[tuple[str, str]] = []

    async def open(self) -> None:
        self.consumer, self.provider = [
            await Handle.open(cluster, connect=self.connect) for cluster in self.clusters
        ]
        for handle in (self.consumer, self.provider):
            system = await handle.get(new("v1", "Namespace", "kube-system"))
            self.recorder.call(system["metadata"]["uid"], f"{handle.cluster.name}-cluster")
        await self.consumer.install_core()
        self.clusters[0].faults.add(_sets_a_status, self._hear)
        await self.konnector.start()

    async def close(self) -> None:
        await self.konnector.stop()
        for handle in (self.consumer, self.provider):
            await handle.close()

    # Before the story

    async def bound(self, **spec: Any) -> Object:
        """Widgets are bound in team-a, and synced. spec: further fields of the Binding's."""
        await self.provider.install_crd(crd())
        await self.provider.namespace("team-a")
        await self.consumer.namespace("team-a")
        await add_connection(self.consumer, self.clusters[1])
        made = await self.consumer.create(binding([WIDGETS], "team-a", **spec))
        await self.consumer.until(made, lambda seen: condition(seen, "Synced"))
        await self.wait(5)
        self.untold()
        return made

    async def synced(self, obj: Object) -> Object:
        """*obj* is created and has its copy, on which the provider reports a status; answers the
        copy."""
        made = await self.consumer.create(obj)
        await self.provider.until(made, lambda seen: seen)
        await self.provider.set_status(made, {"phase": "Ready"})
        await self.consumer.until(made, lambda seen: seen["status"])
        await self.wait(5)
        self.untold()
        return await self.provider.get(made)

    def untold(self) -> None:
        """Nothing is told of what happened so far."""
        self.recorder.take()
        self._others()
        self._ready.clear()

    # The story

    @contextmanager
    def chapter(
        self, happens: str, *, ready: bool = False, counted: bool = False
    ) -> Iterator[None]:
        """What is done inside, and what kbind does then. happens: for the reader; ready: whether
        to tell what is said meanwhile as Ready of kbind's own objects; counted: whether passes
        that are alike are told once, with their number."""
        self.untold()
        yield
        records = self.recorder.take()
        passes = _counted(records) if counted else [_pass(record) for record in records]
        told = Block(happens=happens, passes=passes)
        others = self._others()
        if others:
            told["other writes"] = others
        if ready:
            told["ready"] = self._said()
        self.told.append(told)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def events(self) -> list[Object]:
        """Those of the consumer, oldest first."""
        found = await self.consumer.list("v1", "Event")
        return sorted(found, key=lambda e: int(e["metadata"]["resourceVersion"]))

    async def end(self, *refs: Mapping[str, Any], events: bool = False) -> None:
        """Shows *refs* as they stand on both sides. events: and what the consumer's tell."""
        for side, handle in (("consumer", self.consumer), ("provider", self.provider)):
            found = [await _find(handle, ref) for ref in refs]
            if events and handle is self.consumer:
                found += await self.events()
            self.shown[side] = [self.recorder.shown(obj) for obj in found if obj is not None]

    def _others(self) -> list[str]:
        """The konnector's writes on kbind's own objects, on CRDs and on Secrets since the last
        look, each kind of them once: passes over instances do not tell of those."""
        found: dict[str, None] = {}
        for cluster in self.clusters:
            audit = cluster.audit(USER)
            for entry in audit[self._seen.get(cluster.name, 0) :]:
                told = entry.group in ("core.kbind.io", "apiextensions.k8s.io")
                if entry.writes and (told or entry.resource == "secrets"):
                    found[f"{cluster.name}: {_request(entry)}"] = None
            self._seen[cluster.name] = len(audit)
        return list(found)

    async def _hear(self, request: Request) -> None:
        """Keeps what a status says as Ready, and lets the request pass."""
        (value,) = (
            op["value"] for op in orjson.loads(request.body or b"[]") if op["path"] == "/status"
        )
        ready = find_condition({"status": value}, "Ready")
        if ready is not None:
            resource, name = request.path.split("/")[-3:-1]
            text = f"{ready['status']}, {ready['reason']}: {ready['message']}".removesuffix(": ")
            told = (f"{resource} {name}: {text}", f"{self.time.seconds:.1f}")
            self._ready.append(told)

    def _said(self) -> list[str]:
        """What was heard, with the second; what is only repeated is left out."""
        last: dict[str, str] = {}
        found = []
        for text, at in self._ready:
            whose = text.partition(":")[0]
            if last.get(whose) != text:
                last[whose] = text
                found.append(self.recorder.named(f"{at} {text}"))
        return found


def _sets_a_status(request: Request) -> bool:
    return (
        request.method == "PATCH"
        and request.path.startswith("/apis/core.kbind.io/")
        and request.path.endswith("/status")
    )


async def _find(handle: Handle, ref: Mapping[str, Any]) -> Object | None:
    try:
        return await handle.find(ref)
    except NotServed:
        return None


def _request(entry: Entry) -> str:
    resource = "/".join(part for part in (entry.resource, entry.subresource) if part)
    return " ".join(part for part in (entry.verb, resource, entry.name) if part)


def _pass(record: dict[str, Any]) -> Block:
    told = Block(record)
    told["rules"] = Block(record["rules"])
    told["writes"] = [_write(write) for write in record["writes"]]
    return told


def _counted(records: list[dict[str, Any]]) -> list[Block]:
    """Each kind of pass once: how many there were, from when on, by which rules and steps."""
    kinds: dict[str, Block] = {}
    for record in records:
        steps = [f"{write['step']} on the {write['side']}" for write in record["writes"]]
        kind = kinds.setdefault(
            str((record["rules"], steps, record.get("failed"))),
            Block(
                {"from": record["at"], "passes": 0, "rules": Block(record["rules"]), "steps": steps}
            ),
        )
        kind["passes"] += 1
    return list(kinds.values())


def _write(write: dict[str, Any]) -> Block:
    told = Block(write)
    if isinstance(write["body"], list):
        told["body"] = [Line(operation) for operation in write["body"]]
    return told


@dataclass(frozen=True, slots=True)
class Tale:
    """title: one line for the reader; tell: what happens, with its assertions."""

    title: str
    tell: Callable[[Story], Awaitable[None]]


@dataclass(slots=True)
class Tales:
    """Stories by name: ``@tales.story("Title")`` on ``async def a_name(story)``."""

    by_name: dict[str, Tale] = field(default_factory=dict)

    def story(
        self, title: str
    ) -> Callable[[Callable[[Story], Awaitable[None]]], Callable[[Story], Awaitable[None]]]:
        def add(tell: Callable[[Story], Awaitable[None]]) -> Callable[[Story], Awaitable[None]]:
            self.by_name[tell.__name__.replace("_", "-")] = Tale(title, tell)
            return tell

        return add


@asynccontextmanager
async def opened(time: Clock, plugins: Sequence[object] = ()) -> Any:
    """A story that has begun. plugins: of the konnector."""
    clusters = [
        MemoryCluster(name, now=time.now, uid=uids(name)) for name in ("consumer", "provider")
    ]
    consumer, provider = clusters
    story = Story(time, consumer, provider, plugins)
    await story.open()
    try:
        yield story
    finally:
        await story.close()


def tell(main: Callable[[Story], Awaitable[None]], plugins: Sequence[object] = ()) -> Story:
    """Runs *main* on a story of its own, in virtual time and with the same random numbers each
    time. Raises what it raises."""

    async def told(time: Clock) -> Story:
        async with opened(time, plugins) as story:
            await main(story)
            done: Story = story
        return done

    state = random.getstate()
    random.seed(SEED)
    try:
        # Caught rather than printed: hours of virtual time make many lines.
        with capture_logs():
            return clock.run(told)
    finally:
        random.setstate(state)


def written(tale: Tale) -> dict[str, Any]:
    """A story as its golden file has it."""
    story = tell(tale.tell)
    return {
        "title": tale.title,
        "story": story.told,
        "end": {side: [Block(obj) for obj in shown] for side, shown in story.shown.items()},
    }
