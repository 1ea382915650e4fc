"""JSON that is nested deeper than orjson takes, which API servers do take.

orjson encodes 254 levels and decodes 1024. Nothing here recurses, so that what was decoded can
always be encoded again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

DEPTH: Final = 1024
"""Levels that can be decoded."""

# A string that does not end reaches to the end of the text.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)|[{}\[\]]', re.DOTALL)


def encode(value: Any, *, sort: bool = False) -> bytes:
    """A JSON value as compact JSON. sort: its keys, so that equal values read the same."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort else None)
    except orjson.JSONEncodeError:  # nested too deep, or no JSON: then it is raised again
        return _encode(value, sort)


def _encode(value: Any, sort: bool) -> bytes:
    written: list[bytes] = []
    todo = [value]  # values, and between them pieces of text
    while todo:
        item = todo.pop()
        if isinstance(item, bytes):
            written.append(item)
        elif isinstance(item, dict):
            pieces: list[Any] = []
            for name in sorted(item) if sort else item:
                if not isinstance(name, str):
                    raise TypeError(f"a field is named {name!r}, which is no text")
                pieces += (b"," if pieces else b"{", orjson.dumps(name) + b":", item[name])
            todo += reversed([*pieces, b"}"] if pieces else [b"{}"])
        elif isinstance(item, list | tuple):
            pieces = []
            for inner in item:
                pieces += (b"," if pieces else b"[", inner)
            todo += reversed([*pieces, b"]"] if pieces else [b"[]"])
        else:
            written.append(orjson.dumps(item))
    return b"".join(written)


def tokens(raw: bytes) -> Iterator[tuple[re.Match[bytes], int]]:
    """Every bracket and string of *raw*, each with the level it is at: brackets with that of
    what is between them, the outermost at 1."""
    level = 0
    for token in _TOKEN.finditer(raw):
        opens = raw[token.start()] in b"{["
        level += opens
        yield token, level
        level -= raw[token.start()] in b"}]"


def too_deep(raw: bytes) -> bool:
    """Whether *raw* cannot be decoded for its depth."""
    return any(level > DEPTH for _, level in tokens(raw))
