"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click


class Seconds(click.ParamType[float]):
    """A duration as Kubernetes tools write it: 30s, 1m30s, 500ms, or a bare number of seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float | int):
            return float(value)
        seconds = _seconds(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration such as 30s or 1m30s", param, ctx)
        if seconds < 1:
            self.fail(f"{value} is too short: at least 1s", param, ctx)
        return seconds


def _seconds(text: str) -> float | None:
    import durationpy

    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(durationpy.from_str(text).total_seconds())
    except durationpy.DurationError:
        return None


overlays = click.option(
    "--rules",
    "overlays",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory of overlay files (*.yaml), laid over the bundled rules. Repeatable; "
    "later ones lie on top.",
)
