"""The network face of a cluster: HTTPS with a throw-away certificate, bearer tokens."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import trustme
from aiohttp import web

from kbind.cluster.transport import Reply, Request, TransportError
from kbind.testing.memory.inprocess import Lines
from kbind.testing.memory.reads import WatchStream
from kbind.testing.memory.server import failure

if TYPE_CHECKING:
    from kbind.testing.memory.cluster import MemoryCluster

# A body as large as a real server takes.
_LARGEST = 3 * 1024 * 1024
# A watch that names no limit runs for as long as most servers let it, in seconds.
_LONGEST = 3600.0


class HttpsFace:
    """Serves one cluster. url, ca_pem: how to reach it, once started."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._authority = trustme.CA()
        self._runner: web.AppRunner | None = None
        self.url = ""

    @property
    def ca_pem(self) -> bytes:
        return self._authority.cert_pem.bytes()

    async def start(self, port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        application = web.Application(client_max_size=_LARGEST)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=context)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"https://{host}:{port}"

    async def stop(self) -> None:
        if self._runner is not None:
            self._cluster.drop_streams()
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        scheme, _, token = incoming.headers.get("Authorization", "").partition(" ")
        user = self._cluster.user_of(token.strip()) if scheme == "Bearer" else None
        request = Request(
            incoming.method,
            incoming.raw_path.partition("?")[0],
            dict(incoming.query),
            dict(incoming.headers),
            await incoming.read() or None,
        )
        try:
            if user is None and not self._cluster.down:
                answer: Reply | WatchStream = failure(401, "Unauthorized", "Unauthorized")
            else:
                answer = await self._cluster.answer(request, user or "")
        except TransportError:
            _cut(incoming)
            raise web.HTTPServiceUnavailable from None
        if isinstance(answer, WatchStream):
            return await self._watch(incoming, answer)
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def _watch(self, incoming: web.Request, watch: WatchStream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(incoming)
        limit = float(incoming.query.get("timeoutSeconds") or _LONGEST)
        lines = Lines(watch, limit, silence=limit + 60)
        self._cluster.opened(lines)
        try:
            async for line in lines.chunks():
                await response.write(line)
        except (TransportError, ConnectionError):
            _cut(incoming)
        finally:
            self._cluster.ended(lines)
            lines.close()
        return response


def _cut(incoming: web.Request) -> None:
    """Close the connection without an answer."""
    if incoming.transport is not None:
        incoming.transport.abort()
