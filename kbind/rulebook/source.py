"""YAML with the place of every value: what all findings in rule files point at.

A file becomes a small tree of ``Scalar``, ``Items`` and ``Entries``. Anchors, aliases, repeated
keys and keys that are not text are reported here, so that what is read further on has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kbind import yamls
from kbind.errors import RuleFileError

_TEXT: Final = "tag:yaml.org,2002:str"
_BOOL: Final = "tag:yaml.org,2002:bool"
_LISTED: Final = 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands. line and column count from 1; source is the whole line."""

    path: str
    line: int
    column: int
    source: str

    def finding(
        self, message: str, *, hint: str | None = None, kind: type[RuleFileError] = RuleFileError
    ) -> RuleFileError:
        """A finding that points here."""
        return kind(
            message,
            path=self.path,
            line=self.line,
            column=self.column,
            source=self.source,
            hint=hint,
        )


@dataclass(frozen=True, slots=True)
class Scalar:
    """text: as written, without quotes. word: it is text, not a number, bool or null."""

    text: str
    word: bool
    boolean: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    values: Sequence[Value]
    place: Place


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping. keys: where each key stands."""

    values: Mapping[str, Value]
    keys: Mapping[str, Place]
    place: Place


Value = Scalar | Items | Entries


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that *word* was probably meant to be, or None."""
    lowered = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def suggestion(word: str, known: Sequence[str]) -> str:
    """The hint of an unknown word: the nearest one and what is known.

    A long list is shortened only where there is a nearest word.
    """
    listed = ", ".join(known) or "none here"
    close = nearest(word, known)
    if close is None:
        return f"known: {listed}"
    if len(known) > _LISTED:
        listed = ", ".join([*known[:_LISTED], "..."])
    return f'did you mean "{close}"? ({listed})'


def read(path: Path, findings: list[RuleFileError]) -> Value | None:
    """The tree of the file, or None where there is none; what is wrong goes to *findings*."""
    shown = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        findings.append(RuleFileError(f"cannot be read: {reason}", path=shown))
        return None
    return _Tree(shown, text, findings).grow()


class _Tree:
    """One file on its way from text to values."""

    def __init__(self, path: str, text: str, findings: list[RuleFileError]) -> None:
        self._path = path
        self._text = text
        self._lines = text.splitlines()
        self._findings = findings
        self._seen: set[int] = set()

    def grow(self) -> Value | None:
        try:
            return self._value(self._root())
        except RuleFileError as finding:
            self._findings.append(finding)
        except RecursionError:
            self._findings.append(RuleFileError(yamls.MESSAGE, path=self._path))
        return None

    def _root(self) -> Node:
        if yamls.too_deep(self._text):
            raise RuleFileError(yamls.MESSAGE, path=self._path)
        try:
            # The composer, not the constructor: its nodes keep the place of each scalar.
            root: Node | None = YAML(typ="safe", pure=True).compose(self._text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            said = ", ".join(part for part in (error.context, error.problem) if part)
            place = self._at(mark.line, mark.column) if mark else self._at(0, 0)
            raise place.finding(f"not YAML: {said}") from error
        except (YAMLError, ArithmeticError, LookupError, ValueError) as error:
            # The library lets through what its parts raise, as for the escape "\UFFFFFFFF".
            raise RuleFileError(f"not YAML: {error}", path=self._path) from error
        if root is None:
            raise RuleFileError("the file is empty", path=self._path)
        return root

    def _at(self, line: int, column: int) -> Place:
        source = self._lines[line] if line < len(self._lines) else ""
        return Place(self._path, line + 1, column + 1, source)

    def _value(self, node: Node) -> Value | None:
        place = self._at(node.start_mark.line, node.start_mark.column)
        if id(node) in self._seen:
            self._findings.append(
                place.finding(
                    "anchors and aliases are not part of the language",
                    hint="write the value out where it is used",
                )
            )
            return None
        self._seen.add(id(node))
        if isinstance(node, ScalarNode):
            return Scalar(node.value, str(node.tag) == _TEXT, str(node.tag) == _BOOL, place)
        if isinstance(node, SequenceNode):
            values = [self._value(child) for child in node.value]
            return Items([value for value in values if value is not None], place)
        assert isinstance(node, MappingNode)
        return self._entries(node, place)

    def _entries(self, node: MappingNode, place: Place) -> Entries:
        values: dict[str, Value] = {}
        keys: dict[str, Place] = {}
        for key_node, value_node in node.value:
            key = self._value(key_node)
            value = self._value(value_node)
            if key is None or value is None:
                continue
            if not isinstance(key, Scalar) or not key.word:
                self._findings.append(key.place.finding("a key has to be text", hint="quote it"))
                continue
            if key.text in keys:
                first = keys[key.text]
                self._findings.append(
                    key.place.finding(
                        f'"{key.text}" stands here twice', hint=f"first in line {first.line}"
                    )
                )
                continue
            if isinstance(value, Scalar) and not value.word and not value.text:
                # YAML puts what is not there after the blank lines that follow the key.
                value = replace(value, place=key.place)
            values[key.text] = value
            keys[key.text] = key.place
        return Entries(values, keys, place)
