"""A small TLS server on loopback that keeps a log of who asked what."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trustme
from aiohttp import web

AUTHORITY = trustme.CA()
FOREIGN_AUTHORITY = trustme.CA()
CLIENT = AUTHORITY.issue_cert("client.example")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Server:
    url: str
    tokens: list[str | None] = field(default_factory=list)  # of each request
    names: list[str | None] = field(default_factory=list)  # SNI of each connection
    peers: list[bool] = field(default_factory=list)  # whether a certificate came, per request


async def hello(request: web.Request) -> web.StreamResponse:
    return web.json_response({"path": request.path_qs, "method": request.method})


@asynccontextmanager
async def serving(
    handler: Handler = hello,
    *,
    names: tuple[str, ...] = ("127.0.0.1", "localhost"),
    demand_certificate: bool = False,
) -> AsyncIterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert(*names).configure_cert(context)
    AUTHORITY.configure_trust(context)
    if demand_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
    server = Server("")

    def note_name(_socket: object, name: str | None, _context: object) -> None:
        server.names.append(name)

    context.sni_callback = note_name

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        server.tokens.append(request.headers.get("Authorization"))
        server.peers.append(bool(request.get_extra_info("peercert")))
        assert isinstance(request, web.Request)
        return await handler(request)

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, list[dict[str, str]]]]:
    """A tunnelling HTTP proxy: its URL, and the headers of each CONNECT."""
    asked: list[dict[str, str]] = []
    tasks: set[asyncio.Task[None]] = set()

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        target = head[0].split()[1]
        asked.append(dict(header.split(": ", 1) for header in head[1:] if header))
        host, port = target.rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        finally:
            far_writer.close()
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", asked
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()
