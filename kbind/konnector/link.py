"""A provider as one Connection knows it: client, identity, exports, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbind.cluster.client import Client
from kbind.cluster.kubeconfig import Credentials
from kbind.facts import PullPolicy, UpdatePolicy
from kbind.hooks import ExportedApi, SchemaSource


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of one API's schema. reason: None where it is as the policies want it."""

    reason: str | None
    message: str = ""


@dataclass(slots=True)
class Link:
    """An open line to a provider. ready: whether instances may be synced over it.

    asked: ``spec.schema.source`` as it was discovered with; source_name: what answers for it.
    note: what is said beside Ready. memo: by API, what a delivery was decided on, so that
    nothing unchanged is read again.
    """

    connection: str
    credentials: Credentials
    client: Client
    remote: str = ""
    ready: bool = False
    asked: str = ""
    source: SchemaSource | None = None
    source_name: str = ""
    note: str = ""
    exports: dict[str, ExportedApi] | None = None
    discovered_at: float | None = None
    delivered: dict[str, Delivered] = field(default_factory=dict)
    memo: dict[str, tuple[object, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policies:
    """A Connection's ``spec.schema`` and ``spec.autoBind``."""

    source: str
    pull: PullPolicy
    update: UpdatePolicy
    auto_bind: bool
