"""What a user means to do: objects to apply, or one to delete, found by the words of kubectl."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from kbind import words
from kbind.apis import CONNECTIONS, NAMESPACES, SECRETS, Api, Key
from kbind.cover import Bound, Ref
from kbind.errors import ClusterError, KbindError, NotFound, SpecInvalid
from kbind.jsons import encode
from kbind.konnector.bindings import APIS
from kbind.konnector.discovery import policies
from kbind.konnector.judging import Stop
from kbind.manifests import documents
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


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object to apply. place: its file and document, for messages."""

    place: str
    api: Api
    obj: Object


# --- deletion --------------------------------------------------------------------------------


async def delete(rehearsal: Rehearsal, deletion: Deletion) -> str:
    """Deletes one object on the draft, and answers what that was. Raises KbindError."""
    api, bound = _api(rehearsal, deletion.kind)
    if not deletion.name:
        raise KbindError(f"{api.kind}: which one?", hint="the name is empty")
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


def manifests(files: Iterable[tuple[str, str]], namespace: str | None) -> list[Manifest]:
    """What *files* (names and texts) hold, in order. namespace: of Bindings and Secrets that name
    none. Raises KbindError that names file and document."""
    found = [
        _manifest(document, f"{name}, document {number}", namespace)
        for name, text in files
        for number, document in enumerate(documents(text, name), 1)
    ]
    if not found:
        raise KbindError("there is nothing to apply", hint="the files hold no document")
    return found


_KINDS = {
    **{(words.API_VERSION, api.kind): api for api in (CONNECTIONS, *APIS.values())},
    **{(api.api_version, api.kind): api for api in (NAMESPACES, SECRETS)},
}


def _manifest(document: Any, place: str, namespace: str | None) -> Manifest:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else ""

    if not isinstance(document, dict):
        raise KbindError(f"{place}: this is no object")
    asked = (text(document.get("apiVersion")), text(document.get("kind")))
    api = _KINDS.get(asked)
    if api is None:
        kinds = ", ".join(f"{kind} of {version}" for version, kind in _KINDS)
        what = f"{asked[1] or 'an object without kind'} of {asked[0] or 'no apiVersion'}"
        raise KbindError(f"{place}: {what} cannot be planned", hint=f"these can: {kinds}")
    metadata = document.get("metadata")
    name = text(metadata.get("name")) if isinstance(metadata, dict) else ""
    if not isinstance(metadata, dict) or not name:
        raise KbindError(f"{place}: {api.kind} without metadata.name")
    for field, form in _FORMS.items():
        if not _holds_texts(metadata.get(field), form):
            title = f"{place}: {api.kind} {name}"
            raise KbindError(f"{title}: metadata.{field} has another form than API servers take")
    # What only servers write is passed over, as they do.
    own = {n: value for n, value in metadata.items() if n != "deletionTimestamp"}
    if api.namespaced:
        own["namespace"] = text(metadata.get("namespace")) or namespace
        if not own["namespace"]:
            hint = "set metadata.namespace, or name one with -n"
            raise KbindError(f"{place}: {api.kind} {name} is in no namespace", hint=hint)
    else:
        own.pop("namespace", None)
    obj = {n: value for n, value in document.items() if n != "status"} | {"metadata": own}
    if api == SECRETS:
        obj = _with_data(obj, place)
    elif api != NAMESPACES:
        _check(api, obj, f"{place}: {api.kind} {name}")
    return Manifest(place, api, obj)


_FORMS: Final[dict[str, type[dict[str, Any] | list[Any]]]] = {
    "annotations": dict,
    "labels": dict,
    "finalizers": list,
}


def _with_data(secret: Object, place: str) -> Object:
    """As a server stores it. Raises KbindError."""
    plain, data = secret.get("stringData") or {}, secret.get("data") or {}
    if not _holds_texts(plain, dict) or not _holds_texts(data, dict):
        name = secret["metadata"]["name"]
        raise KbindError(f"{place}: Secret {name}: data has another form than a Secret's")
    encoded = {n: base64.b64encode((text or "").encode()).decode() for n, text in plain.items()}
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return rest | {"data": {n: text or "" for n, text in data.items()} | encoded}


def _holds_texts(value: Any, form: type[dict[str, Any] | list[Any]]) -> bool:
    """Whether *value* is absent, or a *form* of texts; a mapping may leave some empty."""
    if value is None:
        return True
    if not isinstance(value, form):
        return False
    if isinstance(value, dict):
        return all(each is None or isinstance(each, str) for each in value.values())
    return all(isinstance(each, str) for each in value)


def _check(api: Api, obj: Object, title: str) -> None:
    """Raises KbindError for what the API server would not take, as far as syncing looks at it."""
    spec = obj.get("spec")
    try:
        if not isinstance(spec, dict):
            raise KeyError("spec")
        if api == CONNECTIONS:
            reference = spec["kubeconfigSecretRef"]
            texts = [
                reference["namespace"],
                reference["name"],
                reference.get("key", words.DEFAULT_KEY),
            ]
            policies(obj)
            if not isinstance(spec.get("autoBind", False), bool):
                raise TypeError("autoBind")
        else:
            texts = [spec["connectionRef"]["name"], *(each["name"] for each in spec["apis"])]
            if not spec["apis"]:
                raise KbindError(f"{title}: spec.apis lists nothing")
            Bound.of(api.kind, obj | {"metadata": obj["metadata"] | {"creationTimestamp": ""}})
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a name that is no text")
        if not all(texts):
            raise KbindError(f"{title}: a name in the spec is empty")
    except (SpecInvalid, Stop) as error:
        raise KbindError(f"{title}: {error}") from error
    except KeyError as error:
        raise KbindError(f"{title}: {error.args[0]} is missing") from error
    except (AttributeError, TypeError) as error:
        raise KbindError(f"{title}: the spec has another form than the CRD says") from error


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
