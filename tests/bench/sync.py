"""What syncing costs, on real API servers: ``make bench``.

A konnector process between two clusters; beside it, in the same run, a bare client that sends the
same writes without deciding anything. Compare the two, not the absolute figures: machines differ.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from kbind.testing.binaries import find_or_build
from kbind.testing.handles import Cluster, Handle, Object, condition
from kbind.testing.real import RealCluster
from kbind.testing.running import USER, add_connection, binding
from tests.clusters.widgets import WIDGETS, crd, widget

COUNT = int(os.environ.get("KBIND_BENCH_OBJECTS", "1000"))
WRITERS = 16
TICKS = os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def konnector(cluster: Cluster, folder: Path) -> AsyncIterator[int]:
    """A konnector process; gives its pid."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_bytes(orjson.dumps(cluster.kubeconfig(USER)))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from kbind.cli import main; main()",
        "konnector", "--kubeconfig", str(kubeconfig), "--log-level", "warning",
        "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
    )  # fmt: skip
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int) -> float:
    """Its resident memory, MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def fan_out(work: Callable[[Object], Awaitable[object]], items: list[Object]) -> None:
    gate = asyncio.Semaphore(WRITERS)

    async def one(item: Object) -> None:
        async with gate:
            await work(item)

    await asyncio.gather(*(one(item) for item in items))


async def counted(handle: Handle, met: Callable[[Object], bool]) -> None:
    """Until every widget is as it should be."""
    while True:
        items = await handle.list("example.org/v1", "Widget")
        if sum(map(met, items)) >= COUNT:
            return
        await asyncio.sleep(0.1)


async def phase(name: str, pid: int, begin: Awaitable[object], end: Awaitable[object]) -> None:
    started, used = time.monotonic(), cpu(pid)
    await asyncio.gather(begin, end)
    took = time.monotonic() - started
    each = (cpu(pid) - used) / COUNT * 1000
    print(f"{name:<28} {COUNT / took:7.0f} a second   {each:6.2f} ms of CPU each")


async def latency(consumer: Handle, provider: Handle) -> None:
    """One at a time: from the create's answer to the copy, and from status to instance."""
    up, down = [], []
    for number in range(50):
        one = await consumer.create(widget(f"late-{number}", size=1))
        began = time.monotonic()
        while await provider.find(one) is None:  # noqa: ASYNC110 - what is measured
            await asyncio.sleep(0.001)
        up.append(time.monotonic() - began)
        began = time.monotonic()
        await provider.set_status(one, {"phase": "Ready"})
        while "status" not in await consumer.get(one):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        down.append(time.monotonic() - began)
    for name, values in (("spec to copy", up), ("status to instance", down)):
        print(f"{name:<28} {sorted(values)[25] * 1000:7.1f} ms at the median")


async def bare(consumer: Handle, provider: Handle) -> None:
    """The same two writes an object, by a client that decides nothing."""
    items = [widget(f"bare-{number}", size=number) for number in range(COUNT)]

    async def one(item: Object) -> None:
        body = {"metadata": {"finalizers": ["example.org/bare"]}}
        await consumer.merge(item, body)
        await provider.apply(item)

    await fan_out(consumer.create, items)
    started, used = time.monotonic(), time.process_time()
    await fan_out(one, items)
    took, each = time.monotonic() - started, (time.process_time() - used) / COUNT * 1000
    print(
        f"{'bare client, two writes':<28} {COUNT / took:7.0f} a second   {each:6.2f} ms of CPU each"
    )


async def main() -> None:
    binaries = find_or_build(lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        clusters = await asyncio.gather(
            *(
                RealCluster.start(name, binaries=binaries, directory=folder)
                for name in ("provider", "consumer")
            )
        )
        try:
            provider, consumer = [await Handle.open(cluster) for cluster in clusters]
            await measure(provider, consumer, clusters[1], folder)
            await provider.close()
            await consumer.close()
        finally:
            for cluster in clusters:
                await cluster.stop()


async def measure(provider: Handle, consumer: Handle, cluster: RealCluster, folder: Path) -> None:
    await provider.install_crd(crd())
    await consumer.install_core()
    for handle in (provider, consumer):
        await handle.namespace("team-a")
    async with konnector(cluster, folder) as pid:
        await add_connection(consumer, provider.cluster)
        bound = await consumer.create(binding([WIDGETS], "team-a"))
        await consumer.until(bound, lambda seen: condition(seen, "Synced"), deadline=60)
        await latency(consumer, provider)
        items = [widget(f"w-{number}", size=number) for number in range(COUNT)]
        await phase(
            "new objects", pid, fan_out(consumer.create, items), counted(provider, lambda o: True)
        )
        await phase(
            "spec updates",
            pid,
            fan_out(lambda o: consumer.merge(o, {"spec": {"note": "n"}}), items),
            counted(provider, lambda o: o["spec"].get("note") == "n"),
        )
        await phase(
            "status updates",
            pid,
            fan_out(lambda o: provider.set_status(o, {"count": 1}), items),
            counted(consumer, lambda o: (o.get("status") or {}).get("count") == 1),
        )
        used = cpu(pid)
        await asyncio.sleep(30)
        print(f"{'at rest':<28} {(cpu(pid) - used) / 30 * 100:7.2f} % of a CPU")
        print(f"{'resident':<28} {memory(pid):7.0f} MiB with {COUNT + 50} objects")
    await bare(consumer, provider)


if __name__ == "__main__":
    asyncio.run(main())
