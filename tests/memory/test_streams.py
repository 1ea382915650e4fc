"""Watches in process: what they carry, and every way in which they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kbind.cluster.transport import Request, Stream, TransportError
from kbind.testing.memory import MemoryCluster
from tests.memory.conftest import WIDGETS, Caller, widget

MERGE = "application/merge-patch+json"


@asynccontextmanager
async def watching(
    cluster: MemoryCluster, silence: float = 5.0, **query: str
) -> AsyncIterator[Stream]:
    request = Request("GET", WIDGETS, {"watch": "true", **query})
    async with cluster.transport().stream(request, silence=silence) as stream:
        yield stream


async def events(stream: Stream) -> list[dict[str, Any]]:
    raw = b"".join([chunk async for chunk in stream.chunks()])
    return [json.loads(line) for line in raw.splitlines()]


async def test_events_come_while_the_stream_is_open(cluster: MemoryCluster, call: Caller) -> None:
    async with watching(cluster, timeoutSeconds="0.2", allowWatchBookmarks="true") as stream:
        await call("POST", WIDGETS, widget("a"))
        await call("DELETE", f"{WIDGETS}/a")
        seen = await events(stream)
    assert [event["type"] for event in seen] == ["ADDED", "DELETED", "BOOKMARK"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions[0] < versions[1] == versions[2]


async def test_history_that_is_gone_is_told_inside(cluster: MemoryCluster, call: Caller) -> None:
    made = await call("POST", WIDGETS, widget("a"))
    await call("POST", WIDGETS, widget("b"))
    await call("POST", WIDGETS, widget("c"))
    page = await call("GET", WIDGETS, limit="1")
    cluster.compact()
    async with watching(cluster, resourceVersion=made["metadata"]["resourceVersion"]) as stream:
        seen = await events(stream)
    assert [(event["type"], event["object"]["code"]) for event in seen] == [("ERROR", 410)]
    token = page["metadata"]["continue"]
    expired = await call("GET", WIDGETS, limit="1", continue_=token)
    assert expired["code"] == 410
    rest = await call("GET", WIDGETS, continue_=expired["metadata"]["continue"])
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c"]


async def test_a_dropped_stream_ends_and_may_leave_half_a_line(cluster: MemoryCluster) -> None:
    async with watching(cluster) as stream:
        cluster.drop_streams(partial=b'{"type":"AD')
        assert b"".join([chunk async for chunk in stream.chunks()]) == b'{"type":"AD'


async def test_streams_break_when_the_cluster_goes_down(
    cluster: MemoryCluster, call: Caller
) -> None:
    async with watching(cluster) as stream:
        cluster.down = True
        with pytest.raises(TransportError, match="reset"):
            await events(stream)
    with pytest.raises(TransportError, match="refused"):
        await call("GET", WIDGETS)
    cluster.down = False
    assert (await call("GET", WIDGETS))["items"] == []


async def test_silence_breaks_a_stream(cluster: MemoryCluster) -> None:
    async with watching(cluster, silence=0.05) as stream:
        with pytest.raises(TransportError, match="nothing came"):
            await events(stream)


async def test_a_changed_schema_ends_the_watches_of_its_api(
    cluster: MemoryCluster, call: Caller
) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org"
    async with watching(cluster) as stream:
        await call("PATCH", path, {"spec": {"names": {"shortNames": ["w"]}}}, MERGE)
        assert await events(stream) == []


async def test_closing_the_transport_ends_its_streams(cluster: MemoryCluster) -> None:
    transport = cluster.transport()
    request = Request("GET", WIDGETS, {"watch": "true"})
    async with transport.stream(request, silence=5) as stream:
        await transport.close()
        assert await events(stream) == []
    with pytest.raises(TransportError, match="closed"):
        await transport.send(request, timeout=1)


async def test_a_refusal_is_a_stream_too(cluster: MemoryCluster) -> None:
    request = Request("GET", WIDGETS.replace("v1/", "v9/"), {"watch": "true"})
    async with cluster.transport().stream(request, silence=5) as stream:
        assert stream.status == 404
        assert [chunk async for chunk in stream.chunks()] == [b"404 page not found\n"]


async def test_a_stream_that_is_left_listens_no_more(cluster: MemoryCluster, call: Caller) -> None:
    async with watching(cluster):
        pass
    await call("POST", WIDGETS, widget("a"))
    await asyncio.sleep(0)
    assert all(stream.ended for _, stream in cluster.server.reader.watches)
