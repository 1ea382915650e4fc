"""What a plugin may implement, and the types it works with.

A plugin is a module that an entry point of the group ``kbind`` names. It implements hooks with
the ``hookimpl`` marker and needs nothing of kbind beyond ``kbind.hooks``, ``kbind.words`` and
``kbind.errors``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import pluggy

from kbind.schema import Exports, Offer

hookspec = pluggy.HookspecMarker("kbind")
hookimpl = pluggy.HookimplMarker("kbind")


class ProviderReader(Protocol):
    """Reads of one provider cluster; nothing can be written through it.

    Every call ends within 10 s. Failures are raised as ``kbind.errors.ClusterError``
    (Forbidden, NotFound, NotServed, Unreachable, ...): let them pass, the caller knows what
    each means.
    """

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> dict[str, Any]:
        """The JSON object at *path* (absolute, without query)."""
        ...

    def items(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """The items of the list at *path*, page by page; complete, or an error is raised."""
        ...


class SchemaSource(Protocol):
    """Where the definitions of one provider's APIs come from.

    One object serves one Connection for as long as its credentials stand, so it may keep what
    it has read. Calls never overlap.
    """

    async def exports(self) -> Exports:
        """All that the provider offers. What alone could not be read is named in ``unread``;
        an answer without any API or unread part means that nothing is offered. Raises
        ClusterError or SchemaSourceError where nothing can be told."""
        ...

    async def definition(self, name: str) -> Offer | None:
        """The definition of one API (``<plural>.<group>``) that was among the exports; None
        where it is there no longer. Raises as ``exports`` does."""
        ...


SourceFactory = Callable[[ProviderReader], SchemaSource]


@hookspec
def kbind_schema_sources() -> Mapping[str, SourceFactory]:
    """The schema sources that this plugin brings, by the name that users write in
    ``Connection.spec.schema.source``.

    Called once, when plugins are loaded. A name that two plugins bring stops the start.
    """
    return {}
