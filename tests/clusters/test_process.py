"""``kbind konnector`` as a process: its flags, its endpoints, its end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import orjson
import pytest

from kbind.testing.handles import condition
from kbind.testing.running import USER, add_connection, binding
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

KBIND = (sys.executable, "-c", "from kbind.cli import main; main()")
HEALTH, METRICS = "127.0.0.1:18081", "127.0.0.1:18085"


@asynccontextmanager
async def process(world: World, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_bytes(orjson.dumps(world.consumer.cluster.kubeconfig(USER)))
    running = await asyncio.create_subprocess_exec(
        *KBIND,
        "konnector",
        f"--kubeconfig={kubeconfig}",
        f"--health-probe-bind-address={HEALTH}",
        f"--metrics-bind-address={METRICS}",
        "--discovery-interval=1s",
        "--log-format=json",
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def answers(url: str, deadline: float = 15) -> str:
    """The body, as soon as the URL answers with 200."""
    end = asyncio.get_running_loop().time() + deadline
    async with aiohttp.ClientSession() as session:
        while asyncio.get_running_loop().time() < end:
            try:
                async with session.get(url) as response:
                    if response.status == 200:
                        return await response.text()
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
    raise AssertionError(f"{url} does not answer")


async def test_it_syncs_answers_and_ends_in_order(world: World, tmp_path: Path) -> None:
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    async with process(world, tmp_path) as running:
        assert await answers(f"http://{HEALTH}/healthz") == "ok"
        assert await answers(f"http://{HEALTH}/readyz") == "ok"
        bound = await world.consumer.create(binding([WIDGETS], "team-a"))
        await world.consumer.until(bound, lambda seen: condition(seen, "Synced"))
        one = await world.consumer.create(widget("one", size=1))
        await world.provider.until(one, lambda seen: seen)
        figures = await answers(f"http://{METRICS}/metrics")
        assert 'kbind_instances{api="widgets.example.org"} 1.0' in figures
        assert (
            'kbind_writes_total{api="widgets.example.org",side="provider",step="create"} 1.0'
            in figures
        )
        running.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(running.communicate(), 10)
    assert running.returncode == 0
    lines = [orjson.loads(line) for line in errors.splitlines()]
    assert [line["event"] for line in lines][-1] == "konnector ended"
    assert not [line for line in lines if line["level"] in ("warning", "error")]
    secret = world.provider.cluster.kubeconfig(USER)["users"][0]["user"]["token"]
    assert secret.encode() not in errors


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--leader-elect"], "not available yet"),
        (["--discovery-interval=500ms"], "at least 1s"),
        (["--binding-interval=soon"], "is not a duration"),
        (["--rules=/no/such/folder"], "/no/such/folder"),
        (["--kubeconfig=/no/such/file"], "/no/such/file"),
        (["--metrics-bind-address=nowhere"], "nowhere"),
    ],
)
async def test_what_it_cannot_do_it_says(
    world: World, tmp_path: Path, flags: list[str], said: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(orjson.dumps(world.consumer.cluster.kubeconfig(USER)))
    started = await asyncio.create_subprocess_exec(
        *KBIND,
        "konnector",
        f"--kubeconfig={kubeconfig}",
        "--health-probe-bind-address=0",
        *flags,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(started.communicate(), 20)
    assert started.returncode not in (0, None)
    assert said in errors.decode()
    assert "Traceback" not in errors.decode()
