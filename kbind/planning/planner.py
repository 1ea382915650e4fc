"""A plan from its beginning to its end: read, act on the draft, let follow what follows."""

from __future__ import annotations

from collections.abc import Sequence

from kbind.cluster.connect import connect
from kbind.cluster.transport import Transport
from kbind.hooks import Sources
from kbind.planning import action
from kbind.planning.action import Deletion
from kbind.planning.foreseen import Foreseen, foreseen
from kbind.planning.manifests import Manifest
from kbind.planning.rehearsal import Connect, Rehearsal
from kbind.rulebook import Rulebook


async def plan(
    consumer: Transport,
    asked: Deletion | Sequence[Manifest],
    *,
    book: Rulebook,
    sources: Sources,
    connect: Connect = connect,
) -> Foreseen:
    """What would become of both clusters. consumer: closed in the end. Raises KbindError where
    the consumer cannot be read, or what is asked for is not possible; a provider that cannot be
    read is one to the konnector too."""
    rehearsal = Rehearsal(consumer, book=book, sources=sources, connect=connect)
    try:
        with rehearsal.journal.turn():
            await rehearsal.look()
        if isinstance(asked, Deletion):
            said = await action.delete(rehearsal, asked)
        else:
            said = await action.apply(rehearsal, asked)
        await rehearsal.rest()
        return foreseen(said, rehearsal)
    finally:
        await rehearsal.close()
