"""The schema source ``CRD``: the provider's CRDs that carry the label ``exported: "true"``.

At rest a pass costs one request: the list asks for metadata alone, and a CRD is read whole only
when it is new or has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbind import words
from kbind.errors import NotFound
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
)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class CrdSource:
    """Labelled CRDs of one provider; remembers what each one exports until it changes."""

    def __init__(self, provider: ProviderReader) -> None:
        self._provider = provider
        self._seen: dict[str, ExportedApi] = {}

    async def exports(self) -> Exports:
        query = {"labelSelector": f"{words.EXPORTED}={words.TRUE}"}
        seen: dict[str, ExportedApi] = {}
        async for item in self._provider.items(CRDS, query=query, accept=METADATA_ONLY):
            metadata = item["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            known = self._seen.get(metadata["name"])
            if known is None or known.revision != revision(metadata):
                crd = await self._read(metadata["name"])
                known = None if crd is None else exported(crd)
            if known is not None:
                seen[known.name] = known
        self._seen = seen
        return Exports(tuple(seen[name] for name in sorted(seen)))

    async def definition(self, name: str) -> Offer | None:
        crd = await self._read(name)
        return None if crd is None else Offer(crd, Definition.ORIGINAL)

    async def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._provider.get(f"{CRDS}/{name}")
        except NotFound:
            return None


@hookimpl
def kbind_schema_sources() -> Mapping[str, SourceFactory]:
    return {"CRD": CrdSource}
