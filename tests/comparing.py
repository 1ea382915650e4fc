"""What is left of a CRD in another that was made from it, construct by construct. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kbind.copying import same

Object = Mapping[str, Any]

KEPT, PERMISSIVE, LOST = VERDICTS = ("kept", "permissive", "lost")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]

# What counts as which construct; descriptions and the like constrain nothing.
CONSTRUCTS: Final = {
    "types": ("type", "nullable"),
    "required": ("required",),
    "enums": ("enum",),
    "formats": ("format",),
    "patterns and bounds": (
        "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    ),
    "defaults": ("default",),
    "unions": ("allOf", "anyOf", "oneOf", "not"),
    "CEL rules": (_RULES,),
    "list types and keys": (
        "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
    ),
    "preserve-unknown": (_PRESERVE, "additionalProperties"),
    "int-or-string": ("x-kubernetes-int-or-string",),
    "embedded resources": ("x-kubernetes-embedded-resource",),
}  # fmt: skip
OTHERS: Final = ("subresources", "selectable fields", "names", "printer columns")


@dataclass(slots=True)
class Tally:
    """counts: by construct and verdict. nodes: schema nodes that constrain something, and how
    many of those kept all of it."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    nodes: int = 0
    nodes_kept: int = 0

    @property
    def share(self) -> float:
        """Of the constrained nodes, those that are kept: 0 to 1."""
        return self.nodes_kept / self.nodes if self.nodes else 1.0

    @property
    def missing(self) -> int:
        """Constructs that are not kept."""
        return sum(count for (_, verdict), count in self.counts.items() if verdict != KEPT)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.counts + other.counts,
            self.nodes + other.nodes,
            self.nodes_kept + other.nodes_kept,
        )


def compare(original: Object, made: Object) -> Tally:
    """Two CRDs: what *made* has of *original*, at the versions that it has."""
    tally = Tally()
    before, after = original["spec"], made["spec"]
    for name, value in before["names"].items():
        _count(tally, "names", same(value, after["names"].get(name)))
    _count(tally, "names", before["scope"] == after["scope"])
    versions = {version["name"]: version for version in before["versions"]}
    for version in after["versions"]:
        _version(tally, versions[version["name"]], version)
    return tally


def _version(tally: Tally, before: Object, after: Object) -> None:
    for name, value in (before.get("subresources") or {}).items():
        _count(tally, "subresources", same(value, (after.get("subresources") or {}).get(name)))
    for construct, name in (
        ("selectable fields", "selectableFields"),
        ("printer columns", "additionalPrinterColumns"),
    ):
        for entry in before.get(name) or ():
            _count(tally, construct, entry in (after.get(name) or ()))
    _schema(tally, before["schema"]["openAPIV3Schema"], after["schema"]["openAPIV3Schema"], False)


def _count(tally: Tally, construct: str, kept: bool, otherwise: str = LOST) -> bool:
    tally.counts[construct, KEPT if kept else otherwise] += 1
    return kept


def _schema(tally: Tally, before: Object, after: Object | None, free: bool) -> None:
    """free: whether *after*, or what stands above it, accepts anything."""
    free = free or bool((after or {}).get(_PRESERVE) and not before.get(_PRESERVE))
    otherwise = PERMISSIVE if free else LOST
    kept = [
        _count(tally, construct, holds, otherwise)
        for construct, holds in _constraints(before, after or {})
    ]
    tally.nodes += bool(kept)
    tally.nodes_kept += bool(kept) and all(kept)
    fields = (after or {}).get("properties") or {}
    for name, inner in (before.get("properties") or {}).items():
        _schema(tally, inner, fields.get(name), free)
    for name in ("items", "additionalProperties"):
        inner, other = before.get(name), (after or {}).get(name)
        if isinstance(inner, dict):
            _schema(tally, inner, other if isinstance(other, dict) else None, free)


def _constraints(before: Object, after: Object) -> Iterator[tuple[str, bool]]:
    """Every constraint of a node with its construct, and whether it still stands."""
    for construct, keywords in CONSTRUCTS.items():
        for keyword in keywords:
            value, other = before.get(keyword), after.get(keyword)
            if keyword == _RULES:
                yield from ((construct, rule in (other or ())) for rule in value or ())
            elif keyword == "required":
                # Publishing adds apiVersion and kind where objects are embedded.
                if value:
                    yield construct, set(value) <= set(other or ())
            elif keyword == "additionalProperties":
                if isinstance(value, bool):
                    yield construct, other in (value, {_PRESERVE: True})
            elif keyword in before and not _repeats_the_marker(value):
                yield construct, same(value, other)


def _repeats_the_marker(value: Any) -> bool:
    """What stands beside x-kubernetes-int-or-string and says the same."""
    return bool(value in (_EITHER, [{"anyOf": _EITHER}]))


def table(tallies: Mapping[str, Tally]) -> list[list[str]]:
    """One row a construct, three columns a source, after a row of headings; the last row has the
    shares of constrained nodes. tallies: by source."""
    head = ["", *(f"{source}: {verdict}" for source in tallies for verdict in VERDICTS)]
    rows = [
        [
            construct,
            *(
                str(tally.counts[construct, verdict])
                for tally in tallies.values()
                for verdict in VERDICTS
            ),
        ]
        for construct in (*CONSTRUCTS, *OTHERS)
    ]
    shares = [cell for tally in tallies.values() for cell in (f"{tally.share:.1%}", "", "")]
    return [head, *rows, ["constrained nodes kept", *shares]]
