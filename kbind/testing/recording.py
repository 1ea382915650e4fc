"""What a konnector decided and did, written down for people: rules, reasons and writes.

Records are plain values for YAML or JSON. They hold no clock time, no resourceVersion and no UID
of a cluster's own making, so that the same story is the same text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kbind.apis import Key
from kbind.calls import Call, Verb
from kbind.konnector.passes import Report
from kbind.testing.handles import key

Json = dict[str, Any]

METHODS: Final = {
    Verb.CREATE: "POST",
    Verb.APPLY: "PATCH, server-side apply",
    Verb.MERGE: "PATCH, merge",
    Verb.PATCH: "PATCH, JSON",
    Verb.REPLACE: "PUT",
    Verb.DELETE: "DELETE",
}

AS_READ: Final = "as read"
"""Stands for a resourceVersion that a write is conditional on."""

_NOISE: Final = frozenset(
    {"lastTransitionTime", "firstTimestamp", "lastTimestamp", "observedGeneration", "crdHash"}
)
_UID: Final = re.compile(r"\b[a-z]+-uid-\d+\b")


def uids(cluster: str) -> Callable[[], str]:
    """Makes UIDs that a Recorder knows again: for ``MemoryCluster(cluster, uid=...)``."""
    count = itertools.count(1)
    return lambda: f"{cluster}-uid-{next(count)}"


class Recorder:
    """Keeps what passes did: give it to a konnector as ``on_report``.

    seconds: since the story began. Left out are passes that wrote nothing and have nothing to
    tell: they met the same rules as the one before them over the same instance, or only found
    that it had left nothing to write.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._records: list[Json] = []
        self._before: dict[tuple[str, Key], Report] = {}
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, report: Report) -> None:
        place = (report.scope.api.name, report.key)
        before = self._before.get(place)
        self._before[place] = report
        batch = report.batch
        if before is not None and not batch.calls and batch.failed is None:
            done = bool(before.batch.calls) and before.batch.failed is None
            if done or _rules(before) == _rules(report):
                return
        record: Json = {
            "at": round(self._seconds(), 1),
            "instance": f"{report.scope.api.kind} {report.key}",
            "rules": _rules(report),
            "writes": [self.write(call) for call in batch.calls],
        }
        if batch.failed is not None:
            step, error = batch.failed
            record["failed"] = {"step": str(step), "with": type(error).__name__, "said": str(error)}
        self._records.append(self.named(record))

    def take(self) -> list[Json]:
        """The records since the last take, oldest first."""
        taken, self._records = self._records, []
        return taken

    def call(self, uid: str, name: str) -> None:
        """Records say *name* for *uid*. All others are named by cluster, in the order in which
        they turn up: ``consumer-1``, ``consumer-2``."""
        self._names[uid] = name

    def named(self, value: Any) -> Any:
        """*value* with the UIDs named, wherever they stand in texts."""
        if isinstance(value, dict):
            return {self.named(name): self.named(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.named(item) for item in value]
        return _UID.sub(self._name, value) if isinstance(value, str) else value

    def _name(self, found: re.Match[str]) -> str:
        uid = found[0]
        if uid not in self._names:
            cluster = uid.partition("-uid-")[0]
            self._counts[cluster] = self._counts.get(cluster, 0) + 1
            self._names[uid] = f"{cluster}-{self._counts[cluster]}"
        return self._names[uid]

    def write(self, call: Call) -> Json:
        """One write, as records show it."""
        return {
            "step": str(call.step),
            "side": str(call.side),
            "method": METHODS[call.verb],
            "path": call.path,
            "body": _body(call),
        }

    def shown(self, obj: Mapping[str, Any]) -> Json:
        """An object as the end of a story shows it: what people and kbind put there."""
        metadata = obj["metadata"]
        kept: Json = {"kind": obj["kind"], "name": str(key(obj))}
        if metadata.get("deletionTimestamp"):
            kept["being deleted"] = True
        for part in ("labels", "annotations", "finalizers"):
            if metadata.get(part):
                kept[part] = metadata[part]
        if obj["kind"] == "Event":
            kept = {"kind": "Event"} | {part: obj[part] for part in ("type", "reason", "message")}
        kept |= {part: obj[part] for part in ("spec", "status") if part in obj}
        shown: Json = self.named(_without_noise(kept))
        return shown


def _rules(report: Report) -> dict[str, str]:
    return {d.name: d.why for d in report.plan.decisions}


def _body(call: Call) -> Any:
    """What is sent, without what the path says already and without noise."""
    if call.verb is Verb.DELETE:
        return {"preconditions": {"uid": call.body}}
    body = _without_noise(call.body)
    if not isinstance(body, dict):
        return body
    if body.get("kind") == "Event":
        return {part: body[part] for part in ("type", "reason", "message")}
    metadata = dict(body.get("metadata") or {})
    metadata.pop("namespace", None)
    if call.verb is Verb.APPLY:
        metadata.pop("name", None)
    if metadata.get("resourceVersion", "1") != "1":
        metadata["resourceVersion"] = AS_READ
    rest = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
    return rest | {"metadata": metadata}


def _without_noise(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_noise(item) for k, item in value.items() if k not in _NOISE}
    if isinstance(value, list):
        return [_without_noise(item) for item in value]
    return value
