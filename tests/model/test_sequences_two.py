"""The second thousand sequences; see ``tests/model/suite.py``."""

from __future__ import annotations

import pytest

from tests.model.suite import chunks, keeps


@pytest.mark.timeout(600)
@chunks(1)
def test_every_promise_is_kept(seeds: range) -> None:
    keeps(seeds)
