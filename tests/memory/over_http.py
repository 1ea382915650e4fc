"""The smallest Transport over real HTTPS: what the replay and the test of the HTTPS face need."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from kbind.cluster.transport import Reply, Request, Stream, TransportError


class _Open:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = _headers(response)

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TransportError(str(error)) from error


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


class HttpTransport:
    """Speaks to the current context of a kubeconfig that carries CA data and a token."""

    def __init__(self, kubeconfig: dict[str, Any]) -> None:
        cluster = kubeconfig["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._server = cluster["server"]
        self._authorization = f"Bearer {kubeconfig['users'][0]['user']['token']}"
        context = ssl.create_default_context(cadata=authority)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    @asynccontextmanager
    async def _request(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        url = URL(self._server + request.path, encoded=True).with_query(dict(request.query))
        headers = {"Authorization": self._authorization, **request.headers}
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=request.body
            ) as response:
                yield response
        except aiohttp.ClientError as error:
            raise TransportError(str(error)) from error

    async def send(self, request: Request, *, timeout: float) -> Reply:
        async with self._request(request) as response:
            return Reply(response.status, _headers(response), await response.read())

    @asynccontextmanager
    async def stream(self, request: Request, *, silence: float) -> AsyncIterator[Stream]:
        async with self._request(request) as response:
            yield _Open(response)

    async def close(self) -> None:
        await self._session.close()
