"""What an API server makes of a request: which object it is about, and how that stands after it.

Pure. Only what the konnector sends is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from kbind.apis import CRDS, Key, qualified
from kbind.copying import same

Object = dict[str, Any]


class Refused(Exception):
    """A server's answer that is no success: an HTTP status, a reason and a message."""

    def __init__(self, status: int, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.status = status
        self.reason = reason
        self.message = message


class Place(NamedTuple):
    """Where an object stands on one server, at whichever version of its API."""

    group: str
    plural: str
    key: Key

    @property
    def api(self) -> str:
        """As CRDs are called."""
        return qualified(self.group, self.plural)


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names. root: of its API version; name: "" for a collection."""

    root: str
    group: str
    plural: str
    namespace: str
    name: str = ""
    subresource: str = ""

    def place(self, name: str = "") -> Place:
        """name: of an object that is created in this collection."""
        return Place(self.group, self.plural, Key(self.namespace, name or self.name))


def target(path: str) -> Target | None:
    """None for a path that is no collection and no object, such as those of discovery."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    size = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    root, rest = parts[:size], parts[size:]
    if not rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    names = (*rest, "", "")
    group = root[1] if root[0] == "apis" else ""
    return Target("/".join(("", *root)), group, names[0], namespace, names[1], names[2])


def is_held(obj: Mapping[str, Any]) -> bool:
    """Whether finalizers hold it, whoever's."""
    return bool(obj["metadata"].get("finalizers"))


def check(standing: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    """Raises Refused where *sent*, a metadata, is based on another object or version."""
    for field in ("uid", "resourceVersion"):
        if sent.get(field, standing["metadata"].get(field)) != standing["metadata"].get(field):
            raise Refused(409, "Conflict")


def created(body: Object, namespace: str, uid: str, now: str) -> Object:
    """A new object. A CRD is served from the start."""
    obj = deepcopy(body)
    metadata = obj["metadata"]
    metadata |= {"uid": uid, "creationTimestamp": now, "generation": 1}
    if namespace:
        metadata["namespace"] = namespace
    if obj.get("kind") == CRDS.kind:
        conditions = [
            {"type": type_, "status": "True"} for type_ in ("NamesAccepted", "Established")
        ]
        stored = [v["name"] for v in obj["spec"]["versions"] if v.get("storage")]
        obj["status"] = {"conditions": conditions, "storedVersions": stored}
    return obj


def replaced(standing: Object, body: Object) -> Object:
    """A PUT: everything but the status."""
    check(standing, body["metadata"])
    after = deepcopy(body)
    kept = ("uid", "creationTimestamp", "generation", "deletionTimestamp")
    after["metadata"] |= {
        field: standing["metadata"][field] for field in kept if field in standing["metadata"]
    }
    if "status" in standing:
        after["status"] = standing["status"]
    return _next(standing, after)


def merged(standing: Object, body: Object) -> Object:
    """A JSON merge patch (RFC 7386)."""
    check(standing, body.get("metadata") or {})
    return _next(standing, _merge(standing, body))


def applied(standing: Object, body: Object) -> Object:
    """A server-side apply: lists are taken whole, and what is no longer sent stays, which is
    more than servers keep."""
    check(standing, body["metadata"])
    return _next(standing, _merge(standing, body))


def _merge(standing: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(standing) if isinstance(standing, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result


def patched(standing: Object, operations: list[Object]) -> Object:
    """A JSON patch (RFC 6902) of tests, additions, replacements and removals within maps and
    lists. Raises Refused where a test fails."""
    after = deepcopy(standing)
    for operation in operations:
        *parents, last = operation["path"].strip("/").split("/")
        place: Any = after
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        name: Any = int(last) if isinstance(place, list) else last
        match operation["op"]:
            case "test":
                if not same(place[name], operation["value"]):
                    raise Refused(409, "Conflict")
            case "remove":
                place.pop(name, None)
            case _:
                place[name] = operation["value"]
    return _next(standing, after)


def _next(standing: Object, after: Object) -> Object:
    if "generation" in standing["metadata"] and not same(standing.get("spec"), after.get("spec")):
        generation = standing["metadata"]["generation"] + 1
        after = {**after, "metadata": {**after["metadata"], "generation": generation}}
    return after
