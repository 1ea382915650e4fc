"""``kbind sources``: which schema sources are installed, and where each comes from."""

from __future__ import annotations

import click

from kbind.cli.text import columns
from kbind.hooks import installed


@click.command()
def sources() -> None:
    """List the schema sources that are installed.

    Loads every plugin as the konnector does, and shows for each source the plugin, the module and
    the package that bring it. Auto is no plugin's: the rule table `source` has it take CRD or
    OpenAPI. The exit code is 1 if a plugin cannot be loaded.
    """
    rows = [(each.source, each.plugin, each.module, each.package) for each in installed()]
    click.echo("\n".join(columns([("SOURCE", "PLUGIN", "MODULE", "PACKAGE"), *rows])))
    click.echo("\nAuto takes CRD or OpenAPI, as `kbind rules show source` says.")
