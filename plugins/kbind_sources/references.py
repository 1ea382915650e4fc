"""References in OpenAPI documents: found, and replaced by what they refer to.

A type that contains itself, and a document that grows beyond all measure when its references are
replaced, are cut: below the cut everything is accepted.

What a reference leads to is a type of a program: a CRD has all of its schema in one place. Such a
program reads what it is sent into that type, and takes more than its document says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from kbind_sources.keywords import JUNCTORS, PRESERVE, Path, Schema, is_shaped, permissive

RECURSION: Final = 1
"""How often a type may stand within itself. Each time multiplies a schema by the number of fields
of that type, by eight for the schemas in a CRD, and few objects nest deeper."""

NODES: Final = 12_000
"""Parts of one API, all versions together: five times those of a Pod, and without descriptions
half of what a server can store. A schema with more is cut at the deepest level at which it fits."""

DEPTH: Final = 64
"""Levels of nesting, junctors counted."""

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
# Metadata inside of a schema, such as a template's: an API server that has types for it takes more
# than this, so the rest is kept as it is.
_METADATA: Final = {
    "type": "object",
    PRESERVE: True,
    "properties": {
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": _TEXTS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
_SAYS_NO_MORE: Final = frozenset({"type", "description", "x-kubernetes-group-version-kind"})

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Expanded:
    """A schema without references. cut: where parts of it were made permissive."""

    schema: Schema
    cut: tuple[Path, ...] = ()


def references(document: Document) -> set[str]:
    """The server paths of the other documents that *document* refers to: what stands before
    ``#`` in its references."""
    return {ref.partition("#")[0] for ref in _all_references(document)} - {""}


def _all_references(document: Document) -> Iterator[str]:
    todo: list[Any] = [(document.get("components") or {}).get("schemas")]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            ref = part.get("$ref")
            if isinstance(ref, str):
                yield ref
            todo += part.values()
        elif isinstance(part, list):
            todo += part


def expand(
    ref: str, document: Document, others: Mapping[str, Document], nodes: int = NODES
) -> Expanded:
    """What *ref* in *document* refers to, without references. others: by server path. nodes: how
    many parts the answer may have."""

    def attempt(depth: int) -> Expanded | None:
        expansion = _Expansion(others, depth, nodes)
        try:
            schema = expansion.referred(ref, document, (), 0, ())
        except _TooLargeError:
            return None
        return Expanded(schema, tuple(expansion.cut))

    whole = attempt(DEPTH)
    if whole is not None:
        return whole
    depth = bisect_left(range(1, DEPTH), True, key=lambda depth: attempt(depth) is None)
    cut = attempt(depth)
    assert cut is not None  # at level 0 there is one part
    return cut


class _TooLargeError(Exception):
    pass


class _Expansion:
    """One attempt to replace the references of a schema, down to some level."""

    def __init__(self, others: Mapping[str, Document], depth: int, nodes: int) -> None:
        self._others = others
        self._depth = depth
        self._left = nodes
        self.cut: list[Path] = []

    def referred(
        self, ref: str, document: Document, path: Path, level: int, within: tuple[Any, ...]
    ) -> Schema:
        """within: the targets of the references on the way here, outermost first."""
        where, _, pointer = ref.partition("#")
        there = self._others.get(where) if where else document
        found = None if there is None else _at(there, pointer)
        if not isinstance(found, dict):
            return self._permissive({}, path)
        target = (where or id(document), pointer)
        if pointer.endswith(f"/{_OBJECT_META}"):
            return dict(_METADATA)
        if found.get("type") == "object" and found.keys() <= _SAYS_NO_MORE:
            # A type with a JSON form of its own, such as RawExtension.
            return permissive(found)
        if within.count(target) > RECURSION:
            return self._permissive(found, path)
        assert there is not None
        return self._schema(found, there, path, level, (*within, target))

    def _permissive(self, schema: Mapping[str, Any], path: Path) -> Schema:
        self.cut.append(path)
        return permissive(schema)

    def _schema(
        self, schema: Any, document: Document, path: Path, level: int, within: tuple[Any, ...]
    ) -> Schema:
        self._left -= 1
        if self._left < 0:
            raise _TooLargeError
        if not isinstance(schema, dict):
            return {}
        shaped = {name: value for name, value in schema.items() if is_shaped(name, value)}
        if any(schema[name] is not None for name in schema.keys() - shaped):
            # Another version of OpenAPI, or none.
            self.cut.append(path)
        if len(within) > 1:
            shaped = _as_read(shaped)

        def inner(part: Any, *step: str) -> Schema:
            return self._schema(part, document, (*path, *step), level + 1, within)

        ref = shaped.pop("$ref", None)
        if ref is not None:
            target = self.referred(ref, document, path, level, within)
            if not shaped:
                return target
            result = inner(shaped)
            _drop_zero(result, [target])
            return result | {"allOf": [target, *result.get("allOf", ())]}
        nested = shaped.keys() & {"properties", "items", "additionalProperties", "not", *JUNCTORS}
        if nested and level >= self._depth:
            return self._permissive(shaped, path)
        result = dict(shaped)
        for name in nested:
            value = shaped[name]
            if name == "properties":
                result[name] = {field: inner(part, field) for field, part in value.items()}
            elif name in JUNCTORS:
                result[name] = [inner(part) for part in value]
            elif isinstance(value, dict):
                step = {"items": ("[]",), "additionalProperties": ("*",)}.get(name, ())
                result[name] = inner(value, *step)
        if any(isinstance(part, dict) and "$ref" in part for part in shaped.get("allOf", ())):
            _drop_zero(result, result["allOf"])
        return result


def _as_read(schema: Schema) -> Schema:
    """What a type demands of what is read into it: the empty text is as good as none, and base64
    may be empty or in several lines."""
    read = {k: v for k, v in schema.items() if (k, v) != ("format", "byte")}
    words = read.get("enum")
    if words and "" not in words and all(isinstance(word, str) for word in words):
        read["enum"] = [*words, ""]
        if read.get("default") == "":
            del read["default"]
    return read


def _drop_zero(schema: Schema, types: list[Schema]) -> None:
    """Documents give every type of a struct the default ``{}``, also one that has a JSON form of
    its own and cannot be read from that."""
    if schema.get("default") == {} and not all("properties" in each for each in types):
        del schema["default"]


def _at(document: Document, pointer: str) -> Any:
    """What a JSON pointer finds, or None."""
    found: Any = document
    for step in unquote(pointer).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found
