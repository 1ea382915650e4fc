"""What plugins may do to a provider: read, within limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from kbind.cluster.client import Client
from kbind.errors import ServerFailed

PAGE = 100


class Reader:
    """``kbind.hooks.ProviderReader`` over a client, whose calls are limited in time already."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> dict[str, Any]:
        return await self._client.read(path, query=query, accept=accept)

    async def items(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        page = dict(query or {}) | {"limit": str(PAGE)}
        while True:
            answer = await self.get(path, query=page, accept=accept)
            if "items" not in answer:
                # What is no list is no empty one either.
                raise ServerFailed(
                    f"provider: list {path}: answered with something other than a list",
                    side="provider",
                    verb="list",
                    path=path,
                )
            for item in answer["items"] or ():
                yield item
            token = (answer.get("metadata") or {}).get("continue")
            del answer  # before the next one comes
            if not token:
                return
            page["continue"] = token
