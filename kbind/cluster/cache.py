"""What is known of one API of one cluster, as bytes.

Three sources tell a cache about objects, each in its own time: the reflector's lists, its watch,
and the answers to our own writes. resourceVersions of one resource are ordered, so of two
tellings the one with the higher number is the later; that alone decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kbind.apis import Key


@dataclass(slots=True)
class Entry:
    """raw: the object's JSON; version: its resourceVersion. An entry is replaced, not changed."""

    raw: bytes
    uid: str
    version: int


def identify(obj: Mapping[str, Any]) -> tuple[Key, str, int]:
    """Key, uid and version of a decoded object. Raises KeyError, TypeError or ValueError where
    it is none."""
    metadata = obj["metadata"]
    key = Key(metadata.get("namespace") or "", metadata["name"])
    return key, metadata["uid"], int(metadata["resourceVersion"])


def is_status(obj: Mapping[str, Any]) -> bool:
    """Whether this is the server's own word about a call, and no object."""
    return obj.get("kind") == "Status" and obj.get("apiVersion") == "v1"


class Cache:
    """Objects by key. Iteration goes over a snapshot, so a pass may await in between."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        # The highest version that lists and watch have accounted for: what they have told up
        # to here includes every deletion.
        self._told = 0
        # Deleted by us, deletion not yet told by the watch: key to uid.
        self._forgotten: dict[Key, str] = {}
        # Versions that answers taught, not yet told by the watch.
        self._learned: dict[Key, set[int]] = {}

    def get(self, key: Key) -> Entry | None:
        return self._entries.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Key]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> tuple[Key, ...]:
        return tuple(self._entries)

    def items(self) -> tuple[tuple[Key, Entry], ...]:
        return tuple(self._entries.items())

    # Our own writes; nobody is notified.

    def learn(self, raw: bytes) -> None:
        """Takes in the answer to a write (an object; a Status is passed over) if it is news:
        newer than the entry, and newer than all that the watch has told, for otherwise the
        object may be gone again. Raises ValueError for what is no object of a server."""
        try:
            obj = orjson.loads(raw)
            if is_status(obj):
                return
            key, uid, version = identify(obj)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("the answer holds no object") from error
        if version <= self._told:
            return
        self._learned.setdefault(key, set()).add(version)
        known = self._entries.get(key)
        if known is not None and known.version >= version:
            return
        if self._forgotten.get(key) == uid:
            return
        self._entries[key] = Entry(bytes(raw).strip(), uid, version)

    def forget(self, key: Key, uid: str, version: int | None = None) -> None:
        """Drops the object *uid* after an answer that proved it gone. version: that of the
        answer, if it named one; an entry newer than it stays."""
        known = self._entries.get(key)
        if known is None or known.uid != uid:
            return
        if version is not None and known.version > version:
            return
        del self._entries[key]
        self._forgotten[key] = uid  # Events of it may still be under way.

    # The reflector's side. True, or a key in the list: a change to notify.

    def observe(self, key: Key, entry: Entry) -> bool:
        """An ADDED or MODIFIED event."""
        news = entry.version > self._told and entry.version not in self._learned.get(key, ())
        self._has_told(entry.version, key)
        known = self._entries.get(key)
        if self._forgotten.get(key) == entry.uid:
            return False
        if known is not None and known.version >= entry.version:
            # Somebody else's change that the answer to a write of ours held as well: it is known,
            # and nobody has been notified of it.
            return news
        self._forgotten.pop(key, None)
        self._entries[key] = entry
        return True

    def observe_deleted(self, key: Key, uid: str, version: int) -> bool:
        """A DELETED event; version: the one it carries."""
        self._has_told(version, key)
        if self._forgotten.get(key) == uid:
            del self._forgotten[key]
        known = self._entries.get(key)
        if known is None or known.version > version:
            return False
        del self._entries[key]
        return True

    def observe_progress(self, version: int) -> None:
        """A bookmark: the watch has told everything up to *version*."""
        self._has_told(version, *self._learned)

    def _has_told(self, version: int, *keys: Key) -> None:
        """The watch has come to *version*; what answers taught of *keys* until then is told."""
        self._told = max(self._told, version)
        for key in keys:
            later = {each for each in self._learned.pop(key, ()) if each > version}
            if later:
                self._learned[key] = later

    def replace(self, listed: Mapping[Key, Entry], version: int) -> list[Key]:
        """A complete list as of *version*: the keys that are new, changed or gone. What was
        learned until then counts as changed, as it may have held somebody else's change; so does
        what is listed and nobody told, although an answer that is newer may hold it."""
        news = {key for key, versions in self._learned.items() if min(versions) <= version}
        news |= {
            key
            for key, entry in listed.items()
            if entry.version > self._told and entry.version not in self._learned.get(key, ())
        }
        if version < self._told:
            # A consistent list cannot be older than what was told before it, unless the server
            # itself went back (restored from a backup): old numbers then mean nothing.
            self._forgotten.clear()
            self._learned.clear()
            before, self._entries = self._entries, {}
        else:
            before = self._entries
            self._forgotten = {
                key: uid
                for key, uid in self._forgotten.items()
                if key in listed and listed[key].uid == uid
            }
            # What a write's answer taught since the list was made is newer than the list.
            self._entries = {key: entry for key, entry in before.items() if entry.version > version}
        self._told = version
        self._has_told(version, *self._learned)
        for key, entry in listed.items():
            newer = self._entries.get(key)
            if self._forgotten.get(key) != entry.uid and (
                newer is None or newer.version < entry.version
            ):
                self._entries[key] = entry
        changed = []
        for key in dict.fromkeys((*self._entries, *before)):
            old, new = before.get(key), self._entries.get(key)
            differs = old is None or new is None or (old.version, old.uid) != (new.version, new.uid)
            if differs or key in news:
                changed.append(key)
        return changed
