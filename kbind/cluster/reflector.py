"""Keeps a cache equal to a collection, by list and watch."""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Final

import structlog

from kbind.apis import Key
from kbind.cluster.answers import explain
from kbind.cluster.backoff import delay
from kbind.cluster.cache import Cache, Entry, identify, is_status
from kbind.cluster.client import Client
from kbind.cluster.transport import AnswerTooLong
from kbind.cluster.wire import Event, LineTooLong, Malformed, TooDeep, event, lines, page
from kbind.errors import (
    ClusterError,
    Forbidden,
    Gone,
    ServerFailed,
    Throttled,
    Unauthorized,
    Unreachable,
)
from kbind.jsons import encode

log = structlog.get_logger(__name__)

WATCH_SECONDS: Final = (240, 480)
"""How long a watch is asked to last, drawn anew each time so that watches do not end together."""

SILENCE: Final = 90.0
"""Seconds without a byte until the peer counts as dead. A server sends a bookmark about once a
minute however quiet the collection is; one that sends none costs a new watch each time."""

STEADY: Final = 10.0
"""Seconds after which a watch has proved itself: its end, however it came, is no failure."""

LIST_TIMEOUT: Final = 30.0
"""Seconds for one page."""

BACKOFF_CAP: Final = 30.0
"""Seconds between attempts at most: a server that heals is followed again within them."""

_AS: Final = "application/json;as={};g=meta.k8s.io;v=v1"

_STILL_VALID: Final = (Unreachable, Unauthorized, Forbidden, Throttled)
"""Failures after which the watch may go on from where it stood; others list again."""


class Reflector:
    """Follows one collection.

    path: of the collection; on_change: called with each key that is new, changed or gone, unless
    the cache had learned it already; page: objects a page; on_state: called when ``synced`` or
    ``error`` has changed; silence: see ``SILENCE``.

    Lists are consistent and paged. ``resourceVersion=0`` would be quicker, but servers ignore
    the page size with it, and the answer may be older than what is known here: an object missing
    in it need not be gone. Nothing is concluded from a list before its last page; if it expires
    half way it starts over.

    synced: the first complete list is in the cache; stays set whatever comes.
    error: why the collection is not being followed right now; None while it is.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        cache: Cache,
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        on_change: Callable[[Key], None],
        page: int = 500,
        on_state: Callable[[], None] | None = None,
        silence: float = SILENCE,
    ) -> None:
        self.synced = asyncio.Event()
        self.error: ClusterError | None = None
        self._client = client
        self._path = path
        self._cache = cache
        self._query: dict[str, str] = {}
        if label_selector:
            self._query["labelSelector"] = label_selector
        if field_selector:
            self._query["fieldSelector"] = field_selector
        self._metadata_only = metadata_only
        self._on_change = on_change
        self._page = page
        self._on_state = on_state
        self._silence = silence
        self._at: int | None = None  # the version to watch from; None: list first
        self._moved = False  # the current watch has told something new
        self._log = log.bind(side=client.side, path=path)

    async def run(self) -> None:
        """Lists and watches until cancelled. Every failure is kept in ``error`` and tried again
        with growing pauses."""
        now = asyncio.get_running_loop().time
        failures = 0
        while True:
            self._moved = False
            began = now()
            failed: ClusterError | None = None
            ended = False  # as watches do
            try:
                if self._at is None:
                    await self.relist()
                    began = now()
                await self._watch()
                ended = True
            except Unreachable as error:
                failed = error
                ended = self._at is not None and (self._moved or now() - began >= STEADY)
            except Gone:
                self._log.info("the server's history moved on, listing again")
                self._at = None
            except ClusterError as error:
                failed = error
                if not isinstance(error, _STILL_VALID):
                    self._at = None
            except Exception as error:
                # One object or callback that nobody thought of must not end the following.
                # The plain trace: a renderer of its own might show the frames' variables, and
                # with them objects and headers.
                self._log.error("cannot take in an answer", trace=traceback.format_exc())
                failed = self._bad(f"{type(error).__name__} while taking in an answer")
                self._at = None
            if ended and (self._moved or now() - began >= STEADY):
                failures = 0
                continue
            failures = 1 if self._moved else failures + 1
            if failed is not None:
                # What is so for long is said once, and a server that has just been given a CRD
                # asks to be left alone for a second.
                known = isinstance(failed, Throttled) or str(failed) == str(self.error)
                tell = self._log.info if known else self._log.warning
                tell("not following", error=str(failed), failures=failures)
                self._set(failed)
            await asyncio.sleep(self._pause(failed, failures))

    async def relist(self) -> None:
        """One complete list, into the cache. Raises ClusterError, and the cache stays as it was."""
        listed: dict[Key, Entry] = {}
        query = {**self._query, "limit": str(self._page)}
        while True:
            try:
                body = await self._client.get(
                    self._path,
                    query=query,
                    accept=self._accept("PartialObjectMetadataList"),
                    timeout=LIST_TIMEOUT,
                )
            except ServerFailed as error:
                if not isinstance(error.__cause__, AnswerTooLong) or self._page == 1:
                    raise
                self._page = max(self._page // 4, 1)  # objects of a megabyte each, say
                query["limit"] = str(self._page)
                continue
            try:
                items, version, token, skipped = page(body)
                for item in items:
                    self._take(item, listed)
            except (Malformed, KeyError, TypeError, ValueError, AttributeError) as error:
                raise self._bad("the answer is no list of objects") from error
            for name in skipped:
                self._pass_over(name)
            del body, items
            if not token:
                break
            query["continue"] = token
            await asyncio.sleep(0)
        changed = self._cache.replace(listed, version)
        self._at = version
        if not self.synced.is_set():
            self.synced.set()
            self._tell()
        self._log.debug("listed", objects=len(listed), changed=len(changed))
        for count, key in enumerate(changed, 1):
            self._on_change(key)
            if count % self._page == 0:
                await asyncio.sleep(0)

    def _take(self, item: dict[str, Any], listed: dict[Key, Entry]) -> None:
        key, uid, version = identify(item)
        known = self._cache.get(key)
        if known is not None and (known.version, known.uid) == (version, uid):
            listed[key] = known
        else:
            listed[key] = Entry(encode(item), uid, version)

    async def _watch(self) -> None:
        """One watch, until the server ends it."""
        query = {
            **self._query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._at),
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
        }
        accept = self._accept("PartialObjectMetadata")
        async with self._client.stream(
            self._path, query=query, silence=self._silence, accept=accept
        ) as chunks:
            self._set(None)
            try:
                async with aclosing(lines(chunks)) as following:
                    async for line in following:
                        try:
                            told = event(line)
                        except TooDeep as error:
                            self._pass_over(error.name)
                        else:
                            self._hear(told)
            except (LineTooLong, Malformed) as error:
                raise self._bad(str(error)) from error

    def _pass_over(self, name: str) -> None:
        # It is as if it were not there: nobody could say what it holds. The others go on.
        self._log.warning("an object is nested too deep, it is passed over", object=name)

    def _hear(self, told: Event) -> None:
        if told.type == "ERROR":
            # Inside a stream that began with 200: whatever it says, this history has ended.
            self._at = None
            code = told.obj.get("code")
            raise explain(
                code if isinstance(code, int) else 500,
                told.obj,
                side=self._client.side,
                verb="watch",
                path=self._path,
            )
        if told.type == "BOOKMARK":
            self._progress(int(told.obj["metadata"]["resourceVersion"]))
            return
        if told.type not in ("ADDED", "MODIFIED", "DELETED") or is_status(told.obj):
            self._log.warning("an unknown event is passed over", type=told.type)
            return
        key, uid, version = identify(told.obj)
        if told.type == "DELETED":
            changed = self._cache.observe_deleted(key, uid, version)
        else:
            changed = self._cache.observe(key, Entry(told.raw, uid, version))
        if self._at is not None and version > self._at:
            self._at = version
            self._moved = True
        if changed:
            self._on_change(key)

    def _progress(self, version: int) -> None:
        if self._at is not None and version < self._at:
            self._at = None
            raise self._bad("the server went back in its history")
        self._at = version
        self._cache.observe_progress(version)

    def _accept(self, kind: str) -> str | None:
        return _AS.format(kind) if self._metadata_only else None

    def _bad(self, what: str) -> ServerFailed:
        return ServerFailed(
            f"{self._client.side}: watch {self._path}: {what}",
            side=self._client.side,
            verb="watch",
            path=self._path,
        )

    def _set(self, error: ClusterError | None) -> None:
        changed = (type(self.error), str(self.error)) != (type(error), str(error))
        self.error = error
        if changed:
            self._tell()

    def _tell(self) -> None:
        if self._on_state is None:
            return
        try:
            self._on_state()
        except Exception:  # whoever listens must not end the following
            self._log.exception("a change of state was not taken in; please report it")

    @staticmethod
    def _pause(failed: ClusterError | None, failures: int) -> float:
        pause = delay(failures, cap=BACKOFF_CAP)
        if isinstance(failed, Throttled | ServerFailed) and failed.retry_after is not None:
            pause += min(failed.retry_after, BACKOFF_CAP)
        return pause
