"""metadata.managedFields: who holds which fields of an object, at which version of its API.

Pure. Source: server-side apply of the Kubernetes API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


def entries(target: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """All entries, in the order in which they stand."""
    return (target.get("metadata") or {}).get("managedFields") or ()


def place(target: Mapping[str, Any], manager: str) -> int | None:
    """Where the entry of what *manager* applied to the main resource stands, None where it never
    did. A manager has one such entry, whatever version it names."""
    for index, entry in enumerate(entries(target)):
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            return index
    return None


def owned_fields(target: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """The fieldsV1 tree that *manager* applied to the main resource of *target*; {} where it
    never did."""
    index = place(target, manager)
    if index is None:
        return {}
    fields: dict[str, Any] = entries(target)[index].get("fieldsV1") or {}
    return fields


def is_at(target: Mapping[str, Any], manager: str, api_version: str) -> bool:
    """Whether what *manager* applied, if it did, was applied at *api_version* last."""
    index = place(target, manager)
    return index is None or entries(target)[index].get("apiVersion") == api_version


def versions(target: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The manager and the API version of every entry."""
    return [(str(e.get("manager")), str(e.get("apiVersion"))) for e in entries(target)]


def renewal(target: Mapping[str, Any], manager: str, api_version: str) -> list[dict[str, Any]]:
    """The JSON patch that has *manager*'s entry name *api_version*, of this very object at this
    version. A server takes it only where no entry stays at a version that is gone; else it
    answers with the object as it was."""
    metadata, here = target["metadata"], f"/metadata/managedFields/{place(target, manager)}"
    version = metadata["resourceVersion"]
    return [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": f"{here}/apiVersion", "value": api_version},
    ]


@dataclass(frozen=True, slots=True)
class Outdated:
    """Entries at a version that is gone, with which an object takes no apply.

    ours: whether our entry is among them; others: the managers of the rest, each once.
    """

    version: str
    ours: bool
    others: tuple[str, ...]

    @property
    def alone(self) -> bool:
        """Whether ours is the only one."""
        return self.ours and not self.others


def outdated(
    target: Mapping[str, Any], manager: str, api_version: str, message: str
) -> Outdated | None:
    """The entries of *target* at the version that a server's *message* names, where that is
    another than *api_version*, the one in use. ours is what *manager* applied."""
    there = versions(target)
    gone = next((v for _, v in there if v != api_version and _names(message, v)), None)
    if gone is None:
        return None
    mine = place(target, manager)
    held = {index: name for index, (name, version) in enumerate(there) if version == gone}
    rest = {name for index, name in held.items() if index != mine}
    return Outdated(gone, mine in held, tuple(sorted(rest)))


def _names(message: str, api_version: str) -> bool:
    """Whether it is there as a word, not as part of a path or of a longer version."""
    return re.search(rf"(?<![\w./-]){re.escape(api_version)}(?![\w/])", message) is not None
