"""What a provider offers: the schema source that the rules choose, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any, Final

import orjson

from kbind.errors import (
    ClusterError,
    Forbidden,
    Gone,
    SchemaSourceError,
    ServerFailed,
    Throttled,
    Unreachable,
)
from kbind.facts import Asked, Listing, PullPolicy, Source, UpdatePolicy
from kbind.hooks import RESERVED, ExportedApi, Exports, SchemaSource, Sources
from kbind.konnector import asking
from kbind.konnector.judging import Stop
from kbind.konnector.link import Link, Policies
from kbind.plan import Decision
from kbind.rulebook import Rulebook
from kbind.words import Condition, Reason

ROOM: Final = 900_000
"""Bytes of exported APIs that a status shows. etcd holds 1.5 MiB an object by default, and each
write has all of it."""


def policies(connection: Mapping[str, Any]) -> Policies:
    """Of a Connection, with the defaults of its CRD. Raises Stop for a spec that only another
    version of the CRD can have let through."""
    try:
        spec = connection["spec"]
        schema = spec.get("schema") or {}
        return Policies(
            str(schema.get("source", Asked.AUTO)),
            PullPolicy(schema.get("pullPolicy", PullPolicy.BOUND)),
            UpdatePolicy(schema.get("updatePolicy", UpdatePolicy.ALWAYS)),
            bool(spec.get("autoBind", False)),
        )
    except (KeyError, TypeError, ValueError) as error:
        message = f"this version of kbind does not understand the spec: {error}"
        raise Stop(Condition.READY, Reason.SPEC_INVALID, message) from error


_Failure = ClusterError | SchemaSourceError
_PASSING = (ServerFailed, Throttled, Gone, Unreachable, SchemaSourceError)


@dataclass(frozen=True, slots=True)
class _Found:
    """What one source answered. word: for the source table; reserved: what it offered of groups
    that are nobody's exports; error: why it gave no answer."""

    word: Listing
    exports: Exports = field(default_factory=Exports)
    reserved: tuple[str, ...] = ()
    error: _Failure | None = None


async def discover(link: Link, asked: str, book: Rulebook, sources: Sources, now: float) -> None:
    """Brings *link* up to what the provider offers. asked: ``spec.schema.source``; now: the
    loop's time. What cannot be read shrinks nothing. Raises Stop."""
    word = Asked(asked) if asked in set(Asked) else Asked.OTHER

    def decide(listing: Listing) -> Decision:
        return book.decide("source", {"asked": str(word), "listing": str(listing)})

    name, found = str(Asked.CRD), None
    decision = decide(Listing.UNREAD)
    if decision.verdict == Source.LIST:
        found = await _list(_source(link, name, sources))
        decision = decide(found.word)
    if decision.verdict in (Source.AS_ASKED, Source.OPENAPI):
        name = asked if decision.verdict == Source.AS_ASKED else str(Asked.OPENAPI)
        found = await _list(_source(link, name, sources))
    assert found is not None
    if found.error is not None:
        _keep(link, name, found.error, decision)
        return
    if decision.verdict == Source.REPORT:
        raise Stop(Condition.READY, decision.reason or "", decision.why)
    apis = {api.name: api for api in found.exports.apis}
    unread = found.exports.unread
    for known in (link.exports or {}).values():
        if known.name not in apis and (known.name in unread or known.group in unread):
            apis[known.name] = known
    link.asked, link.source_name = asked, name
    link.exports = {api: apis[api] for api in sorted(apis)}
    link.shown = shown(link.exports.values())
    link.failed, link.unread, link.reserved = "", unread, found.reserved
    if apis or unread:
        link.empty_since = None
    elif link.empty_since is None:
        link.empty_since = now


def _keep(link: Link, name: str, error: _Failure, decision: Decision) -> None:
    """What was known stands, where the failure is one that leaves the line in order: a moment ago
    the provider told who it is. Raises Stop where it does not."""
    if isinstance(error, _PASSING) and link.exports is not None:
        link.failed = f"schema source {name}: {error}"
        return
    denied = isinstance(error, Forbidden)
    text = f"schema source {name}: {error}"
    if decision.verdict == Source.REPORT:
        text = f"{text} - {decision.why}"
    raise Stop(
        Condition.PERMISSION_DENIED if denied else Condition.READY,
        decision.reason or (Reason.FORBIDDEN if denied else Reason.SCHEMA_SOURCE_FAILED),
        text,
    )


def _source(link: Link, name: str, sources: Sources) -> SchemaSource:
    if name not in link.sources:
        factory = sources.get(name)
        if factory is None:
            known = ", ".join(sorted({*sources, Asked.AUTO}))
            message = f"there is no schema source {name!r}; known here: {known}"
            raise Stop(Condition.READY, Reason.UNKNOWN_SCHEMA_SOURCE, message)
        try:
            link.sources[name] = asking.made(factory, link.client)
        except SchemaSourceError as error:
            message = f"schema source {name}: {error}"
            raise Stop(Condition.READY, Reason.SCHEMA_SOURCE_FAILED, message) from error
    return link.sources[name]


async def _list(source: SchemaSource) -> _Found:
    try:
        offered = await asking.exports(source)
    except Forbidden as error:
        return _Found(Listing.FORBIDDEN, error=error)
    except (ClusterError, SchemaSourceError) as error:
        return _Found(Listing.FAILED, error=error)
    # Whoever offers them: ours would lead the konnector about, and what comes with Kubernetes would
    # be the consumer's own objects, as its server passes over CRDs of those groups and versions.
    apis = tuple(api for api in offered.apis if api.group not in RESERVED)
    reserved = tuple(api.name for api in offered.apis if api.group in RESERVED)
    word = Listing.EXPORTS if apis or offered.unread else Listing.EMPTY
    return _Found(word, Exports(apis, offered.unread), reserved)


def shown(exports: Iterable[ExportedApi]) -> list[dict[str, Any]]:
    """``status.exportedAPIs``: the first, as many as there is room for."""
    listed = [api.as_json() for api in exports]
    sizes = accumulate(len(orjson.dumps(api)) + 1 for api in listed)
    return listed[: sum(1 for _ in takewhile(lambda size: size <= ROOM, sizes))]
