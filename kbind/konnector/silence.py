"""Whether the provider of a binding that is being undone can be asked, and when it is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kbind import keeping
from kbind.cover import Ref
from kbind.facts import Provider
from kbind.konnector.shared import Shared


class Silence:
    """wake: has a Connection look at its provider soon."""

    def __init__(self, shared: Shared, wake: Callable[[str], None]) -> None:
        self._shared = shared
        self._wake = wake
        # By binding and API: since when, and whether the Connection carried then.
        self._since: dict[tuple[Ref, str], tuple[float, bool]] = {}

    def provider(self, key: tuple[Ref, str], connection: str, *, reaches: bool) -> Provider | None:
        """None where it is not certain yet. reaches: whether what is asked for gets done."""
        if reaches:
            self._since.pop(key, None)
            return Provider.REACHABLE
        now = asyncio.get_running_loop().time()
        link = self._shared.links.get(connection)
        carries = link is not None and link.ready
        since, carried = self._since.get(key, (now, carries))
        if carries and not carried:
            since = now  # it answers again, so the API has its time anew
        self._since[key] = (since, carries)
        if self._is_hopeless(connection):
            return Provider.UNREACHABLE
        end = since + self._shared.settings.patience
        if now < end:
            return None
        if carries or self._shared.failed.get(connection, 0.0) >= end:
            return Provider.UNREACHABLE
        self._wake(connection)  # it is asked once more before it is given up
        return None

    def forget(self, ref: Ref) -> None:
        """A binding that is there no longer, or has nothing to undo."""
        for key in [key for key in self._since if key[0] == ref]:
            del self._since[key]

    def _is_hopeless(self, connection: str) -> bool:
        """Whether there is nothing to ask a provider with. What a Connection's status says of its
        credentials may be of another time."""
        found = self._shared.connection(connection)
        if found is None or (keeping.is_going(found) and not keeping.is_kept(found)):
            return True
        return connection in self._shared.bare
