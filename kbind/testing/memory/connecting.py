"""From credentials to clusters in this process: what ``kbind.cluster.connect`` is to servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from kbind.cluster.kubeconfig import Credentials
from kbind.cluster.transport import Reply, Request, Stream, Transport, TransportError
from kbind.testing.memory.cluster import MemoryCluster
from kbind.testing.memory.inprocess import MemoryTransport
from kbind.testing.memory.reads import WatchStream
from kbind.testing.memory.server import failure


class Connector:
    """Opens transports to *clusters* by the kubeconfigs that they give out while not served,
    which name ``https://<name>.memory``. Every other server is one that is not there."""

    def __init__(self, *clusters: MemoryCluster) -> None:
        self._clusters = {cluster.name: cluster for cluster in clusters}

    def add(self, cluster: MemoryCluster) -> None:
        """Another server that is there from now on."""
        self._clusters[cluster.name] = cluster

    async def __call__(self, credentials: Credentials) -> Transport:
        host = urlsplit(credentials.server).hostname or ""
        cluster = self._clusters.get(host.removesuffix(".memory"))
        if cluster is None:
            return _Nowhere(host)
        return _TokenTransport(cluster, credentials.token or "")


class _TokenTransport(MemoryTransport):
    """Sends as whoever the token belongs to at the time."""

    def __init__(self, cluster: MemoryCluster, token: str) -> None:
        super().__init__(cluster, "", "")
        self._token = token

    async def _answer(self, request: Request) -> Reply | WatchStream:
        self._user = self._cluster.user_of(self._token) or ""
        if not (self._user or self._closed or self._cluster.down):
            return failure(401, "Unauthorized", "Unauthorized")
        return await super()._answer(request)


class _Nowhere:
    """A server whose name nobody knows."""

    def __init__(self, host: str) -> None:
        self._host = host

    async def send(self, request: Request, *, timeout: float) -> Reply:
        raise TransportError(f"no such host: {self._host}")

    @asynccontextmanager
    async def stream(self, request: Request, *, silence: float) -> AsyncIterator[Stream]:
        raise TransportError(f"no such host: {self._host}")
        yield

    async def close(self) -> None:
        """There is nothing to free."""
