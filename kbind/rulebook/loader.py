"""``load``: the bundled tables, overlays on top, everything checked, all findings at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from kbind import resources
from kbind.errors import RuleFileError, RulesInvalid
from kbind.rulebook.flows import NAME as COPYING
from kbind.rulebook.flows import CopyingDraft, finish_copying, read_copying
from kbind.rulebook.model import Rulebook
from kbind.rulebook.reader import Reader
from kbind.rulebook.source import Entries, read
from kbind.rulebook.tables import Draft, finish, read_bundled, read_overlay
from kbind.tables import TABLES

_ALL = (*TABLES, COPYING)


def load(overlays: Sequence[Path] = (), *, bundled: Path | None = None) -> Rulebook:
    """The rulebook that the bundled set and *overlays* (directories, in this order) make.

    bundled: the directory of a whole set; None for the one that ships with kbind.
    Raises RulesInvalid with every finding of every file.
    """
    reader = Reader()
    base = resources.folder("rules") if bundled is None else bundled
    drafts, copying = _bundled(reader, base)
    # What is wrong underneath would only show again through an overlay.
    sound = {name for name, draft in drafts.items() if not draft.broken}
    seen: set[str] = set()
    for directory in overlays:
        for path in _files(reader, directory):
            real = os.path.realpath(path)  # unlike Path.resolve, it takes links in a circle
            if real in seen:
                continue
            seen.add(real)
            name, entries = _open(reader, path)
            if entries is None:
                continue
            if name == COPYING:
                read_copying(reader, copying, entries, overlay=True)
            elif name in sound:
                read_overlay(reader, drafts[name], entries)
    tables = {
        name: table
        for name in TABLES
        if name in drafts and (table := finish(reader, drafts[name])) is not None
    }
    flows = finish_copying(reader, copying)
    if reader.findings or flows is None:
        raise RulesInvalid(_in_order(reader.findings))
    return Rulebook(MappingProxyType(tables), flows)


def _in_order(findings: Sequence[RuleFileError]) -> list[RuleFileError]:
    """File by file as they were read, each from top to bottom."""
    paths = list(dict.fromkeys(finding.path for finding in findings))
    end = sys.maxsize
    return sorted(
        findings,
        key=lambda finding: (paths.index(finding.path), finding.line or end, finding.column or end),
    )


def _bundled(reader: Reader, base: Path) -> tuple[dict[str, Draft], CopyingDraft]:
    """The set in *base*: a file for each table, called as the table is."""
    drafts: dict[str, Draft] = {}
    copying = CopyingDraft(str(base / f"{COPYING}.yaml"), broken=True)
    files = _files(reader, base)
    for path in files:
        name, entries = _open(reader, path)
        if name is None or entries is None:
            continue
        if name != path.stem:
            reader.report(
                entries.values["table"].place, f'{path.name} has to hold the table "{path.stem}"'
            )
        elif name == COPYING:
            copying.broken = False
            read_copying(reader, copying, entries, overlay=False)
        else:
            drafts[name] = Draft(TABLES[name], str(path))
            read_bundled(reader, drafts[name], entries)
    stems = {path.stem for path in files}
    for name in _ALL:
        if name not in stems:
            reader.missing(str(base), f'there is no table "{name}"')
    return drafts, copying


def _files(reader: Reader, directory: Path) -> list[Path]:
    """Its ``*.yaml`` by name. A mounted ConfigMap has hidden entries beside them; not those."""
    try:
        listed = sorted(directory.iterdir())
    except OSError as error:
        known = ", ".join(resources.overlays())
        hint = f"a directory, or an overlay that ships with kbind: {known}"
        reader.missing(str(directory), f"cannot be listed: {error.strerror}", hint=hint)
        return []
    files: list[Path] = []
    for path in listed:
        if path.name.startswith("."):
            continue
        if path.suffix == ".yaml":
            files.append(path)
        elif path.suffix == ".yml":
            reader.missing(str(path), "is not read", hint=f"name it {path.stem}.yaml")
    return files


def _open(reader: Reader, path: Path) -> tuple[str | None, Entries | None]:
    """The table that the file names, and its content."""
    value = read(path, reader.findings)
    if value is None:
        return None, None
    if not isinstance(value, Entries) or "table" not in value.values:
        reader.report(value.place, 'a rule file is a mapping that starts with "table: <name>"')
        return None, None
    return reader.word(value.values["table"], "table", _ALL), value
