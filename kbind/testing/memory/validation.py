"""Validation against structural schemas, in the words of the API server.

Written out rather than handed to a JSON Schema library: the server's messages, its treatment of
``nullable`` and ``x-kubernetes-int-or-string`` and the CPU time of a hot path all ask for it.
CEL rules are not evaluated.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

from kbind.jsons import encode
from kbind.testing.memory.status import (
    Cause,
    duplicate,
    invalid_value,
    required,
    shown,
    unsupported,
)
from kbind.testing.memory.typed import same

Schema = dict[str, Any]
# Where a value stands: its parent's place and its name or index. Text only for complaints.
Path = tuple[Any, str | int] | None


def _text(path: Path) -> str:
    if path is None:
        return ""
    parent, step = path
    above = _text(parent)
    if isinstance(step, int):
        return f"{above}[{step}]"
    return f"{above}.{step}" if above else step


def validate(schema: Schema, value: Any) -> list[Cause]:
    """Complaints about *value*."""
    return _validated(schema, value, None)


def _validated(schema: Schema, value: Any, path: Path) -> list[Cause]:
    found: list[Cause] = []
    _check(schema, value, path, found)
    return found


def _check(schema: Schema, value: Any, path: Path, found: list[Cause]) -> None:
    if value is None and schema.get("nullable"):
        return
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string") and kind is None:
        if not isinstance(value, str) and not _is_integer(value):
            found.append(_wrong_type(path, "integer,string", value))
            return
    elif kind is not None and not (kind in _TYPES and _TYPES[kind](value)):
        found.append(_wrong_type(path, kind, value))
        if kind == "integer" and isinstance(value, float):
            form = schema.get("format")
            form = f"with format {form}" if form else "(default format)"
            complaint = f"Checked value must be of type integer {form} in {_text(path)}"
            found.append(invalid_value("<nil>", "", complaint))
        return
    if "enum" in schema and not any(same(value, word) for word in schema["enum"]):
        found.append(unsupported(_text(path), value, schema["enum"]))
    if isinstance(value, str):
        _check_string(schema, value, path, found)
    elif isinstance(value, dict):
        _check_object(schema, value, path, found)
    elif isinstance(value, list):
        _check_list(schema, value, path, found)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(schema, value, path, found)
    _check_combined(schema, value, path, found)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def type_name(value: Any) -> str:
    for name in ("object", "array", "string", "boolean", "integer", "number"):
        if _TYPES[name](value):
            return name
    return "null"


def _where(path: Path) -> str:
    return f"{_text(path) or '<nil>'} in body"


def _wrong_type(path: Path, kind: str, value: Any) -> Cause:
    name = type_name(value)
    complaint = f"{_where(path)} must be of type {kind}: {shown(name)}"
    return invalid_value(_text(path) or "<nil>", name, complaint, "TypeInvalid")


def _check_string(schema: Schema, value: str, path: Path, found: list[Cause]) -> None:
    # Of these the server tells the first only.
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        complaint = f"Too long: may not be more than {most} {'byte' if most == 1 else 'bytes'}"
        found.append(Cause("FieldValueTooLong", _text(path), complaint))
    elif least is not None and len(value) < least:
        complaint = f"{_where(path)} should be at least {least} chars long"
        found.append(invalid_value(_text(path), value, complaint))
    elif pattern is not None and not _matches(pattern, value):
        complaint = f"{_where(path)} should match '{pattern}'"
        found.append(invalid_value(_text(path), value, complaint))
    form = _FORMATS.get(schema.get("format", ""))
    if form is not None and not form(value):
        complaint = f"{_where(path)} must be of type {schema['format']}: {shown(value)}"
        found.append(invalid_value(_text(path), value, complaint))


def _check_number(schema: Schema, value: float, path: Path, found: list[Cause]) -> None:
    def complain(text: str) -> None:
        found.append(invalid_value(_text(path), value, f"{_where(path)} should be {text}"))

    least, most = schema.get("minimum"), schema.get("maximum")
    if most is not None:
        if schema.get("exclusiveMaximum") and value >= most:
            complain(f"less than {most}")
        elif value > most:
            complain(f"less than or equal to {most}")
    if least is not None:
        if schema.get("exclusiveMinimum") and value <= least:
            complain(f"greater than {least}")
        elif value < least:
            complain(f"greater than or equal to {least}")
    factor = schema.get("multipleOf")
    if factor and value % factor:
        complain(f"a multiple of {factor}")
    bits = {"int32": 31, "int64": 63}.get(schema.get("format", ""))
    if bits is not None and _is_integer(value) and not -(2**bits) <= value < 2**bits:
        form = f"{schema['type']} with format {schema['format']} in {_text(path)}"
        found.append(invalid_value("<nil>", "", f"Checked value must be of type {form}"))


def _check_object(schema: Schema, value: dict[str, Any], path: Path, found: list[Cause]) -> None:
    count = len(value)
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and count > most:
        found.append(_too_many(path, count, most))
    if least is not None and count < least:
        text = f"{_where(path)} should have at least {least} properties"
        found.append(invalid_value(_text(path), value, text))
    for name in schema.get("required", ()):
        if name not in value:
            found.append(required(_text((path, name))))
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name, item in value.items():
        inner = properties.get(name)
        if inner is None and isinstance(additional, dict):
            inner = additional
        if inner:
            _check(inner, item, (path, name), found)


def _check_list(schema: Schema, value: list[Any], path: Path, found: list[Cause]) -> None:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        found.append(_too_many(path, len(value), most))
    if least is not None and len(value) < least:
        text = f"{_where(path)} should have at least {least} items"
        found.append(invalid_value(_text(path), value, text))
    items = schema.get("items")
    if items:
        for index, item in enumerate(value):
            _check(items, item, (path, index), found)


def _too_many(path: Path, count: int, most: int) -> Cause:
    noun = "item" if most == 1 else "items"
    return Cause(
        "FieldValueTooMany", _text(path), f"Too many: {count}: must have at most {most} {noun}"
    )


def _check_combined(schema: Schema, value: Any, path: Path, found: list[Cause]) -> None:
    if schema.get("x-kubernetes-int-or-string"):
        # Its anyOf only repeats what the marker says.
        schema = {name: part for name, part in schema.items() if name != "anyOf"}

    def complain(text: str) -> None:
        found.append(invalid_value(_text(path) or "<nil>", value, f'"{_text(path)}" must {text}'))

    for part in schema.get("allOf", ()):
        failures = _validated(part, value, path)
        if failures:
            complain("validate all the schemas (allOf)")
            found.extend(failures)
            break
    if "anyOf" in schema:
        attempts = [_validated(part, value, path) for part in schema["anyOf"]]
        if all(attempts):
            complain("validate at least one schema (anyOf)")
            found.extend(_fewest(attempts))
    if "oneOf" in schema:
        attempts = [_validated(part, value, path) for part in schema["oneOf"]]
        valid = sum(not attempt for attempt in attempts)
        if valid != 1:
            result = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            complain(f"validate one and only one schema (oneOf). {result}")
            if not valid:
                found.extend(_fewest(attempts))
    if "not" in schema and not _validated(schema["not"], value, path):
        complain("not validate the schema (not)")


def _fewest(attempts: list[list[Cause]]) -> list[Cause]:
    """Those of the alternative that comes closest."""
    return sorted(attempts, key=len)[0]


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:
        # Go's dialect knows a few forms that Python's does not; those are not checked.
        return None


def _matches(pattern: str, value: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is None or compiled.search(value) is not None


def _date_time(value: str) -> bool:
    if not re.match(
        r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$", value
    ):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", value).upper())
    except ValueError:
        return False
    return True


def _date(value: str) -> bool:
    try:
        return len(value) == 10 and bool(datetime.strptime(value, "%Y-%m-%d"))
    except ValueError:
        return False


def _address(version: int) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            return ipaddress.ip_address(value).version == version
        except ValueError:
            return False

    return check


def _cidr(value: str) -> bool:
    try:
        return "/" in value and bool(ipaddress.ip_network(value, strict=False))
    except ValueError:
        return False


def _base64(value: str) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        return False
    return True


_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _date_time,
    "date": _date,
    "ipv4": _address(4),
    "ipv6": _address(6),
    "cidr": _cidr,
    "byte": _base64,
    "uuid": lambda value: (
        re.fullmatch(r"(?i)[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", value) is not None
    ),
    "email": lambda value: re.fullmatch(r"[^@\s]+@[^@\s]+", value) is not None,
    "uri": lambda value: re.match(r"^([A-Za-z][A-Za-z0-9+.-]*:|/)", value) is not None,
    "hostname": lambda value: re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*)", value) is not None,
}


def schemas_with_lists(schema: Schema) -> frozenset[int]:
    """The identities of those parts of *schema* in which some list is of type set or map."""
    found: set[int] = set()

    def visit(part: Any) -> bool:
        if not isinstance(part, dict):
            return False
        inner = [*(part.get("properties") or {}).values(), part.get("items")]
        inner.append(part.get("additionalProperties"))
        has = part.get("x-kubernetes-list-type") in ("map", "set")
        for other in inner:
            has |= visit(other)
        if has:
            found.add(id(part))
        return has

    visit(schema)
    return frozenset(found)


def validate_lists(schema: Schema, value: Any, within: frozenset[int]) -> list[Cause]:
    """Complaints about repeated items. within: what schemas_with_lists() says of *schema*."""
    found: list[Cause] = []
    _check_lists(schema, value, None, within, found)
    return found


def _check_lists(
    schema: Schema, value: Any, path: Path, within: frozenset[int], found: list[Cause]
) -> None:
    if id(schema) not in within:
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        for name, item in value.items():
            inner = properties.get(name, additional)
            if isinstance(inner, dict) and isinstance(item, (dict, list)):
                _check_lists(inner, item, (path, name), within, found)
    elif isinstance(value, list):
        relation = schema.get("x-kubernetes-list-type")
        keys = schema.get("x-kubernetes-list-map-keys", ())
        seen: set[bytes] = set()
        for index, item in enumerate(value):
            identity: Any = item
            if relation == "map" and isinstance(item, dict):
                identity = {key: item[key] for key in keys if key in item}
            if relation in ("map", "set"):
                canonical = encode(identity, sort=True)
                if canonical in seen:
                    found.append(duplicate(_text((path, index)), identity))
                seen.add(canonical)
            if schema.get("items"):
                _check_lists(schema["items"], item, (path, index), within, found)
