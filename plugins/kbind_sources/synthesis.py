"""From OpenAPI documents to a CRD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbind.hooks import Offer
from kbind_sources.discovery import Resource

Document = Mapping[str, Any]


def synthesize(
    versions: Sequence[Resource], documents: Mapping[str, Document], others: Mapping[str, Document]
) -> Offer:
    """versions: one for each served version, the preferred one first; documents: by version;
    others: by server path."""
    raise NotImplementedError


def references(document: Document) -> set[str]:
    """Server paths that the document refers to outside of itself."""
    raise NotImplementedError
