"""Manifests to be planned: read, and held to what API servers take."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from kbind import words
from kbind.apis import CONNECTIONS, NAMESPACES, SECRETS, Api
from kbind.errors import KbindError
from kbind.konnector.bindings import APIS
from kbind.manifests import documents
from kbind.planning.served import Object
from kbind.resources import folder

_TEXTS: Final = {
    "type": ["object", "null"],
    "additionalProperties": {"type": ["string", "null"]},
}
_METADATA: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "namespace": {"type": ["string", "null"]},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": ["array", "null"], "items": {"type": "string"}},
    },
}
_DATA: Final = {"properties": {"data": _TEXTS, "stringData": _TEXTS}}

_KINDS: Final = {
    **{(words.API_VERSION, api.kind): api for api in (CONNECTIONS, *APIS.values())},
    **{(api.api_version, api.kind): api for api in (NAMESPACES, SECRETS)},
}

# What only servers write is passed over, as they do.
_OURS: Final = ("apiVersion", "kind", "metadata", "spec", "data", "stringData", "type", "immutable")


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object to apply. place: its file and document, for messages."""

    place: str
    api: Api
    obj: Object


def manifests(files: Iterable[tuple[str, str]], namespace: str | None) -> list[Manifest]:
    """What *files* (names and texts) hold, in order. namespace: of Bindings and Secrets that name
    none. Raises KbindError that names file and document."""
    found = [
        _manifest(document, place, namespace)
        for name, text in files
        for number, whole in enumerate(documents(text, name), 1)
        for document, place in _items(whole, f"{name}, document {number}")
    ]
    if not found:
        raise KbindError("there is nothing to apply", hint="the files hold no document")
    return found


def _items(document: Any, place: str) -> list[tuple[Any, str]]:
    """A document, or what it lists, each with its place."""
    if not isinstance(document, dict) or document.get("kind") != "List":
        return [(document, place)]
    items = document.get("items")
    if not isinstance(items, list):
        raise KbindError(f"{place}: List without items")
    return [(item, f"{place}, item {number}") for number, item in enumerate(items, 1)]


def _manifest(document: Any, place: str, namespace: str | None) -> Manifest:
    if not isinstance(document, dict):
        raise KbindError(f"{place}: this is no object")
    version, kind = document.get("apiVersion"), document.get("kind")
    api = _KINDS.get((str(version), str(kind)))
    if api is None:
        kinds = ", ".join(f"{kind} of {version}" for version, kind in _KINDS)
        what = f"{kind or 'an object without kind'} of {version or 'no apiVersion'}"
        raise KbindError(f"{place}: {what} cannot be planned", hint=f"these can: {kinds}")
    obj = {name: value for name, value in document.items() if name in _OURS}
    _check(api, obj, place)
    metadata = {n: value for n, value in obj["metadata"].items() if n != "deletionTimestamp"}
    namespace = metadata.pop("namespace", None) or namespace
    if api.namespaced:
        if not namespace:
            hint = "set metadata.namespace, or name one with -n"
            title = f"{place}: {api.kind} {metadata['name']}"
            raise KbindError(f"{title} is in no namespace", hint=hint)
        metadata["namespace"] = namespace
    obj["metadata"] = metadata
    return Manifest(place, api, _with_data(obj) if api == SECRETS else obj)


def _check(api: Api, obj: Object, place: str) -> None:
    """Raises KbindError for what the API server would not take."""
    error = best_match(_validator(api).iter_errors(obj))
    if error is None:
        return
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    named = f" {name}" if isinstance(name, str) else ""
    path = error.json_path.removeprefix("$").removeprefix(".")
    # The message repeats the value, which of a Secret nobody is to read.
    what = f"has to be of another form ({error.validator})" if api == SECRETS else error.message
    raise KbindError(": ".join(part for part in (place, f"{api.kind}{named}", path, what) if part))


@cache
def _validator(api: Api) -> Draft202012Validator:
    """jsonschema, since a CRD's schema is one but for what Kubernetes adds, which it passes over:
    its CEL rules are about changes."""
    parts: list[Any] = [{"required": ["metadata"], "properties": {"metadata": _METADATA}}]
    if api.group == words.GROUP:
        file = folder("crds") / f"{api.group}_{api.plural}.yaml"
        (crd,) = documents(file.read_text(), file.name)
        (version,) = crd["spec"]["versions"]
        parts.append(version["schema"]["openAPIV3Schema"])
    if api == SECRETS:
        parts.append(_DATA)
    return Draft202012Validator({"allOf": parts})


def _with_data(secret: Object) -> Object:
    """As a server stores it."""
    plain, data = secret.pop("stringData", None) or {}, secret.get("data") or {}
    encoded = {n: base64.b64encode((text or "").encode()).decode() for n, text in plain.items()}
    return secret | {"data": {n: text or "" for n, text in data.items()} | encoded}
