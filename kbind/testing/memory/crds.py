"""CustomResourceDefinitions: their defaults and checks, accepted names, and what they serve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbind.testing.memory.resources import Resource
from kbind.testing.memory.status import (
    Cause,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)

Json = dict[str, Any]

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_APPROVED = "api-approved.kubernetes.io"
# In the order in which the server lists them for custom resources.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
# What preserves everything, for versions that give no schema.
_FREE: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def decode(crd: Json) -> Json:
    """*crd* with the server's defaults."""
    spec = {"group": "", "scope": "", "versions": None, **(crd.get("spec") or {})}
    names = {"plural": "", "kind": "", **(spec.get("names") or {})}
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec["names"] = names
    spec.setdefault("conversion", {"strategy": "None"})
    return {**crd, "spec": spec}


def prepare(crd: Json, old: Json | None) -> Json:
    """*crd* with the status it is to have. old: None when it is being created."""
    spec = crd["spec"]
    status = dict(old["status"]) if old else {"acceptedNames": {"kind": "", "plural": ""}}
    if old is None:
        status["conditions"] = None
    stored = list(status.get("storedVersions") or ())
    for version in spec.get("versions") or ():
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    status["storedVersions"] = stored
    return {**crd, "status": status}


def check(crd: Json, old: Json | None) -> list[Cause]:
    found: list[Cause] = []
    spec, names = crd["spec"], crd["spec"]["names"]
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if crd["metadata"].get("name") != expected:
        found.append(
            invalid_value(
                "metadata.name",
                crd["metadata"].get("name"),
                'must be spec.names.plural+"."+spec.group',
            )
        )
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        found.append(unsupported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced")))
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        found.append(
            invalid_value(
                "spec.versions", versions, "must have exactly one version marked as storage version"
            )
        )
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    # The server keeps a schema that all versions share in one place, and names that place.
    shared = all(schema == schemas[0] for schema in schemas) and any(schemas)
    for index, schema in enumerate(schemas[:1] if shared else schemas):
        place = "spec.validation" if shared else f"spec.versions[{index}].schema"
        place += ".openAPIV3Schema"
        if schema is None:
            found.append(required(place, "schemas are required"))
        else:
            found += _check_structure(schema, place, "at the root")
    conversion = spec["conversion"]
    webhook = conversion.get("webhook")
    if conversion.get("strategy") == "None" and webhook is not None:
        for field, given in (
            ("webhookClientConfig", webhook.get("clientConfig")),
            ("conversionReviewVersions", webhook.get("conversionReviewVersions")),
        ):
            if given:
                why = "should not be set when strategy is not set to Webhook"
                found.append(forbidden_value(f"spec.conversion.{field}", why))
    verdict = _approval(crd)
    if (
        verdict is not None
        and verdict[1] in ("MissingAnnotation", "InvalidAnnotation")
        and (old is None or (before := _approval(old)) is None or before[1] != verdict[1])
    ):
        found.append(_disapproved(crd, verdict))
    present = {version["name"] for version in versions}
    for index, name in enumerate(crd["status"].get("storedVersions") or ()):
        if name not in present:
            found.append(
                invalid_value(
                    f"status.storedVersions[{index}]",
                    name,
                    f"missing from spec.versions; {name} was previously a storage version, and "
                    "must remain in spec.versions until a storage migration ensures no data "
                    f"remains persisted in {name} and removes {name} from status.storedVersions",
                )
            )
    if old is not None:
        found += _check_update(crd, old)
    return found


def _check_update(crd: Json, old: Json) -> list[Cause]:
    fixed = [("group",), ("names", "plural")]
    if is_true(old, "Established"):
        fixed += [("scope",), ("names", "kind")]
    found = []
    for path in fixed:
        new_value, old_value = crd["spec"], old["spec"]
        for part in path:
            new_value, old_value = new_value.get(part), old_value.get(part)
        if new_value != old_value:
            field = ".".join(("spec", *path))
            found.append(invalid_value(field, new_value, "field is immutable"))
    return found


def _check_structure(schema: Json, place: str, where: str) -> Iterator[Cause]:
    kind = schema.get("type")
    free = schema.get("x-kubernetes-preserve-unknown-fields") is True
    either = schema.get("x-kubernetes-int-or-string") is True
    if not kind and not free and not either:
        yield required(f"{place}.type", f"must not be empty {where}")
    if kind and either:
        yield invalid_value(
            f"{place}.type",
            kind,
            "must be empty if x-kubernetes-int-or-string is true",
        )
    if schema.get("$ref"):
        yield forbidden_value(f"{place}.$ref", "$ref is not supported")
    if kind == "array" and not schema.get("items"):
        yield required(f"{place}.items", "must be specified")
    for name, inner in (schema.get("properties") or {}).items():
        place_of = f"{place}.properties[{name}]"
        yield from _check_structure(inner, place_of, "for specified object fields")
    if isinstance(schema.get("items"), dict):
        yield from _check_structure(schema["items"], f"{place}.items", "for specified array items")
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        yield from _check_structure(
            additional, f"{place}.additionalProperties", "for specified object fields"
        )


def is_true(crd: Json, condition: str) -> bool:
    return any(
        entry["type"] == condition and entry["status"] == "True"
        for entry in (crd.get("status") or {}).get("conditions") or ()
    )


def judged(crd: Json, others: list[Json], now: str) -> Json:
    """*crd* with its names accepted or not, and established or not. others: of its group."""
    names = crd["spec"]["names"]
    status = crd["status"]
    accepted = status["acceptedNames"]
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        theirs = other["status"]["acceptedNames"]
        resources |= {theirs.get("plural", ""), theirs.get("singular", "")}
        resources |= set(theirs.get("shortNames") or ())
        kinds |= {theirs.get("kind", ""), theirs.get("listKind", "")}
    kept = dict(accepted)
    verdict = ("True", "NoConflicts", "no conflicts found")
    for field, taken, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        wanted = names.get(field) or ([] if field == "shortNames" else "")
        had = accepted.get(field) or ([] if field == "shortNames" else "")
        each = wanted if isinstance(wanted, list) else [wanted]
        own = had if isinstance(had, list) else [had]
        used = [f'"{name}" is already in use' for name in each if name in taken and name not in own]
        if used:
            text = used[0] if len(used) == 1 else f"[{', '.join(used)}]"
            verdict = ("False", reason, text)
        elif wanted:
            kept[field] = wanted
        else:
            kept.pop(field, None)
    if names.get("categories"):
        kept["categories"] = names["categories"]
    else:
        kept.pop("categories", None)
    conditions = list(status.get("conditions") or ())
    _condition(conditions, "NamesAccepted", *verdict, now)
    if not is_true(crd, "Established"):
        if verdict[0] != "True":
            established = ("False", "NotAccepted", "not all names are accepted")
        else:
            established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
        _condition(conditions, "Established", *established, now)
    if (approval := _approval(crd)) is not None:
        _condition(conditions, "KubernetesAPIApprovalPolicyConformant", *approval, now)
    return {**crd, "status": {**status, "acceptedNames": kept, "conditions": conditions}}


def terminating(crd: Json, reason: str, message: str, now: str, *, going: bool) -> Json:
    """*crd* with what its deletion has come to."""
    conditions = list(crd["status"].get("conditions") or ())
    _condition(conditions, "Terminating", "True" if going else "False", reason, message, now)
    return {**crd, "status": {**crd["status"], "conditions": conditions}}


def _condition(
    conditions: list[Json], kind: str, status: str, reason: str, message: str, now: str
) -> None:
    entry = {
        "lastTransitionTime": now,
        "message": message,
        "reason": reason,
        "status": status,
        "type": kind,
    }
    for index, old in enumerate(conditions):
        if old["type"] == kind:
            if old["status"] == status:
                entry["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[index] = entry
            return
    conditions.append(entry)


def _protected(group: str) -> bool:
    return any(group == tail or group.endswith(f".{tail}") for tail in ("k8s.io", "kubernetes.io"))


def _disapproved(crd: Json, verdict: tuple[str, str, str]) -> Cause:
    field = f"metadata.annotations[{_APPROVED}]"
    if verdict[1] == "MissingAnnotation":
        return required(field, verdict[2])
    annotation = crd["metadata"]["annotations"][_APPROVED]
    return invalid_value(field, annotation, verdict[2])


def _approval(crd: Json) -> tuple[str, str, str] | None:
    if not _protected(crd["spec"]["group"]):
        return None
    annotation = (crd["metadata"].get("annotations") or {}).get(_APPROVED)
    if annotation is None:
        return (
            "False",
            "MissingAnnotation",
            f'protected groups must have approval annotation "{_APPROVED}", see '
            "https://github.com/kubernetes/enhancements/pull/1111",
        )
    if annotation.startswith("unapproved"):
        return "False", "UnapprovedAnnotation", f'not approved: "{annotation}"'
    if annotation.startswith("https://"):
        return "True", "ApprovedAnnotation", f"approved in {annotation}"
    return (
        "False",
        "InvalidAnnotation",
        f'protected groups must have approval annotation "{_APPROVED}" with either a URL or a '
        f'reason starting with "unapproved", see '
        "https://github.com/kubernetes/enhancements/pull/1111",
    )


def served(crd: Json) -> list[Resource]:
    """The resource in each version, unserved ones too; the storage version comes first."""
    spec, names = crd["spec"], crd["status"]["acceptedNames"]
    resources = []
    for version in sorted(spec["versions"], key=lambda version: not version.get("storage")):
        subresources = version.get("subresources") or {}
        resources.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                list_kind=names["listKind"],
                singular=names["singular"],
                namespaced=spec["scope"] == "Namespaced",
                schema=(version.get("schema") or {}).get("openAPIV3Schema") or _FREE,
                custom=True,
                status=subresources.get("status") is not None,
                generations=True,
                unconditional=False,
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                served=bool(version.get("served")),
                verbs=_VERBS,
            )
        )
    return resources
