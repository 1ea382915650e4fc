"""What plugins read with: pages, and answers that are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from kbind.cluster.client import Client
from kbind.errors import ServerFailed
from kbind.konnector.reader import PAGE, Reader

Object = dict[str, Any]


class Pages:
    """A client that answers one page after the other, and notes what it is asked."""

    def __init__(self, *pages: Object) -> None:
        self._pages = list(pages)
        self.asked: list[Object] = []

    async def read(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> Object:
        self.asked.append(dict(query or {}))
        return self._pages.pop(0)


async def items(client: Pages) -> list[Object]:
    reader = Reader(cast(Client, client))
    return [item async for item in reader.items("/things", query={"labelSelector": "a=b"})]


async def test_a_list_is_read_page_by_page() -> None:
    client = Pages({"items": [{"a": 1}], "metadata": {"continue": "next"}}, {"items": [{"a": 2}]})
    assert await items(client) == [{"a": 1}, {"a": 2}]
    first = {"labelSelector": "a=b", "limit": str(PAGE)}
    assert client.asked == [first, first | {"continue": "next"}]


async def test_null_is_an_empty_list() -> None:
    assert await items(Pages({"items": None})) == []


async def test_what_is_no_list_is_no_empty_one() -> None:
    with pytest.raises(ServerFailed, match="something other than a list"):
        await items(Pages({"kind": "Status"}))
