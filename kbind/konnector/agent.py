"""The konnector: follows kbind's own objects and runs what they ask for."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
import structlog

from kbind import words
from kbind.apis import BINDINGS, CLUSTER_BINDINGS, CONNECTIONS, CRDS, Key
from kbind.brake import is_confirmed, was_holding
from kbind.cluster.backoff import delay
from kbind.cluster.client import Client
from kbind.cluster.identity import identity
from kbind.cluster.kubeconfig import Credentials
from kbind.cluster.reflector import Reflector
from kbind.cluster.transport import Transport
from kbind.cover import Bound, Ref
from kbind.errors import ClusterError, NotServed
from kbind.hooks import Sources
from kbind.keeping import is_going, is_kept
from kbind.konnector.bindings import BindingStatuses
from kbind.konnector.connection import ConnectionRunner
from kbind.konnector.lane import Lane
from kbind.konnector.passes import Report
from kbind.konnector.shared import Settings, Shared, utc_now
from kbind.konnector.syncer import Hooks, Syncer
from kbind.konnector.unbinding import Unbinding
from kbind.konnector.wishes import Wish, wishes
from kbind.pausing import is_paused
from kbind.rulebook import Rulebook
from kbind.situation import Scope

log = structlog.get_logger(__name__)

# Seconds that passes in flight are given when their syncer ends: of one Connection, which may be
# dead, while others wait for their start; or of all, at the end.
DISENGAGE = 1.0
SHUTDOWN = 5.0


@dataclass(frozen=True, slots=True)
class Running:
    """The runner of one Connection, which is this very object: a list may show one that was
    made anew under its name. uid: of the Connection."""

    uid: str
    runner: ConnectionRunner
    task: asyncio.Task[None]


class Konnector:
    """One agent beside one consumer cluster. ``run`` does everything; the rest is for those who
    watch it: ``ready``, ``shared``, ``syncers``."""

    _kind_of_syncer: type[Syncer] = Syncer

    def __init__(
        self,
        consumer: Client,
        *,
        book: Rulebook,
        sources: Sources,
        connect: Callable[[Credentials], Awaitable[Transport]],
        settings: Settings | None = None,
        now: Callable[[], datetime] = utc_now,
        on_report: Callable[[Report], None] = lambda report: None,
    ) -> None:
        self.shared = Shared(
            consumer, "", book, sources, connect, settings or Settings(), now, on_report
        )
        self.syncers: dict[str, Syncer] = {}
        self._wishes: dict[str, Wish] = {}
        self._runners: dict[str, Running] = {}
        self._known: dict[Ref, Bound] = {}
        self.shared.held = self._held
        self._statuses = BindingStatuses(self.shared, self.syncers)
        self._unbinding = Unbinding(self.shared, self.syncers, self._wake)
        self._bindings: Lane[Ref] = Lane(self._binding_turn)
        self._unwritten: Counter[Ref] = Counter()  # failures in a row
        self._syncer_work = asyncio.Event()
        self._reflectors: list[Reflector] = []

    @property
    def ready(self) -> bool:
        """Whether kbind's own objects have all been seen."""
        return bool(self._reflectors) and all(r.synced.is_set() for r in self._reflectors)

    async def run(self) -> None:
        """Until cancelled; then everything is stopped in order within some seconds."""
        self.shared.cluster = await self._identity()
        caches = self.shared.caches
        self._reflectors = [
            self._follow(CONNECTIONS.path(), caches.connections, self._connection_changed),
            self._follow(
                CLUSTER_BINDINGS.path(),
                caches.cluster_bindings,
                lambda key: self._binding_changed(Ref("ClusterBinding", key)),
            ),
            self._follow(
                BINDINGS.path(),
                caches.bindings,
                lambda key: self._binding_changed(Ref("Binding", key)),
            ),
            self._follow(
                CRDS.path(), caches.crds, self._crd_changed, f"{words.MANAGED}={words.TRUE}"
            ),
        ]
        tasks = [asyncio.create_task(reflector.run()) for reflector in self._reflectors]
        tasks.append(asyncio.create_task(self._keep_syncers()))
        tasks.append(asyncio.create_task(self._backstop()))
        try:
            await asyncio.gather(*tasks)
        finally:
            await self._stop(tasks)

    async def _identity(self) -> str:
        attempt = 0
        while True:
            try:
                return await identity(self.shared.consumer)
            except ClusterError as error:
                attempt += 1
                log.warning("the consumer's identity cannot be read yet", error=str(error))
                await asyncio.sleep(delay(attempt))

    def _follow(
        self, path: str, cache: Any, on_change: Callable[[Key], None], selector: str = ""
    ) -> Reflector:
        return Reflector(
            self.shared.consumer,
            path,
            cache,
            label_selector=selector,
            on_change=on_change,
            on_state=self._opened,
        )

    async def _stop(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(
            self._bindings.close(SHUTDOWN),
            *(syncer.stop(SHUTDOWN) for syncer in self.syncers.values()),
        )
        # Lines go last: passes in flight still used them.
        runners = [running.task for running in self._runners.values()]
        for task in runners:
            task.cancel()
        await asyncio.gather(*runners, return_exceptions=True)
        await self._close_retired()

    async def _close_retired(self) -> None:
        while self.shared.retired:
            # It stays in the list until it is closed: this may be cancelled half way.
            client = self.shared.retired[-1]
            await client.close()
            if client in self.shared.retired:
                self.shared.retired.remove(client)

    # --- what changes on the consumer --------------------------------------------------------

    def _opened(self) -> None:
        """Once all own objects have been seen, everything is looked at."""
        if not self.ready:
            if any(isinstance(r.error, NotServed) for r in self._reflectors):
                log.warning("the core CRDs are missing: kbind crds | kubectl apply -f -")
            return
        for key in self.shared.caches.connections:
            self._connection_changed(key)
        for ref in self.shared.all_bindings():
            self._binding_changed(ref)
        self._syncer_work.set()

    def _connection_changed(self, key: Key) -> None:
        if not self.ready:
            return
        entry = self.shared.caches.connections.get(key)
        connection = None if entry is None else orjson.loads(entry.raw)
        live = connection is not None and _is_wanted(connection)
        if connection is not None:  # one that is gone leaves its syncers as they are, to end
            self._mark(self.shared.paused, key.name, is_paused(connection))
            self._mark(self.shared.confirmed, key.name, is_confirmed(connection))
        running = self._runners.get(key.name)
        if running is not None and not (live and entry is not None and entry.uid == running.uid):
            del self._runners[key.name]
            running.task.cancel()
            running = None
        if running is not None:
            running.runner.wake()
        elif live and entry is not None:
            runner = ConnectionRunner(key.name, self.shared, self._line_changed)
            task = asyncio.create_task(runner.run())
            self._runners[key.name] = Running(entry.uid, runner, task)
        self._line_changed(key.name)

    def _mark(self, marked: set[str], connection: str, asked: bool) -> None:
        """An annotation of a Connection that its syncers look at."""
        if asked is (connection in marked):
            return
        marked ^= {connection}
        log.info(
            "a connection's annotations changed",
            connection=connection,
            paused=connection in self.shared.paused,
            confirmed=connection in self.shared.confirmed,
        )
        for api, wish in self._wishes.items():
            if wish.connection == connection:
                self.syncers[api].touch()

    def _wake(self, connection: str) -> None:
        running = self._runners.get(connection)
        if running is not None:
            running.runner.wake()

    def _line_changed(self, connection: str) -> None:
        """A Connection's line or what it delivered may have changed."""
        self._syncer_work.set()
        self._bindings.add_all(
            ref
            for ref in self.shared.all_bindings()
            if (bound := self._known.get(ref)) is None or bound.connection == connection
        )

    def _binding_changed(self, ref: Ref) -> None:
        self.shared.bindings_changed()
        if not self.ready:
            return
        before, after = self._known.pop(ref, None), self.shared.bound(ref)
        if after is not None:
            self._known[ref] = after
        self._bindings.add(ref)
        if ref.key not in self.shared.caches.of(ref.kind):
            for running in self._runners.values():
                running.runner.wake()  # one that is being deleted may have waited for it
        if before == after:
            return
        if ref.kind == "ClusterBinding":
            self._wake(ref.key.name)  # autoBind's has the Connection's name
        for bound in (before, after):
            if bound is None:
                continue
            self._wake(bound.connection)
            for api in bound.apis:
                if api in self.syncers:
                    self.syncers[api].touch(bound.ref.key.namespace)

    def _crd_changed(self, key: Key) -> None:
        if not self.ready:
            return
        self._syncer_work.set()
        for bound in self.shared.coverage().listing(key.name):
            self._bindings.add(bound.ref)
            self._wake(bound.connection)

    async def _binding_turn(self, ref: Ref) -> float | None:
        entry = self.shared.caches.of(ref.kind).get(ref.key)
        binding = None if entry is None else orjson.loads(entry.raw)
        if binding is None:
            self._unbinding.forget(ref)
            return None
        try:
            if is_going(binding):
                again = await self._unbinding.undo(ref, binding)
            elif await self._unbinding.keep(ref, binding):
                again = await self._statuses.turn(ref, binding)
            else:
                again = None  # the event of its finalizer brings it back
        except ClusterError as error:
            self._unwritten[ref] += 1
            log.info("a binding's status was not written", binding=str(ref), error=str(error))
            return delay(self._unwritten[ref], cap=words.PERIOD)
        self._unwritten.pop(ref, None)
        return again

    # --- syncers -----------------------------------------------------------------------------

    async def _keep_syncers(self) -> None:
        """Starts and stops syncers as CRDs and lines come and go."""
        while True:
            await self._syncer_work.wait()
            self._syncer_work.clear()
            try:
                await self._adjust(self._wanted())
            except Exception:
                log.exception("syncers were not adjusted; please report it")

    async def _adjust(self, wishes: Mapping[str, Wish]) -> None:
        ending = []
        for name, wish in list(self._wishes.items()):
            if wishes.get(name) != wish:
                del self._wishes[name]
                syncer = self.syncers.pop(name)
                self._braked(syncer.scope, None)
                ending.append(syncer.stop(DISENGAGE))
                if wish.provider is not None:
                    log.info("syncing stopped", api=name, connection=wish.connection)
        await asyncio.gather(*ending)
        await self._close_retired()
        for name, wish in wishes.items():
            if name not in self._wishes:
                self._wishes[name] = wish
                self.syncers[name] = self._syncer(wish)
                self.syncers[name].start()
                if wish.provider is not None:
                    log.info("syncing started", api=name, connection=wish.connection)

    def _wanted(self) -> dict[str, Wish]:
        return wishes(self.shared, self._statuses.is_down)

    def _syncer(self, wish: Wish) -> Syncer:
        shared = self.shared
        return self._kind_of_syncer(
            shared.scope(wish.served, wish.connection, fits=wish.fits),
            consumer=shared.consumer,
            provider=wish.provider,
            book=shared.book,
            coverage=shared.coverage,
            paused=lambda: wish.connection in shared.paused,
            confirmed=lambda: wish.connection in shared.confirmed,
            brake=shared.settings.brake,
            braked=self._was_braked(wish),
            now=shared.timestamp,
            recheck=shared.settings.recheck,
            hooks=Hooks(self._syncer_state, shared.on_report, self._lost, self._braked),
        )

    def _was_braked(self, wish: Wish) -> bool:
        connection = self.shared.connection(wish.connection)
        return connection is not None and was_holding(connection, wish.served.api.name)

    def _syncer_state(self, api: str) -> None:
        for bound in self.shared.coverage().listing(api):
            # Gathered, so that a burst of conflicts is one write of the count.
            self._bindings.add_after(bound.ref, 0.5)

    def _held(self, api: str) -> int:
        syncer = self.syncers.get(api)
        return 0 if syncer is None else syncer.held()

    def _braked(self, scope: Scope, question: str | None) -> None:
        link, api = self.shared.links.get(scope.connection), scope.api.name
        if link is None or link.braked.get(api) == question:
            return
        if question is None:
            del link.braked[api]
        else:
            if api not in link.braked:
                log.warning("a brake holds copies", api=api, question=question)
            link.braked[api] = question
        self._wake(scope.connection)

    def _lost(self, connection: str) -> None:
        running = self._runners.get(connection)
        if running is not None:
            running.runner.lost()

    async def _backstop(self) -> None:
        """A pass over everything that is cached: no requests where all is well."""
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(words.BACKSTOP)
                for syncer in self.syncers.values():
                    syncer.touch()


def _is_wanted(connection: Mapping[str, Any]) -> bool:
    """Whether a Connection has a runner: one that is being deleted, for as long as it is held."""
    return not is_going(connection) or is_kept(connection)
