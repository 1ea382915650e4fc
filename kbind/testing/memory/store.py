"""What the server keeps: objects by resource, one resourceVersion counter, and the past.

Objects are JSON dicts that nobody changes once they are in; a write puts a new one. A resource
is named ``<plural>.<group>`` (the plural alone in the core group), whatever its version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kbind.apis import Key

Json = dict[str, Any]

# Of each resource; a long-lived cluster forgets like a real one, and needs no more memory.
_KEPT_CHANGES = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """One write. before, after: None where there was or is no object.

    after of a deletion is None, and *last* the object with the resourceVersion of the deletion.
    """

    version: int
    key: Key
    before: Json | None
    after: Json | None
    last: Json


class Store:
    """version: of the latest write; compacted: changes up to here are forgotten."""

    def __init__(self) -> None:
        # No object of a real server ever has version 1; what relies on that must find it here.
        self.version = 1
        self.compacted = 0
        self._tables: dict[str, dict[Key, Json]] = {}
        self._changes: dict[str, list[Change]] = {}
        self._since: dict[str, int] = {}
        self._listeners: dict[str, list[Callable[[Change], None]]] = {}

    def get(self, resource: str, key: Key) -> Json | None:
        return self._tables.get(resource, {}).get(key)

    def keys(self, resource: str, namespace: str = "") -> list[Key]:
        """In the order of the server's lists."""
        table = self._tables.get(resource, {})
        found = [key for key in table if not namespace or key.namespace == namespace]
        return sorted(found, key=str)

    def objects(self, resource: str, namespace: str = "") -> list[Json]:
        table = self._tables.get(resource, {})
        return [table[key] for key in self.keys(resource, namespace)]

    def namespaced(self, namespace: str) -> list[tuple[str, Key]]:
        """Everything in one namespace, as (resource, key)."""
        return [
            (resource, key)
            for resource, table in self._tables.items()
            for key in table
            if key.namespace == namespace
        ]

    def put(self, resource: str, key: Key, obj: Json) -> Json:
        """Store *obj* under the next resourceVersion and tell the watches."""
        self.version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        table = self._tables.setdefault(resource, {})
        before = table.get(key)
        table[key] = stored
        self._record(resource, Change(self.version, key, before, stored, stored))
        return stored

    def replace_silently(self, resource: str, key: Key, obj: Json) -> None:
        """Show *obj* from now on without a write, as after a change of its schema."""
        self._tables[resource][key] = obj

    def delete(self, resource: str, key: Key) -> Json:
        """Returns the object as it was, at the resourceVersion of its deletion."""
        self.version += 1
        before = self._tables[resource].pop(key)
        last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self.version)}}
        self._record(resource, Change(self.version, key, before, None, last))
        return last

    def changes(self, resource: str, after: int) -> list[Change]:
        """The writes since version *after*."""
        kept = self._changes.get(resource, [])
        return kept[bisect_right(kept, after, key=lambda change: change.version) :]

    def begin(self, resource: str) -> None:
        """Keep the past of *resource* from now on: it has come into service."""
        self._since.setdefault(resource, self.version)

    def oldest(self, resource: str) -> int:
        """The earliest version from which changes of *resource* can be told."""
        return max(self.compacted, self._since.get(resource, 0))

    def compact(self) -> None:
        """Forget the past: no watch or page can start at an earlier version."""
        self.compacted = self.version
        self._changes.clear()

    def listen(self, resource: str, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call *listener* with each change from now on. Returns what ends that."""
        listeners = self._listeners.setdefault(resource, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener) if listener in listeners else None

    def _record(self, resource: str, change: Change) -> None:
        kept = self._changes.setdefault(resource, [])
        kept.append(change)
        if len(kept) > 2 * _KEPT_CHANGES:
            self._since[resource] = kept[_KEPT_CHANGES].version
            del kept[: _KEPT_CHANGES + 1]
        for listener in list(self._listeners.get(resource, ())):
            listener(change)
