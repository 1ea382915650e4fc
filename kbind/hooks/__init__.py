"""The contract for plugin authors, and the loading of plugins."""

from kbind.facts import Definition
from kbind.hooks.loading import Installed, Sources, installed, load
from kbind.hooks.specs import ProviderReader, SchemaSource, SourceFactory, hookimpl
from kbind.reserved import RESERVED
from kbind.schema import ExportedApi, Exports, Offer, exported, revision, version_order

__all__ = [
    "RESERVED",
    "Definition",
    "ExportedApi",
    "Exports",
    "Installed",
    "Offer",
    "ProviderReader",
    "SchemaSource",
    "SourceFactory",
    "Sources",
    "exported",
    "hookimpl",
    "installed",
    "load",
    "revision",
    "version_order",
]
