"""What an API server says of an API that another server serves, while that one runs and after."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from kbind.cluster.cache import Cache
from kbind.cluster.reflector import Reflector
from kbind.errors import Forbidden, ServerFailed
from kbind.testing.aggregated import API_VERSION, GROUP, AggregatedCluster
from kbind.testing.handles import Handle, Object, key, new
from tests.clusters.access import USER, limit, may
from tests.clusters.scenes import eventually

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DOCUMENT = f"apis/{API_VERSION}"
SCHEMAS = "#/components/schemas/"
API_SERVICE = new("apiregistration.k8s.io/v1", "APIService", f"v1alpha1.{GROUP}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AggregatedCluster]:
    folder = tmp_path_factory.mktemp("clusters")
    started = await AggregatedCluster.start("provider", binaries=binaries, directory=folder)
    yield started
    await started.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def handle(cluster: AggregatedCluster) -> AsyncIterator[Handle]:
    opened = await Handle.open(cluster)
    yield opened
    await opened.close()


def flunder(name: str, **spec: Any) -> Object:
    return new(API_VERSION, "Flunder", name, "default", spec=spec)


async def discovered(handle: Handle, freshness: str) -> Object:
    """The one version of the group in aggregated discovery, once it is of that freshness.

    The API server asks the other server again once a minute, and when its APIService changes.
    """
    await handle.merge(API_SERVICE, {"metadata": {"annotations": {"looked": freshness}}})

    async def found() -> Object | None:
        groups = orjson.loads(await handle.client.get("/apis", accept=AGGREGATED))["items"]
        versions = [v for g in groups if g["metadata"]["name"] == GROUP for v in g["versions"]]
        (only,) = versions
        return only if only["freshness"] == freshness else None

    entry: Object = await eventually(found, f"a discovery that is {freshness}", deadline=75)
    return entry


async def test_discovery_lists_it_as_current(handle: Handle) -> None:
    entry = await discovered(handle, "Current")
    assert entry["version"] == "v1alpha1"
    fischers, flunders = entry["resources"]
    assert (fischers["resource"], fischers["scope"]) == ("fischers", "Cluster")
    assert (flunders["resource"], flunders["scope"]) == ("flunders", "Namespaced")
    assert flunders["singularResource"] == "flunder"
    # Empty means: as the list that it stands in.
    assert flunders["responseKind"] == {"group": "", "version": "", "kind": "Flunder"}
    assert "subresources" not in flunders


async def test_openapi_describes_it_with_references(handle: Handle) -> None:
    async def found() -> Object | None:
        paths: Object = orjson.loads(await handle.client.get("/openapi/v3"))["paths"]
        return paths if DOCUMENT in paths else None

    index = await eventually(found, f"{DOCUMENT} in the index")
    address = index[DOCUMENT]["serverRelativeURL"]
    assert address.startswith(f"/openapi/v3/{DOCUMENT}?hash=")
    # Indexed, because the other server has it, and yet not served: no APIService asks for it.
    assert f"apis/{GROUP}/v1beta1" in index
    assert not await handle.find(new(API_SERVICE["apiVersion"], "APIService", f"v1beta1.{GROUP}"))

    path, _, query = address.partition("?")
    whole = {"hash": query.removeprefix("hash=")}
    schemas = orjson.loads(await handle.client.get(path, query=whole))["components"]["schemas"]
    package = "io.k8s.sample-apiserver.pkg.apis.wardle.v1alpha1"
    described = schemas[f"{package}.Flunder"]
    assert described["x-kubernetes-group-version-kind"] == [
        {"group": GROUP, "kind": "Flunder", "version": "v1alpha1"}
    ]
    spec = {"default": {}, "allOf": [{"$ref": f"{SCHEMAS}{package}.FlunderSpec"}]}
    assert described["properties"]["spec"] == spec
    fields = schemas[f"{package}.FlunderSpec"]["properties"]
    assert {name: field["type"] for name, field in fields.items()} == {
        "reference": "string",
        "referenceType": "string",
    }


async def test_a_flunder_from_its_first_apply_to_its_end(handle: Handle) -> None:
    cache = Cache()
    told: list[str] = []
    reflector = Reflector(
        handle.client,
        await handle.path(new(API_VERSION, "Flunder", "", "default")),
        cache,
        on_change=lambda changed: told.append(changed.name),
    )
    following = asyncio.create_task(reflector.run())
    try:
        await asyncio.wait_for(reflector.synced.wait(), 20)

        async def as_in_cache(obj: Object) -> None:
            async def seen() -> bool:
                entry = cache.get(key(obj))
                return entry is not None and orjson.loads(entry.raw) == obj

            await eventually(seen, f"{obj} in the cache")

        one = await handle.apply(flunder("one", reference="another"))
        assert one["spec"] == {"reference": "another", "referenceType": "Flunder"}
        assert "generation" not in one["metadata"]
        await as_in_cache(one)

        two = await handle.apply(flunder("one", reference="a-third"))
        assert two["spec"]["reference"] == "a-third"
        assert two["metadata"]["uid"] == one["metadata"]["uid"]
        (fields,) = two["metadata"]["managedFields"]
        assert (fields["manager"], fields["operation"]) == ("test", "Apply")
        assert fields["fieldsV1"] == {"f:spec": {"f:reference": {}}}
        await as_in_cache(two)

        again = await handle.apply(flunder("one", reference="a-third"))
        assert again["metadata"]["resourceVersion"] == two["metadata"]["resourceVersion"]

        labelled = await handle.merge(one, {"metadata": {"labels": {"a": "x"}}})
        await as_in_cache(labelled)

        await handle.delete(one)
        await handle.gone(one)

        async def forgotten() -> bool:
            return key(one) not in cache

        await eventually(forgotten, "an empty cache")
        assert reflector.error is None
        assert set(told) == {"one"}
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def test_the_other_server_asks_what_a_user_may_do(
    cluster: AggregatedCluster, handle: Handle
) -> None:
    def asked() -> int:
        asking = cluster.audit("sample-apiserver")
        return sum(entry.resource == "subjectaccessreviews" for entry in asking)

    before = asked()
    limited = await Handle.open(handle.cluster, USER)
    try:
        await limit(handle)
        with pytest.raises(Forbidden):
            await limited.list(API_VERSION, "Flunder")
        await limit(handle, may("list", GROUP, "flunders"))

        async def listed() -> bool:
            with contextlib.suppress(Forbidden):
                return await limited.list(API_VERSION, "Flunder") == []
            return False

        await eventually(listed, "a list for who may list")
        assert asked() > before
        with pytest.raises(Forbidden):
            await limited.create(flunder("refused"))
    finally:
        await limited.close()


async def test_without_its_server_it_is_stale_and_unavailable(
    cluster: AggregatedCluster, handle: Handle
) -> None:
    kept = await handle.create(flunder("kept", reference="another"))
    await discovered(handle, "Current")
    await cluster.stop_sample()
    for path in (f"/apis/{API_VERSION}", f"/openapi/v3/{DOCUMENT}", await handle.path(kept)):
        with pytest.raises(ServerFailed, match="503"):
            await handle.client.get(path)
    # The resources are gone from the entry, and the version is not.
    assert await discovered(handle, "Stale") == {"version": "v1alpha1", "freshness": "Stale"}
    group = orjson.loads(await handle.client.get(f"/apis/{GROUP}"))
    assert [version["version"] for version in group["versions"]] == ["v1alpha1"]
    assert DOCUMENT in orjson.loads(await handle.client.get("/openapi/v3"))["paths"]

    await cluster.start_sample()
    assert await handle.get(kept) == kept
    assert len((await discovered(handle, "Current"))["resources"]) == 2
    await handle.delete(kept)
