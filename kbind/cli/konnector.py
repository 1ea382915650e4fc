"""``kbind konnector``: the agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from kbind.cli.options import Seconds
from kbind.cli.options import kubeconfig as kubeconfig_option
from kbind.cli.options import overlays as overlays_option
from kbind.errors import KbindError


@click.command()
@kubeconfig_option
@overlays_option
@click.option("--metrics-bind-address", default=":8085", show_default=True, metavar="ADDRESS")
@click.option("--health-probe-bind-address", default=":8081", show_default=True, metavar="ADDRESS")
@click.option("--leader-elect", is_flag=True, help="Not available yet: run one replica.")
@click.option("--leader-election-id", default="konnector.kbind.io", show_default=True)
@click.option("--discovery-interval", type=Seconds(), default="30s", show_default=True)
@click.option("--binding-interval", type=Seconds(), default="30s", show_default=True)
@click.option(
    "--brake-count",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Copies of one API that may be deleted in one pass although nobody on the consumer "
    "deleted anything. 0 turns the brake off.",
)
@click.option(
    "--brake-percent",
    type=click.IntRange(0, 100),
    default=50,
    show_default=True,
    help="The same, in percent of the copies: what is over both waits to be confirmed. 0 turns "
    "the brake off.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def konnector(
    kubeconfig: str | None,
    overlays: tuple[Path, ...],
    metrics_bind_address: str,
    health_probe_bind_address: str,
    leader_elect: bool,
    leader_election_id: str,
    discovery_interval: float,
    binding_interval: float,
    brake_count: int,
    brake_percent: int,
    log_level: str,
    log_format: str,
) -> None:
    """Run the agent beside a consumer cluster.

    It reads Connections, ClusterBindings and Bindings there and syncs what they bind, until it
    is told to end (SIGTERM, SIGINT).
    """
    if leader_elect:
        raise KbindError(
            "--leader-elect is not available yet",
            hint="run one replica without it (Deployment with strategy Recreate)",
        )
    # Imported late: the other commands need none of it and start sooner.
    from kbind.brake import Brake
    from kbind.konnector.process import Options, run
    from kbind.logs import configure

    configure(log_level, log_format)
    options = Options(
        kubeconfig=kubeconfig,
        overlays=overlays,
        metrics_address=metrics_bind_address,
        health_address=health_probe_bind_address,
        discovery_interval=discovery_interval,
        binding_interval=binding_interval,
        brake=Brake(brake_percent / 100, brake_count),
    )
    asyncio.run(run(options))
