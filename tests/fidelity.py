"""What schema sources keep of public CRDs: ``make fidelity``.

Every CRD of the folder is installed on a real API server and taken from there by each source.
Ends with 1 where the source CRD loses anything, or OpenAPI more than it may.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kbind.facts import Definition
from kbind.hooks import Offer
from kbind.manifests import documents
from kbind.schema import consumer_crd
from kbind.testing.binaries import find_or_build
from kbind.testing.handles import Handle, Object
from kbind.testing.real import RealCluster
from tests.comparing import Tally, compare, table
from tests.published import SHARED, documented, published

FOLDER = SHARED / "crds"
LEAST = 0.95
"""Of the constrained nodes, what OpenAPI keeps at least."""


async def main() -> int:
    crds = [crd for file in sorted(FOLDER.glob("*.yaml")) for crd in read(file)]
    if not crds:
        print(f"no CRDs to compare: {FOLDER} is not there or has no *.yaml", file=sys.stderr)
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
            results = await measure(provider, crds)
            await provider.close()
        finally:
            await cluster.stop()
    return report(results, markdown="--markdown" in sys.argv[1:])


def read(file: Path) -> Iterator[Object]:
    for crd in documents(file.read_text(), file.name):
        # A webhook of theirs does not run here.
        crd["spec"].pop("conversion", None)
        yield crd


async def measure(provider: Handle, crds: list[Object]) -> dict[str, dict[str, Tally]]:
    """By source, then by CRD, what is left of it on a consumer."""
    installed = [await provider.install_crd(crd) for crd in crds]
    await documented(provider, crds)
    apis = await published(provider)
    results: dict[str, dict[str, Tally]] = {"CRD": {}, "OpenAPI": {}}
    for crd in installed:
        name = crd["metadata"]["name"]
        offers = {"CRD": Offer(crd, Definition.ORIGINAL), "OpenAPI": apis[name].offer()}
        for source, offer in offers.items():
            made = consumer_crd(offer, "provider", None)
            assert made is not None
            results[source][name] = compare(crd, made)
    return results


def report(results: dict[str, dict[str, Tally]], *, markdown: bool) -> int:
    totals = {source: sum(each.values(), Tally()) for source, each in results.items()}
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
    return int(totals["CRD"].missing > 0 or totals["OpenAPI"].share < LEAST)


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
