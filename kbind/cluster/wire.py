"""The text of lists and watches, taken apart."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, NamedTuple

import orjson

from kbind.jsons import encode, tokens, too_deep

LINE_LIMIT: Final = 16 << 20
"""Bytes of one line of a watch. etcd holds 1.5 MiB an object by default, and what the server adds
on the way out is far less than the rest."""

_HEAD: Final = b'{"type":"'
_MIDDLE: Final = b'","object":'
_NAMES: Final = (b'"namespace"', b'"name"')
_TEXT: Final = re.compile(rb'\s*:\s*"([^"\\]*)"')
_LIST: Final = re.compile(rb"\s*:\s*\[")


class LineTooLong(Exception):
    """A line over the limit."""


class Malformed(Exception):
    """Something that no API server writes there."""


class TooDeep(Exception):
    """An object that is nested deeper than can be decoded. name: its own, "?" where unknown."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is nested too deep")
        self.name = name


class Event(NamedTuple):
    """type: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR or unheard of; obj: the decoded object;
    raw: its JSON."""

    type: str
    obj: dict[str, Any]
    raw: bytes


class Page(NamedTuple):
    """items: decoded; version: of the list; token: asks for the next page, "" on the last;
    skipped: names of objects that are nested too deep to be decoded."""

    items: list[dict[str, Any]]
    version: int
    token: str
    skipped: list[str]


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
    """One line of a watch. Raises Malformed or TooDeep.

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
        if too_deep(line):
            raise TooDeep(_name(line, 3)) from error
        raise Malformed("a line of the watch is no event") from error
    if not isinstance(kind, str) or not isinstance(obj, dict):
        raise Malformed("a line of the watch is no event")
    return Event(kind, obj, encode(obj))


def page(body: bytes) -> Page:
    """One page of a list. Raises Malformed."""
    skipped: list[str] = []
    try:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            if not too_deep(body):
                raise
            answer = _one_by_one(body, skipped)
        items = answer["items"] or []  # An empty list of Go may be null.
        metadata = answer["metadata"]
        version = int(metadata["resourceVersion"])
        token = metadata.get("continue") or ""
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed("the answer is no list") from error
    if not isinstance(items, list) or not isinstance(token, str):
        raise Malformed("the answer is no list")
    return Page(items, version, token, skipped)


def _one_by_one(body: bytes, skipped: list[str]) -> Any:
    """The list with those of its items that can be decoded; the names of others go to *skipped*.
    Raises orjson.JSONDecodeError."""
    items: list[Any] = []
    rest: list[bytes] = []  # the body without what is within its items
    done = 0
    within = False
    start = 0
    for token, level in tokens(body):
        what = token.group()
        if level == 1 and what == b'"items"' and _LIST.match(body, token.end()):
            within = True
        elif within and level == 2 and what == b"[":
            rest.append(body[done : token.end()])
        elif within and level == 2 and what == b"]":
            done = token.start()
            within = False
        elif within and level == 3 and what == b"{":
            start = token.start()
        elif within and level == 3 and what == b"}":
            item = body[start : token.end()]
            try:
                items.append(orjson.loads(item))
            except orjson.JSONDecodeError:
                if not too_deep(item):
                    raise
                skipped.append(_name(item, 2))
    answer = orjson.loads(b"".join([*rest, body[done:]]))
    answer["items"] = items
    return answer


def _name(raw: bytes, level: int) -> str:
    """What an object that cannot be decoded is called. level: that of what is in metadata, which
    servers write before everything else that might have a name there."""
    found: dict[bytes, str] = {}
    for token, at in tokens(raw):
        if at == level and token.group() in _NAMES and (text := _TEXT.match(raw, token.end())):
            found.setdefault(token.group(), text[1].decode("utf-8", "replace"))
    return "/".join(found[name] for name in _NAMES if name in found) or "?"
