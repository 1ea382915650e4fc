"""The commands. Each module of this room gives one; this one only lists them."""

from __future__ import annotations

import click

from kbind import __version__
from kbind.cli.crds import crds
from kbind.cli.demo import demo
from kbind.cli.explain import explain
from kbind.cli.konnector import konnector
from kbind.cli.plan import plan
from kbind.cli.reporting import Commands
from kbind.cli.rules import rules
from kbind.cli.sources import sources


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kbind", message="%(prog)s %(version)s")
def main() -> None:
    """Offer and consume Kubernetes APIs across clusters."""


for command in (konnector, crds, plan, rules, explain, sources, demo):
    main.add_command(command)
