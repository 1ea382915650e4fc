"""The real control plane starts, behaves, is audited, and leaves nothing behind."""

import asyncio
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kbind.testing.aggregated import AggregatedCluster
from kbind.testing.errors import ControlPlaneError
from kbind.testing.processes import Server
from kbind.testing.real import RealCluster

NAMESPACES = "/api/v1/namespaces"


async def request(
    cluster: RealCluster, verb: str, path: str, body: object = None, user: str = "admin"
) -> tuple[int, dict[str, Any]]:
    """Return the status and the object that *cluster* answers."""
    trust = ssl.create_default_context(cadata=cluster.ca_pem)
    headers = {"Authorization": f"Bearer {cluster.token_for(user)}"}
    async with (
        aiohttp.ClientSession(cluster.server, headers=headers) as session,
        session.request(verb, path, json=body, ssl=trust) as response,
    ):
        return response.status, await response.json()


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Return as soon as *check* holds; fail when it does not within 20 seconds."""
    end = time.monotonic() + 20
    while not await check():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether *pid* runs; a zombie, which only waits to be reaped, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def processes_naming(directory: Path) -> list[int]:
    """The pids of all processes whose command line names *directory*."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes()
        except OSError:
            continue
        if os.fsencode(directory) in command:
            found.append(int(file.parent.name))
    return found


@pytest.mark.real
async def test_one_cluster_from_start_to_stop(binaries: Path, tmp_path: Path) -> None:
    cluster = await RealCluster.start("one", binaries=binaries, directory=tmp_path)
    try:
        assert len(processes_naming(tmp_path)) == 3
        status, version = await request(cluster, "GET", "/version")
        assert status == 200
        assert version["gitVersion"].startswith("v1.")

        namespace = {"metadata": {"name": "short-lived"}}
        status, _ = await request(cluster, "POST", NAMESPACES, namespace, user="konnector")
        assert status == 201
        status, _ = await request(cluster, "DELETE", f"{NAMESPACES}/short-lived")
        assert status == 200

        async def gone() -> bool:
            return (await request(cluster, "GET", f"{NAMESPACES}/short-lived"))[0] == 404

        await eventually(gone)

        status, _ = await request(cluster, "GET", NAMESPACES, user="limited")
        assert status == 403

        (created,) = cluster.audit_events("konnector")
        assert created["verb"] == "create"
        assert created["stage"] == "ResponseComplete"
        assert created["objectRef"]["resource"] == "namespaces"
        assert created["objectRef"]["name"] == "short-lived"
        assert created["responseStatus"]["code"] == 201
        assert "userAgent" in created
        (refused,) = cluster.audit_events("limited")
        assert refused["responseStatus"]["code"] == 403
        assert len(cluster.audit_events()) > len(cluster.audit_events("admin")) > 2
    finally:
        await cluster.stop()
    assert processes_naming(tmp_path) == []
    await cluster.stop()


@pytest.mark.real
async def test_a_service_account_gets_its_token_secret(binaries: Path, tmp_path: Path) -> None:
    cluster = await RealCluster.start("one", binaries=binaries, directory=tmp_path, audit=False)
    try:
        secret = {
            "metadata": {
                "name": "token",
                "annotations": {"kubernetes.io/service-account.name": "default"},
            },
            "type": "kubernetes.io/service-account-token",
        }
        path = f"{NAMESPACES}/default/secrets"
        assert (await request(cluster, "POST", path, secret))[0] == 201

        async def filled() -> bool:
            _, answer = await request(cluster, "GET", f"{path}/token")
            return "token" in answer.get("data", {})

        await eventually(filled)
    finally:
        await cluster.stop()


@pytest.mark.real
async def test_three_clusters_side_by_side(binaries: Path, tmp_path: Path) -> None:
    names = ["consumer-a", "consumer-b", "provider"]
    clusters: list[RealCluster] = []

    async def start(name: str) -> None:
        clusters.append(await RealCluster.start(name, binaries=binaries, directory=tmp_path))

    try:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(start(name))
        assert sorted(cluster.kubeconfig()["current-context"] for cluster in clusters) == names
        identities = set()
        for cluster in clusters:
            _, namespace = await request(cluster, "GET", f"{NAMESPACES}/kube-system")
            identities.add(namespace["metadata"]["uid"])
        assert len(identities) == 3
    finally:
        await asyncio.gather(*(cluster.stop() for cluster in clusters))
    assert processes_naming(tmp_path) == []


@pytest.mark.real
async def test_a_start_that_fails_half_way_leaves_nothing(binaries: Path, tmp_path: Path) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "etcd").symlink_to(binaries / "etcd")
    (broken / "kube-apiserver").write_text("#!/bin/sh\necho no such flag\nexit 1\n")
    (broken / "kube-apiserver").chmod(0o755)
    directory = tmp_path / "clusters"
    with pytest.raises(ControlPlaneError) as raised:
        await RealCluster.start("broken", binaries=broken, directory=directory)
    assert "kube-apiserver ended" in raised.value.message
    assert "no such flag" in raised.value.output
    assert processes_naming(directory) == []


@pytest.mark.real
async def test_an_aggregated_cluster_from_start_to_stop(binaries: Path, tmp_path: Path) -> None:
    cluster = await AggregatedCluster.start("one", binaries=binaries, directory=tmp_path)
    try:
        assert len(processes_naming(tmp_path)) == 4
        await cluster.stop_sample()
        assert len(processes_naming(tmp_path)) == 3
        await cluster.start_sample()
    finally:
        await cluster.stop()
    assert processes_naming(tmp_path) == []


@pytest.mark.real
async def test_an_aggregated_cluster_without_its_server_leaves_nothing(
    binaries: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    for name in ("etcd", "kube-apiserver"):
        (broken / name).symlink_to(binaries / name)
    (broken / "sample-apiserver").write_text("#!/bin/sh\necho no such flag\nexit 1\n")
    (broken / "sample-apiserver").chmod(0o755)
    directory = tmp_path / "clusters"
    with pytest.raises(ControlPlaneError) as raised:
        await AggregatedCluster.start(
            "broken", binaries=broken, directory=directory, controllers=False
        )
    assert "sample-apiserver ended" in raised.value.message
    assert "no such flag" in raised.value.output
    assert processes_naming(directory) == []


@pytest.mark.real
async def test_a_start_that_is_cancelled_leaves_nothing(binaries: Path, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await RealCluster.start("late", binaries=binaries, directory=tmp_path)
    assert (tmp_path / "late" / "kube-apiserver.log").exists()
    assert processes_naming(tmp_path) == []


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match="/etcd: No such file"):
        await RealCluster.start("none", binaries=tmp_path, directory=tmp_path)


async def test_a_server_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    stubborn = tmp_path / "stubborn"
    stubborn.write_text("#!/bin/sh\ntrap '' TERM\necho up\nwhile :; do /bin/sleep 1; done\n")
    stubborn.chmod(0o755)
    server = await Server.start(stubborn, [], tmp_path / "log")

    async def up() -> bool:
        return server.tail() == "up"

    await eventually(up)
    await server.stop(deadline=0.1)
    assert not server.running
    assert not alive(server.pid)


def test_servers_die_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio, sys\n"
            "from pathlib import Path\n"
            "from kbind.testing.processes import Server\n"
            "async def main():\n"
            "    server = await Server.start(Path('/bin/sleep'), ['60'], Path(sys.argv[1]))\n"
            "    print(server.pid, flush=True)\n"
            "    await asyncio.sleep(60)\n"
            "asyncio.run(main())\n",
            tmp_path / "log",
        ],
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while alive(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(child)
