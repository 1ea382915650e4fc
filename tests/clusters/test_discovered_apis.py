"""What API servers tell of themselves, read by the schema sources' discovery."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio
from kbind_sources.discovery import APIS, Discovered, Resource, discover

from kbind import words
from kbind.hooks import RESERVED
from kbind.konnector.reader import Reader
from kbind.testing.handles import Object, new
from tests.clusters.scenes import eventually
from tests.clusters.widgets import GROUP, WIDGETS, crd
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEAD = "dead.example.com"

# Without flags that ask for them, without the servers of metrics or a catalog, served no longer.
NOT_HERE = {
    "catalog.kbind.io",
    "custom.metrics.k8s.io",
    "extensions",
    "external.metrics.k8s.io",
    "iam.kbind.io",
    "internal.apiserver.k8s.io",
    "lifecycle.k8s.io",
    "metrics.k8s.io",
}


class Plain(Reader):
    """Asks for plain JSON alone, as if the server knew nothing else."""

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> Object:
        return await super().get(path, query=query)


@pytest.fixture(params=[Reader, Plain])
def reader(request: pytest.FixtureRequest, world: World) -> Reader:
    made: Reader = request.param(world.provider.client)
    return made


async def test_a_server_brings_builtin_groups_alone(world: World) -> None:
    listed = {}
    for handle in (world.provider, world.consumer):
        answer = await handle.client.read(APIS)
        listed[handle.cluster.name] = {group["name"] for group in answer["groups"]}
        assert await discover(Reader(handle.client), foreign) == Discovered({}, {}, frozenset())
    assert listed["provider"] <= RESERVED
    assert listed["consumer"] - listed["provider"] == {words.GROUP}
    if world.kind == "real":
        assert RESERVED - listed["consumer"] == NOT_HERE


async def test_a_crd_is_told_the_same_in_both_forms(world: World, reader: Reader) -> None:
    api = crd()
    versions = api["spec"]["versions"]
    versions.append(versions[0] | {"name": "v1beta1", "storage": False, "subresources": {}})
    api["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    await world.provider.install_crd(api)
    how = ("widgets", "Widget", True, "widget", ("wd",), ("all",))
    assert await discover(reader, foreign) == Discovered(
        {WIDGETS: (Resource(GROUP, "v1", *how, status=True), Resource(GROUP, "v1beta1", *how))},
        {},
        frozenset({GROUP}),
    )


@pytest_asyncio.fixture(loop_scope="session")
async def dead(world: World) -> AsyncIterator[None]:
    """An aggregated API whose server is not there."""
    if world.kind == "memory":
        pytest.skip("the double serves no APIServices")
    service = new(
        "apiregistration.k8s.io/v1",
        "APIService",
        f"v1.{DEAD}",
        spec={
            "group": DEAD,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "nothing"},
        },
    )
    await world.provider.create(service)
    yield
    await world.provider.delete(service)


async def test_a_dead_server_leaves_its_group_alone_unread(
    world: World, reader: Reader, dead: None
) -> None:
    await world.provider.install_crd(crd())

    async def told() -> Discovered | None:
        found = await discover(reader, foreign)
        return found if found.unread else None

    found: Discovered = await eventually(told, "the group is listed")
    assert (list(found.apis), list(found.unread)) == ([WIDGETS], [DEAD])
    # Once the aggregator has tried: not the same words in both forms.
    assert "answer" in found.unread[DEAD] or "503" in found.unread[DEAD], found.unread


def foreign(group: str) -> bool:
    return group not in RESERVED
