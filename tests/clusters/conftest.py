"""Two kinds of cluster, one suite: every test here runs in memory and on real API servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from kbind import words
from kbind.brake import Brake
from kbind.errors import KbindError, NotFound, NotServed
from kbind.konnector.shared import Settings
from kbind.testing.handles import Cluster, Handle
from kbind.testing.memory import MemoryCluster
from kbind.testing.real import RealCluster
from kbind.testing.running import RunningKonnector, add_connection
from tests.clusters.access import limit
from tests.clusters.scenes import Scene, ready
from tests.clusters.widgets import WIDGETS, crd
from tests.clusters.world import World

NAMES = ("provider", "consumer", "second")

_numbers = count()


def settings(
    *,
    discovery: float = 1.0,
    recheck: float = 0.5,
    heartbeat: float = words.PERIOD,
    brake: Brake | None = None,
) -> Settings:
    """Periods that tests have the patience for."""
    return Settings(
        discovery, 1.0, recheck, settle=1.0, heartbeat=heartbeat, brake=brake or Brake()
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "[real" in item.name:
            item.add_marker("real")


@pytest.fixture(scope="session", params=["memory", "real"])
def kind(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def clusters(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Started once, cleaned after every test."""
    binaries: Path | None = request.getfixturevalue("binaries") if kind == "real" else None
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
    running = RunningKonnector(world.consumer.cluster, settings=settings())
    await running.start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(clusters: World) -> AsyncIterator[tuple[World, RunningKonnector]]:
    """Widgets of the provider on the consumer, and a konnector: for all scenes of a module."""
    await clusters.provider.install_crd(crd())
    running = RunningKonnector(clusters.consumer.cluster, settings=settings())
    await running.start()
    await add_connection(clusters.consumer, clusters.provider.cluster, schema={"pullPolicy": "All"})
    await clusters.consumer.established(WIDGETS)
    yield clusters, running
    await running.stop()
    for handle in clusters.handles:
        await clean(handle)


@pytest_asyncio.fixture(loop_scope="session")
async def scene(stage: tuple[World, RunningKonnector]) -> AsyncIterator[Scene]:
    """A namespace of the test's own with a Binding for widgets: such tests share the clusters'
    other objects, and so they start at once."""
    world, running = stage
    scene = Scene(world, running, f"scene-{next(_numbers)}")
    await world.consumer.namespace(scene.namespace)
    await world.consumer.create(scene.binding)
    await ready(world.consumer, scene.binding)
    yield scene
    if not running.running:
        await running.start()
    await world.consumer.delete(scene.binding)


async def clean(handle: Handle) -> None:
    """Takes away what a test left: kbind's objects, Secrets for Connections, heartbeats, foreign
    CRDs with their instances, and what the limited user was granted."""
    await limit(handle)
    for lease in await handle.list("coordination.k8s.io/v1", "Lease"):
        if words.MANAGED in (lease["metadata"].get("labels") or {}):
            await handle.delete(lease)
    for secret in await handle.list("v1", "Secret"):
        if secret["metadata"]["namespace"] == "kbind":
            if secret["metadata"].get("finalizers"):
                await handle.merge(secret, {"metadata": {"finalizers": None}})
            await handle.delete(secret)
    crds = await handle.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    core = [crd for crd in crds if crd["spec"]["group"] == "core.kbind.io"]
    foreign = [crd for crd in crds if crd not in core]
    for each in (*core, *foreign):
        await _empty(handle, each)
    for each in foreign:
        try:
            await handle.delete(each)
        except NotFound:
            continue
    for each in foreign:
        await handle.gone(each)


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
