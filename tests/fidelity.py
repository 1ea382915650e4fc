"""What schema sources keep of public CRDs: ``make fidelity``.

Every CRD of the folder is installed on a real API server and taken from there by each source, as
the konnector takes it.
Ends with 1 where the source CRD loses anything, or OpenAPI more than it may.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from kbind_sources.crd import CrdSource
from kbind_sources.openapi import OpenApiSource

from kbind.hooks import SourceFactory
from kbind.konnector.reader import Reader
from kbind.schema import consumer_crd
from kbind.testing.binaries import find_or_build
from kbind.testing.handles import Handle, Object
from kbind.testing.real import RealCluster
from tests.clusters.scenes import offers
from tests.comparing import Tally, compare, table
from tests.public_apis import SHARED, crds

SOURCES: dict[str, SourceFactory] = {"CRD": CrdSource, "OpenAPI": OpenApiSource}
LEAST = 0.95
"""Of the constrained nodes, what OpenAPI keeps at least."""


async def main() -> int:
    public = crds()
    if not public:
        folder = SHARED / "crds"
        print(f"no CRDs to compare: {folder} is not there or has no *.yaml", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        cluster = await RealCluster.start(
            "provider",
            binaries=find_or_build(lambda line: print(line, file=sys.stderr)),
            directory=Path(temporary),
            controllers=False,
            audit=False,
        )
        try:
            provider = await Handle.open(cluster)
            installed = {
                each["metadata"]["name"]: await provider.install_crd(each) for each in public
            }
            results = await measure(provider, installed)
            await provider.close()
        finally:
            await cluster.stop()
    return report(results, markdown="--markdown" in sys.argv[1:])


async def measure(provider: Handle, installed: dict[str, Object]) -> dict[str, dict[str, Tally]]:
    """By source, then by CRD, what is left of it on a consumer. installed: by name, as the provider
    has them."""
    results: dict[str, dict[str, Tally]] = {}
    for source, factory in SOURCES.items():
        found = await offers(factory(Reader(provider.client)), installed)
        results[source] = {}
        for name, crd in installed.items():
            made = consumer_crd(found[name], "provider", None)
            assert made is not None
            results[source][name] = compare(crd, made)
    return results


def report(results: dict[str, dict[str, Tally]], *, markdown: bool) -> int:
    totals = summed(results)
    show(table(totals), markdown)
    print()
    names = results["OpenAPI"]
    show(
        [
            ["CRD", *(f"{source}: nodes kept" for source in results)],
            *(
                [name, *(f"{r[name].nodes_kept} of {r[name].nodes}" for r in results.values())]
                for name in names
            ),
        ],
        markdown,
    )
    return int(not holds(totals))


def summed(results: dict[str, dict[str, Tally]]) -> dict[str, Tally]:
    return {source: sum(each.values(), Tally()) for source, each in results.items()}


def holds(totals: dict[str, Tally]) -> bool:
    """Whether the sources keep as much as is promised."""
    return totals["CRD"].missing == 0 and totals["OpenAPI"].share >= LEAST


def show(rows: list[list[str]], markdown: bool) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        if markdown:
            print(f"| {' | '.join(row)} |")
            if number == 0:
                print(f"|---{'|--:' * (len(row) - 1)}|")
            continue
        first, *others = [
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join([first, *others]).rstrip())


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
