"""Manifests read as kubectl reads them."""

from __future__ import annotations

import pytest

from kbind.errors import KbindError
from kbind.manifests import documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("'yes'", "yes"),
        ("off", False),
        ("~", None),
        ("1e3", 1000.0),
        ("0777", 511),
        ("0x1f", 31),
        ("1_000", 1000),
        ("-0", 0),
        ("2026-11-29", "2026-11-29"),
        ("=", "="),
        ("1.2.3", "1.2.3"),
        ("09", 9.0),
        ("|\n    5\n", "5\n"),
    ],
)
def test_plain_words(text: str, value: object) -> None:
    (read,) = documents(f"a: {text}", "f.yaml")
    assert read == {"a": value}
    assert type(read["a"]) is type(value)


def test_merge_keys_and_empty_documents() -> None:
    text = "---\n---\nbase: &b {x: 1, y: 2}\nthis: {<<: *b, y: 3}\n---\n"
    assert list(documents(text, "f.yaml")) == [{"base": {"x": 1, "y": 2}, "this": {"x": 1, "y": 3}}]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [", "f.yaml:"),
        ("a: 1\na: 2", "f.yaml:2:1"),
        ("a: .nan", "f.yaml:1:4"),
        ('a: "\\UFFFFFFFF"', "f.yaml"),
        ("a: " + "9" * 5000, "f.yaml: "),
        ("[" * 1500 + "]" * 1500, "f.yaml: nested too deep"),
        ("[" * 200_000, "f.yaml: nested too deep"),
        ("- " * 200_000, "f.yaml: nested too deep"),
    ],
)
def test_what_cannot_be_sent_is_placed(text: str, place: str) -> None:
    with pytest.raises(KbindError, match=place):
        list(documents(text, "f.yaml"))
