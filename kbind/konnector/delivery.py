"""Bringing one API's definition to the consumer: observe, decide, perform."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import structlog

from kbind import words
from kbind.apis import CRDS, Key
from kbind.calls import Call, Verb
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.errors import Conflict, Forbidden, Invalid, NotFound, SchemaSourceError
from kbind.facts import Definition, Wanted
from kbind.hooks import Offer
from kbind.konnector import asking
from kbind.konnector.link import Link, Outcome, Policies
from kbind.perform import send
from kbind.plan import Decision
from kbind.rulebook import Rulebook
from kbind.schema import connection_of, consumer_crd, crd_hash, local_word
from kbind.steps import Side, Step
from kbind.words import Reason

log = structlog.get_logger(__name__)

RETRY = 300.0  # seconds until a write that was refused is tried again

_MESSAGES = {
    Reason.API_NOT_EXPORTED: "the provider does not export {name}",
    Reason.SCHEMA_MISSING: "CRD {name} is not on the consumer, and pullPolicy None installs none",
    Reason.PINNED: "CRD {name} stays at the schema of its first pull (updatePolicy Once): it is "
    "{here}, the provider's is {there}",
    Reason.UNMANAGED: "CRD {name} exists without kbind's markers and is not taken over; to hand "
    f'it over, set label {words.MANAGED}="true" and annotation {words.CONNECTION}='
    '"{connection}"',
    Reason.MANAGED_ELSEWHERE: "CRD {name} came through Connection {owner} and stays with it",
    Reason.SCHEMA_TERMINATING: "CRD {name} is being deleted",
}


class Delivery:
    """Delivers definitions to one consumer. crds: its CRDs that carry our label."""

    def __init__(self, consumer: Client, crds: Cache, book: Rulebook) -> None:
        self._consumer = consumer
        self._crds = crds
        self._book = book
        self._refused: dict[str, float] = {}
        self._overtaken: set[str] = set()  # whose cached CRD was found to be out of date

    def _due(self, name: str) -> bool:
        """Whether a refused write is to be tried again although nothing changed."""
        refused = self._refused.get(name)
        return refused is not None and asyncio.get_running_loop().time() > refused + RETRY

    async def deliver(
        self, link: Link, name: str, policies: Policies, wanted: Wanted, paused: bool
    ) -> Outcome | None:
        """What became of API *name*; None where it was overtaken. paused: nothing is written, and
        what would be is said. Raises ClusterError or SchemaSourceError where the provider or the
        consumer cannot be read."""
        export = (link.exports or {}).get(name)
        revision = None if export is None else export.revision
        local, version = await self._local(name)
        basis = (link.source_name, revision, policies, wanted, paused)
        if link.memo.get(name) == (*basis, version) and not self._due(name):
            return link.delivered[name]
        if export is None and (why := _unread(link, name)):
            raise SchemaSourceError(why)
        offer = None if export is None else await asking.definition(link.source, name)
        there = None if local is None else orjson.loads(local)
        crd = None if offer is None else _crd(offer, link.connection, there)
        decision = self._book.decide(
            "delivery",
            {
                "definition": Definition.NONE if offer is None or crd is None else offer.definition,
                "pullPolicy": policies.pull,
                "wanted": wanted,
                "updatePolicy": policies.update,
                "local": local_word(there, crd, link.connection),
            },
        )
        outcome = _outcome(decision, link.connection, name, crd, there)
        if not decision.steps:
            self._refused.pop(name, None)
        if offer is not None:
            outcome = replace(outcome, note=offer.note)
        for step in decision.steps or ():
            if crd is None:
                break  # whatever an overlay says: where nothing is offered nothing is written
            if paused:
                text = f"CRD {name}: {step} waits while Connection {link.connection} is paused"
                outcome = Outcome(Reason.PAUSED, text)
                break
            try:
                written = await send(schema_call(step, crd, there), self._consumer)
            except Conflict:
                self._overtaken.add(name)
                return None
            except (Invalid, Forbidden) as error:
                self._refused[name] = asyncio.get_running_loop().time()
                outcome = Outcome(Reason.SCHEMA_REFUSED, f"CRD {name}: {error}")
                break
            self._refused.pop(name, None)
            self._crds.learn(written)
            version = int(orjson.loads(written)["metadata"]["resourceVersion"])
            log.info("schema delivered", api=name, step=str(step), rule=decision.rule)
        link.memo[name] = (*basis, version)
        return outcome

    async def _local(self, name: str) -> tuple[bytes | None, int]:
        """The CRD that stands on the consumer, and its version, 0 where there is none."""
        entry = self._crds.get(Key("", name))
        if entry is not None and name not in self._overtaken:
            return entry.raw, entry.version
        # The watch asks only for CRDs with our label: one without it has to be looked for.
        try:
            found = await self._consumer.get(CRDS.path(Key("", name)))
        except NotFound:
            return None, 0
        self._overtaken.discard(name)
        return found, int(orjson.loads(found)["metadata"]["resourceVersion"])


def _unread(link: Link, name: str) -> str | None:
    """Why it is not known whether the provider offers an API."""
    return link.unread.get(name) or link.unread.get(name.partition(".")[2])


def _crd(offer: Offer, connection: str, local: Mapping[str, Any] | None) -> dict[str, Any] | None:
    try:
        return consumer_crd(offer, connection, local)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise SchemaSourceError(f"the plugin's definition is no CRD: {what}") from error


def _outcome(
    decision: Decision,
    connection: str,
    name: str,
    crd: Mapping[str, Any] | None,
    local: Mapping[str, Any] | None,
) -> Outcome:
    if decision.reason is None:
        return Outcome(None)
    here, there = (None if it is None else crd_hash(it) for it in (local, crd))
    owner = None if local is None else connection_of(local)
    # An overlay may give any reason; its rule has the words.
    text = _MESSAGES.get(Reason(decision.reason), f"CRD {{name}}: {decision.why}")
    filled = text.format(name=name, here=here, there=there, owner=owner, connection=connection)
    return Outcome(decision.reason, filled)


def schema_call(step: Step, crd: dict[str, Any], local: Mapping[str, Any] | None) -> Call:
    """The one call of a delivery step. crd: what is wanted; local: what stands there."""
    if step is Step.INSTALL or local is None:
        return Call(Step.INSTALL, Side.CONSUMER, Verb.CREATE, CRDS.path(), crd)
    path = CRDS.path(Key("", crd["metadata"]["name"]))
    standing = local["metadata"]
    markers = {part: crd["metadata"][part] for part in ("labels", "annotations")}
    if step is Step.STAMP:
        annotations = {words.CONNECTION: markers["annotations"][words.CONNECTION]}
        metadata = markers | {"annotations": annotations, "uid": standing["uid"]}
        return Call(step, Side.CONSUMER, Verb.MERGE, path, {"metadata": metadata})
    metadata = {
        **standing,
        **{part: {**(standing.get(part) or {}), **values} for part, values in markers.items()},
    }
    # A whole replacement at the version that was read: removed parts go, nothing is overrun.
    return Call(step, Side.CONSUMER, Verb.REPLACE, path, crd | {"metadata": metadata})
