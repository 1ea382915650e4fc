"""The two clusters of the demo: in memory, or real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from kbind.testing.handles import Cluster

NAMES = ("consumer", "provider")


@asynccontextmanager
async def in_memory() -> AsyncIterator[tuple[Cluster, Cluster]]:
    """Consumer and provider, each served over HTTPS by this process. Raises
    ModuleNotFoundError where the packages of the ``testing`` extra are missing."""
    from kbind.testing.memory import MemoryCluster

    async with AsyncExitStack() as stack:
        consumer, provider = [
            await stack.enter_async_context(MemoryCluster(name).serve()) for name in NAMES
        ]
        yield consumer, provider


@asynccontextmanager
async def real(binaries: Path, folder: Path) -> AsyncIterator[tuple[Cluster, Cluster]]:
    """Consumer and provider, each an etcd and a kube-apiserver of *binaries* that keep their
    files below *folder*. Raises ControlPlaneError."""
    from kbind.testing.real import RealCluster

    # Without its controllers a cluster does all that the demo shows, and starts sooner.
    starting = [
        asyncio.ensure_future(
            RealCluster.start(name, binaries=binaries, directory=folder, controllers=False)
        )
        for name in NAMES
    ]
    try:
        consumer, provider = await asyncio.gather(*starting)
        yield consumer, provider
    finally:
        for task in starting:
            task.cancel()
        ended = await asyncio.gather(*starting, return_exceptions=True)
        await asyncio.gather(
            *(cluster.stop() for cluster in ended if isinstance(cluster, RealCluster))
        )
