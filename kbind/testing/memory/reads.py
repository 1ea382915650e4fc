"""Reading: one object, lists in pages, and watches."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kbind.jsons import encode
from kbind.testing.memory.resources import Resource
from kbind.testing.memory.selectors import Selector, everything, selector
from kbind.testing.memory.status import Refusal, bad_request, gone, internal, not_found
from kbind.testing.memory.store import Change, Store

Json = dict[str, Any]

# Pages that can still be fetched; older ones expire as they do on a server that compacts.
_KEPT_PAGES = 200
_TOO_OLD_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Form:
    """How objects are answered. partial: metadata only."""

    resource: Resource
    partial: bool

    def one(self, obj: Json) -> Json:
        if self.partial:
            return {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }
        if obj.get("apiVersion") == self.resource.api_version:
            return obj
        return {**obj, "apiVersion": self.resource.api_version}

    def item(self, obj: Json) -> Json:
        """As part of a list, where built-in kinds do not repeat their type."""
        if self.partial:
            return self.one(obj)
        if self.resource.custom:
            return self.one(obj)
        return {name: part for name, part in obj.items() if name not in ("apiVersion", "kind")}

    def several(self, items: list[Json], metadata: Json) -> Json:
        kind, version = self.resource.list_kind, self.resource.api_version
        if self.partial:
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        return {
            "kind": kind,
            "apiVersion": version,
            "metadata": metadata,
            "items": [self.item(obj) for obj in items],
        }


class WatchStream:
    """The events of one watch, as lines.

    The owner takes *lines*, is told of news through *notify*, and calls close() in the end.
    ended: no line will follow those that are there.
    """

    def __init__(
        self, form: Form, store: Store, namespace: str, accepts: Selector, *, bookmarks: bool
    ) -> None:
        self.lines: deque[bytes] = deque()
        self.ended = False
        self.notify: Callable[[], None] = lambda: None
        self._form = form
        self._store = store
        self._namespace = namespace
        self._accepts = accepts
        self._bookmarks = bookmarks
        self._unlisten = store.listen(form.resource.name, self.feed)

    def feed(self, change: Change) -> None:
        """Add the event of *change*, if this watch is to see it.

        An object that leaves the selection is deleted in the eyes of this watch: it is sent as
        it was, at the version of the write.
        """
        if self.ended or (self._namespace and change.key.namespace != self._namespace):
            return
        was = change.before is not None and self._accepts(change.before)
        is_in = change.after is not None and self._accepts(change.after)
        if is_in:
            assert change.after is not None
            self.event("MODIFIED" if was else "ADDED", change.after)
        elif was:
            assert change.before is not None
            metadata = {**change.before["metadata"], "resourceVersion": str(change.version)}
            self.event("DELETED", {**change.before, "metadata": metadata})

    def event(self, kind: str, obj: Json) -> None:
        self._line({"type": kind, "object": self._form.one(obj)})

    def fail(self, status: Json) -> None:
        """End with an ERROR event."""
        self._line({"type": "ERROR", "object": status})
        self.close()

    def bookmark(self) -> None:
        """Say how far this watch has come, if the client wants to know."""
        if not self._bookmarks or self.ended:
            return
        resource = self._form.resource
        metadata: Json = {"resourceVersion": str(self._store.version)}
        if not resource.custom:
            metadata["creationTimestamp"] = None
        obj: Json = {"kind": resource.kind, "apiVersion": resource.api_version}
        self.event("BOOKMARK", {**obj, "metadata": metadata})

    def partial(self, text: bytes) -> None:
        """Send a piece of a line, as a connection that breaks in the middle of one does."""
        self.lines.append(text)
        self.notify()

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            self._unlisten()
            self.notify()

    def _line(self, event: Json) -> None:
        self.lines.append(encode(event) + b"\n")
        self.notify()


class Reader:
    """Answers reads from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages: OrderedDict[str, list[Json]] = OrderedDict()
        self.watches: list[tuple[str, WatchStream]] = []

    def collection(
        self, resource: Resource, namespace: str, query: Mapping[str, str], form: Form
    ) -> Json:
        accepts = selector(resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        limit = int(query.get("limit") or 0)
        token = query.get("continue", "")
        if token:
            version, items = self._page(resource, namespace, token, accepts)
        else:
            self._check_version(query.get("resourceVersion", ""))
            version = self._store.version
            items = self._store.objects(resource.name, namespace)
            if accepts is not everything:
                items = [obj for obj in items if accepts(obj)]
        metadata: Json = {"resourceVersion": str(version)}
        if resource.custom and not form.partial:
            metadata["continue"] = ""
        if limit and len(items) > limit:
            rest = items[limit:]
            items = items[:limit]
            metadata["continue"] = self._remember(version, rest, items[-1])
            if accepts is everything:
                metadata["remainingItemCount"] = len(rest)
        return form.several(items, metadata)

    def _check_version(self, version: str) -> None:
        if version and not version.isdigit():
            raise bad_request(f"invalid resource version {version!r}")
        if version and int(version) > self._store.version:
            message = f"Too large resource version: {version}, current: {self._store.version}"
            raise Refusal(
                504,
                "Timeout",
                message,
                {
                    "causes": [
                        {
                            "reason": "ResourceVersionTooLarge",
                            "message": "Too large resource version",
                        }
                    ],
                    "retryAfterSeconds": 1,
                },
            )

    def _remember(self, version: int, rest: list[Json], last: Json) -> str:
        start = _place(last) + "\0"
        token = _token(version, start)
        self._pages[token] = rest
        while len(self._pages) > _KEPT_PAGES:
            self._pages.popitem(last=False)
        return token

    def _page(
        self, resource: Resource, namespace: str, token: str, accepts: Selector
    ) -> tuple[int, list[Json]]:
        try:
            parsed = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            version, start = int(parsed["rv"]), str(parsed["start"])
        except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise bad_request(
                "invalid continue token: continue key is not valid: it cannot be decoded"
            ) from None
        if version > 0 and version >= self._store.compacted and token in self._pages:
            return version, self._pages[token]
        if version >= 0:
            refusal = gone(_TOO_OLD_PAGE)
            refusal.status["metadata"] = {"continue": _token(-1, start)}
            raise refusal
        # The token that such an answer carries goes on with whatever is there now.
        items = [
            obj
            for obj in self._store.objects(resource.name, namespace)
            if _place(obj) >= start.rstrip("\0") and accepts(obj)
        ]
        if items and start.endswith("\0") and _place(items[0]) == start[:-1]:
            items = items[1:]
        return self._store.version, items

    def watch(
        self, resource: Resource, namespace: str, query: Mapping[str, str], form: Form
    ) -> WatchStream:
        """Raises Refusal for what is no watch; a version that is too old is told inside."""
        accepts = selector(resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        version = query.get("resourceVersion", "")
        if version and not version.isdigit():
            problem = f'strconv.ParseUint: parsing "{version}": invalid syntax'
            raise internal(f'resourceVersion: Invalid value: "{version}": {problem}')
        stream = WatchStream(
            form,
            self._store,
            namespace,
            accepts,
            bookmarks=query.get("allowWatchBookmarks") in ("true", "1"),
        )
        self.watches = [(name, other) for name, other in self.watches if not other.ended]
        self.watches.append((resource.name, stream))
        if version in ("", "0"):
            for obj in self._store.objects(resource.name, namespace):
                if accepts(obj):
                    stream.event("ADDED", obj)
        elif int(version) < (oldest := self._store.oldest(resource.name)):
            stream.fail(gone(f"too old resource version: {version} ({oldest})").status)
        else:
            for change in self._store.changes(resource.name, int(version)):
                stream.feed(change)
        return stream

    def end_watches(self, resource: str | None = None, partial: bytes = b"") -> None:
        """End the watches on one resource, or all. partial: a piece of a line sent before."""
        for name, stream in self.watches:
            if resource is None or name == resource:
                if partial and not stream.ended:
                    stream.partial(partial)
                stream.close()

    def forget_pages(self) -> None:
        self._pages.clear()


def _place(obj: Json) -> str:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _token(version: int, start: str) -> str:
    raw = orjson.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def one(store: Store, resource: Resource, key: Any, form: Form) -> Json:
    obj = store.get(resource.name, key)
    if obj is None:
        raise not_found(resource.group, resource.plural, key.name)
    return form.one(obj)
