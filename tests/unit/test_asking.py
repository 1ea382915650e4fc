"""What is made of a plugin's answers, and of how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from kbind.errors import SchemaSourceError
from kbind.hooks import Definition, ExportedApi, Exports, Offer
from kbind.konnector import asking

WIDGETS = ExportedApi("widgets.example.org", "example.org", "widgets", "Namespaced", ("v1",), "1")


def wrong(**fields: Any) -> ExportedApi:
    return replace(WIDGETS, **fields)


class Slow:
    """A source that takes long, and does not end when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def exports(self) -> Exports:
        self.asked.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # such as to close a connection
        return Exports()

    async def definition(self, name: str) -> Offer | None:
        self.asked.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError as error:
            raise SchemaSourceError("cancelled") from error
        return None


@pytest.mark.parametrize("call", ["exports", "definition"])
async def test_whatever_a_source_makes_of_the_end_it_is_the_end(call: str) -> None:
    source = Slow()
    asked = asking.exports(source) if call == "exports" else asking.definition(source, "any")
    task = asyncio.create_task(asked)
    await source.asked.wait()
    task.cancel()
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await task
    assert not logs


async def test_the_end_of_a_pass_is_no_fault_of_the_source() -> None:
    class Quiet(Slow):
        async def exports(self) -> Exports:
            self.asked.set()
            await asyncio.sleep(3600)
            return Exports()

    source = Quiet()
    task = asyncio.create_task(asking.exports(source))
    await source.asked.wait()
    task.cancel()
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await task
    assert not logs


async def test_a_source_that_took_too_long_may_be_ended_while_it_cleans_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "PATIENCE", 0.01)
    cleaning, goes_on = asyncio.Event(), asyncio.Event()

    class Cleaning(Slow):
        async def exports(self) -> Exports:
            try:
                await asyncio.sleep(3600)
            finally:
                cleaning.set()
                await goes_on.wait()
            return Exports()

    task = asyncio.create_task(asking.exports(Cleaning()))
    await cleaning.wait()
    task.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_that_ends_itself_has_broken() -> None:
    class Ending(Slow):
        async def exports(self) -> Exports:
            raise asyncio.CancelledError

    with pytest.raises(SchemaSourceError, match="the plugin broke: CancelledError"):
        await asking.exports(Ending())


@pytest.mark.parametrize(
    ("apis", "told"),
    [
        ((WIDGETS, WIDGETS), "is there twice"),
        ((wrong(group=["example.org"]),), "no text"),
        ((wrong(revision=1),), "no text"),
        ((wrong(versions="v1"),), "one text for its versions"),
        ((wrong(versions=("v1", "v1")),), "a version twice"),
        ((wrong(scope="Everywhere"),), "has the scope 'Everywhere'"),
        ((wrong(resource="gadgets"),), "not named after"),
        (iter([WIDGETS]), "not a tuple"),
    ],
)
def test_exports_that_break_the_contract_are_none(apis: Any, told: str) -> None:
    with pytest.raises(SchemaSourceError, match=told):
        asking.checked(Exports(apis))


@pytest.mark.parametrize(
    ("offer", "told"),
    [
        (Offer({"metadata": {"name": "gadgets.example.org"}}, Definition.ORIGINAL), "another API"),
        (Offer({"metadata": {}}, Definition.ORIGINAL), "no CRD: KeyError"),
        (Offer({"metadata": {"name": {1}}}, Definition.ORIGINAL), "no CRD: TypeError"),
        (Offer({"metadata": {"name": "x"}}, "original"), "no Definition"),  # type: ignore[arg-type]
    ],
)
def test_an_offer_that_breaks_the_contract_is_none(offer: Offer, told: str) -> None:
    with pytest.raises(SchemaSourceError, match=told):
        asking.checked_offer(offer, "widgets.example.org")
