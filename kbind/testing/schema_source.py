"""What every schema source promises, as tests that its author inherits.

    class TestListed(SchemaSourceContract):
        factory = Listed

        async def prepare(self, provider): ...
        async def change(self, provider): ...

Each promise is a test of its own: the one that is broken is named, and can be run alone. The
clusters are in memory, from the fixtures ``provider`` and ``consumer``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

import pytest

from kbind.cluster.client import Client
from kbind.cluster.transport import Reply, Request, TransportError
from kbind.errors import ClusterError, SchemaSourceError
from kbind.hooks import Exports, Offer, SchemaSource, SourceFactory
from kbind.konnector.asking import PATIENCE, checked, checked_offer
from kbind.konnector.reader import Reader
from kbind.schema import consumer_crd
from kbind.testing import clock
from kbind.testing.audit import Entry
from kbind.testing.handles import Handle
from kbind.testing.memory import Connector, MemoryCluster, failure
from kbind.testing.memory.inprocess import MemoryTransport
from kbind.testing.memory.reads import WatchStream
from kbind.testing.running import USER

AT_REST: Final = 3
"""Requests that ``exports()`` may cost where nothing has changed."""

FAULTS: Final[Mapping[str, Reply | TransportError]] = {
    "forbidden": failure(403, "Forbidden", "not for you"),
    "unavailable": failure(503, "ServiceUnavailable", "come back later"),
    "no-answer": TransportError("the connection was reset"),
    "broken-json": Reply(200, {"content-type": "application/json"}, b'{"items": ['),
}

SCHEMA_MARKS: Final = (b'"openAPIV3Schema"', b'"schemas"')
"""What is in an answer that brings schemas: a CRD, an OpenAPI document."""


class SchemaSourceContract:
    """Inherit it under a name that pytest collects, and say how the source is made and fed.

    factory: as ``kbind_schema_sources`` answers it. reads_provider: False for a source that has
    its definitions from elsewhere; it is then held to ask the provider nothing, and the tests in
    which the provider fails are skipped.
    """

    # Not abstract: pytest passes over abstract classes without a word.

    factory: SourceFactory
    reads_provider: ClassVar[bool] = True

    async def prepare(self, provider: Handle) -> None:
        """Makes the source offer at least two APIs, not all of one group where the source knows
        changes by group. provider: on a fresh cluster."""
        raise NotImplementedError("prepare() has to make the source offer at least two APIs")

    async def change(self, provider: Handle) -> None:
        """Changes the schema of one of the APIs that ``prepare`` made, and leaves another."""
        raise NotImplementedError("change() has to change the schema of one API")

    async def prepare_nothing(self, provider: Handle) -> None:
        """Makes the source offer nothing, where a fresh cluster is not enough for that."""

    # --- answers -----------------------------------------------------------------------------

    @pytest.mark.asyncio
    async def test_equal_providers_get_equal_answers(self, provider: Handle) -> None:
        await self.prepare(provider)
        source = self._source(provider)
        first = await source.exports()
        assert isinstance(first, Exports), "exports() answers kbind.hooks.Exports"
        checked(first)
        names = [api.name for api in first.apis]
        assert len(names) >= 2, f"prepare() has to make the source offer two APIs, not {names}"
        assert names == sorted(set(names)), "each API is told once, in the order of names"
        assert not first.unread, "nothing is unread where nothing fails"
        assert await source.exports() == first, "asked again, the source answers otherwise"
        assert await self._source(provider).exports() == first, "a new one answers otherwise"

    @pytest.mark.asyncio
    async def test_a_revision_changes_with_its_definition(self, provider: Handle) -> None:
        await self.prepare(provider)
        source = self._source(provider)
        before, defined = _revisions(await source.exports()), await _definitions(source)
        await self.change(provider)
        exports = await source.exports()
        after, redefined = _revisions(exports), await _definitions(source)
        assert before.keys() == after.keys(), "change() has to leave the APIs that are offered"
        changed = {name for name in defined if defined[name] != redefined[name]}
        assert changed, "after change() the source gives the definitions of before"
        told = {name for name in before if before[name] != after[name]}
        assert changed <= told, f"the revision does not change with the definition of {changed}"
        assert told < before.keys(), "one API has changed, and every revision with it"
        assert await self._source(provider).exports() == exports, (
            "a source that saw the change answers otherwise than a new one"
        )

    @pytest.mark.asyncio
    async def test_every_export_has_a_definition_that_servers_take(
        self, provider: Handle, consumer: Handle
    ) -> None:
        await self.prepare(provider)
        source = self._source(provider)
        for api in (await source.exports()).apis:
            offer = await source.definition(api.name)
            assert isinstance(offer, Offer), f"{api.name} is exported and has no definition"
            spec = checked_offer(offer, api.name).crd["spec"]
            plural = spec["names"]["plural"]
            assert api.name == f"{plural}.{spec['group']}"
            served = sorted(each["name"] for each in spec["versions"] if each["served"])
            defined = (spec["group"], plural, spec["scope"], served)
            told = (api.group, api.resource, api.scope, sorted(api.versions))
            assert defined == told, f"{api.name} is defined otherwise than exports() tells"
            wanted = consumer_crd(offer, "provider", None)
            assert wanted is not None, f"{api.name} serves no version"
            await consumer.install_crd(wanted)

    @pytest.mark.asyncio
    async def test_an_unknown_api_has_no_definition(self, provider: Handle) -> None:
        await self.prepare(provider)
        source = self._source(provider)
        group = (await source.exports()).apis[0].group
        for name in (f"nosuchthings.{group}", "nosuchthings.nowhere.example"):
            assert await source.definition(name) is None

    @pytest.mark.asyncio
    async def test_where_nothing_is_offered_the_answer_is_empty(self, provider: Handle) -> None:
        await self.prepare_nothing(provider)
        assert await self._source(provider).exports() == Exports()

    # --- costs -------------------------------------------------------------------------------

    @pytest.mark.asyncio
    async def test_at_rest_little_is_asked_and_no_schema_is_read(self, provider: Handle) -> None:
        await self.prepare(provider)
        line = _Line(provider)
        source = self._source(provider, line)
        for _ in range(2):  # what is new may be looked at again
            await source.exports()
        before = len(line.asked)
        line.answers.clear()
        await source.exports()
        asked = line.asked[before:]
        assert len(asked) <= AT_REST, f"{len(asked)} requests at rest: {_shown(asked)}"
        read = [body for body in line.answers if any(mark in body for mark in SCHEMA_MARKS)]
        assert not read, f"schemas are read again at rest: {_shown(asked)}"

    @pytest.mark.asyncio
    async def test_nothing_is_written(self, provider: Handle) -> None:
        await self.prepare(provider)
        line = _Line(provider)
        source = self._source(provider, line)
        await source.exports()
        await _definitions(source)
        writes = [entry for entry in line.asked if entry.writes]
        assert not writes, f"the source writes: {_shown(writes)}"
        asks = bool(line.asked)
        assert asks == self.reads_provider, f"reads_provider is {not asks}, which is not so"

    # --- failures ----------------------------------------------------------------------------

    @pytest.mark.asyncio
    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_failure_takes_nothing_away(self, fault: str, provider: Handle) -> None:
        """Whichever request is the first to fail: at the start, and when an API has changed."""
        self._needs_the_provider()
        await self.prepare(provider)
        line = _Line(provider)
        await self._source(provider, line).exports()
        spares = range(len(line.asked))
        fresh, informed = ([self._source(provider) for _ in spares] for _ in range(2))
        for source in informed:
            await source.exports()
        await _stands(line, fault, fresh, await self._source(provider).exports())
        await self.change(provider)
        await _stands(line, fault, informed, await self._source(provider).exports())

    @pytest.mark.asyncio
    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_definition_that_cannot_be_read_is_not_gone(
        self, fault: str, provider: Handle
    ) -> None:
        self._needs_the_provider()
        await self.prepare(provider)
        line = _Line(provider)
        source = self._source(provider, line)
        before = await _definitions(source)
        with line.failing(fault):
            for name in before:
                with _right_errors(fault):
                    offer = await source.definition(name)
                    assert offer is not None, f"{fault}: {name} is told to be gone"
        assert await _definitions(source) == before, f"no recovery from {fault}"

    def test_a_provider_that_never_answers_is_given_up(self) -> None:
        self._needs_the_provider()

        async def story(time: clock.Clock) -> None:
            cluster = MemoryCluster("provider", now=time.now)
            provider = await Handle.open(cluster, connect=Connector(cluster))
            await self.prepare(provider)
            informed = self._source(provider)
            (name, *_) = _revisions(await informed.exports())
            cluster.faults.hang(lambda request: True)
            call = "exports()"
            try:
                async with asyncio.timeout(PATIENCE):
                    with _right_errors("no answer"):
                        exports = await self._source(provider).exports()
                        assert exports.unread, "without an answer the source tells of exports"
                call = "definition()"
                async with asyncio.timeout(PATIENCE):
                    with _right_errors("no answer"):
                        await informed.definition(name)
            except TimeoutError:
                pytest.fail(f"{call} takes longer than {PATIENCE:.0f} s")

        clock.run(story)

    # --- hands -------------------------------------------------------------------------------

    def _source(self, provider: Handle, line: _Line | None = None) -> SchemaSource:
        """A source as the konnector makes one. By the class: a function is no method here."""
        client = Client(line or _Line(provider), side="provider")
        return type(self).factory(Reader(client))

    def _needs_the_provider(self) -> None:
        if not self.reads_provider:
            pytest.skip("reads_provider is False: a provider that fails is not noticed")


class _Line(MemoryTransport):
    """A source's way to the provider. answers: the bodies that came over it."""

    def __init__(self, provider: Handle) -> None:
        cluster = provider.cluster
        assert isinstance(cluster, MemoryCluster), "the contract runs on clusters in memory"
        super().__init__(cluster, USER, "")
        self.answers: list[bytes] = []

    @property
    def asked(self) -> list[Entry]:
        """Every request of this cluster's sources so far."""
        return self._cluster.audit(USER)

    @contextmanager
    def failing(self, fault: str, spared: int = 0) -> Iterator[None]:
        """The cluster answers *spared* more requests, then none."""
        answered = iter(range(spared))
        faults = self._cluster.faults
        added = faults.add(lambda request: next(answered, None) is None, FAULTS[fault])
        yield
        faults.remove(added)

    async def _answer(self, request: Request) -> Reply | WatchStream:
        answer = await super()._answer(request)
        if isinstance(answer, Reply):
            self.answers.append(answer.body)
        return answer


@contextmanager
def _right_errors(fault: str) -> Iterator[None]:
    """Ends at an error of the two kinds that a source may raise, and fails at any other."""
    try:
        yield
    except (ClusterError, SchemaSourceError):
        return
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(
            f"{fault}: {error!r} is raised, not ClusterError or SchemaSourceError"
        ) from error


async def _stands(line: _Line, fault: str, sources: Sequence[SchemaSource], whole: Exports) -> None:
    """Each source meets the fault one request later than the one before it, loses nothing of
    *whole*, and recovers. What is neither told nor named as unread would be taken for gone."""
    for spared, source in enumerate(sources):
        where = f"{fault} after {spared} requests"
        with line.failing(fault, spared), _right_errors(where):
            answer = await source.exports()
            names = {api.name for api in answer.apis} | answer.unread.keys()
            lost = [api.name for api in whole.apis if not names & {api.name, api.group}]
            assert not lost, f"{where}: the source takes these for gone: {lost}"
        assert await source.exports() == whole, f"{where}: the source does not recover"


async def _definitions(source: SchemaSource) -> dict[str, Offer | None]:
    exports = await source.exports()
    return {api.name: await source.definition(api.name) for api in exports.apis}


def _revisions(exports: Exports) -> dict[str, str]:
    return {api.name: api.revision for api in exports.apis}


def _shown(asked: list[Entry]) -> str:
    return ", ".join(f"{entry.verb or 'get'} {entry.path}" for entry in asked)
