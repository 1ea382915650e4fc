"""A Connection's Secret: watched by name, and read as credentials."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable, Mapping

import orjson

from kbind.apis import SECRETS, Key
from kbind.cluster.cache import Cache, Entry
from kbind.cluster.client import Client
from kbind.cluster.kubeconfig import Credentials, parse
from kbind.cluster.reflector import Reflector
from kbind.errors import Forbidden, KubeconfigInvalid
from kbind.konnector.judging import Stop
from kbind.words import DEFAULT_KEY, Condition, Reason

LARGE = 4096  # bytes of a kubeconfig from which on it is read off the loop
FIRST_LOOK = 2.0  # seconds that a pass waits for the first sight of its Secret


class SecretWatch:
    """Follows one Secret, and only that one. reference: ``spec.kubeconfigSecretRef``, which is
    immutable, so that one watch serves for the Connection's life."""

    def __init__(
        self, consumer: Client, reference: Mapping[str, str], on_change: Callable[[], None]
    ) -> None:
        self._key = Key(reference["namespace"], reference["name"])
        self._field = reference.get("key") or DEFAULT_KEY
        self._cache = Cache()
        self._read: tuple[Entry, Credentials | Stop] | None = None
        self._reflector = Reflector(
            consumer,
            SECRETS.collection(self._key.namespace),
            self._cache,
            field_selector=f"metadata.name={self._key.name}",
            on_change=lambda _: on_change(),
            on_state=on_change,
        )
        self._task = asyncio.create_task(self._reflector.run())

    def close(self) -> None:
        self._task.cancel()

    async def look(self) -> None:
        """Reads it again now. Raises ClusterError."""
        await self._reflector.relist()

    async def seen(self) -> bytes | None:
        """The Secret as it is known, once it has been looked for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK):
                await self._reflector.synced.wait()
        entry = self._cache.get(self._key)
        return None if entry is None else entry.raw

    @property
    def parting(self) -> str:
        """That it is being deleted, which our finalizer holds up; else empty."""
        entry = self._cache.get(self._key)
        if entry is None or not orjson.loads(entry.raw)["metadata"].get("deletionTimestamp"):
            return ""
        return f"Secret {self._key} is being deleted; it goes with the last Connection to use it"

    async def credentials(self) -> Credentials:
        """What the Secret holds now. Raises Stop."""
        await self.seen()
        if not self._reflector.synced.is_set():
            error = self._reflector.error
            reason = Reason.FORBIDDEN if isinstance(error, Forbidden) else Reason.PENDING
            raise self._stop(reason, str(error or f"Secret {self._key} is being looked up"))
        entry = self._cache.get(self._key)
        if entry is None:
            raise self._stop(Reason.SECRET_NOT_FOUND, f"Secret {self._key} does not exist")
        if self._read is None or self._read[0] is not entry:
            self._read = (entry, await self._outcome(entry))
        outcome = self._read[1]
        if isinstance(outcome, Stop):
            raise outcome.with_traceback(None)
        return outcome

    async def _outcome(self, entry: Entry) -> Credentials | Stop:
        """Either is kept for as long as the Secret stays as it is."""
        try:
            return await self._parse(entry)
        except Stop as stop:
            return stop

    async def _parse(self, entry: Entry) -> Credentials:
        data = orjson.loads(entry.raw).get("data") or {}
        if self._field not in data:
            message = f"Secret {self._key} has no key {self._field!r}"
            raise self._stop(Reason.SECRET_INVALID, message)
        try:
            kubeconfig = base64.b64decode(data[self._field], validate=True)
            # Reading YAML takes long where there is much of it.
            if len(kubeconfig) >= LARGE:
                return await asyncio.to_thread(parse, kubeconfig)
            return parse(kubeconfig)
        except (KubeconfigInvalid, binascii.Error) as error:
            message = f"Secret {self._key}, key {self._field!r}: {error}"
            raise self._stop(Reason.SECRET_INVALID, message) from error

    @staticmethod
    def _stop(reason: str, message: str) -> Stop:
        return Stop(Condition.SECRET_VALID, reason, message)
