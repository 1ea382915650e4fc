"""What a provider offers: the schema source that the rules choose, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog

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
from kbind.hooks import BUILTIN, Exports, SchemaSource, Sources
from kbind.konnector.judging import Stop
from kbind.konnector.link import Link, Policies
from kbind.konnector.reader import Reader
from kbind.plan import Decision
from kbind.rulebook import Rulebook
from kbind.words import Condition, Reason

log = structlog.get_logger(__name__)

PATIENCE = 60.0  # seconds that a schema source may take for one answer

# What a plugin may end in: none of it may end the konnector, or one of its tasks.
_BROKEN: Final = (Exception, asyncio.CancelledError, SystemExit)

T = TypeVar("T")


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
    """What one source answered. word: for the source table; error: why it gave no answer."""

    word: Listing
    exports: Exports = field(default_factory=Exports)
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
    # Whoever offers them: ours would lead the konnector about, and what comes with Kubernetes would
    # be the consumer's own objects, as its server passes over CRDs of those groups and versions.
    apis = {api.name: api for api in found.exports.apis if api.group not in BUILTIN}
    unread = found.exports.unread
    for known in (link.exports or {}).values():
        if known.name not in apis and (known.name in unread or known.group in unread):
            apis[known.name] = known
    link.asked, link.source_name = asked, name
    link.exports = {api: apis[api] for api in sorted(apis)}
    link.failed, link.unread = "", unread
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
            link.sources[name] = factory(Reader(link.client))
        except _BROKEN as error:
            log.exception("a schema source broke; its plugin is at fault")
            message = f"schema source {name}: the plugin broke: {type(error).__name__}: {error}"
            raise Stop(Condition.READY, Reason.SCHEMA_SOURCE_FAILED, message) from error
    return link.sources[name]


async def _list(source: SchemaSource) -> _Found:
    try:
        exports = checked(await answer(lambda: source.exports(), Exports))
    except Forbidden as error:
        return _Found(Listing.FORBIDDEN, error=error)
    except (ClusterError, SchemaSourceError) as error:
        return _Found(Listing.FAILED, error=error)
    offered = exports.apis or exports.unread
    return _Found(Listing.EXPORTS if offered else Listing.EMPTY, exports)


def checked(exports: Exports) -> Exports:
    """A copy, which the source cannot change any more. Raises SchemaSourceError for what the
    contract does not allow among the answers."""
    try:
        if not isinstance(exports.apis, tuple | list):
            raise TypeError(f"apis is a {type(exports.apis).__name__}, not a tuple")
        exports = Exports(tuple(exports.apis), dict(exports.unread))
        for api in exports.apis:
            texts: tuple[object, ...] = (api.name, api.revision, *api.versions)
            if not all(isinstance(text, str) for text in texts):
                raise TypeError(f"{api.name!r} has a part that is no text")
            if isinstance(api.versions, str):
                raise TypeError(f"{api.name} has one text for its versions")
            if len(set(api.versions)) < len(api.versions):
                raise TypeError(f"{api.name} has a version twice")
            if api.scope not in ("Namespaced", "Cluster"):
                raise TypeError(f"{api.name} has the scope {api.scope!r}")
            if api.name != f"{api.resource}.{api.group}":
                raise TypeError(f"{api.name} is not named after its resource and group")
        said: list[object] = [*exports.unread, *exports.unread.values()]
        if not all(isinstance(text, str) for text in said):
            raise TypeError("unread holds something other than texts")
    except Exception as error:
        raise SchemaSourceError(f"the plugin's exports are malformed: {error}") from error
    return exports


async def answer(ask: Callable[[], Awaitable[T]], *kinds: type) -> T:
    """What a schema source answers, within limits. Raises ClusterError or SchemaSourceError,
    the latter also for a plugin that breaks, or that answers with something of none of *kinds*."""
    limit = asyncio.timeout(PATIENCE)
    try:
        async with limit:
            given = await ask()
    except (ClusterError, SchemaSourceError):
        raise
    except _BROKEN as error:
        if limit.expired():
            raise SchemaSourceError(f"no answer within {PATIENCE:.0f} s") from error
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # it is us who are to end
        log.exception("a schema source broke; its plugin is at fault")
        raise SchemaSourceError(f"the plugin broke: {type(error).__name__}: {error}") from error
    if not isinstance(given, kinds):
        wrong = type(given).__name__
        raise SchemaSourceError(f"the plugin answered with {wrong}, not with {kinds[0].__name__}")
    return given
