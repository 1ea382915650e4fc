"""``make fuzz`` itself, on clusters in memory that are served."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from tests.model import fuzz
from tests.model.promises import SYNCED, Broken, Complaint


def test_a_sequence_over_https_keeps_every_promise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz", "--memory", "--sequences", "1", "--seed", "3"])
    fuzz.main()
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "1 sequences from seed 3"
    assert second.startswith("1/1  seed 3  kept")
    assert last == "every promise was kept"


def test_what_breaks_over_https_alone_is_told_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(seeds: Sequence[int], *, memory: bool) -> tuple[int, Broken]:
        return seeds[0], Broken([Complaint(SYNCED, "widget red/one has no copy")])

    monkeypatch.setattr(sys, "argv", ["fuzz", "--seed", "3"])
    monkeypatch.setattr(fuzz, "fuzz", broken)
    with pytest.raises(SystemExit) as ended:
        fuzz.main()
    assert ended.value.code == 1
    out = capsys.readouterr().out
    assert "200 sequences from seed 3" in out
    assert "seed 3, 30 moves:\n   1. create Connection provider and its Secret\n" in out
    assert out.endswith(f"{SYNCED}: widget red/one has no copy\n")
