"""A line to a cluster that a test can cut and mend, or mute and let flow."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit

from kbind.testing.audit import Entry
from kbind.testing.handles import Cluster, Object


class Relay:
    """Passes bytes on to *cluster* from a port of its own; itself a cluster to whoever asks only
    for kubeconfigs."""

    def __init__(self, cluster: Cluster) -> None:
        self.name = cluster.name
        self._cluster = cluster
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[None]] = set()
        self._port = 0
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    def audit(self, user: str) -> list[Entry]:
        return self._cluster.audit(user)

    def kubeconfig(self, user: str = "admin") -> Object:
        kubeconfig = self._cluster.kubeconfig(user)
        kubeconfig["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self._port}"
        return kubeconfig

    async def mend(self) -> None:
        """Listens, on the same port as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Breaks every connection and takes no more."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    def mute(self) -> None:
        """From now on connections are taken and kept, and nothing is passed on."""
        self._flowing.clear()

    def flow(self) -> None:
        """Passes on again, what was kept as well."""
        self._flowing.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.create_task(self._pass_on(reader, writer))
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)
        # Here, as a line may be cut before it has begun.
        line.add_done_callback(lambda _: writer.transport.abort())

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = urlsplit(self._cluster.kubeconfig()["clusters"][0]["cluster"]["server"])
        far_reader, far_writer = await asyncio.open_connection(place.hostname, place.port)
        ways = (
            asyncio.create_task(self._pump(reader, far_writer)),
            asyncio.create_task(self._pump(far_reader, writer)),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            far_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
