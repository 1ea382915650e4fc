"""``kbind explain``: which rule a situation meets, why, and what would lead elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from kbind.cli.options import overlays as overlays_option
from kbind.cli.text import answer, columns, wrapped
from kbind.rulebook import Case, FlowCase, Rulebook, load, read_case
from kbind.rulebook import explain as explain_facts


@click.command()
@click.argument("case", type=click.Path(path_type=Path))
@overlays_option
def explain(case: Path, overlays: tuple[Path, ...]) -> None:
    """Explain the answer to the situation in CASE, a YAML file.

    It has a `situation` with one word for each fact of the table, and names the `table`, unless
    it stands in a directory of that name.
    """
    rulebook = load(overlays)
    read = read_case(case, rulebook)
    lines = _flow(rulebook, read) if isinstance(read, FlowCase) else _table(rulebook, read)
    click.echo("\n".join(lines))


def _table(rulebook: Rulebook, case: Case) -> Iterator[str]:
    table = rulebook.tables[case.table]
    explanation = explain_facts(rulebook, case.table, case.facts)
    decision = explanation.decision
    place = next(rule.place for rule in table.rules if rule.name == decision.rule)
    yield f"{case.table}: {table.spec.about}"
    yield from columns(((fact, case.facts[fact]) for fact in table.facts), "  ")
    yield ""
    yield f"rule  {decision.rule} ({place.path}:{place.line})"
    yield from wrapped("why   ", decision.why)
    yield f"then  {answer(decision)}"
    yield ""
    if not explanation.changes:
        yield "No change of a single fact leads to another rule."
        return
    yield "Changes of a single fact that lead to another rule:"
    yield from columns(
        (
            (f"{change.fact}={change.word}", change.decision.rule, answer(change.decision))
            for change in explanation.changes
        ),
        "  ",
    )


def _flow(rulebook: Rulebook, case: FlowCase) -> Iterator[str]:
    flow = rulebook.copying.flows[case.flow]
    yield from wrapped(f"{flow.name}: ", flow.why)
    yield f"from {flow.source} to {flow.target}, through {flow.through}; carries"
    yield json.dumps(rulebook.copying.carry(case.flow, case.source), indent=2)
