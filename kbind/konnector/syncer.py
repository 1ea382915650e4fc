"""One API through one Connection: two caches, one lane, a pass for every key that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

import orjson
import structlog

from kbind import words
from kbind.apis import Key
from kbind.brake import Brake
from kbind.cluster.backoff import delay
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.cluster.reflector import Reflector
from kbind.cover import Bound, Coverage
from kbind.errors import (
    ClusterError,
    ExpressionFailed,
    GuardViolation,
    NotServed,
)
from kbind.keeping import is_held, is_left
from kbind.konnector import obstacles
from kbind.konnector.due import LOST, due, seconds
from kbind.konnector.lane import Lane
from kbind.konnector.passes import Memory, Passes, Report
from kbind.konnector.sparing import Sparing
from kbind.pausing import is_paused
from kbind.perform import SPEC_STEPS
from kbind.rulebook import Rulebook
from kbind.situation import Scope
from kbind.steps import Side, Step

log = structlog.get_logger(__name__)

# What to look for before an object is decoded.
_MARKS = (words.SYNCER.encode(), words.CONFLICT.encode())


@dataclass(frozen=True, slots=True)
class Hooks:
    """Whom a syncer tells: state (its caches, its conflicts), every pass, a provider that no
    longer answers as engaged, what its brake holds (None: nothing)."""

    on_state: Callable[[str], None]
    on_report: Callable[[Report], None]
    on_lost: Callable[[str], None]
    on_braked: Callable[[Scope, str | None], None]


class Syncer:
    """Keeps the instances of one API and their copies in step.

    provider: None while the Connection is not Ready. Then only the consumer is followed: what is
    to be deleted there is let go where no copy has to be, or says what it waits for.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        consumer: Client,
        provider: Client | None,
        book: Rulebook,
        coverage: Callable[[], Coverage],
        paused: Callable[[], bool],
        confirmed: Callable[[], bool],
        brake: Brake,
        braked: bool,
        now: Callable[[], str],
        recheck: float,
        hooks: Hooks,
    ) -> None:
        self.scope = scope
        self.conflicts: dict[Key, str] = {}  # what the annotation of refused instances says
        self.paused: set[Key] = set()  # instances that wait for an annotation of their own
        self._coverage = coverage
        self._paused = paused
        self._sparing = Sparing(scope.api.name, brake, confirmed, holds=braked)
        self._now = now
        self._recheck = recheck
        self._hooks = hooks
        clients = {Side.CONSUMER: consumer}
        if provider is not None:
            clients[Side.PROVIDER] = provider
        self._passes = Passes(scope, book, clients)
        self._memories: dict[Key, Memory] = {}
        # To undo very much is not urgent.
        self._lane: Lane[Key] = Lane(
            self._turn, on_idle=self._idle, later=lambda key: self._bound(key) is None
        )
        self._caches = {Side.CONSUMER: Cache(), Side.PROVIDER: Cache()}
        self.instances, self._copies = self._caches[Side.CONSUMER], self._caches[Side.PROVIDER]
        path = scope.api.path()
        self._here = Reflector(
            consumer, path, self.instances, on_change=self._changed, on_state=self._state
        )
        self._there: Reflector | None = None
        if provider is not None:
            self._there = Reflector(
                provider,
                path,
                self._copies,
                label_selector=f"{words.CONSUMER}={scope.cluster}",
                on_change=self._changed,
                on_state=self._state,
            )
        self._barred = obstacles.away(scope) if provider is None else obstacles.misfit(scope)
        self._open = False
        self._served = True
        self._complete = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def synced(self) -> bool:
        """Whether both sides have been listed and every instance has been looked at."""
        return self._complete

    @property
    def trouble(self) -> ClusterError | None:
        """Why one of the sides is not being followed, or cannot take what the other has."""
        return self._barred or self._here.error or self._lost

    @property
    def _unserved(self) -> ClusterError | None:
        """Why there is no use in asking the provider for a copy."""
        if isinstance(self._lost, NotServed):
            return self._barred or obstacles.unserved(self.scope)
        return self._barred

    @property
    def _lost(self) -> ClusterError | None:
        """Why the provider is not being followed."""
        return None if self._there is None else self._there.error

    @property
    def follows(self) -> bool:
        """Whether the instances are known and followed, wherever the provider is."""
        return self._here.synced.is_set() and self._here.error is None

    @property
    def passes(self) -> bool:
        """Whether passes are made over the instances, whatever they find of the provider."""
        return self._open and self.follows

    @property
    def reaches(self) -> bool:
        """Whether both sides are known and followed, so that what is asked for gets done."""
        return self._open and self.trouble is None

    def held(self) -> int:
        """How many instances carry our finalizer."""
        return sum(
            _MARKS[0] in entry.raw and is_held(orjson.loads(entry.raw))
            for _, entry in self.instances.items()
        )

    def left(self, namespace: str) -> int:
        """How many (of a namespace, "" for all) no live binding covers, and carry something that
        goes with their binding."""
        coverage, api, connection = self._coverage(), self.scope.api.name, self.scope.connection
        return sum(
            namespace in ("", key.namespace)
            and not coverage.covers(api, key.namespace, connection)
            and any(mark in entry.raw for mark in _MARKS)
            and is_left(orjson.loads(entry.raw))
            for key, entry in self.instances.items()
        )

    def obstacle(self, namespace: str) -> str | None:
        """What failed for one of the instances (of a namespace, "" for all)."""
        found = (m.trouble for k, m in self._memories.items() if namespace in ("", k.namespace))
        return next((trouble for trouble in found if trouble is not None), None)

    def start(self) -> None:
        reflectors = (self._here, self._there)
        self._tasks = [asyncio.create_task(r.run()) for r in reflectors if r is not None]

    async def stop(self, grace: float) -> None:
        """Ends the watches, lets passes in flight finish within *grace* seconds."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._lane.close(grace)

    def touch(self, namespace: str = "") -> None:
        """Another look at all instances, or at those of one namespace."""
        if self._open:
            keys = self.instances.keys()
            self._lane.add_all([k for k in keys if namespace in ("", k.namespace)])

    def _changed(self, key: Key) -> None:
        if self._open:
            self._lane.add(key)

    def _state(self) -> None:
        if not self._open and self._seen():
            self._open = True
            self.touch()
            if not self.instances:
                self._idle()
        served = self._unserved is None
        if served and not self._served:
            # What the old API refused may fit the new one.
            for memory in self._memories.values():
                memory.retry_at = min(memory.retry_at, seconds())
            self.touch()
        self._served = served
        if isinstance(self._lost, LOST):
            self._hooks.on_lost(self.scope.connection)
        self._hooks.on_state(self.scope.api.name)

    def _seen(self) -> bool:
        """Whether what is missing in a cache is missing on its server. What the provider does not
        serve is not waited for: there nothing is concluded from the cache."""
        there = self._there
        known = there is None or there.synced.is_set() or isinstance(there.error, NotServed)
        return self._here.synced.is_set() and known

    def _idle(self) -> None:
        """Every instance that was due has been looked at."""
        if not self._complete:
            self._complete = True
            self._hooks.on_state(self.scope.api.name)
        self._lane.add_all(self._weighed())

    def _weighed(self) -> Collection[Key]:
        """The instances whose copies the brake lets go; what it holds is told."""
        before = self._sparing.question
        granted = self._sparing.weigh(len(self._copies), seconds())
        if self._sparing.question != before:
            self._hooks.on_braked(self.scope, self._sparing.question)
        return granted

    async def _turn(self, key: Key) -> float | None:
        entry = self.instances.get(key)
        if entry is None:
            self._memories.pop(key, None)
            self._sparing.forget(key)
            self._note(key, None, paused=False)
            return None
        memory = self._memories.get(key)
        if memory is None or memory.uid != entry.uid:
            memory = Memory(entry.uid)
        if memory.retry_at and memory.retry_at <= seconds():
            memory.retry_at = 0.0
            for step in SPEC_STEPS:
                memory.settled.pop(step, None)
        instance = orjson.loads(entry.raw)
        copy = self._copies.get(key)
        try:
            report = await self._passes.run(
                key,
                instance,
                None if copy is None else copy.raw,
                self._bound(key),
                memory,
                self._now(),
                unserved=self._unserved,
                ending=self._coverage().ending(self.scope.api.name, key.namespace),
                paused=self._paused(),
                sparing=self._sparing.spares(key),
            )
        except GuardViolation as error:
            log.error("a guard stopped a pass; please report it", key=str(key), error=str(error))
            return None
        except ExpressionFailed as error:
            memory.failures += 1
            self._memories[key] = memory
            log.warning("copying is not possible", key=str(key), error=str(error))
            return delay(memory.failures)
        self._sparing.note(key, report, seconds())
        self._learn(key, report, memory)
        again = due(report, memory, self._recheck)
        failed = report.batch.failed
        if failed is not None and isinstance(failed[1], LOST) and failed[1].side == Side.PROVIDER:
            self._hooks.on_lost(self.scope.connection)
        if memory == Memory(entry.uid):
            self._memories.pop(key, None)
        else:
            self._memories[key] = memory
        waits = report.plan.reason == words.Reason.PAUSED and is_paused(instance)
        self._note(key, report.batch.situation.refused, paused=waits)
        self._hooks.on_report(report)
        return again

    def _bound(self, key: Key) -> Bound | None:
        return self._coverage().covering(self.scope.api.name, key.namespace)

    def _learn(self, key: Key, report: Report, memory: Memory) -> None:
        """Servers' answers go into the caches, ahead of the watches that will repeat them."""
        sight = report.sight
        if sight is not None and sight.trouble is None:
            memory.doubt = False
            copy = sight.copy or {}
            labels = copy.get("metadata", {}).get("labels") or {}
            if sight.raw is not None and labels.get(words.CONSUMER) == self.scope.cluster:
                self._copies.learn(sight.raw)
        for side, answer in report.batch.answers:
            self._caches[side].learn(answer)
        instance = report.batch.situation.instance["metadata"]
        released = Step.RELEASE in report.plan.steps and not instance.get("finalizers")
        if released and instance.get("deletionTimestamp"):
            # It went with its last finalizer, and the answer still bears the version of before.
            self.instances.forget(key, instance["uid"])
        if report.batch.gone:
            memory.gone = True
            standing = self._copies.get(key)
            if standing is not None:
                self._copies.forget(key, standing.uid)

    def _note(self, key: Key, refused: str | None, *, paused: bool) -> None:
        """What bindings count."""
        if self.conflicts.get(key) == refused and (key in self.paused) is paused:
            return
        if refused is None:
            self.conflicts.pop(key, None)
        else:
            self.conflicts[key] = refused
        if paused:
            self.paused.add(key)
        else:
            self.paused.discard(key)
        self._hooks.on_state(self.scope.api.name)
