"""The schema source ``OpenAPI``: all that discovery lists, but for what comes with Kubernetes.

At rest a pass costs two requests: discovery, and the index of ``/openapi/v3``, whose hashes tell
what has changed. A document describes one version of one group, so one of them serves many APIs;
it is kept until another group is asked for, or until the next pass.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from kbind.errors import ClusterError, NotFound, NotServed, SchemaSourceError, ServerFailed
from kbind.hooks import (
    RESERVED,
    ExportedApi,
    Exports,
    Offer,
    ProviderReader,
    SourceFactory,
    hookimpl,
)
from kbind_sources.discovery import Discovered, Resource, discover
from kbind_sources.synthesis import references, synthesize

INDEX: Final = "/openapi/v3"

OTHERS: Final = 20  # documents that those of one API may lead to

Document = Mapping[str, Any]


class _Read(NamedTuple):
    """A document, and the paths of others that it refers to."""

    document: Document
    references: set[str]


class OpenApiSource:
    """What one provider serves; remembers the last discovery, and the documents of one group."""

    def __init__(self, provider: ProviderReader) -> None:
        self._provider = provider
        self._apis: Mapping[str, Sequence[Resource]] = {}
        self._unread: Mapping[str, str] = {}
        self._hashes: Mapping[str, str] = {}
        self._others: dict[str, tuple[str, ...]] = {}
        self._groups: frozenset[str] = frozenset()
        self._group = ""
        self._read: dict[str, _Read | ClusterError | SchemaSourceError] = {}

    async def exports(self) -> Exports:
        found = await discover(self._provider, lambda group: group not in RESERVED)
        hashes = await self._index()
        unread = dict(found.unread) | self._vanished(found)
        apis = {}
        exports = []
        for name in sorted(found.apis):
            versions = found.apis[name]
            missing = [it.version for it in versions if _path(it) not in hashes]
            if missing:
                unread[name] = f"{INDEX} lists no document for version {', '.join(missing)}"
                continue
            apis[name] = versions
            # What else the schema stands on is known once it has been read.
            paths = (*(_path(it) for it in versions), *self._others.get(name, ()))
            exports.append(_exported(name, versions, [hashes.get(path) for path in paths]))
        self._apis, self._unread, self._hashes = apis, unread, hashes
        self._others = {name: paths for name, paths in self._others.items() if name in apis}
        self._read.clear()
        return Exports(tuple(exports), unread)

    async def definition(self, name: str) -> Offer | None:
        versions = self._apis.get(name)
        if versions is None:
            group = name.partition(".")[2]
            if why := self._unread.get(name) or self._unread.get(group):
                raise SchemaSourceError(f"{name} could not be read: {why}")
            return None
        if versions[0].group != self._group:
            self._group = versions[0].group
            self._read.clear()
        own = {it.version: await self._document(_path(it)) for it in versions}
        others = await self._others_of(name, {_path(it): own[it.version] for it in versions})
        try:
            offer = await asyncio.to_thread(
                synthesize,
                versions,
                {version: read.document for version, read in own.items()},
                {path: read.document for path, read in others.items()},
            )
        except RecursionError:
            raise SchemaSourceError(f"the schema of {name} is nested too deep") from None
        self._others[name] = tuple(sorted(others))
        return offer

    def _vanished(self, found: Discovered) -> dict[str, str]:
        """Groups that the last discovery had and this one does not know at all: an API server that
        is starting lists them later than the others. Missed once more, they are gone."""
        missed = self._groups - found.groups
        self._groups = found.groups
        return dict.fromkeys(missed, "discovery does not list it any longer; asking once more")

    async def _index(self) -> dict[str, str]:
        """The hashes of documents by their paths."""
        try:
            answer = await self._provider.get(INDEX)
        except (NotFound, NotServed):
            raise SchemaSourceError(
                f"the provider serves no {INDEX}, which this source reads; "
                "label its CRDs and use the source CRD"
            ) from None
        paths = answer.get("paths")
        if not isinstance(paths, dict):
            raise SchemaSourceError(f"the provider answers {INDEX} without paths")
        return {f"{INDEX}/{path}": found for path, at in paths.items() if (found := _hash(at))}

    async def _others_of(self, name: str, own: Mapping[str, _Read]) -> dict[str, _Read]:
        """By path, what an API's *own* documents refer to, and what that refers to, as far as the
        index lists it: the rest is left to the synthesis, which tells what it made of it."""
        others: dict[str, _Read] = {}
        todo = list(own.values())
        while todo:
            for path in sorted(todo.pop().references):
                if path in own or path in others or path not in self._hashes:
                    continue
                if len(others) == OTHERS:
                    raise SchemaSourceError(
                        f"the documents of {name} lead to more than {OTHERS} others"
                    )
                others[path] = await self._document(path)
                todo.append(others[path])
        return others

    async def _document(self, path: str) -> _Read:
        """Fetched once, and failing once, until another group's or the next pass."""
        if path not in self._read:
            try:
                document = await self._fetch(path)
                self._read[path] = _Read(document, await asyncio.to_thread(references, document))
            except (ClusterError, SchemaSourceError) as error:
                self._read[path] = error
            except RecursionError:
                self._read[path] = SchemaSourceError(f"{path} is nested too deep")
        read = self._read[path]
        if isinstance(read, _Read):
            return read
        raise read.with_traceback(None)

    async def _fetch(self, path: str) -> Document:
        try:
            return await self._provider.get(path, query={"hash": self._hashes[path]})
        except ServerFailed as error:
            if error.status != 301:
                raise
        return await self._provider.get(path)  # it has changed since the index was read


def _path(resource: Resource) -> str:
    """Where the document of a resource's version is served."""
    return f"{INDEX}/apis/{resource.group}/{resource.version}"


def _hash(entry: Any) -> str | None:
    """Of an entry of the index, which names it in the query of a URL."""
    url = entry.get("serverRelativeURL") if isinstance(entry, dict) else None
    if not isinstance(url, str):
        return None
    return parse_qs(urlsplit(url).query).get("hash", [None])[0]


def _exported(name: str, versions: Sequence[Resource], hashes: Sequence[str | None]) -> ExportedApi:
    first = versions[0]
    told = repr((versions, hashes)).encode()
    return ExportedApi(
        name,
        first.group,
        first.plural,
        "Namespaced" if first.namespaced else "Cluster",
        tuple(it.version for it in versions),
        hashlib.sha256(told).hexdigest(),
    )


@hookimpl
def kbind_schema_sources() -> Mapping[str, SourceFactory]:
    return {"OpenAPI": OpenApiSource}
