"""A provider's definition and the consumer's CRD: which version is kept, what is installed, and
what an installed CRD says about syncing. Pure; objects are JSON values.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbind import words
from kbind.apis import Api
from kbind.copying import same
from kbind.facts import Definition, Local
from kbind.jsons import encode

_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True)
class ExportedApi:
    """One API that a provider offers.

    scope: Namespaced or Cluster. versions: the served ones, a preferred one first or in the order
    of ``version_order``. revision: any text that changes whenever the definition does, so that
    nothing unchanged is read again.
    """

    name: str
    group: str
    resource: str
    scope: str
    versions: tuple[str, ...]
    revision: str

    def as_json(self) -> dict[str, Any]:
        """As it stands in ``Connection.status.exportedAPIs``."""
        return {
            "name": self.name,
            "group": self.group,
            "resource": self.resource,
            "scope": self.scope,
            "versions": list(self.versions),
        }


@dataclass(frozen=True, slots=True)
class Exports:
    """All that a provider offers, as far as it could be read.

    unread: by API name or by group, why it could not be read. What was known of those stands:
    they are not taken for gone.
    """

    apis: tuple[ExportedApi, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Offer:
    """An API's definition as a schema source gives it: a whole CRD object. note: what a user
    should know of it, such as what of the schema could not be kept."""

    crd: Mapping[str, Any]
    definition: Definition
    note: str = ""


def exported(crd: Mapping[str, Any]) -> ExportedApi:
    """What a CRD object offers."""
    spec, metadata = crd["spec"], crd["metadata"]
    return ExportedApi(
        metadata["name"],
        spec["group"],
        spec["names"]["plural"],
        spec["scope"],
        tuple(sorted((v["name"] for v in spec["versions"] if v.get("served")), key=version_order)),
        revision(metadata),
    )


def revision(metadata: Mapping[str, Any]) -> str:
    """A CRD's revision: of this very object, at this version."""
    return f"{metadata['uid']}/{metadata['resourceVersion']}"


def version_order(name: str) -> tuple[int, int, int, str]:
    """A sort key, the highest version first, by the rule of Kubernetes: GA before beta before
    alpha, higher numbers first, anything else last and by name."""
    match = _VERSION.match(name)
    if match is None:
        return (3, 0, 0, name)
    major, stage, minor = match.groups()
    rank = {None: 0, "beta": 1, "alpha": 2}[stage]
    return (rank, -int(major), -int(minor or 0), name)


def kept_version(versions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The one version that is brought over: the storage version if it is served, else the
    highest served one. None where nothing is served."""
    served = [version for version in versions if version.get("served")]
    for version in served:
        if version.get("storage"):
            return version
    return min(served, key=lambda version: version_order(version["name"]), default=None)


def consumer_crd(
    offer: Offer, connection: str, local: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The CRD to install for *offer*, with our markers. local: the one that stands there.

    Versions that *local* has stored stay listed, unserved: a server refuses to forget them.
    None where the provider serves no version.
    """
    given = offer.crd["spec"]
    if offer.definition is Definition.ORIGINAL:
        kept = kept_version(given["versions"])
        if kept is None:
            return None
        versions = [dict(kept) | {"served": True, "storage": True}]
        if given.get("preserveUnknownFields"):
            versions[0]["schema"] = {"openAPIV3Schema": _unpruned(kept)}
    else:
        versions = [dict(version) for version in given["versions"]]
    listed = {version["name"] for version in versions}
    if local is not None:
        stored = set((local.get("status") or {}).get("storedVersions") or ()) - listed
        versions += [
            dict(version) | {"served": False, "storage": False}
            for version in local["spec"]["versions"]
            if version["name"] in stored
        ]
    source = offer.crd["metadata"]
    approved = (source.get("annotations") or {}).get(words.API_APPROVED)
    annotations = {words.CONNECTION: connection}
    if approved is not None:
        annotations[words.API_APPROVED] = approved
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": source["name"],
            "labels": {words.MANAGED: words.TRUE},
            "annotations": annotations,
        },
        "spec": {
            "group": given["group"],
            "names": _names(given["names"]),
            "scope": given["scope"],
            "versions": versions,
            "conversion": {"strategy": "None"},
        },
    }


def _unpruned(version: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a CRD that prunes nothing, as those from before apiextensions.k8s.io/v1 do: in
    that version a schema says so itself, wherever there are objects."""

    def opened(schema: Mapping[str, Any]) -> dict[str, Any]:
        result = dict(schema)
        if schema.get("type") == "object":
            result[_PRESERVE] = True
        for name in ("items", "additionalProperties"):
            if isinstance(schema.get(name), dict):
                result[name] = opened(schema[name])
        if "properties" in schema:
            result["properties"] = {
                name: opened(field) for name, field in schema["properties"].items()
            }
        return result

    given = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    root = opened({"type": "object"} | given)
    if "metadata" in root.get("properties", {}):  # on which a schema has no say
        root["properties"]["metadata"] = given["properties"]["metadata"]
    return root


def _names(given: Mapping[str, Any]) -> dict[str, Any]:
    """With what a server fills in, so that nothing seems to have changed when it has."""
    kind = given["kind"]
    return {"singular": kind.lower(), "listKind": f"{kind}List"} | dict(given)


def local_word(
    local: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None, connection: str
) -> Local:
    """What stands on the consumer under the CRD's name. wanted: what would be installed."""
    if local is None:
        return Local.ABSENT
    metadata = local["metadata"]
    if metadata.get("deletionTimestamp"):
        return Local.GOING
    if not is_managed(local):
        return Local.UNMANAGED
    if connection_of(local) != connection:
        return Local.ELSEWHERE
    if wanted is None or same(local["spec"], wanted["spec"]):
        return Local.HERE_SAME
    return Local.HERE_DIFFERS


def is_managed(crd: Mapping[str, Any]) -> bool:
    """Whether it carries both of our markers."""
    labels = crd["metadata"].get("labels") or {}
    return labels.get(words.MANAGED) == words.TRUE and bool(connection_of(crd))


def connection_of(crd: Mapping[str, Any]) -> str | None:
    """The Connection that a consumer CRD came through."""
    value: str | None = (crd["metadata"].get("annotations") or {}).get(words.CONNECTION)
    return value


def crd_hash(crd: Mapping[str, Any]) -> str:
    """``boundAPIs[].crdHash``: sha256 of the canonical JSON of the spec, its first 16 digits."""
    canonical = encode(crd["spec"], sort=True)
    return hashlib.sha256(canonical).hexdigest()[:16]


def is_established(crd: Mapping[str, Any]) -> bool:
    """Whether the API server serves what an installed CRD defines."""
    return _condition(crd, "Established") == "True"


def objection(crd: Mapping[str, Any]) -> str | None:
    """Why the API server will not serve an installed CRD, in its words; None where it does not
    object. To one that it serves it objects where a name was taken meanwhile: the rest of it is
    as it has to be."""
    for name, bad in (_TAKEN,) if is_established(crd) else _OBJECTIONS:
        if _condition(crd, name) == bad:
            condition = _conditions(crd)[name]
            return f"{condition['reason']}: {condition['message']}"
    return None


_TAKEN = ("NamesAccepted", "False")
_OBJECTIONS = (
    _TAKEN,
    ("KubernetesAPIApprovalPolicyConformant", "False"),
    ("NonStructuralSchema", "True"),
)


def _conditions(crd: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {c["type"]: c for c in (crd.get("status") or {}).get("conditions") or ()}


def _condition(crd: Mapping[str, Any], name: str) -> str:
    return str(_conditions(crd).get(name, {}).get("status", ""))


@dataclass(frozen=True, slots=True)
class Served:
    """How an installed CRD is synced: its API at the version in use, and what its schema keeps."""

    api: Api
    status_subresource: bool
    keeps_synced: bool


def served(crd: Mapping[str, Any]) -> Served | None:
    """How the installed *crd* is synced; None where it serves nothing."""
    spec = crd["spec"]
    version = kept_version(spec["versions"])
    if version is None:
        return None
    api = Api(
        spec["group"],
        version["name"],
        spec["names"]["plural"],
        spec["names"]["kind"],
        spec["scope"] == "Namespaced",
    )
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    has_status = "status" in (version.get("subresources") or {})
    return Served(api, has_status, _keeps_conditions(schema))


_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")


def top_fields(crd: Mapping[str, Any]) -> list[str]:
    """What instances of the installed *crd* may have at the top, beside what every object has,
    at the version in use."""
    version = kept_version(crd["spec"]["versions"])
    schema = ((version or {}).get("schema") or {}).get("openAPIV3Schema") or {}
    return sorted((schema.get("properties") or {}).keys() - _OF_EVERY_OBJECT)


def _keeps_conditions(schema: Mapping[str, Any]) -> bool:
    for name in ("status", "conditions"):
        below = (schema.get("properties") or {}).get(name)
        if below is None:
            return bool(schema.get(_PRESERVE))
        schema = below
    return bool(schema.get("type", "array") == "array")
