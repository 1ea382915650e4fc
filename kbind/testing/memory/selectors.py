"""Label and field selectors, as the query carries them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kbind.testing.memory.resources import Resource
from kbind.testing.memory.status import bad_request

Json = dict[str, Any]
Selector = Callable[[Json], bool]

_SET_BASED = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUALITY = re.compile(r"^\s*([^\s=!]+)\s*(==|=|!=)\s*(\S*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([A-Za-z0-9][^\s=!(),]*)\s*$")

# What lists of these built-in resources can be asked for, beyond name and namespace.
_FIELDS = {
    "secrets": {"type"},
    "namespaces": {"status.phase"},
    "events": {
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
    },
}  # fmt: skip


def everything(_obj: Json) -> bool:
    return True


def selector(resource: Resource, labels: str, fields: str) -> Selector:
    """Raises Refusal (400) for what cannot be parsed or is not supported."""
    tests = [_label_test(part) for part in _split(labels)]
    tests += [_field_test(resource, part) for part in fields.split(",") if part]
    if not tests:
        return everything
    return lambda obj: all(test(obj) for test in tests)


def _split(text: str) -> list[str]:
    """At commas, except for those within parentheses."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _label_test(part: str) -> Selector:
    if match := _SET_BASED.match(part):
        key, operator, listed = match.groups()
        words = {word.strip() for word in listed.split(",")}
        if operator == "in":
            return lambda obj: _labels(obj).get(key) in words
        return lambda obj: _labels(obj).get(key) not in words
    if match := _EQUALITY.match(part):
        key, operator, value = match.groups()
        if operator == "!=":
            return lambda obj: _labels(obj).get(key) != value
        return lambda obj: _labels(obj).get(key) == value
    if match := _EXISTS.match(part):
        negated, key = match.groups()
        if negated:
            return lambda obj: key not in _labels(obj)
        return lambda obj: key in _labels(obj)
    raise bad_request(f"unable to parse requirement: {part!r}")


def _labels(obj: Json) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _field_test(resource: Resource, part: str) -> Selector:
    match = _EQUALITY.match(part)
    if match is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, operator, value = match.groups()
    known = {"metadata.name", "metadata.namespace"} | _FIELDS.get(resource.name, set())
    if path not in known:
        raise bad_request(f"field label not supported: {path}")

    def test(obj: Json) -> bool:
        found: Any = obj
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return ((found or "") == value) == (operator != "!=")

    return test
