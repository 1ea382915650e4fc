"""A konnector that is led by hand, over drafts of both clusters, until nothing is left to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from kbind import words
from kbind.apis import CONNECTIONS, CRDS, Api, Key
from kbind.brake import is_confirmed
from kbind.cluster.cache import Cache, Entry, identify
from kbind.cluster.client import Client
from kbind.cluster.identity import identity
from kbind.cluster.kubeconfig import Credentials
from kbind.cluster.transport import Transport
from kbind.conditions import find
from kbind.cover import Ref
from kbind.errors import ClusterError, KbindError, NotFound, NotServed
from kbind.hooks import Sources
from kbind.jsons import encode
from kbind.konnector.agent import Konnector
from kbind.konnector.bindings import APIS
from kbind.konnector.connection import ConnectionRunner
from kbind.konnector.judging import Stop
from kbind.konnector.link import Link
from kbind.konnector.passes import Report
from kbind.konnector.shared import Settings, utc_now
from kbind.konnector.syncer import Syncer
from kbind.pausing import is_paused
from kbind.plan import Decision
from kbind.planning.draft import Draft
from kbind.planning.journal import Journal, Noting, current
from kbind.planning.served import Object, Place
from kbind.rulebook import Rulebook
from kbind.schema import connection_of
from kbind.steps import Side
from kbind.words import Condition

ROUNDS: Final = 50
"""Looks at everything until a plan is given up: rules that never come to rest."""

PASSES: Final = 10
"""Passes in a row over one instance."""

AT_ONCE: Final = 16
"""Passes at a time."""

Connect = Callable[[Credentials], Awaitable[Transport]]


class HandLedSyncer(Syncer):
    """Follows nothing: it lists once, is told by drafts, and makes a pass when it is asked to."""

    async def look(self, only: Key | None) -> None:
        """Reads both sides, or *only* one instance. Raises ClusterError where the consumer
        cannot be read; a provider that cannot is what passes then find."""
        if only is not None:
            path = self.scope.api.path(only)
            with suppress(NotFound):  # nothing held it
                self.instances.learn(await self._passes.clients[Side.CONSUMER].get(path))
            return
        await self._here.relist()
        if self._there is not None:
            try:
                await self._there.relist()
            except ClusterError as error:
                self._there.error = error
        self._open = self._seen()

    def weigh(self) -> Collection[Key]:
        """The instances whose copies the brake lets go, once all have been looked at."""
        self._complete = True
        return self._weighed()

    def touch(self, namespace: str = "") -> None:
        """Nothing: every round makes passes over everything."""

    def _changed(self, key: Key) -> None:
        """Nothing either."""

    def tell(self, side: Side, key: Key, before: Object | None, after: Object | None) -> None:
        """An object of either side has changed."""
        labels = ((after or {}).get("metadata") or {}).get("labels") or {}
        ours = side is Side.CONSUMER or labels.get(words.CONSUMER) == self.scope.cluster
        hear(self._caches[side], key, before, after if ours else None)

    async def settle(self, key: Key) -> None:
        """Passes over one instance until the next would wait for something."""
        for _ in range(PASSES):
            if await self._turn(key) != 0.0:
                return


class HandLedRunner(ConnectionRunner):
    """Makes a pass when it is asked to."""

    _stops: tuple[Stop, ...] = ()

    async def turn(self) -> None:
        """Raises ClusterError where the consumer cannot be read."""
        entry = self._shared.caches.connections.get(Key("", self.name))
        if entry is not None:
            await self._watched(orjson.loads(entry.raw)).look()
            await self._pass()

    async def _identify(self, link: Link, connection: Mapping[str, Any]) -> None:
        if len(self._stops) > 1:
            raise self._stops[-1]  # it was asked once more, and each time may take long
        try:
            await super()._identify(link, connection)
        except Stop as stop:
            self._stops += (stop,)
            raise

    def close(self) -> None:
        if self._secret is not None:
            self._secret.close()
        self._give_up()


class Rehearsal(Konnector):
    """Does what the konnector of this consumer would, on drafts.

    ready_before: the Connections that are Ready as things stand. refs, apis, connections: what the
    action or what follows from it concerns; apis by name, with the namespaces, "" for all; only:
    the one instance, where the action concerns no other. reports: the last pass over each
    instance; undone: what the cleanup table decided first, by binding and API.
    """

    _kind_of_syncer = HandLedSyncer

    def __init__(
        self,
        consumer: Transport,
        *,
        book: Rulebook,
        sources: Sources,
        connect: Connect,
    ) -> None:
        self.journal = Journal()
        self.draft = Draft(consumer, Side.CONSUMER, "", lambda: self.shared.timestamp(), self._hear)
        self.refs: set[Ref] = set()
        self.apis: dict[str, set[str]] = {}
        self.connections: set[str] = set()
        self.only: Key | None = None
        self.ready_before: set[str] = set()
        self.reports: dict[tuple[str, Key], Report] = {}
        self.undone: dict[tuple[Ref, str], Decision] = {}
        self._connect = connect
        self._led: dict[str, HandLedRunner] = {}
        super().__init__(
            Client(self.draft, side=Side.CONSUMER),
            book=Noting(book),
            sources=sources,
            connect=self._draft_of,
            settings=Settings(patience=0.0),
            now=utc_now,
            on_report=self._reported,
        )

    async def look(self) -> None:
        """Reads kbind's own objects. Raises KbindError."""
        shared = self.shared
        shared.cluster = await identity(shared.consumer)
        selector = f"{words.MANAGED}={words.TRUE}"
        for api, cache in self._own():
            follower = self._follow(
                api.path(), cache, lambda key: None, selector if api is CRDS else ""
            )
            try:
                await follower.relist()
            except NotServed as error:
                hint = "kbind crds | kubectl apply -f -"
                raise KbindError("the core CRDs are not on the consumer", hint=hint) from error
        for key in shared.caches.connections:
            connection = self.draft.standing(Place(words.GROUP, CONNECTIONS.plural, key))
            self._annotated(key.name, connection)
            ready = find(connection, Condition.READY)
            if ready is not None and ready["status"] == "True":
                self.ready_before.add(key.name)

    async def rest(self) -> None:
        """Goes on until nothing changes any more. Raises KbindError."""
        quiet = 0
        for _ in range(ROUNDS):
            before = self.journal.effects, self._extent()
            self._extend()
            for name in sorted(self.connections):
                await self._line(name)
            await self._follow_apis()
            for ref in sorted(self.refs):
                await self._binding(ref)
            for syncer in self.syncers.values():
                await self._passes(syncer)
            quiet = quiet + 1 if before == (self.journal.effects, self._extent()) else 0
            if quiet > 1:  # a provider that does not answer is asked once more
                return
        raise KbindError(f"no end of what follows was found in {ROUNDS} rounds")

    async def close(self) -> None:
        for runner in self._led.values():
            runner.close()
        await self._close_retired()
        await self.draft.close()

    # --- rounds ------------------------------------------------------------------------------

    def _extend(self) -> None:
        """What the bindings concerned list, and whom that concerns."""
        shared = self.shared
        for write in self.journal.writes:
            if write.place.group == words.GROUP and not write.is_trace:
                kind = next((k for k, api in APIS.items() if api.plural == write.place.plural), "")
                if kind:
                    self.concern(Ref(kind, write.place.key), write.before, write.after)
            if write.side is Side.CONSUMER and write.place.plural == CRDS.plural:
                self.concern_api(write.place.key.name)
        for name in self.apis:
            entry = shared.caches.crds.get(Key("", name))
            through = None if entry is None else connection_of(orjson.loads(entry.raw))
            bound = {each.connection for each in shared.coverage().listing(name)}
            self.connections |= bound | ({through} if through else set())

    def concern_api(self, name: str, namespace: str = "") -> None:
        """Instances of an API are concerned: of one namespace, or all of them."""
        self.apis.setdefault(name, set()).add(namespace)

    def _extent(self) -> int:
        return sum(len(namespaces) for namespaces in self.apis.values())

    def concern(self, ref: Ref, *versions: Object | None) -> None:
        """A binding is concerned, and what it lists in any of its versions."""
        self.refs.add(ref)
        for binding in versions:
            if binding is not None:
                for api in binding["spec"]["apis"]:
                    self.concern_api(api["name"], ref.key.namespace)
                self.connections.add(binding["spec"]["connectionRef"]["name"])

    def concern_connection(self, name: str) -> None:
        """A Connection that is created or changed concerns all bindings that refer to it."""
        self.connections.add(name)
        for ref in self.shared.all_bindings():
            binding = self.binding(ref)
            if binding is not None and binding["spec"]["connectionRef"]["name"] == name:
                self.concern(ref, binding)

    def users_of(self, secret: Key) -> list[str]:
        """The Connections that have their credentials from a Secret."""
        found = []
        for key in self.shared.caches.connections:
            connection = self.draft.standing(Place(words.GROUP, CONNECTIONS.plural, key))
            reference = (connection or {}).get("spec", {}).get("kubeconfigSecretRef") or {}
            if Key(reference.get("namespace", ""), reference.get("name", "")) == secret:
                found.append(key.name)
        return found

    def binding(self, ref: Ref) -> Object | None:
        """As it stands now."""
        api = APIS[ref.kind]
        return self.draft.standing(Place(api.group, api.plural, ref.key))

    async def _binding(self, ref: Ref) -> None:
        binding = self.binding(ref)
        with self.journal.turn() as turn:
            await self._binding_turn(ref)
        listed = [] if binding is None else [api["name"] for api in binding["spec"]["apis"]]
        cleanups = [decision for decision in turn.decisions if decision.table == "cleanup"]
        for api, decision in zip(listed, cleanups, strict=False):  # none of one that is paused
            self.undone.setdefault((ref, api), decision)

    async def _line(self, name: str) -> None:
        entry = self.shared.caches.connections.get(Key("", name))
        if entry is None:
            if name in self._led:
                self._led.pop(name).close()
            return
        if name not in self._led:
            self._led[name] = HandLedRunner(name, self.shared, lambda name: None)
        with self.journal.turn(name):
            await self._led[name].turn()

    async def _follow_apis(self) -> None:
        """Has a syncer for every API concerned that the konnector would have one for."""
        wishes = {name: wish for name, wish in self._wanted().items() if name in self.apis}
        for name in [name for name, wish in self._wishes.items() if wishes.get(name) != wish]:
            del self._wishes[name]
            del self.syncers[name]
        for name, wish in sorted(wishes.items()):
            if name not in self._wishes:
                syncer = self._syncer(wish)
                assert isinstance(syncer, HandLedSyncer)
                with self.journal.turn():
                    await syncer.look(self.only)
                self._wishes[name], self.syncers[name] = wish, syncer

    async def _passes(self, syncer: Syncer) -> None:
        assert isinstance(syncer, HandLedSyncer)
        room = asyncio.Semaphore(AT_ONCE)

        async def settle(key: Key) -> None:
            async with room:
                with self.journal.turn(syncer.scope.connection):
                    await syncer.settle(key)

        async def sweep(keys: Iterable[Key]) -> None:
            async with asyncio.TaskGroup() as group:
                for key in sorted(keys):
                    group.create_task(settle(key))

        reach = self.apis[syncer.scope.api.name]
        await sweep(k for k in syncer.instances if "" in reach or k.namespace in reach)
        await sweep(syncer.weigh())

    def _syncer_state(self, api: str) -> None:
        """Every round looks at every binding."""

    def _reported(self, report: Report) -> None:
        self.reports[report.scope.api.name, report.key] = report
        current().explain(report)

    # --- drafts ------------------------------------------------------------------------------

    async def _draft_of(self, credentials: Credentials) -> Transport:
        server = await self._connect(credentials)
        connection = current().connection
        return Draft(server, Side.PROVIDER, connection, self.shared.timestamp, self._hear)

    def _own(self) -> Iterator[tuple[Api, Cache]]:
        """What the konnector follows on the consumer from its start."""
        caches = self.shared.caches
        yield CONNECTIONS, caches.connections
        yield CRDS, caches.crds
        yield from ((APIS[kind], caches.of(kind)) for kind in APIS)

    def _hear(
        self, draft: Draft, place: Place, before: Object | None, after: Object | None
    ) -> None:
        """Caches are told what a watch would have told them."""
        if draft.side is Side.CONSUMER:
            self._hear_own(place, before, after)
        for name, syncer in self.syncers.items():
            mine = draft.connection in ("", syncer.scope.connection)
            if name == place.api and mine and isinstance(syncer, HandLedSyncer):
                syncer.tell(draft.side, place.key, before, after)

    def _hear_own(self, place: Place, before: Object | None, after: Object | None) -> None:
        for api, cache in self._own():
            if (api.group, api.plural) != (place.group, place.plural):
                continue
            labels = ((after or {}).get("metadata") or {}).get("labels") or {}
            shown = api is not CRDS or labels.get(words.MANAGED) == words.TRUE
            hear(cache, place.key, before, after if shown else None)
            self.shared.bindings_changed()
            if api is CONNECTIONS:
                self._annotated(place.key.name, after)

    def _annotated(self, name: str, connection: Object | None) -> None:
        if connection is not None:
            self._mark(self.shared.paused, name, is_paused(connection))
            self._mark(self.shared.confirmed, name, is_confirmed(connection))


def hear(cache: Cache, key: Key, before: Object | None, after: Object | None) -> None:
    """Tells a cache of a change as a watch would."""
    if after is not None:
        _, uid, version = identify(after)
        cache.observe(key, Entry(encode(after), uid, version))
    elif before is not None:
        _, uid, version = identify(before)
        cache.observe_deleted(key, uid, version)
