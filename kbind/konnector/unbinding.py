"""Bindings are kept before anything is done for them, and undone when they are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import orjson
import structlog

from kbind import keeping
from kbind.apis import CRDS, Key
from kbind.conditions import Judgement, judged
from kbind.cover import Ending, Ref
from kbind.errors import Conflict, Forbidden, NotFound
from kbind.facts import BindingKind, Cover, Life, Pause, Provider, Some, Standing, Undoing
from kbind.konnector import status as statuses
from kbind.konnector.bindings import APIS
from kbind.konnector.passes import decide
from kbind.konnector.reader import Reader
from kbind.konnector.shared import Shared
from kbind.observe import instance as observe
from kbind.pausing import heeded, is_paused
from kbind.perform import perform, send
from kbind.schema import connection_of, is_managed, served
from kbind.situation import Scope, Situation
from kbind.steps import Side, Step
from kbind.words import PERIOD, Condition, Reason

log = structlog.get_logger(__name__)

LOOK = 1.0  # seconds between two looks at what is left
TELL = 5.0  # seconds between two writes of the progress
NAMED = 10  # instances whose copies an Event names


class RunningSyncer(Protocol):
    """What an unbinding needs of the syncer of one of its APIs."""

    @property
    def follows(self) -> bool: ...
    @property
    def reaches(self) -> bool: ...
    def left(self, namespace: str = "") -> int: ...
    def touch(self, namespace: str = "") -> None: ...


class Unbinding:
    """syncers: what runs now, by API name."""

    def __init__(self, shared: Shared, syncers: Mapping[str, RunningSyncer]) -> None:
        self._shared = shared
        self._syncers = syncers
        self._most: dict[tuple[Ref, str], int] = {}  # instances that were left when it began
        self._silent: dict[tuple[Ref, str], float] = {}  # since when the provider is
        self._told: dict[Ref, float] = {}

    async def keep(self, ref: Ref, binding: Mapping[str, Any]) -> bool:
        """Whether our finalizer stands on a live binding. Where it does not, it is added, and an
        event will tell of that; while the binding is paused nothing is done for it that would need
        one. Raises ClusterError."""
        if self._is_paused(binding):
            return True
        await self._carry_out(ref, binding, Life.ALIVE, Some.NONE)
        return keeping.is_kept(binding)

    async def undo(self, ref: Ref, binding: Mapping[str, Any]) -> float | None:
        """One look at a binding that is being deleted; seconds until the next. Raises
        ClusterError."""
        if not keeping.is_kept(binding):
            self.forget(ref)
            return None
        if self._is_paused(binding):
            await self._tell(ref, binding, Reason.PAUSED, "paused, so its deletion waits")
            return PERIOD
        left = []
        for each in binding["spec"]["apis"]:
            text = await self._undo(ref, binding, each["name"])
            if text is not None:
                left.append(text)
        reason = await self._carry_out(
            ref, binding, Life.DELETING, Some.SOME if left else Some.NONE
        )
        if reason is None:
            self.forget(ref)
            return None
        await self._tell(ref, binding, reason, "; ".join(left))
        return LOOK

    def _is_paused(self, binding: Mapping[str, Any]) -> bool:
        connection = binding["spec"]["connectionRef"]["name"]
        own = is_paused(binding) and heeded(self._shared.book, Pause.BINDING)
        return own or self._shared.holds(connection)

    async def _carry_out(
        self, ref: Ref, binding: Mapping[str, Any], life: Life, left: Some
    ) -> str | None:
        decision = self._shared.book.decide("binding", {"life": life, "left": left})
        for step in decision.steps or ():
            make = keeping.keep if step is Step.KEEP else keeping.free
            call = make(step, APIS[ref.kind], binding)
            if call is not None:
                await send(call, self._shared.consumer)
        return decision.reason

    async def _undo(self, ref: Ref, binding: Mapping[str, Any], api: str) -> str | None:
        """What is left to undo of one API; None where nothing is."""
        key, connection = (ref, api), binding["spec"]["connectionRef"]["name"]
        crd = await self._definition(api)
        standing = _standing(crd, connection)
        ours = crd if standing in (Standing.HERE, Standing.GOING) else None
        others = any(bound.ref != ref for bound in self._shared.coverage().listing(api))
        count = 0 if ours is None or others else await self._left(api, ours, ref.key.namespace)
        provider = self._provider(key, connection)
        if count and provider is None:
            return f"{api}: waiting for the provider; {count} instances left"
        decision = self._shared.book.decide(
            "cleanup",
            {
                "kind": BindingKind(ref.kind),
                "others": Some.SOME if others else Some.NONE,
                "provider": provider or Provider.REACHABLE,
                "standing": standing,
                "instances": Some.SOME if count else Some.NONE,
            },
        )
        most = self._most[key] = max(count, self._most.get(key, 0))
        text = f"{api}: {count} of {most} instances left"
        if decision.verdict == Undoing.UNBIND:
            self._end(key, Cover.UNBINDING)
            return text
        if decision.verdict == Undoing.ABANDON and ours is not None:
            begun = self._shared.endings.get(key)
            if begun is None or begun.cover is not Cover.ABANDONED:
                await self._tell_left(ref, binding, api, ours)
            self._end(key, Cover.ABANDONED)
            await self._abandon(ref, connection, ours)
            return text
        for _ in decision.steps or ():
            if ours is not None:
                await self._remove(ours)
                return f"{api}: its definition is being deleted"
        return None

    def _end(self, key: tuple[Ref, str], cover: Cover) -> None:
        ending = Ending(*key, cover)
        if self._shared.endings.get(key) != ending:
            self._shared.endings[key] = ending
            self._shared.bindings_changed()
            if key[1] in self._syncers:
                self._syncers[key[1]].touch(key[0].key.namespace)

    def forget(self, ref: Ref) -> None:
        """A binding that is there no longer, or has nothing to undo."""
        self._told.pop(ref, None)
        for kept in (self._most, self._silent, self._shared.endings):
            for key in [key for key in kept if key[0] == ref]:
                del kept[key]
        self._shared.bindings_changed()

    # --- what is known -----------------------------------------------------------------------

    async def _definition(self, api: str) -> dict[str, Any] | None:
        entry = self._shared.caches.crds.get(Key("", api))
        if entry is not None:
            found: dict[str, Any] = orjson.loads(entry.raw)
            return found
        try:
            return await self._shared.consumer.read(CRDS.path(Key("", api)))
        except NotFound:
            return None

    def _provider(self, key: tuple[Ref, str], connection: str) -> Provider | None:
        """Whether the provider can be asked; None where that is not certain yet."""
        syncer = self._syncers.get(key[1])
        if syncer is not None and syncer.reaches:
            self._silent.pop(key, None)
            return Provider.REACHABLE
        now = asyncio.get_running_loop().time()
        since = self._silent.setdefault(key, now)
        lasting = now - since >= self._shared.settings.patience
        return Provider.UNREACHABLE if lasting or self._hopeless(connection) else None

    def _hopeless(self, connection: str) -> bool:
        """Whether there are no credentials to ask a provider with. What the Connection's status
        says may be of another time."""
        return (
            Key("", connection) not in self._shared.caches.connections
            or connection in self._shared.penniless
        )

    async def _left(self, api: str, crd: Mapping[str, Any], namespace: str) -> int:
        syncer = self._syncers.get(api)
        if syncer is not None and syncer.follows:
            return syncer.left(namespace)
        return len([each async for each in self._instances(crd, namespace)])

    async def _instances(
        self, crd: Mapping[str, Any], namespace: str
    ) -> AsyncIterator[dict[str, Any]]:
        """Those with something left to undo, page by page, from the server."""
        how = served(crd)
        if how is None:
            return
        path = how.api.collection(namespace)
        async for item in Reader(self._shared.consumer).items(path):
            if keeping.is_left(item):
                yield item

    # --- what is done ------------------------------------------------------------------------

    async def _tell_left(
        self, ref: Ref, binding: Mapping[str, Any], api: str, crd: Mapping[str, Any]
    ) -> None:
        """Whose copies may remain on the provider, in an Event and in the log."""
        held = [
            str(Key.of(each))
            async for each in self._instances(crd, ref.key.namespace)
            if keeping.is_held(each)
        ]
        if not held:
            return
        more = f" and {len(held) - NAMED} more" if len(held) > NAMED else ""
        message = (
            f"the provider cannot be reached, so copies of {api} may remain there: "
            f"{', '.join(held[:NAMED])}{more}"
        )
        log.warning("copies may remain on the provider", binding=str(ref), api=api, copies=held)
        call = keeping.left(APIS[ref.kind], binding, message, self._shared.timestamp())
        try:
            await send(call, self._shared.consumer)
        except (Conflict, Forbidden):
            return  # said already, or nothing can be said in a namespace that is going

    async def _abandon(self, ref: Ref, connection: str, crd: Mapping[str, Any]) -> None:
        """Lets the instances go without a look at the provider."""
        how = served(crd)
        if how is None:
            return
        shared = self._shared
        scope = Scope(
            how.api,
            connection,
            shared.cluster,
            shared.book.copying,
            how.status_subresource,
            how.keeps_synced,
            True,
        )
        writers = {Side.CONSUMER: shared.consumer}
        async for instance in self._instances(crd, ref.key.namespace):
            situation = Situation(scope, Key.of(instance), instance, shared.timestamp())
            facts = observe.duty_facts(
                instance, None, scope.connection, Cover.ABANDONED, paused=False
            )
            decision = decide(shared.book, "duty", facts, situation)
            await perform(decision.steps or (), situation, writers, {})

    async def _remove(self, crd: Mapping[str, Any]) -> None:
        try:
            await send(keeping.remove(crd), self._shared.consumer)
        except (Conflict, NotFound):
            return  # gone, or another one by now: the next look tells

    async def _tell(self, ref: Ref, binding: Mapping[str, Any], reason: str, message: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told.get(ref, -TELL) < TELL:
            return
        self._told[ref] = now
        standing = binding.get("status") or {}
        generation = binding["metadata"].get("generation", 1)
        conditions = judged(
            [Judgement(Condition.READY, "False", reason, message)],
            standing.get("conditions") or (),
            generation=generation,
            now=self._shared.timestamp(),
        )
        status = {**standing, "observedGeneration": generation, "conditions": conditions}
        cache = self._shared.caches.of(ref.kind)
        await statuses.write(self._shared.consumer, APIS[ref.kind], cache, binding, status)


def _standing(crd: Mapping[str, Any] | None, connection: str) -> Standing:
    if crd is None:
        return Standing.ABSENT
    if not is_managed(crd):
        return Standing.UNMANAGED
    if connection_of(crd) != connection:
        return Standing.ELSEWHERE
    return Standing.GOING if crd["metadata"].get("deletionTimestamp") else Standing.HERE
