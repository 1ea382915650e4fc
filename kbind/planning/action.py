"""What a user means to do: objects to apply, or one to delete, found by the words of kubectl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kbind import words
from kbind.apis import CONNECTIONS, SECRETS, Api, Key
from kbind.cover import Ref
from kbind.errors import ClusterError, KbindError, NotFound
from kbind.jsons import encode
from kbind.manifests import documents
from kbind.planning.manifests import Manifest
from kbind.planning.rehearsal import Rehearsal
from kbind.planning.served import Object
from kbind.resources import folder
from kbind.schema import is_managed, served

_LAST = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Deletion:
    """kind: any word that kubectl takes for one; namespace: None where none was named."""

    kind: str
    name: str
    namespace: str | None = None


# --- deletion --------------------------------------------------------------------------------


async def delete(rehearsal: Rehearsal, deletion: Deletion) -> str:
    """Deletes one object on the draft, and answers what that was. Raises KbindError."""
    api, bound = _api(rehearsal, deletion.kind)
    if api.namespaced and not deletion.namespace:
        raise KbindError(f"{api.kind} {deletion.name}: in which namespace?", hint="name it with -n")
    key = Key((deletion.namespace or "") if api.namespaced else "", deletion.name)
    consumer = rehearsal.shared.consumer
    try:
        standing = await consumer.read(api.path(key))
        with rehearsal.journal.turn(user=True):
            await consumer.delete(api.path(key), uid=None)
    except NotFound:
        raise KbindError(f"there is no {api.kind} {key} on the consumer") from None
    if bound:
        rehearsal.concern_api(api.name)
        rehearsal.only = key
    elif api == CONNECTIONS:
        rehearsal.connections.add(key.name)
    else:
        rehearsal.concern(Ref(api.kind, key), standing)
    return f"delete {api.kind} {key}"


def _api(rehearsal: Rehearsal, word: str) -> tuple[Api, bool]:
    """The API that *word* names, and whether it is one that came through a Connection."""
    known: list[str] = []
    for crd, bound in _definitions(rehearsal):
        how = served(crd)
        if how is None:
            continue
        if word.lower() in _words(crd):
            return how.api, bound
        known.append(how.api.kind if not bound else how.api.name)
    raise KbindError(f'there is no kind "{word}" here', hint=f"known are: {', '.join(known)}")


def _definitions(rehearsal: Rehearsal) -> Iterator[tuple[Object, bool]]:
    """kbind's own first, so that ``bindings`` are ours and not Kubernetes'."""
    for file in sorted(folder("crds").glob("*.yaml")):
        yield from ((crd, False) for crd in documents(file.read_text(), file.name))
    crds = rehearsal.shared.caches.crds
    for key in sorted(crds):
        entry = crds.get(key)
        crd = None if entry is None else orjson.loads(entry.raw)
        if crd is not None and is_managed(crd):
            yield crd, True


def _words(crd: Mapping[str, Any]) -> set[str]:
    names, group = crd["spec"]["names"], crd["spec"]["group"]
    singular = names.get("singular") or names["kind"]
    plain = {name.lower() for name in (names["kind"], names["plural"], singular)}
    plain |= {name.lower() for name in names.get("shortNames") or ()}
    versions = [version["name"] for version in crd["spec"]["versions"]]
    return plain | {
        f"{name}.{rest}"
        for name in (names["plural"], singular.lower(), names["kind"].lower())
        for rest in (group, *(f"{version}.{group}" for version in versions))
    }


# --- application -----------------------------------------------------------------------------


async def apply(rehearsal: Rehearsal, wanted: Iterable[Manifest]) -> str:
    """Applies objects on the draft, and answers what that was. Raises KbindError."""
    said = []
    for manifest in wanted:
        key = Key.of(manifest.obj)
        try:
            with rehearsal.journal.turn(user=True):
                done = await _apply(rehearsal, manifest, key)
        except ClusterError as error:
            raise KbindError(f"{manifest.place}: {error}") from error
        said.append(f"{done} {manifest.api.kind} {key}")
        if done == "leave":
            continue
        if manifest.api == CONNECTIONS:
            rehearsal.concern_connection(key.name)
        elif manifest.api == SECRETS:
            for name in rehearsal.users_of(key):
                rehearsal.concern_connection(name)
    return ", ".join(said)


async def _apply(rehearsal: Rehearsal, manifest: Manifest, key: Key) -> str:
    consumer, api = rehearsal.shared.consumer, manifest.api
    try:
        standing = await consumer.read(api.path(key))
    except NotFound:
        await consumer.create(api.collection(key.namespace), encode(manifest.obj))
        return "create"
    last = _last(standing)
    after = _merged(standing, manifest.obj, last)
    _immutable(manifest, standing, after)
    if after == standing:
        return "leave"
    await consumer.replace(api.path(key), encode(after))
    return "change"


def _last(standing: Object) -> Object:
    """What was applied last, as kubectl keeps it."""
    try:
        last = orjson.loads((standing["metadata"].get("annotations") or {}).get(_LAST, "{}"))
    except orjson.JSONDecodeError:
        return {}
    return last if isinstance(last, dict) else {}


def _merged(standing: Any, wanted: Any, last: Any) -> Any:
    """What an apply makes of an object: what was applied before and is not any more goes, the
    rest of what stands there stays; lists are taken whole."""
    if not isinstance(standing, dict) or not isinstance(wanted, dict):
        return wanted
    before = last if isinstance(last, dict) else {}
    kept = {n: v for n, v in standing.items() if n in wanted or n not in before}
    return kept | {n: _merged(standing.get(n), v, before.get(n)) for n, v in wanted.items()}


def _immutable(manifest: Manifest, standing: Object, after: Object) -> None:
    if manifest.api != CONNECTIONS:
        return
    field = "kubeconfigSecretRef"
    one, other = ({"key": words.DEFAULT_KEY, **obj["spec"][field]} for obj in (standing, after))
    if one != other:
        raise KbindError(
            f"{manifest.place}: Connection {standing['metadata']['name']}: spec.{field} cannot be "
            "changed",
            hint="create another Connection",
        )
