"""A server whose discovery and schemas go wrong, in process and over HTTPS."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from kbind.cluster.transport import Request
from kbind.testing.memory import MemoryCluster
from kbind.testing.memory.faults import Match
from tests.memory.conftest import WIDGETS, Caller
from tests.memory.over_http import HttpTransport
from tests.memory.replay.player import AGGREGATED

GROUP_VERSION = "/apis/example.org/v1"
DOCUMENT = f"/openapi/v3{GROUP_VERSION}"


@pytest.fixture(params=["in process", "https"])
async def way(request: pytest.FixtureRequest, cluster: MemoryCluster) -> AsyncIterator[Caller]:
    if request.param == "in process":
        yield Caller(cluster.transport())
        return
    async with cluster.serve():
        transport = HttpTransport(cluster.kubeconfig())
        yield Caller(transport)
        await transport.close()


def at(path: str) -> Match:
    return lambda request: request.path == path


async def freshness(way: Caller) -> dict[str, list[str]]:
    request = Request("GET", "/apis", {}, {"accept": AGGREGATED})
    items = json.loads((await way.transport.send(request, timeout=5)).body)["items"]
    return {
        item["metadata"]["name"]: [version["freshness"] for version in item["versions"]]
        for item in items
    }


async def test_one_group_version_is_not_available(cluster: MemoryCluster, way: Caller) -> None:
    cluster.faults.fail(at(GROUP_VERSION), 503, "ServiceUnavailable", "not now", times=1)
    refused = await way.reply("GET", GROUP_VERSION)
    assert (refused.status, json.loads(refused.body)["message"]) == (503, "not now")
    assert (await way.reply("GET", "/apis/coordination.k8s.io/v1")).status == 200
    assert (await way.reply("GET", WIDGETS)).status == 200
    assert (await way("GET", GROUP_VERSION))["kind"] == "APIResourceList"


async def test_a_version_is_listed_as_stale(cluster: MemoryCluster, way: Caller) -> None:
    def stale(body: bytes) -> bytes:
        listed = json.loads(body)
        for item in listed["items"]:
            if item["metadata"]["name"] == "example.org":
                item["versions"][0] |= {"freshness": "Stale", "resources": []}
        return json.dumps(listed).encode()

    fault = cluster.faults.change(at("/apis"), stale)
    assert (await freshness(way))["example.org"] == ["Stale"]
    assert (await freshness(way))["coordination.k8s.io"] == ["Current"]
    assert fault.struck == 2
    cluster.faults.remove(fault)
    assert (await freshness(way))["example.org"] == ["Current"]


async def test_a_document_is_broken_or_huge(cluster: MemoryCluster, way: Caller) -> None:
    whole = (await way.reply("GET", DOCUMENT)).body
    cluster.faults.change(at(DOCUMENT), lambda body: body[:-1], times=1)
    with pytest.raises(json.JSONDecodeError):
        await way("GET", DOCUMENT)
    cluster.faults.change(at(DOCUMENT), lambda body: body + b" " * 2**22, times=1)
    assert len((await way.reply("GET", DOCUMENT)).body) == len(whole) + 2**22
    assert (await way.reply("GET", DOCUMENT)).body == whole


async def test_the_index_names_what_is_not_there(cluster: MemoryCluster, way: Caller) -> None:
    cluster.faults.change(
        at("/openapi/v3"), lambda body: body.replace(b"apis/example.org", b"apis/absent.org")
    )
    url = (await way("GET", "/openapi/v3"))["paths"]["apis/absent.org/v1"]["serverRelativeURL"]
    assert (await way.reply("GET", url.partition("?")[0])).status == 404
