"""The konnector of the demo: the real one, with a book that says aloud what is looked up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import orjson

from kbind import hooks
from kbind.cluster.client import Client
from kbind.cluster.connect import connect
from kbind.cluster.kubeconfig import parse
from kbind.demo.screen import Screen
from kbind.facts import Source
from kbind.konnector.agent import Konnector
from kbind.konnector.passes import Report
from kbind.konnector.shared import Settings
from kbind.plan import Decision
from kbind.rulebook import Rulebook
from kbind.steps import Side
from kbind.testing.handles import Cluster
from kbind.testing.running import USER

RECHECK = 1.0
"""Seconds until a refusal is looked at again: 30 by contract, and nobody wants to sit through
them here."""

# What passes over instances decide comes with their reports, together with the writes.
_REPORTED = ("duty", "ownership", "instance")


class _Telling(Rulebook):
    """The same book; each decision is told as well."""

    __slots__ = ("_tell",)

    def __init__(self, book: Rulebook, tell: Callable[[Decision], None]) -> None:
        super().__init__(book.tables, book.copying)
        self._tell = tell

    def decide(self, table: str, facts: Mapping[str, str]) -> Decision:
        decision = super().decide(table, facts)
        self._tell(decision)
        return decision


class Teller:
    """Puts on the screen what the konnector decides, where it leads to something."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._sources: list[Decision] = []

    def decision(self, decision: Decision) -> None:
        """One outside of passes over instances: about a Connection and its schemas."""
        if decision.table == "source":
            self._source(decision)
        elif decision.table not in _REPORTED and decision.steps:
            steps = [(Side.CONSUMER, step) for step in decision.steps]
            self._screen.decided("CRD databases.example.org", [decision], steps)

    def _source(self, decision: Decision) -> None:
        # Asked again at every discovery, with the same answers.
        if decision not in self._sources:
            self._sources.append(decision)
            if decision.verdict != Source.LIST:
                self._screen.decided("Connection provider", self._sources, [])

    def report(self, report: Report) -> None:
        """One pass over one instance."""
        calls = report.batch.calls
        if calls:
            subject = f"{report.scope.api.kind} {report.key}"
            steps = [(call.side, call.step) for call in calls]
            self._screen.decided(subject, report.plan.decisions, steps)


@asynccontextmanager
async def running(consumer: Cluster, book: Rulebook, screen: Screen) -> AsyncIterator[Konnector]:
    """The konnector of *consumer*, until the block ends."""
    teller = Teller(screen)
    credentials = parse(orjson.dumps(consumer.kubeconfig(USER)))
    client = Client(await connect(credentials), side="consumer")
    konnector = Konnector(
        client,
        book=_Telling(book, teller.decision),
        sources=hooks.load(),
        connect=connect,
        settings=Settings(recheck=RECHECK),
        on_report=teller.report,
    )
    task = asyncio.create_task(konnector.run())
    try:
        yield konnector
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await client.close()
