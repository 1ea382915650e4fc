"""What discovery costs at rest where a provider has a thousand CRDs: ``make bench``.

A konnector process and two real API servers; each schema source in its turn, with one API bound.
Ends with 1 where one costs more than is promised.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from kbind.testing.binaries import find_or_build
from kbind.testing.handles import Handle, condition
from kbind.testing.real import RealCluster
from kbind.testing.running import USER, add_connection, binding
from tests.bench.sync import cpu, konnector, memory
from tests.clusters.test_many_crds import IDENTITY, fill, name

COUNT = int(os.environ.get("KBIND_BENCH_CRDS", "1000"))
PASSES = 2  # of 30 s, that are measured
MOST = 3.0  # requests a pass, beside those for the identity
SHARE = 1.0  # percent of a CPU


async def main() -> int:
    kept = True
    binaries = find_or_build(lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        clusters = await asyncio.gather(
            *(
                RealCluster.start(each, binaries=binaries, directory=folder, controllers=False)
                for each in ("provider", "consumer")
            )
        )
        try:
            provider, consumer = [await Handle.open(cluster) for cluster in clusters]
            await fill(provider, COUNT)
            await consumer.install_core()
            for source in ("CRD", "OpenAPI"):
                async with konnector(clusters[1], folder) as pid:
                    kept &= await measure(provider, consumer, source, pid)
            await provider.close()
            await consumer.close()
        finally:
            for cluster in clusters:
                await cluster.stop()
    return int(not kept)


async def measure(provider: Handle, consumer: Handle, source: str, pid: int) -> bool:
    """Whether the source costs no more than is promised."""
    made = await add_connection(
        consumer, provider.cluster, source.lower(), schema={"source": source}
    )
    await consumer.namespace("team-a")
    bound = await consumer.create(binding([name(0)], "team-a", source.lower(), source.lower()))
    await consumer.until(bound, lambda seen: condition(seen, "Ready"), deadline=60)
    await asyncio.sleep(65)  # what is new is looked at twice
    used, before = cpu(pid), len(provider.cluster.audit(USER))
    await asyncio.sleep(30 * PASSES)
    share = (cpu(pid) - used) / (30 * PASSES) * 100
    asked = [e.path for e in provider.cluster.audit(USER)[before:] if e.verb != "watch"]
    each = (len(asked) - len(IDENTITY) * PASSES) / PASSES
    print(
        f"{COUNT} CRDs, source {source:<8} {each:4.1f} requests a pass beside the identity, "
        f"{share:5.2f} % of a CPU, {memory(pid):4.0f} MiB"
    )
    for obj in (bound, made):
        await consumer.delete(obj)
    crds = await consumer.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for crd in crds:
        if crd["metadata"]["name"] == name(0):
            await consumer.delete(crd)
            await consumer.gone(crd)
    return each <= MOST and share < SHARE


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
