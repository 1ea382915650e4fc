"""Health and metrics over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kbind.errors import KbindError


def health(ready: Callable[[], bool]) -> web.Application:
    """/healthz answers while the loop turns; /readyz once *ready* says so."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="kbind's own objects have not been seen yet")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def metrics(registry: CollectorRegistry) -> web.Application:
    """/metrics in the Prometheus text format."""

    async def expose(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application()
    app.router.add_get("/metrics", expose)
    return app


def parse_address(address: str) -> tuple[str | None, int]:
    """``:8081`` or ``127.0.0.1:8081`` or ``[::1]:8081``; host None means every interface.
    Raises ValueError."""
    host, separator, port = address.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not separator or not digits or int(port) > 65535:
        raise ValueError(f"{address!r} is not HOST:PORT or :PORT")
    return host.strip("[]") or None, int(port)


async def serve(app: web.Application, address: str) -> web.AppRunner:
    """Serves *app*; ``cleanup()`` of the answer ends it. Raises KbindError where the address
    cannot be had."""
    try:
        host, port = parse_address(address)
    except ValueError as error:
        raise KbindError(str(error)) from error
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, UnicodeError) as error:
        await runner.cleanup()
        raise KbindError(
            f"cannot listen on {address}: {_reason(error)}", hint="choose another bind address"
        ) from error
    return runner


def _reason(error: OSError | UnicodeError) -> str:
    """In plain words: asyncio puts its own around those of the system."""
    if isinstance(error, UnicodeError):
        return "that is no host name"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno).lower()
