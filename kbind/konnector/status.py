"""Writing the status of kbind's own objects, only where it says something new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, takewhile
from typing import Any, Final

import orjson

from kbind import words
from kbind.apis import Api, Key
from kbind.calls import status_patch
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.copying import same
from kbind.hooks import ExportedApi

ROOM: Final = 900_000
"""Bytes of exported APIs that a status shows. etcd holds 1.5 MiB an object by default, and each
write has all of it."""


def shown(exports: Iterable[ExportedApi]) -> list[dict[str, Any]]:
    """``status.exportedAPIs``: the first, as many as there is room for."""
    listed = [api.as_json() for api in exports]
    sizes = accumulate(len(orjson.dumps(api)) + 1 for api in listed)
    return listed[: sum(1 for _ in takewhile(lambda size: size <= ROOM, sizes))]


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
