"""The sequences that the suite plays: two thousand, in chunks, spread over two files so that two
workers share them.

KBIND_FUZZ_SEED, a number, plays others: it is added to every seed.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.model.run import told

SEQUENCES: Final = 2000
CHUNK: Final = 100
FIRST: Final = int(os.environ.get("KBIND_FUZZ_SEED", "0"))


def chunks(half: int) -> pytest.MarkDecorator:
    """Parametrizes ``seeds`` with the chunks of a *half*, 0 or 1."""
    size = SEQUENCES // 2
    begins = range(FIRST + half * size, FIRST + (half + 1) * size, CHUNK)
    found = [range(begin, begin + CHUNK) for begin in begins]
    names = [f"{seeds.start}-{seeds.stop - 1}" for seeds in found]
    return pytest.mark.parametrize("seeds", found, ids=names)


def keeps(seeds: range) -> None:
    """Fails with the story of the first sequence that breaks a promise."""
    for seed in seeds:
        story = told(seed)
        if story is not None:
            pytest.fail(str(story), pytrace=False)
