"""``kbind rules``: check the rules, read them, and their schema for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from kbind.cli.options import overlays as overlays_option
from kbind.cli.text import answer, columns, wrapped
from kbind.errors import KbindError
from kbind.rulebook import Copying, Rulebook, Table, load
from kbind.rulebook import flows as flow_words
from kbind.rulebook.source import suggestion
from kbind.steps import MEANING, Step


@click.group()
def rules() -> None:
    """Check and read the rule tables."""


@rules.command()
@overlays_option
def check(overlays: tuple[Path, ...]) -> None:
    """Prove that every situation meets exactly one rule.

    Reads the bundled tables and the overlays just as the konnector does. Every finding is
    printed with file, line and column, and the exit code is then 1.
    """
    tables = load(overlays).tables.values()
    rows = sum(len(table.rules) for table in tables)
    situations = sum(len(table.answers) for table in tables)
    click.echo(f"{len(tables)} tables, {rows} rules, {situations} situations: complete")


@rules.command()
@click.argument("table", required=False)
@overlays_option
def show(table: str | None, overlays: tuple[Path, ...]) -> None:
    """Print TABLE for reading, or the list of tables."""
    rulebook = load(overlays)
    if table is None:
        lines = _index(rulebook)
    elif table == flow_words.NAME:
        lines = _copying(rulebook.copying)
    elif table in rulebook.tables:
        lines = _table(rulebook.tables[table])
    else:
        known = [*rulebook.tables, flow_words.NAME]
        raise KbindError(f'there is no table "{table}"', hint=suggestion(table, known))
    click.echo("\n".join(lines))


@rules.command()
def schema() -> None:
    """Print the JSON Schema of rule files, for editors."""
    from kbind.rulebook.schema import language

    click.echo(json.dumps(language(), indent=2))


def _index(rulebook: Rulebook) -> Iterator[str]:
    rows = [(name, table.spec.about) for name, table in rulebook.tables.items()]
    return columns([*rows, (flow_words.NAME, flow_words.ABOUT)])


def _table(table: Table) -> Iterator[str]:
    yield f"{table.spec.name}: {table.spec.about}"
    yield from ("", "FACTS")
    yield from columns(((fact, ", ".join(words)) for fact, words in table.facts.items()), "  ")
    for fact in table.declared:
        yield f"  {fact.name} is declared: {fact.expression.text}, otherwise {fact.otherwise}"
    yield from ("", "RULES")
    named: set[Step] = set()
    for rule in table.rules:
        when = ", ".join(
            f"{fact}={'|'.join(rule.when[fact])}" for fact in table.facts if fact in rule.when
        )
        yield f"  {rule.name}"
        yield from wrapped("    when  ", when or "anything")
        yield f"    then  {answer(rule)}"
        yield from wrapped("    why   ", rule.why)
        named.update(rule.steps or ())
    if named:
        yield from ("", "STEPS")
        yield from columns(((step, MEANING[step]) for step in Step if step in named), "  ")


def _copying(copying: Copying) -> Iterator[str]:
    yield f"{flow_words.NAME}: {flow_words.ABOUT}"
    yield from ("", "FLOWS")
    for flow in copying.flows.values():
        yield f"  {flow.name}"
        yield f"    from     {flow.source} to {flow.target}"
        chosen = (
            name if name == pick.text else f"{name} ({pick.text})" for name, pick in flow.select
        )
        yield f"    carries  {', '.join(chosen)}"
        means = f"server-side apply as {flow.manager}{', forced' if flow.force else ''}"
        through = "patch of the status subresource" if flow.through == "status" else means
        yield f"    through  {through}"
        yield f"    absent   {flow.absent}"
        yield from wrapped("    why      ", flow.why)
    yield from ("", "METADATA that goes with instance-up, by prefix")
    yield from columns(
        [
            ("labels", ", ".join(copying.labels) or "none"),
            ("annotations", ", ".join(copying.annotations) or "none"),
        ],
        "  ",
    )
