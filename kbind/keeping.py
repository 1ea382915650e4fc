"""What holds bindings, Connections and Secrets until all is undone: finalizers, and what is
deleted with them. Pure: from an object to one call, or to none where nothing would change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbind import words
from kbind.apis import CONNECTIONS, CRDS, Api, Key
from kbind.calls import Call, Verb
from kbind.events import event
from kbind.steps import Side, Step


def is_kept(obj: Mapping[str, Any]) -> bool:
    """Whether our cleanup finalizer is on it."""
    return words.CLEANUP in (obj["metadata"].get("finalizers") or ())


def is_held(instance: Mapping[str, Any]) -> bool:
    """Whether our finalizer is on an instance."""
    return words.SYNCER in (instance["metadata"].get("finalizers") or ())


def is_left(instance: Mapping[str, Any]) -> bool:
    """Whether an instance carries something that goes with its binding: our finalizer, or while it
    lives the mark of a refusal."""
    marked = words.CONFLICT in (instance["metadata"].get("annotations") or ())
    return is_held(instance) or (marked and not is_going(instance))


def is_going(obj: Mapping[str, Any]) -> bool:
    """Whether it is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def keep(step: Step, api: Api, obj: Mapping[str, Any]) -> Call | None:
    """Our finalizer, added; never to what is being deleted already."""
    if is_kept(obj) or is_going(obj):
        return None
    current = obj["metadata"].get("finalizers") or ()
    return _finalizers(step, api, obj, [*current, words.CLEANUP])


def free(step: Step, api: Api, obj: Mapping[str, Any]) -> Call | None:
    """Our finalizer, removed."""
    if not is_kept(obj):
        return None
    kept = [each for each in obj["metadata"]["finalizers"] if each != words.CLEANUP]
    return _finalizers(step, api, obj, kept)


def left(api: Api, obj: Mapping[str, Any], message: str, now: str) -> Call:
    """A Warning Event about a binding: what of it may remain on the provider."""
    path, body = event(
        api, obj, now, kind="Warning", reason=words.Reason.COPIES_LEFT, message=message
    )
    return Call(Step.LEFT, Side.CONSUMER, Verb.CREATE, path, body, answers_object=False)


def braked(connection: Mapping[str, Any], message: str, now: str) -> Call:
    """A Warning Event about a Connection: what is not deleted before somebody confirms it."""
    path, body = event(
        CONNECTIONS, connection, now, kind="Warning", reason=words.Reason.BRAKED, message=message
    )
    return Call(Step.BRAKED, Side.CONSUMER, Verb.CREATE, path, body, answers_object=False)


def remove(crd: Mapping[str, Any]) -> Call:
    """The consumer's CRD, deleted: this very one."""
    path = CRDS.path(Key.of(crd))
    return Call(Step.REMOVE, Side.CONSUMER, Verb.DELETE, path, crd["metadata"]["uid"])


def _finalizers(step: Step, api: Api, obj: Mapping[str, Any], finalizers: list[str]) -> Call:
    metadata = obj["metadata"]
    path = api.path(Key.of(obj))
    # The version makes the patch fail where another finalizer came or went meanwhile.
    body = {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}
    return Call(step, Side.CONSUMER, Verb.MERGE, path, {"metadata": body})
