"""What the server says of itself: version, groups and resources."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from kbind.testing.memory.catalog import Catalog
from kbind.testing.memory.resources import BUILTINS, Resource

Json = dict[str, Any]

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGGREGATED = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}

VERSION: Json = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2-memory",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "memory",
}

_SUBRESOURCE_VERBS = ("get", "patch", "update")
_KUBE = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


def _priority(version: str) -> tuple[int, int, int, str]:
    """Smaller is preferred: v2, v1, v2beta1, v1alpha1, then other names."""
    match = _KUBE.match(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    rank = {None: 0, "beta": 1, "alpha": 2}[stage]
    return (rank, -int(major), -int(minor or 0), version)


def forms(accept: str) -> set[str]:
    """What an Accept header takes discovery in: "aggregated", which goes first, and "plain"."""
    found = set()
    for clause in (accept or "*/*").split(","):
        kind, *rest = (part.strip() for part in clause.split(";"))
        asked = {name.strip(): word.strip() for name, _, word in (p.partition("=") for p in rest)}
        wanted = {name: asked[name] for name in _AGGREGATED if name in asked}
        if wanted == _AGGREGATED and kind == "application/json":
            found.add("aggregated")
        elif not wanted and kind in ("application/json", "application/*", "*/*"):
            found.add("plain")
    return found


def _groups(catalog: Catalog) -> dict[str, list[str]]:
    """The versions of each named group, the preferred one first: the server's own groups, then
    those of CRDs by name."""
    own: dict[str, list[str]] = {}
    custom: dict[str, list[str]] = {}
    for (group, version), resources in catalog.served().items():
        if group:
            groups = custom if resources[0].custom else own
            groups.setdefault(group, []).append(version)
    ordered = own | dict(sorted(custom.items()))
    return {group: sorted(versions, key=_priority) for group, versions in ordered.items()}


def core_versions() -> Json:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}
        ],
    }


def group_list(catalog: Catalog) -> Json:
    own = {resource.group for resource in BUILTINS}

    def place(group: tuple[str, list[str]]) -> str:
        # CRDs come in the order of the names that their versions have as APIServices.
        name, versions = group
        return "" if name in own else min(f"{version}.{name}" for version in versions)

    listed = sorted(_groups(catalog).items(), key=place)
    groups = [_group(name, versions) for name, versions in listed]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group(catalog: Catalog, name: str) -> Json | None:
    versions = _groups(catalog).get(name)
    if versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(catalog: Catalog, name: str, version: str) -> Json | None:
    resources = catalog.served().get((name, version))
    if resources is None:
        return None
    entries: list[Json] = []
    for resource in _sorted(resources):
        entry: Json = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        entry["storageVersionHash"] = _storage_hash(catalog.versions(resource.name)[0])
        entries.append(entry)
        for subresource, kind in _subresources(resource).items():
            entries.append(
                {
                    "name": f"{resource.plural}/{subresource}",
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    **kind,
                    "verbs": list(_SUBRESOURCE_VERBS),
                }
            )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version}" if name else version,
        "resources": entries,
    }


def _sorted(resources: list[Resource]) -> list[Resource]:
    return sorted(resources, key=lambda resource: resource.plural)


def _subresources(resource: Resource) -> dict[str, Json]:
    """Their kinds, by their names."""
    found: dict[str, Json] = {}
    if resource.status:
        found["status"] = {"kind": resource.kind}
    if resource.scale:
        found["scale"] = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    return found


def _storage_hash(resource: Resource) -> str:
    text = f"{resource.group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def aggregated(catalog: Catalog, *, core: bool) -> Json:
    """Everything in one answer, as APIGroupDiscoveryList."""
    served = catalog.served()
    groups = {"": ["v1"]} if core else _groups(catalog)
    items = []
    for name, versions in groups.items():
        listed = [
            {
                "version": version,
                "resources": [
                    _discovered(resource) for resource in _sorted(served[(name, version)])
                ],
                "freshness": "Current",
            }
            for version in versions
        ]
        metadata = {"name": name} if name else {}
        items.append({"metadata": metadata, "versions": listed})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _discovered(resource: Resource) -> Json:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    if not resource.custom:
        # The server leaves these two out for its own kinds.
        kind |= {"group": "", "version": ""}
    entry: Json = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = [
        {
            "subresource": name,
            "responseKind": {**kind, **other},
            "verbs": list(_SUBRESOURCE_VERBS),
        }
        for name, other in _subresources(resource).items()
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry
