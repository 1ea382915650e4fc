"""One script of requests, the same answers from the double and from a real API server."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kbind.testing.memory import MemoryCluster
from tests.memory.over_http import HttpTransport
from tests.memory.replay import Player, normalised, play


@asynccontextmanager
async def real_kubeconfig(directory: Path) -> AsyncIterator[dict[str, Any]]:
    """A kubeconfig of a real cluster: a running one that the environment names, else a new one."""
    if given := os.environ.get("KBIND_REPLAY_KUBECONFIG"):
        yield json.loads(await asyncio.to_thread(Path(given).read_text))
        return
    binaries = pytest.importorskip("kbind.testing.binaries", reason="no real control plane here")
    real = pytest.importorskip("kbind.testing.real", reason="no real control plane here")
    folder = await asyncio.to_thread(binaries.find_or_build)
    cluster = await real.RealCluster.start("replay", binaries=folder, directory=directory)
    try:
        yield cluster.kubeconfig()
    finally:
        await cluster.stop()


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
async def test_the_double_answers_like_a_real_server(tmp_path: Path) -> None:
    async def settle() -> None:
        await asyncio.sleep(0.3)

    run = f"r{uuid.uuid4().hex[:8]}"
    async with real_kubeconfig(tmp_path) as kubeconfig:
        transport = HttpTransport(kubeconfig)
        try:
            player = Player(transport, settle, run)
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
