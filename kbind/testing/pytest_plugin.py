"""Fixtures for rule and plugin authors; registered by the entry point ``kbind``.

Every pytest of the environment loads this module, so it imports nothing of kbind until a fixture
is asked for. docs/testing.md shows them at work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

try:
    from pytest_asyncio import fixture as async_fixture
except ImportError:  # without the extra "testing" there are no clusters either
    async_fixture = pytest.fixture  # type: ignore[assignment]

if TYPE_CHECKING:
    from kbind.testing.handles import Handle
    from kbind.testing.running import RunningKonnector


@pytest.fixture
def kbind_overlays() -> Sequence[Path]:
    """Directories of overlays for the konnector, as ``--rules`` names them. For overriding."""
    return ()


@pytest.fixture
def kbind_plugins() -> Sequence[object]:
    """Plugin modules for the konnector, beside those that are installed. For overriding."""
    return ()


@async_fixture
async def provider() -> AsyncIterator[Handle]:
    """A fresh provider cluster in memory, seen by an administrator."""
    handle = await _fresh("provider")
    yield handle
    await handle.close()


@async_fixture
async def consumer() -> AsyncIterator[Handle]:
    """A fresh consumer cluster in memory with kbind's CRDs, seen by an administrator."""
    handle = await _fresh("consumer")
    await handle.install_core()
    yield handle
    await handle.close()


@async_fixture
async def konnector(
    consumer: Handle,
    provider: Handle,
    kbind_overlays: Sequence[Path],
    kbind_plugins: Sequence[object],
) -> AsyncIterator[RunningKonnector]:
    """A konnector beside the consumer, running; it looks at everything again every second, and
    knows the way to the provider. Overlays and plugins: of the fixtures of those names."""
    from kbind.konnector.shared import Settings
    from kbind.testing.memory import Connector, MemoryCluster
    from kbind.testing.running import RunningKonnector

    clusters = [handle.cluster for handle in (consumer, provider)]
    running = RunningKonnector(
        consumer.cluster,
        overlays=kbind_overlays,
        plugins=kbind_plugins,
        settings=Settings(discovery_interval=1.0, binding_interval=1.0, recheck=1.0),
        connect=Connector(*(c for c in clusters if isinstance(c, MemoryCluster))),
    )
    await running.start()
    yield running
    await running.stop()


async def _fresh(name: str) -> Handle:
    from kbind.testing.handles import Handle
    from kbind.testing.memory import Connector, MemoryCluster

    cluster = MemoryCluster(name)
    return await Handle.open(cluster, connect=Connector(cluster))
