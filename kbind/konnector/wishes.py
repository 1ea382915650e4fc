"""Which syncers should run: one for every CRD that came through a Connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import orjson

from kbind.cluster.client import Client
from kbind.keeping import is_going
from kbind.konnector.shared import Shared
from kbind.schema import ExportedApi, Served, connection_of, is_established, is_managed, served


@dataclass(frozen=True, slots=True)
class Wish:
    """A syncer that should run: another wish under the same name means another syncer.

    fits: whether the provider has it in the same scope, as far as is known. provider: None while
    the Connection is not Ready.
    generation: of the CRD. While a schema changes, a watch may go on for a moment that still
    leaves out what the old schema did not have, so everything is listed anew.
    """

    served: Served
    fits: bool
    generation: int
    connection: str
    provider: Client | None


def wishes(shared: Shared, is_down: Callable[[str], bool]) -> dict[str, Wish]:
    """By API name. is_down: whether a Connection is known to carry nothing."""
    found = {}
    down = cache(is_down)
    for key, entry in shared.caches.crds.items():
        crd = orjson.loads(entry.raw)
        connection, how = connection_of(crd), served(crd)
        if connection is None or how is None or not is_managed(crd):
            continue
        # A CRD that is going still has instances to drain.
        if not (is_established(crd) or is_going(crd)):
            continue
        generation = crd["metadata"].get("generation", 1)
        link = shared.links.get(connection)
        if link is not None and link.ready:
            fits = _fits(how, (link.exports or {}).get(key.name))
            found[key.name] = Wish(how, fits, generation, connection, link.client)
        elif down(connection):
            found[key.name] = Wish(how, True, generation, connection, None)
    return found


def _fits(how: Served, export: ExportedApi | None) -> bool:
    """Whether an API has the same scope on both sides; a scope cannot be changed in place, so
    that the CRD here stays as it is where the provider's was made anew in another."""
    return export is None or (export.scope == "Namespaced") == how.api.namespaced
