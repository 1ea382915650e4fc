"""Refusals, as Status objects of the form that the API server answers with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kbind.apis import qualified
from kbind.jsons import encode

Json = dict[str, Any]


class Refusal(Exception):
    """An answer that is not what was asked for. status: the Status object."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Json | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({} if details is None else {"details": details}),
            "code": code,
        }
        if not reason:
            del self.status["reason"]


class Cause(NamedTuple):
    """One complaint about one field. kind: such as FieldValueInvalid."""

    kind: str
    field: str
    complaint: str

    def __str__(self) -> str:
        return f"{self.field}: {self.complaint}"


def invalid_value(field: str, value: Any, complaint: str, kind: str = "Invalid") -> Cause:
    return Cause(f"FieldValue{kind}", field, f"Invalid value: {shown(value)}: {complaint}")


def required(field: str, complaint: str = "") -> Cause:
    text = f"Required value: {complaint}" if complaint else "Required value"
    return Cause("FieldValueRequired", field, text)


def forbidden_value(field: str, complaint: str) -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {complaint}")


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {shown(value)}")


def unsupported(field: str, value: Any, known: Sequence[Any]) -> Cause:
    words = ", ".join(f'"{word}"' for word in known)
    return Cause(
        "FieldValueNotSupported",
        field,
        f"Unsupported value: {shown(value)}: supported values: {words}",
    )


def shown(value: Any) -> str:
    """A value within a message. Maps and lists come as JSON, null by its name."""
    return encode(value, sort=True).decode()


def _about(group: str, kind: str, name: str) -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def not_found(group: str, plural: str, name: str) -> Refusal:
    message = f'{qualified(group, plural)} "{name}" not found'
    return Refusal(404, "NotFound", message, _about(group, plural, name))


def already_exists(group: str, plural: str, name: str) -> Refusal:
    message = f'{qualified(group, plural)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, _about(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> Refusal:
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return Refusal(409, "Conflict", message, _about(group, plural, name))


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def forbidden(group: str, plural: str, name: str, why: str) -> Refusal:
    subject = f' "{name}"' if name else ""
    message = f"{qualified(group, plural)}{subject} is forbidden: {why}"
    return Refusal(403, "Forbidden", message, _about(group, plural, name))


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Refusal:
    """422 for one or more complaints."""
    # The server joins what it found into one line, brackets only around several.
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _about(group, kind, name)
    details["causes"] = [
        {"reason": cause.kind, "message": cause.complaint, "field": cause.field} for cause in causes
    ]
    message = f'{qualified(group, kind)} "{name}" is invalid: {text}'
    return Refusal(422, "Invalid", message, details)


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def internal(message: str) -> Refusal:
    return Refusal(500, "", message)


def gone(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def method_not_allowed(group: str, plural: str, verb: str) -> Refusal:
    return Refusal(
        405,
        "MethodNotAllowed",
        f"{verb} is not supported on resources of kind {qualified(group, plural)!r}".replace(
            "'", '"'
        ),
        _about(group, plural, ""),
    )


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    return Refusal(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def not_acceptable() -> Refusal:
    """Names what the real server would answer in; this one answers in JSON."""
    return Refusal(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
    )
