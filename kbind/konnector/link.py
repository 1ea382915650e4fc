"""A provider as one Connection knows it: client, identity, exports, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kbind.cluster.client import Client
from kbind.cluster.kubeconfig import Credentials
from kbind.facts import PullPolicy, UpdatePolicy
from kbind.hooks import ExportedApi, SchemaSource
from kbind.konnector.heartbeat import Heartbeat
from kbind.words import Reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of something that a Connection keeps: one API's schema, its ClusterBinding.

    reason: None where it is as the policies want it. note: what a user should know all the same.
    """

    reason: str | None
    message: str = ""
    note: str = ""


@dataclass(slots=True)
class Link:
    """An open line to a provider. ready: whether instances may be synced over it; identifier: the
    path of what tells which cluster it is, and remote its UID.

    asked: ``spec.schema.source`` as it was discovered with; source_name: which of *sources*
    answers for it. exports: by name; shown: what a status has of them; reserved: what was offered
    of groups that are nobody's exports; failed, unread: what the last discovery could not tell, so
    that what was known stands; empty_since: when discovery first found none, and has since.
    delivered: by API; memo: what that was decided on, so that nothing unchanged is read again.
    braked: by API, what rules would delete of it that nobody asked for, and that is too much at
    once; told: of which of these an Event has said so. parting: that the Secret with the
    credentials is being deleted. Times are the loop's, in seconds.
    """

    connection: str
    credentials: Credentials
    client: Client
    heartbeat: Heartbeat
    identifier: str = ""
    remote: str = ""
    ready: bool = False
    asked: str = ""
    sources: dict[str, SchemaSource] = field(default_factory=dict)
    source_name: str = ""
    exports: dict[str, ExportedApi] | None = None
    shown: list[dict[str, Any]] = field(default_factory=list)
    reserved: tuple[str, ...] = ()
    failed: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)
    empty_since: float | None = None
    discovered_at: float | None = None
    delivered: dict[str, Outcome] = field(default_factory=dict)
    memo: dict[str, tuple[object, ...]] = field(default_factory=dict)
    auto_bound: Outcome = Outcome(None)
    braked: dict[str, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    parting: str = ""

    @property
    def questions(self) -> dict[str, str]:
        """What brakes have stopped, by API, "" for the ClusterBinding of autoBind."""
        bound = self.auto_bound
        own = {"": bound.message} if bound.reason == Reason.BRAKED else {}
        return own | dict(sorted(self.braked.items()))

    @property
    def source(self) -> SchemaSource:
        """What answers for the Connection; there once a discovery has succeeded."""
        return self.sources[self.source_name]


@dataclass(frozen=True, slots=True)
class Policies:
    """A Connection's ``spec.schema`` and ``spec.autoBind``."""

    source: str
    pull: PullPolicy
    update: UpdatePolicy
    auto_bind: bool
