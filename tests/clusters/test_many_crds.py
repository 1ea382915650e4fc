"""A provider with very many CRDs, of which few are offered and one is bound: what discovery costs
there, counted where the requests arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from kbind_sources.crd import CRDS, METADATA_ONLY
from kbind_sources.discovery import APIS, discover
from kbind_sources.openapi import INDEX

from kbind.konnector.reader import PAGE, Reader
from kbind.testing.audit import Entry
from kbind.testing.handles import Cluster, Handle, Object
from kbind.testing.memory import MemoryCluster
from kbind.testing.real import RealCluster
from kbind.testing.running import USER, RunningKonnector, add_connection, binding, connection
from tests.clusters.scenes import eventually, is_beat, synced
from tests.clusters.widgets import crd
from tests.clusters.world import World

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

# A real server takes a minute for a thousand of them.
MANY = {"memory": 1000, "real": 300}
GROUPS = 100
OFFERED = 20

SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
IDENTITY = [APIS, "/api/v1/namespaces/kube-system"]


def labelled(number: int) -> bool:
    return number < OFFERED


def tiny(number: int) -> Object:
    kind = f"Kind{number}"
    api = crd(f"kind{number}s", kind, status=False, exported=labelled(number), schema=SCHEMA)
    api["spec"]["group"] = f"group{number % GROUPS}.example.org"
    api["metadata"]["name"] = name(number)
    return api


def name(number: int) -> str:
    return f"kind{number}s.group{number % GROUPS}.example.org"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def crowded(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Handle]:
    """A provider of its own: to clean another one up would take as long as to fill it."""
    async with AsyncExitStack() as stack:
        cluster: Cluster
        if kind == "memory":
            cluster = await stack.enter_async_context(MemoryCluster("crowded").serve())
        else:
            binaries: Path = request.getfixturevalue("binaries")
            folder = tmp_path_factory.mktemp("crowded")
            cluster = real = await RealCluster.start(
                "crowded", binaries=binaries, directory=folder, controllers=False
            )
            stack.push_async_callback(real.stop)
        provider = await Handle.open(cluster)
        stack.push_async_callback(provider.close)
        await fill(provider, MANY[kind])
        yield provider


async def fill(provider: Handle, many: int) -> None:
    gate = asyncio.Semaphore(16)

    async def create(number: int) -> None:
        async with gate:
            await provider.create(tiny(number))

    async def served() -> bool:
        found = await discover(Reader(provider.client), lambda group: group.startswith("group"))
        return len(found.apis) == many and not found.unread

    await asyncio.gather(*(create(number) for number in range(many)))
    await eventually(served, "all are in discovery", deadline=120)


# offered: by number; at_rest: what a pass reads besides the identity; schemas: paths of those read.
@pytest.mark.parametrize(
    ("source", "offered", "at_rest", "schemas"),
    [
        ("CRD", labelled, [CRDS], {f"{CRDS}/{name(0)}"}),
        ("OpenAPI", lambda number: True, [APIS, INDEX], {f"{INDEX}/apis/group0.example.org/v1"}),
    ],
    ids=["CRD", "OpenAPI"],
)
async def test_discovery_reads_no_more_than_it_needs(
    world: World,
    konnector: RunningKonnector,
    crowded: Handle,
    source: str,
    offered: Callable[[int], bool],
    at_rest: list[str],
    schemas: set[str],
) -> None:
    before = len(crowded.cluster.audit(USER))
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, crowded.cluster, schema={"source": source})
    bound = await world.consumer.create(binding([name(0)], "team-a"))
    await synced(world.consumer, bound)
    seen = await world.consumer.get(connection())
    exported = {api["name"] for api in seen["status"]["exportedAPIs"]}
    assert exported == {name(number) for number in range(MANY[world.kind]) if offered(number)}

    passes = await three_more(crowded)
    assert [[urlsplit(e.path).path for e in each] for each in passes] == [
        [IDENTITY[1], *at_rest, IDENTITY[0]]
    ] * 3
    assert len(at_rest) <= 3

    asked = crowded.cluster.audit(USER)[before:]
    places = [urlsplit(entry.path) for entry in asked]
    read = {it.path for it in places if it.path.startswith((f"{CRDS}/", f"{INDEX}/"))}
    assert read == schemas
    lists = [parse_qs(it.query) for it in places if it.path == CRDS]
    assert all(query["limit"] == [str(PAGE)] for query in lists)


async def test_a_long_list_is_read_whole_in_pages(world: World, crowded: Handle) -> None:
    before = len(crowded.cluster.audit("admin"))
    names = [
        item["metadata"]["name"]
        async for item in Reader(crowded.client).items(CRDS, accept=METADATA_ONLY)
    ]
    assert sorted(names) == sorted(name(number) for number in range(MANY[world.kind]))
    asked = crowded.cluster.audit("admin")[before:]
    assert sum(urlsplit(e.path).path == CRDS for e in asked) == MANY[world.kind] // PAGE


async def test_auto_without_labels_reads_what_both_sources_do(
    world: World, konnector: RunningKonnector
) -> None:
    api = tiny(0)
    del api["metadata"]["labels"]
    await world.provider.install_crd(api)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await synced(world.consumer, await world.consumer.create(binding([name(0)], "team-a")))
    passes = await three_more(world.provider)
    assert [[urlsplit(e.path).path for e in each] for each in passes] == [
        [IDENTITY[1], CRDS, APIS, INDEX, IDENTITY[0]]
    ] * 3


async def three_more(provider: Handle) -> list[list[Entry]]:
    """The requests of three passes of the Connection to come, each from when the provider was
    identified; what goes to the bound API is left out."""
    before = len(provider.cluster.audit(USER))

    async def passed() -> list[list[Entry]]:
        since = [
            entry
            for entry in provider.cluster.audit(USER)[before:]
            if "kind0s" not in entry.path and not is_beat(entry)
        ]
        starts = [at for at, entry in enumerate(since) if entry.path == IDENTITY[1]]
        return [since[one:other] for one, other in pairwise(starts)][-3:] if len(starts) > 4 else []

    passes: list[list[Entry]] = await eventually(passed, "three passes")
    return passes
