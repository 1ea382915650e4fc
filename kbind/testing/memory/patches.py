"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386). Documents are never changed in place."""

from __future__ import annotations

import copy
from typing import Any

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
    document = copy.deepcopy(document)
    for operation in operations:
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation.get("op"), _pointer(operation.get("path"))
    if kind == "add":
        return _add(document, path, copy.deepcopy(operation.get("value")), kind)
    if kind == "replace":
        _get(document, path, f"replace operation does not apply: doc is missing key: {_show(path)}")
        return _put(document, path, copy.deepcopy(operation.get("value")))
    if kind == "remove":
        return _remove(document, path)
    if kind == "test":
        _test(document, path, operation)
        return document
    if kind in ("move", "copy"):
        source = _pointer(operation.get("from"))
        why = f"{kind} operation does not apply: doc is missing from path: {_show(source)}"
        value = copy.deepcopy(_get(document, source, why))
        if kind == "move":
            document = _remove(document, source)
        return _add(document, path, value, kind)
    raise _unprocessable(f"Unexpected kind: {kind}")


def _unprocessable(why: str) -> Refusal:
    return Refusal(
        422,
        "Invalid",
        f"the server rejected our request due to an error in our request: {why}"
        if not why
        else "the server rejected our request due to an error in our request",
        {"causes": [{"message": why}]} if why else None,
    )


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request("error decoding patch: a path must start with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _show(path: list[str]) -> str:
    return "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def _index(container: list[Any], part: str, why: str, *, end: bool = False) -> int:
    if part == "-" and end:
        return len(container)
    limit = len(container) + (1 if end else 0)
    try:
        index = int(part)
    except ValueError:
        raise _unprocessable(why) from None
    if not 0 <= index < limit:
        raise _unprocessable(why)
    return index


def _get(document: Any, path: list[str], why: str) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(document, part, why)]
        else:
            raise _unprocessable(why)
    return document


def _add(document: Any, path: list[str], value: Any, kind: str) -> Any:
    if not path:
        return value
    why = f"{kind} operation does not apply: doc is missing path: {_show(path)}: missing value"
    parent = _get(document, path[:-1], why)
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        parent.insert(_index(parent, path[-1], why, end=True), value)
    else:
        raise _unprocessable(why)
    return document


def _put(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1], "")
    parent[int(path[-1]) if isinstance(parent, list) else path[-1]] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    why = f"remove operation does not apply: doc is missing path: {_show(path)}: missing value"
    _get(document, path, why)
    parent = _get(document, path[:-1], why)
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return document


def _test(document: Any, path: list[str], operation: dict[str, Any]) -> None:
    failed = f"testing value {_show(path)} failed: test failed"
    expected = operation.get("value")
    current = document
    for depth, part in enumerate(path):
        if isinstance(current, dict) and part in current:
            current = current[part]
        elif isinstance(current, list):
            current = current[_index(current, part, failed)]
        elif expected is None and depth == len(path) - 1:
            return  # A test for null passes where nothing is.
        else:
            raise _unprocessable(failed)
    if not same(current, expected):
        raise _unprocessable(failed)
