from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import orjson
import pytest

from kbind.cluster.wire import LineTooLong, Malformed, TooDeep, event, lines, page


async def _chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def _lines(*parts: bytes, limit: int = 100) -> list[bytes]:
    return [line async for line in lines(_chunks(parts), limit)]


async def test_lines_end_at_newline_alone_wherever_chunks_are_cut() -> None:
    text = "a\rb\x0b\x85\u2028\nc\n\n  \nd".encode()
    whole = ["a\rb\x0b\x85\u2028".encode(), b"c"]
    for size in range(1, len(text) + 1):
        parts = (text[start : start + size] for start in range(0, len(text), size))
        assert [line async for line in lines(_chunks(parts))] == whole


async def test_a_line_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert await _lines(b"x" * 60, b"y" * 40 + b"\n") == [b"x" * 60 + b"y" * 40]
    with pytest.raises(LineTooLong):
        await _lines(b"x" * 60, b"y" * 41 + b"\n")
    with pytest.raises(LineTooLong):
        await _lines(b"x" * 101)


@pytest.mark.parametrize(
    ("line", "kind", "raw"),
    [
        (b'{"type":"ADDED","object":{"a": 1.0}}', "ADDED", b'{"a": 1.0}'),
        (b'{"type":"ADDED","object":{"a":"}"}}\r', "ADDED", b'{"a":"}"}'),
        (b'{"type":"ADDED","object":{"a": 1},"more":{}}', "ADDED", b'{"a":1}'),
        (b'{"object":{"a": 1},"type":"ADDED"}', "ADDED", b'{"a":1}'),
        (b'{ "type": "ADDED", "object": {"a": 1} }', "ADDED", b'{"a":1}'),
        (b'{"type":"X\\"Y","object":{"a": 1}}', 'X"Y', b'{"a":1}'),
    ],
)
def test_an_event_is_taken_apart_however_it_is_written(line: bytes, kind: str, raw: bytes) -> None:
    told = event(line)
    assert (told.type, told.raw) == (kind, raw)
    assert told.obj == orjson.loads(raw)


@pytest.mark.parametrize(
    "line",
    [
        b"upstream connect error",
        b'{"type":"ADDED","object":{"a": 1}',
        b'{"type":"ADDED","object":[1]}',
        b'{"type":"ADDED"}',
        b'{"type":7,"object":{}}',
        b"[]",
    ],
)
def test_what_is_no_event_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        event(line)


def test_a_page() -> None:
    assert page(b'{"metadata":{"resourceVersion":"7"},"items":null}') == ([], 7, "", [])
    answer = b'{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":1}]}'
    assert page(answer) == ([{"a": 1}], 7, "x", [])


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b"{}", b'{"items":[]}', b'{"metadata":{"resourceVersion":""},"items":[]}'],
)
def test_what_is_no_page_is_malformed(answer: bytes) -> None:
    with pytest.raises(Malformed):
        page(answer)


def _deep(levels: int) -> bytes:
    """An object of so many levels, as servers write it, with names elsewhere too."""
    metadata = b'{"annotations":{"name":"x"},"name":"deep","namespace":"team-a"}'
    nested = b'{"a":' * (levels - 1) + b'"}]"' + b"}" * (levels - 1)
    return b'{"kind":"Widget","metadata":' + metadata + b',"spec":' + nested + b"}"


def _listed(*items: bytes, end: bytes = b"}") -> bytes:
    metadata = b'"metadata":{"resourceVersion":"7","continue":"x"}'
    return b'{"kind":"items",' + metadata + b',"items":[' + b",\n".join(items) + b"]" + end


def test_a_page_goes_without_the_object_that_is_nested_too_deep() -> None:
    small = rb'{"a":"\"[{","items":[{"b":1}]}'
    found = page(_listed(small, _deep(1024), _deep(1025), small))
    assert [len(item) for item in found.items] == [2, 3, 2]
    assert found.items[0] == orjson.loads(small)
    assert found[1:] == (7, "x", ["team-a/deep"])


@pytest.mark.parametrize(
    "answer",
    [
        _listed(_deep(1025), end=b""),
        _listed(_deep(1025), b'{"a":x}'),
        _listed(_deep(1025), b'{"a":"'),
        b"[" * 5000,
        b'{"a":' + _deep(1025) + b"}",
    ],
)
def test_a_page_that_is_also_broken_elsewhere_is_malformed(answer: bytes) -> None:
    with pytest.raises(Malformed):
        page(answer)


def test_an_event_may_be_nested_as_deep_as_can_be_decoded() -> None:
    head = b'{"type":"ADDED","object":'
    assert event(head + _deep(1024) + b"}").raw == _deep(1024)
    with pytest.raises(TooDeep, match="team-a/deep"):
        event(head + _deep(1025) + b"}")
