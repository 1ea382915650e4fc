"""The network face: one pass over real sockets and TLS."""

from __future__ import annotations

import asyncio
import json

import pytest

from kbind.cluster.transport import Request, TransportError
from kbind.testing.memory import MemoryCluster
from tests.memory.conftest import WIDGETS, Caller, widget
from tests.memory.over_http import HttpTransport


async def test_it_serves_over_https_to_those_with_a_token(cluster: MemoryCluster) -> None:
    async with cluster.serve():
        transport = HttpTransport(cluster.kubeconfig("someone"))
        call = Caller(transport)
        try:
            assert (await call.reply("POST", WIDGETS, widget("a", {"note": "x"}))).status == 201
            listed = await call("GET", WIDGETS, labelSelector="!absent", limit="5")
            assert listed["items"][0]["metadata"]["managedFields"][0]["manager"] == "tester"
            assert [entry.user for entry in cluster.requests[-2:]] == ["someone", "someone"]
            watch = Request("GET", WIDGETS, {"watch": "true", "timeoutSeconds": "1"})
            async with transport.stream(watch, silence=5) as stream:
                lines = b"".join([chunk async for chunk in stream.chunks()])
            assert json.loads(lines)["type"] == "ADDED"
            cluster.revoke("someone")
            refused = await call("GET", WIDGETS)
            assert (refused["code"], refused["reason"]) == (401, "Unauthorized")
        finally:
            await transport.close()


async def test_going_down_cuts_connections(cluster: MemoryCluster) -> None:
    async with cluster.serve():
        transport = HttpTransport(cluster.kubeconfig())
        try:
            watch = Request("GET", WIDGETS, {"watch": "true"})
            async with transport.stream(watch, silence=5) as stream:
                asyncio.get_running_loop().call_later(0.05, setattr, cluster, "down", True)
                with pytest.raises(TransportError):
                    async for _ in stream.chunks():
                        pass
            with pytest.raises(TransportError):
                await transport.send(Request("GET", WIDGETS), timeout=5)
        finally:
            await transport.close()
