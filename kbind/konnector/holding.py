"""What holds a Connection and its Secret: finalizers, until its bindings are gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kbind import keeping
from kbind.apis import CONNECTIONS, SECRETS, Key
from kbind.calls import Call
from kbind.cover import Ref
from kbind.errors import Conflict, NotFound
from kbind.facts import Life, Some
from kbind.konnector.autobind import binding_call, binding_word
from kbind.konnector.judging import listed
from kbind.konnector.link import Outcome
from kbind.konnector.shared import Shared
from kbind.perform import send
from kbind.steps import Step
from kbind.words import Reason


async def hold(shared: Shared, connection: Mapping[str, Any], secret: bytes | None) -> Outcome:
    """Has the rules decide about the finalizers of a Connection and its *secret*, and does as they
    say. The outcome's reason is why it cannot go yet. Raises ClusterError."""
    name = connection["metadata"]["name"]
    if shared.holds(name):
        waits = Outcome(Reason.PAUSED, "paused, so its deletion waits")
        return waits if keeping.is_going(connection) else Outcome(None)
    own = shared.caches.cluster_bindings.get(Key("", name))
    standing = None if own is None else orjson.loads(own.raw)
    referring = _referring(shared, name)
    decision = shared.book.decide(
        "connection",
        {
            "life": Life.DELETING if keeping.is_going(connection) else Life.ALIVE,
            "bindings": _some(bool(referring)),
            "binding": binding_word(standing, connection),
            "sharing": _some(_is_shared(shared, connection)),
        },
    )
    for step in decision.steps or ():
        call = _call(step, connection, secret, standing)
        if call is None:
            continue
        try:
            await send(call, shared.consumer)
        except NotFound:
            continue
        except Conflict:
            break  # overtaken: an event has the rules asked again
    if decision.reason is None:
        return Outcome(None)
    return Outcome(decision.reason, f"waiting for {listed([str(ref) for ref in referring])}")


def _call(
    step: Step,
    connection: Mapping[str, Any],
    secret: bytes | None,
    standing: Mapping[str, Any] | None,
) -> Call | None:
    match step:
        case Step.KEEP:
            return keeping.keep(step, CONNECTIONS, connection)
        case Step.FREE:
            return keeping.free(step, CONNECTIONS, connection)
        case Step.UNBIND:
            return binding_call(step, connection, (), standing)
    if secret is None:
        return None
    make = keeping.keep if step is Step.KEEP_SECRET else keeping.free
    return make(step, SECRETS, orjson.loads(secret))


def _referring(shared: Shared, name: str) -> list[Ref]:
    """Every binding that names the Connection, those that are being deleted among them."""
    found = []
    for ref in shared.all_bindings():
        entry = shared.caches.of(ref.kind).get(ref.key)
        spec = {} if entry is None else orjson.loads(entry.raw).get("spec") or {}
        if (spec.get("connectionRef") or {}).get("name") == name:
            found.append(ref)
    return sorted(found)


def _is_shared(shared: Shared, connection: Mapping[str, Any]) -> bool:
    """Whether another live Connection uses the same Secret, whatever key of it."""

    def secret(obj: Mapping[str, Any]) -> tuple[str, str]:
        reference = obj["spec"]["kubeconfigSecretRef"]
        return reference["namespace"], reference["name"]

    for entry in (shared.caches.connections.get(key) for key in shared.caches.connections):
        other = None if entry is None else orjson.loads(entry.raw)
        if other is None or other["metadata"]["uid"] == connection["metadata"]["uid"]:
            continue
        if not keeping.is_going(other) and secret(other) == secret(connection):
            return True
    return False


def _some(value: bool) -> Some:
    return Some.SOME if value else Some.NONE
