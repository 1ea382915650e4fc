"""``kbind demo``: the whole story, on two clusters of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from kbind.cli.options import Seconds
from kbind.cli.options import overlays as overlays_option
from kbind.errors import KbindError


@click.command()
@click.option("--keep", is_flag=True, help="Leave both clusters up afterwards, until Ctrl-C.")
@click.option(
    "--real",
    is_flag=True,
    help="On real etcd and kube-apiserver, built first where they are missing (minutes).",
)
@overlays_option
@click.option(
    "--deadline",
    type=Seconds(),
    default="10s",
    show_default=True,
    help="How long to wait for each promised outcome.",
)
def demo(keep: bool, real: bool, overlays: tuple[Path, ...], deadline: float) -> None:
    """Show kbind at work: two clusters, one API, one story.

    A provider offers an API, a consumer binds it, an instance goes up and its status comes down;
    drift, a foreign object and a deletion follow. Every decision is shown with its rule, and
    every promised outcome is checked on both clusters: the exit code is 1 if one does not come.

    The clusters are made for it and thrown away: in this process's memory, or with --real as
    processes of their own.
    """
    from kbind.logs import configure

    configure("warning", "text")
    # Imported late: the other commands need none of it, and the packages may be missing.
    try:
        from kbind.demo.run import Options, run
        from kbind.rulebook import load
        from kbind.testing.binaries import find_or_build

        if not real:
            import kbind.testing.memory  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("kbind"):
            raise
        raise KbindError(
            f"the demo needs the package {error.name}, which is not installed",
            hint="pip install 'kbind[testing]'",
        ) from error
    # Before the servers are built and started: that takes longer.
    book = load(overlays)
    binaries = None
    if real:
        binaries = find_or_build(report=lambda line: click.echo(line, err=True))
    code = asyncio.run(run(Options(binaries, keep, book, deadline)))
    raise click.exceptions.Exit(code)
