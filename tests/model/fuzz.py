"""Plays sequences over HTTPS: ``make fuzz``, or ``python -m tests.model.fuzz --help``.

They run on real etcd and kube-apiserver, or with ``--memory`` on clusters in memory. The first
sequence that breaks a promise ends it: it is told, shrunk where it fails in memory and in virtual
time as well, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from structlog.testing import capture_logs

from kbind.testing.binaries import find_or_build
from kbind.testing.errors import ControlPlaneError
from kbind.testing.handles import Cluster, Handle
from kbind.testing.memory import MemoryCluster
from kbind.testing.real import RealCluster
from tests.clusters.conftest import clean
from tests.model.drawing import sequence
from tests.model.promises import Broken
from tests.model.run import Run, Story, bugs, told
from tests.model.stage import over_https

SIDES = ("consumer", "provider")


@asynccontextmanager
async def clusters(*, memory: bool) -> AsyncIterator[list[Handle]]:
    """A consumer with the core CRDs and a provider. Raises ControlPlaneError."""
    async with AsyncExitStack() as stack:
        started: Sequence[Cluster]
        if memory:
            started = [await stack.enter_async_context(MemoryCluster(n).serve()) for n in SIDES]
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            started = await _real(stack, find_or_build(), folder)
        handles = [await Handle.open(cluster) for cluster in started]
        for handle in handles:
            stack.push_async_callback(handle.close)
        await handles[0].install_core()
        yield handles


async def _real(stack: AsyncExitStack, binaries: Path, folder: Path) -> list[RealCluster]:
    found = []
    for name in SIDES:
        found.append(await RealCluster.start(name, binaries=binaries, directory=folder))
        stack.push_async_callback(found[-1].stop)
    return found


async def fuzz(seeds: Sequence[int], *, memory: bool) -> tuple[int, Broken] | None:
    """The first seed whose sequence breaks a promise, and what was broken."""
    async with clusters(memory=memory) as handles:
        for number, seed in enumerate(seeds, 1):
            start = time.monotonic()
            broken = await _play(seed, *handles)
            took = time.monotonic() - start
            word = "BROKEN" if broken else "kept"
            print(f"{number}/{len(seeds)}  seed {seed}  {word}  {took:.1f} s", flush=True)
            if broken is not None:
                return seed, broken
    return None


async def _play(seed: int, consumer: Handle, provider: Handle) -> Broken | None:
    broken = None
    with capture_logs() as logs:
        async with over_https(consumer, provider) as stage:
            try:
                await Run(stage).play(sequence(seed), random.Random(seed))
            except Broken as error:
                broken = error
    for handle in (consumer, provider):
        await clean(handle)
    return broken or bugs(logs)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model.fuzz")
    parser.add_argument("--sequences", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=None, help="of the first; else by chance")
    parser.add_argument("--memory", action="store_true", help="on clusters in memory")
    asked = parser.parse_args()
    first = random.randrange(10**6) if asked.seed is None else asked.seed
    print(f"{asked.sequences} sequences from seed {first}", flush=True)
    try:
        found = asyncio.run(fuzz(range(first, first + asked.sequences), memory=asked.memory))
    except ControlPlaneError as error:
        sys.exit(f"no clusters to play on: {error}")
    if found is None:
        print("every promise was kept")
        return
    seed, broken = found
    print(f"over HTTPS: {broken}")
    small = told(seed)
    print(
        "in memory and in virtual time:" if small else "in memory it is kept; the whole sequence:"
    )
    print(small or Story(seed, tuple(sequence(seed)), broken))
    sys.exit(1)


if __name__ == "__main__":
    main()
