"""What it costs to unbind very many instances in one go, and what others notice: ``make bench``.

A konnector process between two clusters, on real API servers or, with ``--memory``, on ones in
memory. One Binding for widgets is deleted while gadgets, bound through the same Connection, are
edited one after the other. Then, in the same run, a bare client in a process of its own sends the
same two writes for as many objects: what gadgets notice of that they owe to the servers.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import orjson

from kbind import words
from kbind.testing.audit import Entry
from kbind.testing.binaries import find_or_build
from kbind.testing.handles import Cluster, Handle, Object, condition
from kbind.testing.memory import MemoryCluster
from kbind.testing.real import RealCluster
from kbind.testing.running import USER, add_connection, binding
from tests.bench.sync import fan_out, konnector, memory
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget

COUNT = int(os.environ.get("KBIND_BENCH_UNBOUND", "5000"))
DEADLINE = 900.0
SAMPLES = 100  # edits of a gadget before the unbinding begins


async def main(in_memory: bool) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clusters = await started(stack, folder, in_memory)
        handles = [await Handle.open(cluster) for cluster in clusters]
        for handle in handles:
            stack.push_async_callback(handle.close)
        provider, consumer = handles
        await consumer.install_core()
        async with konnector(clusters[1], folder) as pid:
            one = await measure(provider, consumer, pid)
            await compare(provider, consumer, folder, one)


async def started(stack: AsyncExitStack, folder: Path, in_memory: bool) -> list[Cluster]:
    names = ("provider", "consumer")
    if in_memory:
        return [await stack.enter_async_context(MemoryCluster(name).serve()) for name in names]
    binaries = find_or_build(lambda line: print(line, file=sys.stderr))
    found: list[Cluster] = []
    for name in names:
        cluster = await RealCluster.start(name, binaries=binaries, directory=folder)
        stack.push_async_callback(cluster.stop)
        found.append(cluster)
    return found


async def measure(provider: Handle, consumer: Handle, pid: int) -> Object:
    for definition in (crd(), crd("gadgets", "Gadget")):
        await provider.install_crd(definition)
    for handle in (provider, consumer):
        await handle.namespace("team-a")
    await add_connection(consumer, provider.cluster)
    bound, beside = binding([WIDGETS], "team-a"), binding([GADGETS], "team-a", "beside")
    for each in (bound, beside):
        await consumer.create(each)
        await consumer.until(each, lambda seen: condition(seen, "Synced"), DEADLINE)
    await fan_out(consumer.create, [widget(f"w-{number}", size=1) for number in range(COUNT)])
    while len(await provider.list("example.org/v1", "Widget")) < COUNT:  # noqa: ASYNC110
        await asyncio.sleep(1)
    one = await consumer.create(gadget("one", size=0))
    await provider.until(one, bool)
    await asyncio.sleep(5)

    before = [await edit(consumer, provider, one, number) for number in range(SAMPLES)]
    rest, peak = memory(pid), 0.0
    sides = (consumer, provider)
    start = [len(side.cluster.audit(USER)) for side in sides]
    began = time.monotonic()
    await consumer.delete(bound)
    during: list[float] = []
    while await consumer.find(bound) is not None:
        during.append(await edit(consumer, provider, one, SAMPLES + len(during)))
        peak = max(peak, memory(pid))
    took = time.monotonic() - began

    print(f"{COUNT} instances unbound in {took:.1f} s, {COUNT / took:.0f} a second")
    for side, first in zip(sides, start, strict=True):
        print(f"{side.cluster.name:<9} {requests(side.cluster.audit(USER)[first:])}")
    print(f"resident  {rest:.0f} MiB before, {peak:.0f} MiB at the most")
    print(f"gadgets   {quantiles(before)} before")
    print(f"          {quantiles(during)} meanwhile")
    left = await provider.list("example.org/v1", "Widget")
    held = [w for w in await consumer.list("example.org/v1", "Widget") if marked(w)]
    print(f"left      {len(left)} copies, {len(held)} instances that are held")
    return one


async def compare(provider: Handle, consumer: Handle, folder: Path, one: Object) -> None:
    """What gadgets notice of a bare client."""
    for handle in (consumer, provider):
        await handle.install_crd(crd("gizmos", "Gizmo", exported=False))
        await fan_out(handle.create, gizmos(held=handle is consumer))
        kubeconfig = orjson.dumps(handle.cluster.kubeconfig())
        (folder / f"{handle.cluster.name}.kubeconfig").write_bytes(kubeconfig)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.unbinding", "--bare", str(folder)
    )
    ended = asyncio.create_task(process.wait())
    meanwhile: list[float] = []
    while not ended.done():
        meanwhile.append(await edit(consumer, provider, one, 2 * COUNT + len(meanwhile)))
    print(f"          {quantiles(meanwhile)} beside a bare client")


def gizmos(held: bool) -> list[Object]:
    made = [widget(f"g-{number}", kind="Gizmo", size=1) for number in range(COUNT)]
    for each in made if held else ():
        each["metadata"]["finalizers"] = ["example.org/bare"]
    return made


@dataclass(slots=True)
class Stored:
    """A cluster whose kubeconfig stands in a folder."""

    name: str
    folder: Path

    def kubeconfig(self, user: str = "admin") -> Object:
        found: Object = orjson.loads((self.folder / f"{self.name}.kubeconfig").read_bytes())
        return found

    def audit(self, user: str) -> list[Entry]:
        return []


async def bare(folder: Path) -> None:
    names = ("consumer", "provider")
    consumer, provider = [await Handle.open(Stored(name, folder)) for name in names]

    async def one(item: Object) -> None:
        await provider.delete(item)
        await consumer.merge(item, {"metadata": {"finalizers": []}})

    await fan_out(one, gizmos(held=False))
    for handle in (consumer, provider):
        await handle.close()


async def edit(consumer: Handle, provider: Handle, one: Object, number: int) -> float:
    """Seconds from an edit's answer until the copy has it."""
    await consumer.merge(one, {"spec": {"size": number + 1}})
    began = time.monotonic()
    while (await provider.get(one))["spec"]["size"] != number + 1:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return time.monotonic() - began


def marked(instance: Object) -> bool:
    return words.SYNCER in (instance["metadata"].get("finalizers") or ())


def requests(entries: list[Entry]) -> str:
    """Those for widgets, by verb; lists and watches are of all of them and stand for none."""
    counts = Counter(e.verb for e in entries if e.resource == "widgets")
    single = sum(count for verb, count in counts.items() if verb not in ("list", "watch"))
    verbs = ", ".join(f"{verb} {count}" for verb, count in sorted(counts.items()))
    return f"{single / COUNT:.3f} requests an instance ({verbs})"


def quantiles(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    late = ordered[int(0.95 * (len(ordered) - 1))]
    return (
        f"spec to copy {statistics.median(ordered) * 1000:6.1f} ms at the median, "
        f"{late * 1000:6.1f} ms at 95 %, {ordered[-1] * 1000:6.1f} ms at the most, "
        f"{len(ordered)} edits"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        asyncio.run(bare(Path(sys.argv[2])))
    else:
        asyncio.run(main("--memory" in sys.argv[1:]))
