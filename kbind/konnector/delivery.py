"""Bringing one API's definition to the consumer: observe, decide, perform."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import structlog

from kbind import words
from kbind.apis import CRDS, Key
from kbind.calls import Call, Verb
from kbind.cluster.cache import Cache
from kbind.cluster.client import Client
from kbind.errors import Conflict, Forbidden, Invalid, NotFound
from kbind.facts import Wanted
from kbind.hooks import ExportedApi
from kbind.konnector.discovery import answer
from kbind.konnector.link import Delivered, Link, Policies
from kbind.perform import send
from kbind.plan import Decision
from kbind.rulebook import Rulebook
from kbind.schema import consumer_crd, local_word
from kbind.steps import Side, Step
from kbind.words import Reason

log = structlog.get_logger(__name__)

RETRY = 300.0  # seconds until a write that was refused is tried again

_MESSAGES = {
    Reason.SCHEMA_MISSING: "CRD {name} is not on the consumer, and pullPolicy None installs none",
    Reason.PINNED: "CRD {name} stays at the schema of its first pull (updatePolicy Once); "
    "the provider offers {revision}",
    Reason.UNMANAGED: "CRD {name} exists without kbind's markers and is not taken over; to hand "
    "it over, set label " + words.MANAGED + '="true" and annotation ' + words.CONNECTION,
    Reason.MANAGED_ELSEWHERE: "CRD {name} is managed through another Connection",
    Reason.SCHEMA_TERMINATING: "CRD {name} is being deleted",
}


class Delivery:
    """Delivers definitions to one consumer. crds: its CRDs that carry our label."""

    def __init__(self, consumer: Client, crds: Cache, book: Rulebook) -> None:
        self._consumer = consumer
        self._crds = crds
        self._book = book
        self._refused: dict[str, float] = {}

    def _due(self, name: str) -> bool:
        """Whether a refused write is to be tried again although nothing changed."""
        refused = self._refused.get(name)
        return refused is not None and asyncio.get_running_loop().time() > refused + RETRY

    async def deliver(
        self, link: Link, export: ExportedApi, policies: Policies, wanted: Wanted
    ) -> Delivered:
        """What became of *export*. Raises ClusterError where the provider or the consumer
        cannot be read."""
        local = await self._local(export.name)
        version = None if local is None else local["metadata"]["resourceVersion"]
        basis = (export.revision, version, policies, wanted)
        if link.memo.get(export.name) == basis and not self._due(export.name):
            return link.delivered[export.name]
        assert link.source is not None
        offer = await answer(link.source.definition(export.name))
        crd = None if offer is None else consumer_crd(offer, link.connection, local)
        if offer is None or crd is None:
            return Delivered(Reason.API_NOT_EXPORTED, f"{export.name} is no longer served")
        word = local_word(local, crd, link.connection)
        decision = self._book.decide(
            "delivery",
            {
                "definition": offer.definition,
                "pullPolicy": policies.pull,
                "wanted": wanted,
                "updatePolicy": policies.update,
                "local": word,
            },
        )
        delivered, version = await self._perform(decision, export, crd, local, version)
        if delivered is not None:
            link.memo[export.name] = (export.revision, version, policies, wanted)
            return delivered
        return Delivered(Reason.PENDING, f"CRD {export.name} changed meanwhile; trying again")

    async def _local(self, name: str) -> dict[str, Any] | None:
        entry = self._crds.get(Key("", name))
        if entry is not None:
            found: dict[str, Any] = orjson.loads(entry.raw)
            return found
        # The watch asks only for CRDs with our label: one without it has to be looked for.
        try:
            found = orjson.loads(await self._consumer.get(CRDS.path(Key("", name))))
        except NotFound:
            return None
        return found

    async def _perform(
        self,
        decision: Decision,
        export: ExportedApi,
        crd: dict[str, Any],
        local: Mapping[str, Any] | None,
        version: str | None,
    ) -> tuple[Delivered | None, str | None]:
        """The outcome, None where it was overtaken; and the CRD's version afterwards."""
        for step in decision.steps or ():
            try:
                answer = await send(schema_call(step, crd, local), self._consumer)
            except Conflict:
                return None, version
            except (Invalid, Forbidden) as error:
                self._refused[export.name] = asyncio.get_running_loop().time()
                return Delivered(Reason.SCHEMA_REFUSED, str(error)), version
            self._refused.pop(export.name, None)
            self._crds.learn(answer)
            version = orjson.loads(answer)["metadata"]["resourceVersion"]
            log.info("schema delivered", api=export.name, step=str(step), rule=decision.rule)
        return _outcome(decision.reason, export), version


def _outcome(reason: str | None, export: ExportedApi) -> Delivered:
    if reason is None:
        return Delivered(None)
    text = _MESSAGES[Reason(reason)].format(name=export.name, revision=export.revision)
    return Delivered(reason, text)


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
