"""What the tests of the in-memory cluster share."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kbind.cluster.transport import Reply, Request, Transport
from kbind.testing.memory import MemoryCluster
from tests.memory.replay.player import CRDS, WIDGET_SCHEMA, crd

WIDGETS = "/apis/example.org/v1/namespaces/default/widgets"


class Caller:
    """Short ways to say requests."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def reply(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: str
    ) -> Reply:
        raw = None if body is None else json.dumps(body).encode()
        headers = {"content-type": kind, "user-agent": "tester/1.0"}
        query = {name.rstrip("_"): value for name, value in query.items()}
        return await self.transport.send(Request(method, path, query, headers, raw), timeout=5)

    async def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: str
    ) -> Any:
        return json.loads((await self.reply(method, path, body, kind, **query)).body)


def widget(name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        **({} if spec is None else {"spec": spec}),
    }


@pytest.fixture
async def cluster() -> MemoryCluster:
    """A cluster that serves widgets.example.org."""
    cluster = MemoryCluster("test")
    definition = crd("example.org", "widgets", "Widget", WIDGET_SCHEMA)
    await Caller(cluster.transport("setup"))("POST", CRDS, definition)
    return cluster


@pytest.fixture
def call(cluster: MemoryCluster) -> Caller:
    return Caller(cluster.transport())
