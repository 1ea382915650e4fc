"""What a CustomResourceDefinition has to be to be taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kbind.testing.memory.crds import APPROVED, approval, is_true
from kbind.testing.memory.objects import BAD_SUBDOMAIN, is_subdomain
from kbind.testing.memory.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)
from kbind.testing.memory.structural import check_schema
from kbind.testing.memory.typed import same

Json = dict[str, Any]

_NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_is_name = re.compile(_NAME).fullmatch
_BAD_NAME = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_NAME}')"
)
_STORED = "must have at least one stored version"
_COLUMNS = ("boolean", "date", "integer", "number", "string")
_SELECTABLE = ("string", "boolean", "integer")


def check(crd: Json, old: Json | None) -> list[Cause]:
    """All that is wrong with *crd*, which is to replace *old* where there is one."""
    spec, names = crd["spec"], crd["spec"]["names"]
    found: list[Cause] = []
    name = crd["metadata"].get("name")
    if name != f"{names['plural']}.{spec['group']}":
        found.append(
            invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
        )
    if old is None or not same(spec, old["spec"]):  # what stands there was judged before
        found += _check_spec(spec)
        found += _check_names(names)
        found += _check_versions(spec.get("versions") or [])
    verdict = approval(crd)
    if (
        verdict is not None
        and verdict[1] in ("MissingAnnotation", "InvalidAnnotation")
        and (old is None or (before := approval(old)) is None or before[1] != verdict[1])
    ):
        found.append(_disapproved(crd, verdict))
    found += _check_stored(crd)
    if old is not None:
        found += _check_update(crd, old)
    return found


def _check_spec(spec: Json) -> Iterator[Cause]:
    group, scope = spec["group"], spec["scope"]
    if not group:
        yield required("spec.group")
    elif not is_subdomain(group):
        yield invalid_value("spec.group", group, BAD_SUBDOMAIN)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield unsupported("spec.scope", scope, ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        yield invalid_value(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead",
        )
    conversion = spec["conversion"]
    strategy, webhook = conversion.get("strategy"), conversion.get("webhook") or {}
    if strategy not in ("None", "Webhook"):
        yield unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy == "None":
        for field, given in (
            ("webhookClientConfig", webhook.get("clientConfig")),
            ("conversionReviewVersions", webhook.get("conversionReviewVersions")),
        ):
            if given:
                why = "should not be set when strategy is not set to Webhook"
                yield forbidden_value(f"spec.conversion.{field}", why)


def _check_names(names: Json) -> Iterator[Cause]:
    for field in ("plural", "singular", "kind", "listKind"):
        name = names.get(field, "")
        mixed = field in ("kind", "listKind")
        if not name:
            yield required(f"spec.names.{field}")
        elif not _is_name(name.lower() if mixed else name):
            free = "may have mixed case, but should otherwise match: " if mixed else ""
            yield invalid_value(f"spec.names.{field}", name, f"{free}{_BAD_NAME}")
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            if not _is_name(name):
                yield invalid_value(f"spec.names.{field}[{index}]", name, _BAD_NAME)
    if names["kind"] and names["kind"] == names.get("listKind"):
        complaint = "kind and listKind may not be the same"
        yield invalid_value("spec.names.listKind", names["kind"], complaint)


def _check_versions(versions: list[Json]) -> Iterator[Cause]:
    if sum(bool(version.get("storage")) for version in versions) != 1:
        complaint = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", versions, complaint)
    for index, version in enumerate(versions):
        place, name = f"spec.versions[{index}]", version.get("name", "")
        if not _is_name(name):
            yield invalid_value(f"{place}.name", name, _BAD_NAME)
            if index == 0 and name:  # which the server also keeps as the one version of its youth
                yield invalid_value("spec.version", name, _BAD_NAME)
        if name in [other.get("name") for other in versions[:index]]:
            complaint = "must contain unique version names"
            yield invalid_value("spec.versions", versions, complaint)
        if "deprecationWarning" in version and not version.get("deprecated"):
            complaint = "can only be set for deprecated versions"
            warning = version["deprecationWarning"]
            yield invalid_value(f"{place}.deprecationWarning", warning, complaint)
    yield from _check_schemas(versions)
    one_schema = _shared(versions, "schema")
    for field, check_field in (
        ("subresources", _check_subresources),
        ("selectableFields", _check_selectable),
        ("additionalPrinterColumns", _check_columns),
    ):
        for place, version in _places(versions, field):
            if field not in version:
                continue
            if field == "selectableFields" and place != "spec" and one_schema:
                # The server looks for the schema beside them, and has it elsewhere.
                complaint = "may only be set when `version.schema.openAPIV3Schema` is not included"
                yield invalid_value(f"{place}.{field}", "", complaint)
                continue
            yield from check_field(version, f"{place}.{field}")


def _shared(versions: list[Json], field: str) -> bool:
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _places(versions: list[Json], field: str) -> list[tuple[str, Json]]:
    """Each version with its place, or the first alone: what all of them share the server keeps
    in the place that it had before there were versions."""
    if versions and _shared(versions, field):
        return [("spec", versions[0])]
    return [(f"spec.versions[{index}]", version) for index, version in enumerate(versions)]


def _check_schemas(versions: list[Json]) -> Iterator[Cause]:
    for index, (place, version) in enumerate(_places(versions, "schema")):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
            continue
        status = (version.get("subresources") or {}).get("status") is not None
        field = f"{place}.{'validation' if place == 'spec' else 'schema'}.openAPIV3Schema"
        yield from check_schema(schema, field, status=status)


def _check_subresources(version: Json, place: str) -> Iterator[Cause]:
    scale = version["subresources"].get("scale")
    if scale is None:
        return
    for field, root in (
        ("specReplicasPath", "spec"),
        ("statusReplicasPath", "status"),
        ("labelSelectorPath", "status or .spec"),
    ):
        path, where = scale.get(field), f"{place}.scale.{field}"
        if not path:
            if field != "labelSelectorPath":
                yield required(where)
        elif not path.startswith("."):
            yield invalid_value(where, path, "must be a simple json path starting with .")
        elif not any(path.startswith(f".{part}.") for part in root.split(" or .")):
            also = "either " if " or " in root else ""
            yield invalid_value(where, path, f"should be a json path under {also}.{root}")


def _check_selectable(version: Json, place: str) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    seen: set[str] = set()
    for index, entry in enumerate(version["selectableFields"]):
        field, path = f"{place}[{index}].jsonPath", entry.get("jsonPath")
        if not path:
            yield required(field)
            continue
        first, _, rest = path.partition(".")
        if first:
            complaint = f"is an invalid path: expected [ or . but got: {first}"
            yield invalid_value(field, path, complaint)
            continue
        part: Json | None = schema if not rest.startswith("metadata") else None
        for name in rest.split("."):
            part = ((part or {}).get("properties") or {}).get(name)
        if part is None:
            complaint = "is an invalid path: does not refer to a valid field"
            yield invalid_value(field, path, complaint)
        elif part.get("type") not in _SELECTABLE:
            complaint = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            yield invalid_value(field, path, complaint)
        elif path in seen:
            yield duplicate(field, path)
        seen.add(path)


def _check_columns(version: Json, place: str) -> Iterator[Cause]:
    for index, column in enumerate(version["additionalPrinterColumns"]):
        for name, field in (("name", "name"), ("jsonPath", "JSONPath"), ("type", "type")):
            if not column.get(name):
                yield required(f"{place}[{index}].{field}")
        if column.get("type") and column["type"] not in _COLUMNS:
            complaint = f"must be one of {','.join(_COLUMNS)}"
            yield invalid_value(f"{place}[{index}].type", column["type"], complaint)


def _disapproved(crd: Json, verdict: tuple[str, str, str]) -> Cause:
    field = f"metadata.annotations[{APPROVED}]"
    if verdict[1] == "MissingAnnotation":
        return required(field, verdict[2])
    annotation = crd["metadata"]["annotations"][APPROVED]
    return invalid_value(field, annotation, verdict[2])


def _check_stored(crd: Json) -> Iterator[Cause]:
    stored = crd["status"].get("storedVersions") or ()
    if not stored:
        yield invalid_value("status.storedVersions", None, _STORED)
    present = {version.get("name") for version in crd["spec"].get("versions") or ()}
    for index, name in enumerate(stored):
        if name not in present:
            yield invalid_value(
                f"status.storedVersions[{index}]",
                name,
                f"missing from spec.versions; {name} was previously a storage version, and "
                "must remain in spec.versions until a storage migration ensures no data "
                f"remains persisted in {name} and removes {name} from status.storedVersions",
            )


def _check_update(crd: Json, old: Json) -> Iterator[Cause]:
    fixed = [("group",), ("names", "plural")]
    if is_true(old, "Established"):
        fixed += [("scope",), ("names", "kind")]
    for path in fixed:
        new_value, old_value = crd["spec"], old["spec"]
        for part in path:
            new_value, old_value = new_value.get(part), old_value.get(part)
        if new_value != old_value:
            field = ".".join(("spec", *path))
            yield invalid_value(field, new_value, "field is immutable")
