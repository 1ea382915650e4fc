"""The konnector as a process: everything is put together here, and ended on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path

import structlog
from aiohttp import web

from kbind import __version__, hooks
from kbind.brake import Brake
from kbind.cluster.client import Client
from kbind.cluster.connect import connect, connect_own
from kbind.konnector.agent import Konnector
from kbind.konnector.endpoints import health, metrics, serve
from kbind.konnector.metrics import Metrics
from kbind.konnector.passes import Report
from kbind.konnector.shared import Settings
from kbind.rulebook import load

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What ``kbind konnector`` was told. Intervals in seconds; addresses as HOST:PORT."""

    kubeconfig: str | None
    overlays: tuple[Path, ...]
    metrics_address: str
    health_address: str
    discovery_interval: float
    binding_interval: float
    brake: Brake


async def run(options: Options) -> None:
    """Until SIGTERM or SIGINT. Raises KbindError where it cannot start."""
    book = load(options.overlays)
    sources = hooks.load()
    transport = await connect_own(options.kubeconfig)
    konnector = Konnector(
        Client(transport, side="consumer"),
        book=book,
        sources=sources,
        connect=connect,
        settings=Settings(
            options.discovery_interval, options.binding_interval, brake=options.brake
        ),
        on_report=lambda report: _take(report, figures),
    )
    figures = Metrics(lambda: konnector.syncers)
    served: list[web.AppRunner] = []
    try:
        for app, address in (
            (health(lambda: konnector.ready), options.health_address),
            (metrics(figures.registry), options.metrics_address),
        ):
            if address != "0":  # as controllers have it: 0 turns an endpoint off
                served.append(await serve(app, address))
        log.info("konnector started", version=__version__, sources=sorted(sources))
        await _until_told(konnector)
        log.info("konnector ended")
    finally:
        for runner in served:
            await runner.cleanup()
        await transport.close()


async def _until_told(konnector: Konnector) -> None:
    work = asyncio.create_task(konnector.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


def _take(report: Report, figures: Metrics) -> None:
    figures.count(report)
    if report.batch.calls:
        log.debug(
            "pass",
            api=report.scope.api.name,
            key=str(report.key),
            rules=report.plan.rules,
            steps=[str(call.step) for call in report.batch.calls],
        )
