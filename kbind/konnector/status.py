"""Writing the status of kbind's own objects, only where it says something new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kbind import words
from kbind.apis import Api, Key
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
    body = [
        {"op": "test", "path": "/metadata/uid", "value": standing["metadata"]["uid"]},
        {"op": "add", "path": "/status", "value": status},
    ]
    path = api.path(Key.of(standing), "status")
    cache.learn(await client.patch(path, orjson.dumps(body), manager=words.MANAGER))
    return True
