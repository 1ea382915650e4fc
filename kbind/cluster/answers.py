"""From an answer that is no success to the exception that says what it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import orjson

from kbind.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotServed,
    ServerFailed,
    Throttled,
    Unauthorized,
)

WORDS_LIMIT: Final = 1000
"""Characters of the server's own words that a message repeats."""

TEXT_LIMIT: Final = 200
"""Bytes of them where they are plain text: an API server's 404, a proxy's refusal."""

_UID_PRECONDITION: Final = re.compile(
    r"UID in precondition|uid mismatch|\bmetadata\.uid: (?:Invalid|Forbidden)", re.IGNORECASE
)
_WRONG_TYPE: Final = "failed to create typed patch object"
"""How an API server answers, with 500, an apply whose types do not fit the schema."""


def failure(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    side: str,
    verb: str,
    path: str,
) -> ClusterError:
    """The exception for an answer outside 2xx. headers: by lower-case name."""
    error = explain(
        status, _status_object(body), _seconds(headers), side=side, verb=verb, path=path
    )
    if not error.body and headers.get("content-type", "").startswith("text/plain"):
        said = body[:TEXT_LIMIT].decode("utf-8", "replace").strip().partition("\n")[0]
        error.message = f"{error.message}: {said}" if said else error.message
    return error


def explain(
    status: int,
    answer: dict[str, Any],
    retry_after: float | None = None,
    *,
    side: str,
    verb: str,
    path: str,
) -> ClusterError:
    """The exception for a Status object (*answer*, {} where the server sent none)."""
    kind = _kind(status, answer, verb, path)
    error = kind(
        f"{side}: {verb} {path}: {status} {_words(status, answer, path)}".rstrip(),
        side=side,
        verb=verb,
        path=path,
        status=status,
        body=answer,
    )
    if isinstance(error, Throttled | ServerFailed):
        error.retry_after = retry_after
        if retry_after is None and (seconds := _details(answer).get("retryAfterSeconds")):
            error.retry_after = float(seconds)
    return error


def _kind(status: int, answer: dict[str, Any], verb: str, path: str) -> type[ClusterError]:
    match status:
        case 401:
            return Unauthorized
        case 403:
            return Forbidden
        case 404:
            return NotFound if _names_an_object(answer, path) else NotServed
        case 409:
            return Conflict
        case 410:
            return Gone
        case 422 if _outdated(answer, verb):
            return Conflict
        case 429:
            return Throttled
        case _ if 400 <= status < 500:
            return Invalid
        case 500 if verb == "apply" and str(answer.get("message")).startswith(_WRONG_TYPE):
            return Invalid
    return ServerFailed


def _names_an_object(answer: dict[str, Any], path: str) -> bool:
    """Whether a 404 is about an object or its namespace. An unknown group or resource is also
    answered with reason NotFound, but names nothing; a proxy's page has no reason at all."""
    name = _details(answer).get("name")
    if answer.get("reason") != "NotFound" or not isinstance(name, str):
        return False
    return name in map(unquote, path.split("/"))


def _outdated(answer: dict[str, Any], verb: str) -> bool:
    """Whether a 422 says that the object is another one, or is no longer what a JSON patch
    presumes: nothing is wrong with what was sent, it came too late."""
    named = causes(answer)
    if named:  # The message then repeats values of the user, which must not be matched.
        return any(cause.get("field") == "metadata.uid" for cause in named)
    if verb == "patch" and not _details(answer):
        # A ``test`` that does not hold, or a path that is not there, is answered without any
        # detail; what a schema refuses is always named.
        return True
    return _UID_PRECONDITION.search(str(answer.get("message", ""))) is not None


def _words(status: int, answer: dict[str, Any], path: str) -> str:
    reason = str(answer.get("reason") or "")
    said = str(answer.get("message") or "")
    if "secrets" in path.split("/") and status in (400, 422):
        # What the server finds wrong with a Secret it may quote: name the fields only.
        said = ", ".join(str(cause["field"]) for cause in causes(answer) if "field" in cause)
    if len(said) > WORDS_LIMIT:
        said = f"{said[:WORDS_LIMIT]} [...]"
    return f"{reason}: {said}" if reason and said else reason or said


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    if isinstance(answer, dict) and answer.get("kind") == "Status":
        return answer
    return {}


def _details(answer: dict[str, Any]) -> dict[str, Any]:
    details = answer.get("details")
    return details if isinstance(details, dict) else {}


def causes(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """What a Status names one by one, each with ``reason``, ``message`` and ``field``."""
    named = _details(answer).get("causes")
    return [cause for cause in named if isinstance(cause, dict)] if named else []


def _seconds(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds. An API server never sends the date form; it reads as absent."""
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdigit() else None
