"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386). Documents are never changed in place."""

from __future__ import annotations

import copy
from typing import Any

import orjson

from kbind.jsons import encode
from kbind.testing.memory.status import Refusal, bad_request
from kbind.testing.memory.typed import same


def merge_patch(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(document: Any, operations: Any) -> Any:
    """Raises Refusal: 400 for malformed operations, 422 where one cannot be done."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value")
    document = orjson.loads(encode(document))
    for operation in operations:
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation.get("op"), _pointer(operation.get("path"))
    if kind == "add":
        return _add(document, path, copy.deepcopy(operation.get("value")))
    if kind == "replace":
        return _put(document, path, copy.deepcopy(operation.get("value")))
    if kind == "remove":
        return _remove(document, path)
    if kind == "test":
        _test(document, path, operation)
        return document
    if kind in ("move", "copy"):
        source = _pointer(operation.get("from"))
        value = copy.deepcopy(_get(document, source))
        if kind == "move":
            document = _remove(document, source)
        return _add(document, path, value)
    raise _unprocessable()


def _unprocessable() -> Refusal:
    """The server keeps to itself what the matter is."""
    message = "the server rejected our request due to an error in our request"
    return Refusal(422, "Invalid", message, {})


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request("error decoding patch: a path must start with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(container: list[Any], part: str, *, end: bool = False) -> int:
    if part == "-" and end:
        return len(container)
    if not part.isdigit() or int(part) >= len(container) + end:
        raise _unprocessable()
    return int(part)


def _get(document: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(document, part)]
        else:
            raise _unprocessable()
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        parent.insert(_index(parent, path[-1], end=True), value)
    else:
        raise _unprocessable()
    return document


def _put(document: Any, path: list[str], value: Any) -> Any:
    """The server's library also takes a replace for a field that is not there."""
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        parent[_index(parent, path[-1])] = value
    else:
        raise _unprocessable()
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _get(document, path)
    parent = _get(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return document


def _test(document: Any, path: list[str], operation: dict[str, Any]) -> None:
    expected = operation.get("value")
    parent = _get(document, path[:-1])
    if expected is None and isinstance(parent, dict) and path and path[-1] not in parent:
        return  # A test for null passes where nothing is.
    if not same(_get(document, path), expected):
        raise _unprocessable()
