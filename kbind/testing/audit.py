"""One request to a cluster, whichever kind it is: what tests count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One request, as an audit log tells of it.

    verb: get, list, watch, create, update, patch, delete, deletecollection; "" outside of
    resources. path: with its query; resource: the plural; status: the HTTP status.
    """

    verb: str
    user: str
    agent: str
    path: str
    group: str
    resource: str
    namespace: str
    name: str
    subresource: str
    status: int

    @property
    def writes(self) -> bool:
        """Whether it asked for a change."""
        return self.verb in ("create", "update", "patch", "delete", "deletecollection")

    def __str__(self) -> str:
        place = "/".join(part for part in (self.namespace, self.name) if part)
        resource = "/".join(part for part in (self.resource, self.subresource) if part)
        return f"{self.verb} {resource} {place} {self.status}"
