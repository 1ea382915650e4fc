"""Bindings are kept before anything is done for them, and undone when they are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
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
from kbind.konnector.silence import Silence
from kbind.observe import instance as observe
from kbind.pausing import heeded, is_paused
from kbind.perform import perform, send
from kbind.schema import connection_of, is_managed, served
from kbind.situation import Situation
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
    def passes(self) -> bool: ...
    @property
    def reaches(self) -> bool: ...
    def left(self, namespace: str) -> int: ...
    def obstacle(self, namespace: str) -> str | None: ...
    def touch(self, namespace: str = "") -> None: ...


class Unbinding:
    """syncers: what runs now, by API name. wake: has a Connection look at its provider soon."""

    def __init__(
        self,
        shared: Shared,
        syncers: Mapping[str, RunningSyncer],
        wake: Callable[[str], None],
    ) -> None:
        self._shared = shared
        self._syncers = syncers
        self._silence = Silence(shared, wake)
        self._most: dict[tuple[Ref, str], int] = {}  # instances that were left when it began
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
        count = 0 if ours is None else await self._left(ref, connection, ours)
        syncer = self._syncers.get(api)
        reaches = syncer is not None and syncer.reaches
        provider = self._silence.provider(key, connection, reaches=reaches)
        # Where it is not certain yet, the rules say whether that has to be waited for.
        decision = self._shared.book.decide(
            "cleanup",
            {
                "kind": BindingKind(ref.kind),
                "others": Some.SOME if others else Some.NONE,
                "provider": provider or Provider.REACHABLE,
                "standing": standing,
                "instances": Some.NONE if count == 0 else Some.SOME,
            },
        )
        if count is None and decision.verdict != Undoing.DONE:
            return f"{api}: its CRD serves no version, so its instances cannot be looked at"
        count = count or 0
        if decision.verdict == Undoing.UNBIND and provider is None:
            return f"{api}: waiting for the provider; {count} instances left"
        most = self._most[key] = max(count, self._most.get(key, 0))
        text = f"{api}: {count} of {most} instances left"
        if decision.verdict == Undoing.UNBIND:
            self._end(key, Cover.UNBINDING)
            obstacle = None if syncer is None else syncer.obstacle(ref.key.namespace)
            return text if obstacle is None else f"{text}; {obstacle}"
        if decision.verdict == Undoing.ABANDON and ours is not None:
            begun = self._shared.endings.get(key)
            if begun is None or begun.cover is not Cover.ABANDONED:
                await self._tell_left(ref, binding, connection, ours)
            self._end(key, Cover.ABANDONED)
            if syncer is None or not syncer.passes:
                await self._abandon(ref, connection, ours)
            return text
        self._end(key, None)
        for _ in decision.steps or ():
            if ours is not None:
                await self._remove(ours)
                return f"{api}: its definition is being deleted"
        return None

    def _end(self, key: tuple[Ref, str], cover: Cover | None) -> None:
        """cover: what the instances have that no live binding covers; None where they are let go no
        longer."""
        ending = None if cover is None else Ending(*key, cover)
        if self._shared.endings.get(key) == ending:
            return
        self._shared.bindings_changed()
        if ending is None:
            del self._shared.endings[key]
            return
        self._shared.endings[key] = ending
        if key[1] in self._syncers:
            self._syncers[key[1]].touch(key[0].key.namespace)

    def forget(self, ref: Ref) -> None:
        """A binding that is there no longer, or has nothing to undo."""
        self._told.pop(ref, None)
        self._silence.forget(ref)
        for kept in (self._most, self._shared.endings):
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

    async def _left(self, ref: Ref, connection: str, crd: Mapping[str, Any]) -> int | None:
        """How many instances carry something to undo that no live binding covers; None where
        nobody can tell."""
        if served(crd) is None:
            return None
        syncer = self._syncers.get(crd["metadata"]["name"])
        if syncer is not None and syncer.follows:
            return syncer.left(ref.key.namespace)
        return len([each async for each in self._instances(ref, connection, crd)])

    async def _instances(
        self, ref: Ref, connection: str, crd: Mapping[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """Those instances, page by page, from the server."""
        how = served(crd)
        if how is None:
            return
        path = how.api.collection(ref.key.namespace)
        async for item in Reader(self._shared.consumer).items(path):
            namespace = item["metadata"].get("namespace", "")
            coverage = self._shared.coverage()
            covered = coverage.covers(how.api.name, namespace, connection)
            if keeping.is_left(item) and not covered:
                yield item

    # --- what is done ------------------------------------------------------------------------

    async def _tell_left(
        self, ref: Ref, binding: Mapping[str, Any], connection: str, crd: Mapping[str, Any]
    ) -> None:
        """Whose copies may remain on the provider, in an Event and in the log."""
        api = crd["metadata"]["name"]
        held = [
            str(Key.of(each))
            async for each in self._instances(ref, connection, crd)
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
        """Lets the instances go without a look at the provider, where no passes do that."""
        how = served(crd)
        if how is None:
            return
        shared = self._shared
        scope = shared.scope(how, connection)
        writers = {Side.CONSUMER: shared.consumer}
        async for instance in self._instances(ref, connection, crd):
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
    return Standing.GOING if keeping.is_going(crd) else Standing.HERE
