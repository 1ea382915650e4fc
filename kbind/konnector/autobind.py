"""The ClusterBinding that a Connection with ``autoBind`` keeps: observe, decide, perform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import structlog

from kbind import words
from kbind.apis import CLUSTER_BINDINGS, Key
from kbind.brake import is_confirmed, question, was_holding
from kbind.calls import Call, Verb
from kbind.cover import Ref
from kbind.errors import ClusterError, Conflict, NotFound
from kbind.facts import AutoBind, Exported, OwnBinding
from kbind.konnector.judging import listed
from kbind.konnector.link import Link, Outcome
from kbind.konnector.shared import Shared
from kbind.perform import send
from kbind.steps import Side, Step
from kbind.words import Reason

log = structlog.get_logger(__name__)

_MESSAGES = {
    Reason.FOREIGN_BINDING: "autoBind: ClusterBinding {name} exists and is not this Connection's; "
    "rename or delete it, or turn autoBind off",
    Reason.BINDING_RETAINED: "autoBind is off, but its ClusterBinding {name} goes on binding; "
    "delete it to stop that",
}


async def auto_bind(shared: Shared, connection: Mapping[str, Any], on: bool, link: Link) -> Outcome:
    """Has the rules decide about the Connection's ClusterBinding, and does as they say, unless one
    of the two is paused."""
    name = connection["metadata"]["name"]
    entry = shared.caches.cluster_bindings.get(Key("", name))
    standing = None if entry is None else orjson.loads(entry.raw)
    decision = shared.book.decide(
        "autobind",
        {
            "autoBind": AutoBind.ON if on else AutoBind.OFF,
            "exports": exported_word(link, shared.settings.settle),
            "binding": binding_word(standing, connection),
        },
    )
    own = shared.bound(Ref("ClusterBinding", Key("", name)))
    held = shared.holds(name) or (own is not None and shared.holds_binding(own))
    for step in () if held else decision.steps or ():
        before = link.auto_bound.reason == Reason.BRAKED
        holds = before or was_holding(connection, "autoBind")
        if step is Step.UNBIND and (braked := _brake(shared, connection, standing, holds)):
            return braked
        call = binding_call(step, connection, sorted(link.exports or ()), standing)
        if call is None:
            continue
        try:
            # The answer is left to the watch, which tells everybody whom a binding concerns.
            await send(call, shared.consumer)
        except (Conflict, NotFound):
            continue  # overtaken: an event of the binding has the rules asked again
        except ClusterError as error:
            return Outcome(Reason.AUTO_BIND_FAILED, f"autoBind: {error}")
        log.info("autoBind", connection=name, step=str(step), rule=decision.rule)
    if decision.reason is None:
        return Outcome(None)
    text = _MESSAGES.get(Reason(decision.reason), f"autoBind: {decision.why}")
    return Outcome(decision.reason, text.format(name=name))


def _brake(
    shared: Shared,
    connection: Mapping[str, Any],
    standing: Mapping[str, Any] | None,
    holds: bool,
) -> Outcome | None:
    """Why a ClusterBinding is not taken away although nothing is exported: very much would go with
    it, and nobody on this side asked for that. holds: it did so before, and once it does a smaller
    number is no answer."""
    if standing is None or is_confirmed(connection):
        return None
    counts = {api["name"]: shared.held(api["name"]) for api in standing["spec"]["apis"]}
    brake = shared.settings.brake
    many = [
        f"{count} of {api}"
        for api, count in counts.items()
        if count and ((holds and brake.on) or brake.stops(count, count))
    ]
    if not many:
        return None
    text = (
        "autoBind: the provider exports nothing any longer, and to unbind it would delete copies, "
        f"definitions and instances: {listed(many)}"
    )
    return Outcome(Reason.BRAKED, question(text))


def exported_word(link: Link, settle: float) -> Exported:
    """What is known of the exports. settle: seconds between two discoveries that find none
    until that counts."""
    if link.exports is None or link.failed or link.unread:
        return Exported.UNKNOWN
    if link.exports:
        return Exported.SOME
    first, last = link.empty_since, link.discovered_at
    settled = first is not None and last is not None and last - first >= settle
    return Exported.NONE if settled else Exported.UNKNOWN


def binding_word(standing: Mapping[str, Any] | None, connection: Mapping[str, Any]) -> OwnBinding:
    """Whose the ClusterBinding of the Connection's name is."""
    if standing is None:
        return OwnBinding.ABSENT
    metadata = standing["metadata"]
    owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
    if connection["metadata"]["uid"] not in owners:
        return OwnBinding.FOREIGN
    return OwnBinding.GOING if metadata.get("deletionTimestamp") else OwnBinding.OURS


def binding_call(
    step: Step,
    connection: Mapping[str, Any],
    apis: Iterable[str],
    standing: Mapping[str, Any] | None,
) -> Call | None:
    """The one call of a step; None where it would change nothing. standing: what is there."""
    owner = connection["metadata"]
    spec = {
        "connectionRef": {"name": owner["name"]},
        "apis": [{"name": api} for api in apis],
    }
    if step is Step.BIND or standing is None:
        metadata = {
            "name": owner["name"],
            "ownerReferences": [
                {
                    "apiVersion": words.API_VERSION,
                    "kind": "Connection",
                    "name": owner["name"],
                    "uid": owner["uid"],
                    "controller": True,
                }
            ],
        }
        body = {
            "apiVersion": words.API_VERSION,
            "kind": "ClusterBinding",
            "metadata": metadata,
            "spec": spec,
        }
        return Call(Step.BIND, Side.CONSUMER, Verb.CREATE, CLUSTER_BINDINGS.path(), body)
    path = CLUSTER_BINDINGS.path(Key("", owner["name"]))
    uid = standing["metadata"]["uid"]
    if step is Step.UNBIND:
        return Call(step, Side.CONSUMER, Verb.DELETE, path, uid)
    if all(standing["spec"].get(field) == value for field, value in spec.items()):
        return None
    body = {"metadata": {"uid": uid}, "spec": spec}
    return Call(step, Side.CONSUMER, Verb.MERGE, path, body)
