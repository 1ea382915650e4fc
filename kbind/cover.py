"""Which binding covers an instance: the covering order, over what is known of all bindings.

Live bindings only; ClusterBindings before Bindings, Ready or not; among peers the oldest, then
the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kbind import words
from kbind.apis import Key
from kbind.errors import SpecInvalid
from kbind.facts import ConflictPolicy, Cover
from kbind.pausing import is_paused


class Ref(NamedTuple):
    """A binding by kind and key."""

    kind: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Bound:
    """A live binding, as far as syncing looks at it. apis: names, ``<plural>.<group>``; kept:
    our finalizer is on it, before which nothing is done for it."""

    ref: Ref
    connection: str
    apis: tuple[str, ...]
    policy: ConflictPolicy
    created: str
    kept: bool
    paused: bool = False

    @classmethod
    def of(cls, kind: str, binding: Mapping[str, Any]) -> Bound | None:
        """None for one that is being deleted. Raises SpecInvalid for one whose spec only another
        version of the CRD can have let through."""
        metadata = binding["metadata"]
        if metadata.get("deletionTimestamp"):
            return None
        spec = binding["spec"]
        try:
            return cls(
                Ref(kind, Key.of(binding)),
                spec["connectionRef"]["name"],
                tuple(api["name"] for api in spec["apis"]),
                ConflictPolicy(spec.get("conflictPolicy", ConflictPolicy.FAIL)),
                metadata["creationTimestamp"],
                words.CLEANUP in (metadata.get("finalizers") or ()),
                is_paused(binding),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SpecInvalid(f"this version of kbind does not understand it: {error}") from error


@dataclass(frozen=True, slots=True)
class Ending:
    """One API of a binding that is being undone. cover: of its instances that no live binding
    covers, UNBINDING or ABANDONED."""

    ref: Ref
    api: str
    cover: Cover


class Coverage:
    """All live bindings, by API, and the APIs of those that are being undone."""

    def __init__(self, bindings: Iterable[Bound] = (), endings: Iterable[Ending] = ()) -> None:
        self._endings: dict[str, list[Ending]] = {}
        for ending in endings:
            self._endings.setdefault(ending.api, []).append(ending)
        self._by_api: dict[str, list[Bound]] = {}
        # Namespaces sort after "", so that ClusterBindings come first.
        for bound in sorted(
            bindings, key=lambda b: (b.ref.key.namespace != "", b.created, b.ref.key.name)
        ):
            for api in dict.fromkeys(bound.apis):
                self._by_api.setdefault(api, []).append(bound)

    def covering(self, api: str, namespace: str) -> Bound | None:
        """The binding that covers an instance in *namespace* ("" for a cluster-scoped API)."""
        for bound in self._by_api.get(api, ()):
            if bound.kept and bound.ref.key.namespace in ("", namespace):
                return bound
        return None

    def covers(self, api: str, namespace: str, connection: str) -> bool:
        """Whether an instance in *namespace* is covered through *connection*."""
        bound = self.covering(api, namespace)
        return bound is not None and bound.connection == connection

    def ending(self, api: str, namespace: str) -> Cover:
        """The cover of an instance in *namespace* that no live binding covers through its schema's
        Connection, as far as one is being undone."""
        for ending in self._endings.get(api, ()):
            if ending.ref.key.namespace in ("", namespace):
                return ending.cover
        return Cover.UNCOVERED

    def listing(self, api: str) -> list[Bound]:
        """All live bindings that list *api*, in covering order."""
        return self._by_api.get(api, [])

    def apis(self, connection: str) -> set[str]:
        """The APIs that live bindings to *connection* list."""
        return {
            api
            for api, bindings in self._by_api.items()
            if any(bound.connection == connection for bound in bindings)
        }
