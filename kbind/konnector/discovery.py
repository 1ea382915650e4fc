"""What a provider offers: the schema source that the rules choose, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import structlog

from kbind.errors import ClusterError, Forbidden, SchemaSourceError, ServerFailed, Throttled
from kbind.facts import Asked, Listing, PullPolicy, Source, UpdatePolicy
from kbind.hooks import ExportedApi, SchemaSource, Sources
from kbind.konnector.judging import Stop
from kbind.konnector.link import Link, Policies
from kbind.konnector.reader import Reader
from kbind.rulebook import Rulebook
from kbind.words import Condition, Reason

log = structlog.get_logger(__name__)

PATIENCE = 60.0  # seconds that a schema source may take for one answer

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


async def discover(link: Link, asked: str, book: Rulebook, sources: Sources) -> None:
    """Sets ``link.source`` and ``link.exports``. asked: ``spec.schema.source``. What cannot be
    read shrinks nothing. Raises Stop."""
    word = Asked(asked) if asked in set(Asked) else Asked.OTHER
    facts = {"asked": str(word), "listing": str(Listing.UNREAD)}
    decision = book.decide("source", facts)
    name = str(Asked.CRD) if decision.verdict == Source.LIST else asked
    source = _source(link, name, sources)
    exports, listing, error = await _list(source)
    if decision.verdict == Source.LIST:
        decision = book.decide("source", facts | {"listing": str(listing)})
    link.note = ""
    if isinstance(error, ServerFailed | Throttled | SchemaSourceError) and link.exports:
        link.note = f"discovery failed, what was known stands: {error}"
        return
    if error is not None:
        denied = isinstance(error, Forbidden)
        raise Stop(
            Condition.PERMISSION_DENIED if denied else Condition.READY,
            decision.reason or (Reason.FORBIDDEN if denied else Reason.SCHEMA_SOURCE_FAILED),
            f"schema source {name}: {error}",
        )
    link.asked, link.source, link.source_name = asked, source, name
    link.exports = {api.name: api for api in exports}


def _source(link: Link, name: str, sources: Sources) -> SchemaSource:
    if link.source is not None and link.source_name == name:
        return link.source
    factory = sources.get(name)
    if factory is None:
        known = ", ".join(sorted({*sources, Asked.AUTO}))
        message = f"there is no schema source {name!r}; known here: {known}"
        raise Stop(Condition.READY, Reason.UNKNOWN_SCHEMA_SOURCE, message)
    return factory(Reader(link.client))


async def _list(
    source: SchemaSource,
) -> tuple[list[ExportedApi], Listing, ClusterError | SchemaSourceError | None]:
    try:
        exports = list((await answer(source.exports())).apis)
    except Forbidden as error:
        return [], Listing.FORBIDDEN, error
    except (ClusterError, SchemaSourceError) as error:
        return [], Listing.FAILED, error
    return exports, Listing.EXPORTS if exports else Listing.EMPTY, None


async def answer(asked: Awaitable[T]) -> T:
    """What a schema source answers, within limits. Raises ClusterError or SchemaSourceError,
    the latter also for a plugin that breaks."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await asked
    except (ClusterError, SchemaSourceError):
        raise
    except TimeoutError as error:
        raise SchemaSourceError(f"no answer within {PATIENCE:.0f} s") from error
    except Exception as error:
        log.exception("a schema source broke; its plugin is at fault")
        raise SchemaSourceError(f"the plugin broke: {type(error).__name__}: {error}") from error
