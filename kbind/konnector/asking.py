"""Asking a schema source: within limits, and with its answers held to the contract.

A plugin may do anything: whatever it ends in or answers comes to nothing worse than an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import orjson
import structlog

from kbind.cluster.client import Client
from kbind.errors import ClusterError, SchemaSourceError
from kbind.facts import Definition
from kbind.hooks import Exports, Offer, SchemaSource, SourceFactory
from kbind.jsons import encode
from kbind.konnector.reader import Reader

log = structlog.get_logger(__name__)

PATIENCE: Final = 60.0  # seconds that a schema source may take for one answer

# What a plugin may end in: none of it may end the konnector, or one of its tasks.
_BROKEN: Final = (Exception, asyncio.CancelledError, SystemExit)

T = TypeVar("T")


def made(factory: SourceFactory, client: Client) -> SchemaSource:
    """A source for one provider. Raises SchemaSourceError."""
    try:
        return factory(Reader(client))
    except _BROKEN as error:
        raise _broken(error) from error


async def exports(source: SchemaSource) -> Exports:
    """What it offers. Raises ClusterError or SchemaSourceError."""
    return checked(await _answer(lambda: source.exports(), Exports))


async def definition(source: SchemaSource, name: str) -> Offer | None:
    """How API *name* is defined. Raises ClusterError or SchemaSourceError."""
    offer = await _answer(lambda: source.definition(name), Offer, type(None))
    return None if offer is None else checked_offer(offer, name)


async def _answer(ask: Callable[[], Awaitable[T]], *kinds: type) -> T:
    """One of *kinds*."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    limit = asyncio.timeout(PATIENCE)
    try:
        async with limit:
            given = await ask()
    except _BROKEN as error:
        if task.cancelling() == before:
            if isinstance(error, ClusterError | SchemaSourceError):
                raise
            if limit.expired():
                raise SchemaSourceError(f"no answer within {PATIENCE:.0f} s") from error
            raise _broken(error) from error
    if task.cancelling() > before:
        raise asyncio.CancelledError  # we are to end, whatever the plugin made of that
    if not isinstance(given, kinds):
        wrong = type(given).__name__
        raise SchemaSourceError(f"the plugin answered with {wrong}, not with {kinds[0].__name__}")
    return given


def _broken(error: BaseException) -> SchemaSourceError:
    log.exception("a schema source broke; its plugin is at fault", exc_info=error)
    return SchemaSourceError(f"the plugin broke: {type(error).__name__}: {error}")


def checked(exports: Exports) -> Exports:
    """A copy, which the source cannot change any more. Raises SchemaSourceError for what the
    contract does not allow among the answers."""
    try:
        if not isinstance(exports.apis, tuple | list):
            raise TypeError(f"apis is a {type(exports.apis).__name__}, not a tuple")
        exports = Exports(tuple(exports.apis), dict(exports.unread))
        seen: set[str] = set()
        for api in exports.apis:
            texts: tuple[object, ...] = (
                *(api.name, api.group, api.resource, api.revision),
                *api.versions,
            )
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
            if api.name in seen:
                raise TypeError(f"{api.name} is there twice")
            seen.add(api.name)
        said: list[object] = [*exports.unread, *exports.unread.values()]
        if not all(isinstance(text, str) for text in said):
            raise TypeError("unread holds something other than texts")
    except Exception as error:
        raise SchemaSourceError(f"the plugin's exports are malformed: {error}") from error
    return exports


def checked_offer(offer: Offer, name: str) -> Offer:
    """A copy, as JSON has it: what a server stores can be compared with it. Raises
    SchemaSourceError for what is no definition of API *name*."""
    try:
        parts: tuple[tuple[object, type], ...] = (offer.definition, Definition), (offer.note, str)
        for part, kind in parts:
            if not isinstance(part, kind):
                raise TypeError(f"{part!r} is no {kind.__name__}")
        crd: Any = orjson.loads(encode(offer.crd))
        named = crd["metadata"]["name"]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise SchemaSourceError(f"the plugin's definition is no CRD: {what}") from error
    if named != name:
        raise SchemaSourceError(f"the plugin's definition is that of another API: {named}")
    return Offer(crd, offer.definition, offer.note)
