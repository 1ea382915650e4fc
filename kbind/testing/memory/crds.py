"""CustomResourceDefinitions: their defaults, accepted names, and what they serve."""

from __future__ import annotations

from typing import Any

from kbind.testing.memory import jsonschemas
from kbind.testing.memory.resources import Resource

Json = dict[str, Any]

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
APPROVED = "api-approved.kubernetes.io"
# What a version and its entries always have.
_ALWAYS = ("name", "served", "storage", "type", "jsonPath")
# In the order in which the server lists them for custom resources.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
# What preserves everything, for versions that give no schema.
_FREE: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def decode(crd: Json) -> Json:
    """*crd* with the server's defaults, and without what its type does not keep."""
    spec = {"group": "", "scope": "", "versions": None, **_kept(crd.get("spec") or {})}
    names = {"plural": "", "kind": "", **_kept(spec.get("names") or {})}
    if names["kind"]:
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec["names"] = names
    if spec.get("versions"):
        spec["versions"] = [_decode_version(version) for version in spec["versions"]]
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service:
        service.setdefault("port", 443)
    return {**crd, "spec": spec}


def _kept(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value or name == "versions"}


def _decode_version(version: Json) -> Json:
    version = {"name": "", "served": False, "storage": False, **version}
    found = {name: version[name] for name in version if name in _ALWAYS or _says(version[name])}
    for name in ("additionalPrinterColumns", "selectableFields"):
        if name in found:
            found[name] = [
                {key: value for key, value in entry.items() if key in _ALWAYS or value}
                for entry in found[name]
            ]
    schema = (found.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        found["schema"] = {"openAPIV3Schema": jsonschemas.decode(schema)}
    return found


def _says(value: Any) -> bool:
    """Would the server's type keep it? An object that is there says something by itself."""
    return bool(value) or isinstance(value, dict)


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
    if (of_group := approval(crd)) is not None:
        _condition(conditions, "KubernetesAPIApprovalPolicyConformant", *of_group, now)
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


def approval(crd: Json) -> tuple[str, str, str] | None:
    """Status, reason and message of the approval of a CRD's group, None where it needs none."""
    if not _protected(crd["spec"]["group"]):
        return None
    annotation = (crd["metadata"].get("annotations") or {}).get(APPROVED)
    if annotation is None:
        return (
            "False",
            "MissingAnnotation",
            f'protected groups must have approval annotation "{APPROVED}", see '
            "https://github.com/kubernetes/enhancements/pull/1111",
        )
    if annotation.startswith("unapproved"):
        return "False", "UnapprovedAnnotation", f'not approved: "{annotation}"'
    if annotation.startswith("https://"):
        return "True", "ApprovedAnnotation", f"approved in {annotation}"
    return (
        "False",
        "InvalidAnnotation",
        f'protected groups must have approval annotation "{APPROVED}" with either a URL or a '
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
                scale=subresources.get("scale") is not None,
                generations=True,
                unconditional=False,
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                selectable=tuple(
                    entry["jsonPath"] for entry in version.get("selectableFields") or ()
                ),
                served=bool(version.get("served")),
                verbs=_VERBS,
            )
        )
    return resources
