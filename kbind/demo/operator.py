"""A little operator beside the provider: it runs databases, or says that it does.

It knows nothing of kbind, as the operators of real providers do not: it follows one kind, sets
the status, and holds what is being deleted until its last backup is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

from kbind.apis import Api, Key
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.cluster.reflector import Reflector
from kbind.errors import Conflict, NotFound
from kbind.konnector.lane import Lane

DATABASES = Api("example.org", "v1", "databases", "Database", namespaced=True)
FINALIZER = "example.org/last-backup"
MANAGER = "database-operator"
WORK = 0.25  # seconds that setting a database up takes, and a backup


class Operator:
    """Reconciles every database of one cluster. told: called with what it does."""

    def __init__(self, client: Client, told: Callable[[str], None]) -> None:
        self._client = client
        self._told = told
        self._cache = Cache()
        self._lane: Lane[Key] = Lane(self._turn)

    async def run(self) -> None:
        """Until cancelled."""
        reflector = Reflector(self._client, DATABASES.path(), self._cache, on_change=self._lane.add)
        try:
            await reflector.run()
        finally:
            await self._lane.close(1.0)

    async def _turn(self, key: Key) -> None:
        entry = self._cache.get(key)
        if entry is not None:
            # Where it has changed or gone meanwhile, the watch will say so.
            with contextlib.suppress(Conflict, NotFound):
                await self._reconcile(key, orjson.loads(entry.raw))

    async def _reconcile(self, key: Key, database: dict[str, Any]) -> None:
        metadata = database["metadata"]
        held = FINALIZER in metadata.get("finalizers", ())
        if metadata.get("deletionTimestamp"):
            if held:
                await self._retire(key, database)
            return
        if not held:
            finalizers = [*metadata.get("finalizers", ()), FINALIZER]
            database = await self._finalizers(key, database, finalizers)
        status = database.get("status") or {}
        generation = metadata["generation"]
        if status.get("phase") == "Ready" and status["observedGeneration"] == generation:
            return
        endpoint = f"{key.name}.{key.namespace}.db.example.org:5432"
        if status.get("phase") == "Ready":
            self._told(f"Database {key} follows its spec of generation {generation}")
        else:
            self._told(f"Database {key} is being set up")
            await self._say(key, database, "Provisioning", "Creating", None)
            await asyncio.sleep(WORK)
            self._told(f"Database {key} is ready at {endpoint}")
        await self._say(key, database, "Ready", "Serving", endpoint)

    async def _retire(self, key: Key, database: dict[str, Any]) -> None:
        self._told(f"Database {key} is being deleted, its last backup is taken first")
        endpoint = (database.get("status") or {}).get("endpoint")
        await self._say(key, database, "Deleting", "BackingUp", endpoint)
        await asyncio.sleep(WORK)
        database = orjson.loads(await self._client.get(DATABASES.path(key)))
        rest = [name for name in database["metadata"]["finalizers"] if name != FINALIZER]
        self._told(f"Database {key} has its last backup and is let go")
        await self._finalizers(key, database, rest)

    async def _finalizers(
        self, key: Key, database: dict[str, Any], finalizers: list[str]
    ) -> dict[str, Any]:
        version = database["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
        answer = await self._client.merge(DATABASES.path(key), orjson.dumps(body), manager=MANAGER)
        changed: dict[str, Any] = orjson.loads(answer)
        self._cache.learn(answer)
        return changed

    async def _say(
        self, key: Key, database: dict[str, Any], phase: str, reason: str, endpoint: str | None
    ) -> None:
        generation = database["metadata"]["generation"]
        ready = {
            "type": "Ready",
            "status": "True" if phase == "Ready" else "False",
            "observedGeneration": generation,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "reason": reason,
            "message": f"the database is {phase.lower()}",
        }
        status = {"observedGeneration": generation, "phase": phase, "conditions": [ready]}
        if endpoint is not None:
            status["endpoint"] = endpoint
        body = [{"op": "add", "path": "/status", "value": status}]
        path = DATABASES.path(key, "status")
        self._cache.learn(await self._client.patch(path, orjson.dumps(body), manager=MANAGER))
