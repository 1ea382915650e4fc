"""The contract for plugin authors, and the loading of plugins."""

from kbind.hooks.loading import Sources, load
from kbind.hooks.specs import (
    Definition,
    ExportedApi,
    Offer,
    ProviderReader,
    SchemaSource,
    SourceFactory,
    exported,
    hookimpl,
    revision,
)

__all__ = [
    "Definition",
    "ExportedApi",
    "Offer",
    "ProviderReader",
    "SchemaSource",
    "SourceFactory",
    "Sources",
    "exported",
    "hookimpl",
    "load",
    "revision",
]
