"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from kbind import resources


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


class Overlay(click.ParamType[Path]):
    """A directory of overlay files, or the name of an overlay that ships with kbind."""

    name = "overlay"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        if not str(value):
            self.fail("it names nothing", param, ctx)  # and is not the working directory
        path = Path(str(value))
        return path if path.exists() else resources.overlays().get(str(value), path)


overlays = click.option(
    "--rules",
    "overlays",
    multiple=True,
    metavar="DIR|NAME",
    type=Overlay(),
    help="Directory of overlay files (*.yaml), laid over the bundled rules, or the name of an "
    f"overlay that ships with kbind ({', '.join(resources.overlays())}). Repeatable; later ones "
    "lie on top.",
)

kubeconfig = click.option(
    "--kubeconfig",
    metavar="FILE",
    help="The consumer's kubeconfig. Default: KUBECONFIG, else in-cluster.",
)
