"""Writing the status of kbind's own objects, only where it says something new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kbind import words
from kbind.apis import Api, Key
from kbind.calls import status_patch
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.copying import same


async def write(
    client: Client, api: Api, cache: Cache, standing: Mapping[str, Any], status: Mapping[str, Any]
) -> bool:
    """Sets the status of *standing* whole; answers whether anything had to be written. What
    the server answers goes into *cache*. Raises ClusterError."""
    if same(standing.get("status") or {}, status):
        return False
    path = api.path(Key.of(standing), "status")
    body = orjson.dumps(status_patch(standing, status))
    cache.learn(await client.patch(path, body, manager=words.MANAGER))
    return True
