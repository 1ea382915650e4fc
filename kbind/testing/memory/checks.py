"""What has to hold before an object is stored, and whether anything would change."""

from __future__ import annotations

from typing import Any

from kbind.testing.memory import crdchecks, objects, typed, validation
from kbind.testing.memory.decoding import Target
from kbind.testing.memory.resources import CRD_RESOURCE
from kbind.testing.memory.status import Cause, invalid

Json = dict[str, Any]


def check(target: Target, obj: Json, live: Json | None) -> None:
    """Raises Refusal (422) with all that is wrong. live: what *obj* is to replace."""
    resource = target.resource
    causes: list[Cause] = objects.check_metadata(resource, obj["metadata"])
    if live is not None:
        # Checked for all kinds and for each kind; the server's answer has it twice.
        causes += 2 * objects.check_metadata_update(obj["metadata"], live["metadata"])
    if resource.custom:
        causes += _custom_causes(target, obj, live)
    elif resource is CRD_RESOURCE:
        causes += crdchecks.check(obj, live)
    else:
        causes += objects.check_builtin(resource, obj, live)
    if causes:
        raise invalid(resource.group, resource.kind, target.name, causes)


def _custom_causes(target: Target, obj: Json, live: Json | None) -> list[Cause]:
    whole = target.resource.schema
    if live is not None and same_content(obj, live):
        return []
    if target.subresource == "status":
        part = (whole.get("properties") or {}).get("status")
        found = validation.validate(part, obj["status"]) if part and "status" in obj else []
        found = [cause._replace(field=_below_status(cause.field)) for cause in found]
    else:
        found = validation.validate(whole, obj)
    if live is not None and found:
        # What was invalid before and has not been touched may stay.
        found = [cause for cause in found if not _untouched(cause.field, obj, live)]
    lists = target.resource.lists
    repeated = validation.validate_lists(whole, obj, lists)
    if repeated and (live is None or not validation.validate_lists(whole, live, lists)):
        found += repeated
    return found


def same_content(obj: Json, live: Json) -> bool:
    """Are the two the same but for metadata?"""
    names = (obj.keys() | live.keys()) - {"metadata", "apiVersion"}
    return all(name in obj and name in live and typed.same(obj[name], live[name]) for name in names)


def _below_status(field: str) -> str:
    return "status" if field in ("", "<nil>") else f"status.{field}"


def _untouched(path: str, obj: Json, live: Json) -> bool:
    """Does the same stand at *path*, or where that ends, on both sides?"""
    new: Any = obj
    old: Any = live
    for part in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(new, dict) and isinstance(old, dict):
            if part not in new and part not in old:
                break
            if part not in new or part not in old:
                return False
            new, old = new[part], old[part]
        elif isinstance(new, list) and isinstance(old, list) and part.isdigit():
            index = int(part)
            if index >= len(new) or index >= len(old):
                return False
            new, old = new[index], old[index]
        else:
            return False
    return typed.same(new, old)


def same_but_times(obj: Json, live: Json) -> bool:
    """Is nothing new but times in managedFields?"""
    entries = obj["metadata"].get("managedFields") or []
    former = live["metadata"].get("managedFields") or []
    if len(entries) != len(former):
        return False
    timeless = [
        {**entry, "time": old["time"]} if "time" in old else entry
        for entry, old in zip(entries, former, strict=True)
    ]
    compared = {**obj, "apiVersion": live.get("apiVersion")}
    metadata = {**obj["metadata"], "managedFields": timeless}
    if not entries:
        metadata.pop("managedFields")
    return typed.same({**compared, "metadata": metadata}, live)
