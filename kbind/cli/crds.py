"""``kbind crds``: the core CRDs, to be piped into kubectl."""

from __future__ import annotations

import click

from kbind.resources import folder


@click.command()
def crds() -> None:
    """Print the core CRDs as one YAML stream.

    For `kbind crds | kubectl apply -f -`, before the konnector starts.
    """
    files = sorted(folder("crds").glob("*.yaml"))
    click.echo("---\n".join(file.read_text() for file in files), nl=False)
