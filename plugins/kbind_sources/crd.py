"""The schema source ``CRD``: the provider's CRDs that carry the label ``exported: "true"``.

At rest a pass costs one request: the list asks for metadata alone. What a new or changed CRD
offers is taken from discovery, one request for all of them, so that no schema is fetched before
somebody wants it. Discovery lags behind a CRD by moments, so what is taken from it is taken once
more in the next pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbind import words
from kbind.errors import ClusterError, NotFound, SchemaSourceError, Unauthorized
from kbind.hooks import (
    Definition,
    ExportedApi,
    Exports,
    Offer,
    ProviderReader,
    SourceFactory,
    exported,
    hookimpl,
    revision,
    version_order,
)
from kbind_sources.discovery import Resource, discover

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_MALFORMED = (KeyError, TypeError, AttributeError)  # what reading of no CRD may end in


@dataclass(frozen=True, slots=True)
class _Known:
    """What a CRD exports. settled: it is not to be looked up again at this revision."""

    api: ExportedApi
    settled: bool


class CrdSource:
    """Labelled CRDs of one provider; remembers what each one exports until it changes."""

    def __init__(self, provider: ProviderReader) -> None:
        self._provider = provider
        self._known: dict[str, _Known] = {}

    async def exports(self) -> Exports:
        unread: dict[str, str] = {}
        revisions = await self._revisions(unread)
        known = {
            name: self._known[name]
            for name, at in revisions.items()
            if name in self._known and self._known[name].api.revision == at
        }
        unsettled = [n for n in revisions if n not in known or not known[n].settled]
        if unsettled:
            groups = {_group(name) for name in unsettled}
            discovered = await discover(self._provider, groups.__contains__)
            for name in unsettled:
                versions = discovered.apis.get(name)
                if versions is not None:
                    api = _as_discovered(name, versions, revisions[name])
                    known[name] = _Known(api, settled=name in known)
                    continue
                known.pop(name, None)
                try:
                    whole = await self._whole(name)
                except Unauthorized:  # true of all of them
                    raise
                except (ClusterError, SchemaSourceError) as error:
                    unread[name] = str(error)
                else:
                    if whole is not None:
                        known[name] = _Known(whole, settled=True)
        self._known = known
        return Exports(tuple(known[name].api for name in sorted(known)), unread)

    async def definition(self, name: str) -> Offer | None:
        crd = await self._read(name)
        return None if crd is None else Offer(crd, Definition.ORIGINAL)

    async def _revisions(self, unread: dict[str, str]) -> dict[str, str]:
        """Of the labelled CRDs that are not going, by name. Raises SchemaSourceError for one
        without a name, which may be any of those that are known."""
        query = {"labelSelector": f"{words.EXPORTED}={words.TRUE}"}
        revisions: dict[str, str] = {}
        going: dict[str, str] = {}
        async for item in self._provider.items(CRDS, query=query, accept=METADATA_ONLY):
            metadata = item.get("metadata")
            if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
                raise SchemaSourceError("a CRD in the provider's list has no name")
            name = metadata["name"]
            if metadata.get("deletionTimestamp"):
                going[name] = "the CRD is being deleted"
                continue
            try:
                revisions[name] = revision(metadata)
            except KeyError as error:
                unread[name] = f"the CRD's metadata is malformed: {_words(error)}"
        if not revisions:
            # A provider without labels is another thing than one whose last CRD is going.
            unread |= going
        return revisions

    async def _whole(self, name: str) -> ExportedApi | None:
        """From the CRD itself; None where it is there no longer."""
        crd = await self._read(name)
        try:
            return None if crd is None else exported(crd)
        except _MALFORMED as error:
            raise SchemaSourceError(f"the CRD is malformed: {_words(error)}") from error

    async def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._provider.get(f"{CRDS}/{name}")
        except NotFound:
            return None


def _as_discovered(name: str, versions: tuple[Resource, ...], at: str) -> ExportedApi:
    first = versions[0]
    return ExportedApi(
        name,
        first.group,
        first.plural,
        "Namespaced" if first.namespaced else "Cluster",
        tuple(sorted((it.version for it in versions), key=version_order)),
        at,
    )


def _words(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _group(name: str) -> str:
    """Of a CRD, which is called ``<plural>.<group>``."""
    return name.partition(".")[2]


@hookimpl
def kbind_schema_sources() -> Mapping[str, SourceFactory]:
    return {"CRD": CrdSource}
