"""The heartbeat over one line to a provider: a Lease, renewed once a period at most.

Best effort, in a task of its own: no pass and no syncer waits for it, and a failure is told on the
Connection and changes nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import orjson
import structlog

from kbind import heartbeat
from kbind.apis import LEASES, NAMESPACES
from kbind.cluster.client import Client
from kbind.errors import (
    Conflict,
    Forbidden,
    KbindError,
    NotFound,
    ServerFailed,
    Throttled,
    Unreachable,
)

log = structlog.get_logger(__name__)

FIRST_LOOK = 2.0  # seconds that the first pass waits for what becomes of the first beat

_PASSING = (Unreachable, ServerFailed, Throttled)


class Heartbeat:
    """connection: its name; cluster: the consumer's UID; namespace: of the kubeconfig's context;
    interval: seconds between two writes at least; on_change: called when ``note`` has changed
    behind a pass's back.

    note: what the Connection should say of the heartbeat and of the provider's clock, "" where
    all is well.
    """

    def __init__(
        self,
        client: Client,
        connection: str,
        cluster: str,
        namespace: str | None,
        *,
        interval: float,
        now: Callable[[], datetime],
        on_change: Callable[[], None],
    ) -> None:
        self.note = ""
        self._client = client
        self._connection = connection
        self._cluster = cluster
        self._key = heartbeat.key(connection, cluster, namespace)
        self._interval = interval
        self._now = now
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._standing: dict[str, Any] | None = None
        self._due = self._loop.time()
        self._worked = False
        self._trouble: KbindError | None = None
        self._skew = 0
        self._known = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def passed(self) -> None:
        """A pass has succeeded, so there may be another beat once it is due. Only the first time
        this waits, for a moment, so that a restart finds the same to say as before."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._next())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK):
                await self._known.wait()

    def stop(self) -> None:
        """No beat until another pass has succeeded."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _next(self) -> None:
        written = False
        while not written:
            await asyncio.sleep(max(self._due - self._loop.time(), 0))
            began = self._loop.time()
            trouble: KbindError | None = None
            try:
                written = await self._beat()
            except KbindError as error:
                trouble, written = error, True
            except Exception as error:
                log.exception("a heartbeat broke; please report it", connection=self._connection)
                message = f"{type(error).__name__}; the konnector's log has more"
                trouble, written = KbindError(message), True
            if written:
                self._rest(self._interval)
            self._tell(trouble, began)

    def _rest(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds

    async def _beat(self) -> bool:
        """Whether the Lease was written; else it was, by somebody as us, and is due later. Raises
        KbindError."""
        if self._standing is not None:
            with contextlib.suppress(Conflict, NotFound):  # changed or deleted: looked at anew
                await self._renew(self._standing)
                return True
            self._standing = None
        found = await self._look()
        if found is None:
            await self._create()
            return True
        if pause := heartbeat.rest(found, self._interval, self._now()):
            self._standing = found
            self._rest(pause)
            return False
        await self._renew(found)
        return True

    async def _look(self) -> dict[str, Any] | None:
        try:
            found = await self._client.read(LEASES.path(self._key))
        except NotFound:
            return None
        if not heartbeat.is_ours(found, self._connection, self._cluster):
            raise KbindError(
                f"Lease {self._key} is somebody else's, by its holderIdentity or annotations, "
                "and is left alone; delete it to make room"
            )
        return found

    def _lease(self) -> dict[str, Any]:
        return heartbeat.lease(self._key, self._connection, self._cluster, self._now())

    async def _renew(self, standing: dict[str, Any]) -> None:
        self._rest(self._interval)  # for where this is cancelled half way
        body = orjson.dumps(heartbeat.renewed(standing, self._lease()))
        self._standing = orjson.loads(await self._client.replace(LEASES.path(self._key), body))

    async def _create(self) -> None:
        self._rest(self._interval)
        path, body = LEASES.collection(self._key.namespace), orjson.dumps(self._lease())
        try:
            answer = await self._client.create(path, body)
        except NotFound as error:
            await self._make_namespace(error)
            answer = await self._client.create(path, body)
        self._standing = orjson.loads(answer)

    async def _make_namespace(self, missing: NotFound) -> None:
        """As for copies. Raises *missing* where that is not allowed: it names the namespace."""
        body = {
            "apiVersion": NAMESPACES.api_version,
            "kind": NAMESPACES.kind,
            "metadata": {"name": self._key.namespace},
        }
        try:
            await self._client.create(NAMESPACES.collection(""), orjson.dumps(body))
        except Conflict:
            pass  # somebody was faster
        except Forbidden:
            raise missing from None

    # --- what is told ------------------------------------------------------------------------

    def _tell(self, trouble: KbindError | None, began: float) -> None:
        # One failure of a server between two beats that work is not worth a word, and servers
        # that go on failing do so in ever other words: those that were told first stand.
        if not (isinstance(trouble, _PASSING) and (self._worked or self._trouble)):
            self._trouble = trouble
        self._worked = trouble is None
        self._measure(began)
        failed = f"the heartbeat fails: {self._trouble}" if self._trouble else ""
        note = "; ".join(filter(None, (failed, heartbeat.skew_note(self._skew))))
        if note != self.note:
            self.note = note
            log.info("heartbeat", connection=self._connection, note=note or "all is well")
            if self._known.is_set():
                self._on_change()
        self._known.set()

    def _measure(self, began: float) -> None:
        """Compares the clocks, by an answer that came since *began*."""
        dated = self._client.dated
        if dated is None or dated.sent < began:
            return
        now, at = self._now(), self._loop.time()
        measured = heartbeat.skew(
            dated.date,
            now - timedelta(seconds=at - dated.sent),
            now - timedelta(seconds=at - dated.received),
        )
        if measured is not None:
            self._skew = heartbeat.told_skew(self._skew, measured)
