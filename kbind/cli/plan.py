"""``kbind plan``: what a manifest or a deletion would lead to, without one write."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import orjson

from kbind.cli.options import kubeconfig as kubeconfig_option
from kbind.cli.options import overlays as overlays_option
from kbind.errors import KbindError


@click.command()
@click.argument("name", required=False)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Manifest of what would be applied, - for stdin. Repeatable.",
)
@click.option(
    "--delete",
    "kind",
    metavar="KIND",
    help="NAME would be deleted, an object of this kind, as kubectl takes it.",
)
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Of what names none itself.")
@kubeconfig_option
@overlays_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
)
@click.option("--all", "all_names", is_flag=True, help="Spell out every name.")
def plan(
    name: str | None,
    files: tuple[str, ...],
    kind: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    overlays: tuple[Path, ...],
    output: str,
    all_names: bool,
) -> None:
    """Show what a manifest or a deletion would lead to.

    Reads both clusters as the konnector does, and takes the same decisions by the same rules,
    until nothing would follow any more. Neither cluster is written to. Prints what would be
    created, changed, refused and deleted on either side, with the rules that lead there, and
    what would be waited for.

    What it says holds for now, and for a konnector with the same rules. Permissions and
    admission of either server are not asked. The exit code is 1 if a Connection that is Ready
    cannot be used from here, as the plan is then incomplete.

    A manifest holds Connections, ClusterBindings and Bindings, and may hold their Secrets and
    namespaces. A deletion is of a Connection, a ClusterBinding, a Binding, or an instance of a
    bound API.
    """
    if bool(files) == bool(kind):
        raise click.UsageError("name either files with -f or an object with --delete KIND NAME")
    if bool(kind) != bool(name):
        raise click.UsageError("a deletion takes both --delete KIND and a NAME")
    from kbind import hooks
    from kbind.cli.plan_text import lines
    from kbind.cluster.connect import connect_own
    from kbind.logs import configure
    from kbind.planning.action import Deletion
    from kbind.planning.foreseen import Foreseen
    from kbind.planning.manifests import manifests
    from kbind.planning.planner import plan as foresee
    from kbind.rulebook import load

    configure("error", "text")
    asked = (
        Deletion(kind, name, namespace)
        if kind and name
        else manifests([(file, _read(file)) for file in files], namespace)
    )
    book, sources = load(overlays), hooks.load()

    async def work() -> Foreseen:
        return await foresee(await connect_own(kubeconfig), asked, book=book, sources=sources)

    found = asyncio.run(work())
    if output == "json":
        click.echo(orjson.dumps(found.as_json(), option=orjson.OPT_INDENT_2))
    else:
        click.echo("\n".join(lines(found, all_names=all_names)))
    if found.incomplete:
        raise KbindError(f"the plan is incomplete: {'; '.join(found.incomplete)}")


def _read(name: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise KbindError(f"{name} cannot be read: {reason}") from error
