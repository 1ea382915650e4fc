"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

overlays = click.option(
    "--rules",
    "overlays",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory of overlay files (*.yaml), laid over the bundled rules. Repeatable; "
    "later ones lie on top.",
)
