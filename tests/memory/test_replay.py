"""One script of requests, the same answers from the double and from a real API server."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kbind.cluster.transport import Request
from kbind.testing.memory import MemoryCluster
from kbind.testing.real import RealCluster
from tests.memory.over_http import HttpTransport
from tests.memory.replay import Player, normalised, play
from tests.memory.replay.player import CRDS


@asynccontextmanager
async def real_kubeconfig(binaries: Path, directory: Path) -> AsyncIterator[dict[str, Any]]:
    """A kubeconfig of a real cluster that lives as long."""
    cluster = await RealCluster.start("replay", binaries=binaries, directory=directory)
    try:
        yield cluster.kubeconfig()
    finally:
        await cluster.stop()


async def quiet(transport: HttpTransport) -> None:
    """Waits until the server's own controllers leave the CRDs alone. What follows from a CRD
    inside the server cannot be seen, and takes about as long."""
    seen: list[object] = []
    while len(seen) < 3 or not seen[-1] == seen[-2] == seen[-3]:
        await asyncio.sleep(0.25)
        reply = await transport.send(Request("GET", CRDS), timeout=20)
        items = json.loads(reply.body)["items"]
        seen.append([item["metadata"]["resourceVersion"] for item in items])


async def double() -> dict[str, Any]:
    """The double's answers, by title."""

    async def settle() -> None:
        await asyncio.sleep(0)

    player = Player(MemoryCluster("replay").transport(), settle, "rdouble", "0.01")
    await play(player)
    return dict(normalised(player.answers, player.run))


async def test_the_script_runs_on_the_double() -> None:
    answers = await double()
    assert answers["create"]["status"] == 201
    assert answers["apply conflict"]["status"] == 409
    assert answers["crd gone"]["status"] == 404


@pytest.mark.real
@pytest.mark.timeout(300)  # the controller that ends namespaces takes its time
async def test_the_double_answers_like_a_real_server(binaries: Path, tmp_path: Path) -> None:
    run = f"r{uuid.uuid4().hex[:8]}"
    async with real_kubeconfig(binaries, tmp_path) as kubeconfig:
        transport = HttpTransport(kubeconfig)
        try:
            player = Player(transport, lambda: quiet(transport), run)
            await play(player)
        finally:
            await transport.close()
    expected = dict(normalised(player.answers, run))
    answers = await double()
    assert set(answers) == set(expected)
    different = [title for title in expected if answers[title] != expected[title]]
    for title in different:
        print(f"--- {title}\nreal:   {_line(expected[title])}\ndouble: {_line(answers[title])}")
    assert not different, f"{len(different)} of {len(expected)} answers differ"


def _line(answer: Any) -> str:
    return json.dumps(answer, sort_keys=True)
