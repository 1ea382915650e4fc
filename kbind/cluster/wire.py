"""The text of lists and watches, taken apart."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, NamedTuple

import orjson

LINE_LIMIT: Final = 16 << 20
"""Bytes of one line of a watch. etcd holds 1.5 MiB an object by default, and what the server adds
on the way out is far less than the rest."""

_HEAD: Final = b'{"type":"'
_MIDDLE: Final = b'","object":'


class LineTooLong(Exception):
    """A line over the limit."""


class Malformed(Exception):
    """Something that no API server writes there."""


class Event(NamedTuple):
    """type: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR or unheard of; obj: the decoded object;
    raw: its JSON."""

    type: str
    obj: dict[str, Any]
    raw: bytes


class Page(NamedTuple):
    """items: decoded; version: of the list; token: asks for the next page, "" on the last."""

    items: list[dict[str, Any]]
    version: int
    token: str


async def lines(
    chunks: AsyncIterator[bytes], limit: int = LINE_LIMIT
) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, ends at ``\\n`` alone; blank ones are left out, and so is a last
    one without its end, which was cut off. Raises LineTooLong."""
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = chunk[start:end]
            if pieces:
                pieces.append(line)
                line = b"".join(pieces)
                pieces.clear()
                size = 0
            start = end + 1
            if len(line) > limit:
                raise LineTooLong(f"a line of {len(line)} bytes")
            if line and not line.isspace():
                yield line
        if start < len(chunk):
            size += len(chunk) - start
            if size > limit:
                raise LineTooLong(f"a line of more than {limit} bytes")
            pieces.append(chunk[start:] if start else chunk)


def event(line: bytes) -> Event:
    """One line of a watch. Raises Malformed.

    A server writes ``{"type":"T","object":O}`` without a space. If what stands where O does is
    by itself one JSON value, then it is O, byte for byte, and need not be encoded again.
    """
    if line.startswith(_HEAD):
        end = line.find(b'"', len(_HEAD))
        start = end + len(_MIDDLE)
        if end > 0 and line[end:start] == _MIDDLE:
            raw = line.rstrip()[start:-1]
            try:
                obj = orjson.loads(raw)
            except orjson.JSONDecodeError:
                pass
            else:
                if isinstance(obj, dict):
                    return Event(line[len(_HEAD) : end].decode("utf-8", "replace"), obj, raw)
    try:
        whole = orjson.loads(line)
        kind, obj = whole["type"], whole["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Malformed("a line of the watch is no event") from error
    if not isinstance(kind, str) or not isinstance(obj, dict):
        raise Malformed("a line of the watch is no event")
    return Event(kind, obj, orjson.dumps(obj))


def page(body: bytes) -> Page:
    """One page of a list. Raises Malformed."""
    try:
        answer = orjson.loads(body)
        items = answer["items"] or []  # An empty list of Go may be null.
        metadata = answer["metadata"]
        version = int(metadata["resourceVersion"])
        token = metadata.get("continue") or ""
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed("the answer is no list") from error
    if not isinstance(items, list) or not isinstance(token, str):
        raise Malformed("the answer is no list")
    return Page(items, version, token)
