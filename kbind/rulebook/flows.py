"""``copying``: flows and prefixes from their files, bundled and overlaid."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from kbind.rulebook.expressions import Expression
from kbind.rulebook.model import INSTANCE_DOWN, INSTANCE_UP, Copying, Flow
from kbind.rulebook.reader import Reader
from kbind.rulebook.source import Entries, Place, Value
from kbind.steps import Side
from kbind.words import GROUP, MANAGER

NAME: Final = "copying"
ABOUT: Final = "What travels between an instance and its copy, and which way?"
FLOWS: Final = (INSTANCE_UP, INSTANCE_DOWN)
REQUIRED: Final = ("flow", "why", "from", "to", "select", "through", "absent", "manager")
OPTIONAL: Final = ("force",)
THROUGH: Final = ("main", "status")
ABSENT: Final = ("remove", "keep")
MANAGERS: Final = (MANAGER,)
PREFIXES: Final = ("labels", "annotations")

_OURS: Final = f"{GROUP}/"
_IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})


@dataclass
class CopyingDraft:
    """The flows while files are read, and where each was written."""

    path: str
    flows: dict[str, Flow] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    prefixes: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: dict.fromkeys(PREFIXES, ())
    )
    broken: bool = False


def read_copying(reader: Reader, draft: CopyingDraft, entries: Entries, *, overlay: bool) -> None:
    """One file: ``flows``, each by a known name, and ``metadata``.

    An overlay's flow stands in for the one of that name; its prefixes are added.
    """
    before = len(reader.findings)
    optional = ("flows", "metadata") if overlay else ("metadata",)
    required = ("table",) if overlay else ("table", "flows")
    values = reader.entries(entries, "a copying file", required=required, optional=optional) or {}
    here: set[str] = set()
    for value in reader.items(values["flows"], "flows") if "flows" in values else ():
        flow = _flow(reader, value)
        if flow is None:
            continue
        if flow.name in here:
            reader.report(value.place, f'two flows are called "{flow.name}"')
        here.add(flow.name)
        draft.flows[flow.name] = flow
        draft.places[flow.name] = value.place
    if "metadata" in values:
        lists = reader.entries(values["metadata"], "metadata", optional=PREFIXES) or {}
        for name in PREFIXES:
            if name in lists:
                draft.prefixes[name] += _prefixes(reader, lists[name], name)
    draft.broken = draft.broken or len(reader.findings) > before


def finish_copying(reader: Reader, draft: CopyingDraft) -> Copying | None:
    """The flows together, or None where something is wrong with them."""
    before = len(reader.findings)
    if draft.broken:
        return None
    written: dict[tuple[Side, str], Flow] = {}
    for name in FLOWS:
        if name not in draft.flows:
            reader.missing(draft.path, f'there is no flow "{name}"')
            continue
        flow = draft.flows[name]
        for target, _ in flow.select:
            first = written.setdefault((flow.target, target), flow)
            if first is not flow:
                reader.report(
                    draft.places[name],
                    f'"{first.name}" and "{name}" both write {target} on the {flow.target}',
                )
    if len(reader.findings) > before:
        return None
    return Copying(
        MappingProxyType({name: draft.flows[name] for name in FLOWS}),
        labels=draft.prefixes["labels"],
        annotations=draft.prefixes["annotations"],
    )


def _flow(reader: Reader, value: Value) -> Flow | None:
    before = len(reader.findings)
    values = reader.entries(value, "a flow", required=REQUIRED, optional=OPTIONAL) or {}
    if any(key not in values for key in REQUIRED):
        return None
    name = reader.word(values["flow"], "flow", FLOWS)
    why = reader.text(values["why"], "why")
    source = reader.word(values["from"], "from", Side)
    target = reader.word(values["to"], "to", Side)
    if source is not None and source == target:
        reader.report(values["to"].place, f"a flow from {source} to {target} leads nowhere")
    through = reader.word(values["through"], "through", THROUGH)
    absent = reader.word(values["absent"], "absent", ABSENT)
    manager = reader.word(values["manager"], "manager", MANAGERS)
    force = reader.boolean(values["force"], "force") if "force" in values else False
    if force and through == "status":
        reader.report(
            values["force"].place,
            "a status is patched, so there is nothing to force",
            hint="leave force out",
        )
    select = _select(reader, values["select"], through)
    if len(reader.findings) > before or not name or not why or not source or not target:
        return None
    kept: Literal["remove", "keep"] = "keep" if absent == "keep" else "remove"
    part: Literal["main", "status"] = "status" if through == "status" else "main"
    return Flow(
        name=name,
        why=why,
        source=Side(source),
        target=Side(target),
        select=select,
        through=part,
        absent=kept,
        manager=manager or MANAGER,
        force=bool(force),
    )


def _select(
    reader: Reader, value: Value, through: str | None
) -> tuple[tuple[str, Expression], ...]:
    found: list[tuple[str, Expression]] = []
    fields = reader.mapping(value, "select")
    if isinstance(value, Entries) and not fields:
        reader.report(value.place, "a flow that selects nothing carries nothing")
    for name, place, expression_value in fields:
        if name in _IDENTITY:
            reader.report(
                place,
                f"{name} is never copied",
                hint="labels and annotations travel by prefix: metadata: {labels: [...]}",
            )
        elif through == "status" and name != "status":
            reader.report(
                place,
                f"through status, only status can be written, not {name}",
            )
        expression = reader.expression(expression_value, name)
        if expression is not None:
            found.append((name, expression))
    return tuple(found)


def _prefixes(reader: Reader, value: Value, what: str) -> tuple[str, ...]:
    prefixes = reader.texts(value, what) or ()
    for prefix in prefixes:
        if prefix.startswith(_OURS) or _OURS.startswith(prefix):
            reader.report(
                value.place,
                f'the prefix "{prefix}" would carry our own markers',
                hint=f"name a prefix that no {_OURS}... begins with",
            )
    return prefixes
