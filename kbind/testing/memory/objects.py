"""Rules that hold for the metadata of every object, and for the built-in kinds."""

from __future__ import annotations

import base64
import copy
import re
from datetime import UTC, datetime
from typing import Any

from kbind.testing.memory.resources import Resource
from kbind.testing.memory.status import (
    Cause,
    bad_request,
    forbidden_value,
    invalid_value,
    required,
)
from kbind.testing.memory.typed import same

Json = dict[str, Any]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_is_label = re.compile(_LABEL).fullmatch
is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_name_part = re.compile(_NAME_PART).fullmatch
_is_value = re.compile(rf"({_NAME_PART})?").fullmatch

_BAD_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    f"used for validation is '{_LABEL}')"
)
BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    f"  or '12345', regex used for validation is '({_NAME_PART})?')"
)
_BAD_QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_NAME_PART}')"
)
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(.*)", re.DOTALL)
_MICROSECONDS = re.compile(r"\.\d{6}(Z|[+-]\d\d:\d\d)")
_ANNOTATIONS_LIMIT = 256 * 1024


def _qualified(name: str) -> str | None:
    prefix, _, part = name.rpartition("/")
    if prefix and (len(prefix) > 253 or not is_subdomain(prefix)):
        return f"prefix part {BAD_SUBDOMAIN}"
    if len(part) > 63:
        return "name part must be no more than 63 bytes"
    return None if _is_name_part(part) else _BAD_QUALIFIED


def check_metadata(resource: Resource, metadata: Json) -> list[Cause]:
    found: list[Cause] = []
    name = metadata.get("name", "")
    label = resource.name == "namespaces"
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    elif len(name) > (63 if label else 253):
        limit = f"must be no more than {63 if label else 253} {'bytes' if label else 'characters'}"
        found.append(invalid_value("metadata.name", name, limit))
    elif not (_is_label(name) if label else is_subdomain(name)):
        found.append(invalid_value("metadata.name", name, _BAD_LABEL if label else BAD_SUBDOMAIN))
    for key, value in (metadata.get("labels") or {}).items():
        if (why := _qualified(key)) is not None:
            found.append(invalid_value("metadata.labels", key, why))
        if len(value) > 63:
            found.append(invalid_value("metadata.labels", value, "must be no more than 63 bytes"))
        elif not _is_value(value):
            found.append(invalid_value("metadata.labels", value, _BAD_VALUE))
    size = 0
    for key, value in (metadata.get("annotations") or {}).items():
        size += len(key) + len(value.encode())
        if (why := _qualified(key.lower())) is not None:
            found.append(invalid_value("metadata.annotations", key, why))
    if size > _ANNOTATIONS_LIMIT:
        text = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        found.append(Cause("FieldValueTooLong", "metadata.annotations", text))
    for finalizer in metadata.get("finalizers") or ():
        if (why := _qualified(finalizer)) is not None:
            found.append(invalid_value("metadata.finalizers", finalizer, why))
    return found


def check_metadata_update(new: Json, old: Json) -> list[Cause]:
    found: list[Cause] = []
    if old.get("deletionTimestamp"):
        before = set(old.get("finalizers") or ())
        added = [name for name in new.get("finalizers") or () if name not in before]
        if added:
            listed = ", ".join(f'"{name}"' for name in sorted(added))
            found.append(
                forbidden_value(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    for name in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"):
        if new.get(name) != old.get(name):
            found.append(invalid_value(f"metadata.{name}", new.get(name), "field is immutable"))
    return found


def decode_builtin(resource: Resource, obj: Json) -> Json:
    """*obj* as the server's own types hold it: with their defaults, without what is empty."""
    if resource.name == "secrets":
        text = obj.pop("stringData", None)
        if text:
            data = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
            obj["data"] = {**(obj.get("data") or {}), **data}
        obj.setdefault("type", "Opaque")
    elif resource.name == "namespaces":
        metadata = obj["metadata"]
        if name := metadata.get("name"):
            metadata["labels"] = {
                **(metadata.get("labels") or {}),
                "kubernetes.io/metadata.name": name,
            }
    elif resource.name == "leases.coordination.k8s.io":
        spec = obj.get("spec") or {}
        for name in ("acquireTime", "renewTime"):
            if name in spec:
                spec[name] = _micro_time(spec[name])
    for name, value in resource.empty.items():
        if obj.get(name) is None:
            obj[name] = copy.deepcopy(value)
    return {
        name: value
        for name, value in obj.items()
        if name in resource.empty or (value is not None and value != {} and value != [])
    }


def _micro_time(value: str) -> str:
    """As the server writes it, in UTC. Raises Refusal for any other number of digits than six."""
    begin = _SECONDS.match(value)
    rest, wanted = (begin[1], ".000000") if begin else (value, "2006")
    if begin is None or not _MICROSECONDS.fullmatch(rest):
        raise bad_request(
            f'Lease in version "v1" cannot be handled as a Lease: parsing time "{value}" as '
            f'"2006-01-02T15:04:05.000000Z07:00": cannot parse "{rest}" as "{wanted}"'
        )
    try:
        time = datetime.fromisoformat(value).astimezone(UTC)
    except ValueError:
        raise bad_request(
            'Lease in version "v1" cannot be handled as a Lease: '
            f'parsing time "{value}": out of range'
        ) from None
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def prepare_new(resource: Resource, obj: Json) -> Json:
    """What the server adds to an object that is being created."""
    if resource.name == "namespaces":
        obj = {**obj, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    return obj


# Keys that Secrets of some types must hold.
_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def check_builtin(resource: Resource, obj: Json, old: Json | None) -> list[Cause]:
    found: list[Cause] = []
    if resource.name == "secrets":
        if old is not None and obj["type"] != old["type"]:
            found.append(invalid_value("type", obj["type"], "field is immutable"))
        for key in _SECRET_KEYS.get(obj["type"], ()):
            if key not in (obj.get("data") or {}):
                found.append(required(f"data[{key}]"))
    if resource.name in ("secrets", "configmaps"):
        for name in ("data", "binaryData"):
            for key in obj.get(name) or {}:
                if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key):
                    found.append(
                        invalid_value(
                            f"{name}[{key}]",
                            key,
                            "a valid config key must consist of alphanumeric characters, '-', "
                            "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex "
                            "used for validation is '[-._a-zA-Z0-9]+')",
                        )
                    )
        if old is not None and old.get("immutable"):
            for name in ("immutable", "data", "binaryData"):
                if not same(obj.get(name), old.get(name)):
                    found.append(
                        forbidden_value(name, "field is immutable when `immutable` is set")
                    )
    if resource.name == "events":
        namespace = obj.get("involvedObject", {}).get("namespace", "")
        expected = obj["metadata"]["namespace"]
        if namespace != expected and (namespace or expected != "default"):
            found.append(
                invalid_value(
                    "involvedObject.namespace", namespace, "does not match event.namespace"
                )
            )
    return found
