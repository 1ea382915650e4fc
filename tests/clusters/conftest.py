"""Two kinds of cluster, one suite: every test here runs in memory and on real API servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from kbind.errors import KbindError, NotFound, NotServed
from kbind.konnector.shared import Settings
from kbind.testing.binaries import find_or_build
from kbind.testing.errors import ControlPlaneError
from kbind.testing.handles import Cluster, Handle, new
from kbind.testing.memory import MemoryCluster
from kbind.testing.real import RealCluster
from kbind.testing.running import RunningKonnector
from tests.clusters.world import World

NAMES = ("provider", "consumer", "second")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "[real" in item.name:
            item.add_marker("real")


@pytest.fixture(scope="session", params=["memory", "real"])
def kind(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture(scope="session")
def binaries(kind: str) -> Path | None:
    if kind != "real":
        return None
    try:
        return find_or_build()
    except ControlPlaneError as error:
        if os.environ.get("KBIND_REQUIRE_REAL"):
            raise
        pytest.skip(f"no real control plane here: {error}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def clusters(
    kind: str, binaries: Path | None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Started once, cleaned after every test."""
    async with AsyncExitStack() as stack:
        started: Sequence[Cluster]
        if binaries is None:
            started = [await stack.enter_async_context(MemoryCluster(n).serve()) for n in NAMES]
        else:
            started = await _start_real(stack, binaries, tmp_path_factory.mktemp("clusters"))
        handles = [await Handle.open(cluster) for cluster in started]
        for handle in handles:
            stack.push_async_callback(handle.close)
        for consumer in handles[1:]:
            await consumer.install_core()
        yield World(kind, *handles)


async def _start_real(stack: AsyncExitStack, binaries: Path, folder: Path) -> list[RealCluster]:
    started = await asyncio.gather(
        *(RealCluster.start(name, binaries=binaries, directory=folder) for name in NAMES)
    )
    for cluster in started:
        stack.push_async_callback(cluster.stop)
    return started


@pytest_asyncio.fixture(loop_scope="session")
async def world(clusters: World) -> AsyncIterator[World]:
    yield clusters
    for handle in clusters.handles:
        await clean(handle)


@pytest_asyncio.fixture(loop_scope="session")
async def konnector(world: World) -> AsyncIterator[RunningKonnector]:
    """The konnector of ``world.consumer``, running, with discovery every second."""
    running = RunningKonnector(world.consumer.cluster, settings=Settings(1.0, 1.0))
    await running.start()
    yield running
    await running.stop()


async def clean(handle: Handle) -> None:
    """Takes away what a test left: kbind's objects, foreign CRDs with their instances."""
    crds = await handle.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    core = [crd for crd in crds if crd["spec"]["group"] == "core.kbind.io"]
    foreign = [crd for crd in crds if crd not in core]
    for crd in (*core, *foreign):
        await _empty(handle, crd)
    for crd in foreign:
        try:
            await handle.delete(crd)
        except NotFound:
            continue
    for secret in await handle.list("v1", "Secret"):
        if secret["metadata"]["namespace"] == "kbind":
            await handle.delete(secret)
    for crd in foreign:
        await handle.gone(new(crd["apiVersion"], crd["kind"], crd["metadata"]["name"]))


async def _empty(handle: Handle, crd: dict[str, object]) -> None:
    spec: dict[str, object] = crd["spec"]  # type: ignore[assignment]
    version = next(v["name"] for v in spec["versions"] if v["served"])  # type: ignore[attr-defined]
    kind: str = spec["names"]["kind"]  # type: ignore[index]
    try:
        left = await handle.list(f"{spec['group']}/{version}", kind)
    except (NotServed, KbindError):
        return
    for obj in left:
        try:
            if obj["metadata"].get("finalizers"):
                await handle.merge(obj, {"metadata": {"finalizers": None}})
            await handle.delete(obj)
        except NotFound:
            continue
