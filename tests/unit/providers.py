"""A provider that answers a schema source as the test says, and notes what it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from kbind_sources.discovery import ACCEPT, APIS

from kbind.errors import ClusterError, NotServed

Object = dict[str, Any]
Groups = Mapping[str, Mapping[str, list[Object] | None]]
"""Resources in the words of aggregated discovery, by group and version, the preferred version
first; None for a version whose server does not answer."""

ALL_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def error(kind: type[ClusterError], words: str = "no", status: int | None = None) -> ClusterError:
    return kind(words, side="provider", verb="get", path="/", status=status)


def resource(plural: str = "widgets", kind: str = "Widget", **fields: Any) -> Object:
    """fields: instead of the usual ones."""
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": "Namespaced",
        "singularResource": kind.lower(),
        "verbs": list(ALL_VERBS),
    } | fields


def below(*names: str) -> Object:
    """Subresources, as a field of ``resource``."""
    return {"subresources": [{"subresource": name, "verbs": ["get", "patch"]} for name in names]}


class Provider:
    """answers: by path; an error among them is raised, and what is not there is not served.
    asked: each path, with its query."""

    def __init__(self, groups: Groups | None = None, *, plain: bool = False) -> None:
        self.answers: dict[str, Object | ClusterError] = {}
        self.asked: list[str] = []
        if groups is not None:
            self.offer(groups, plain=plain)

    def offer(self, groups: Groups, *, plain: bool = False) -> None:
        if plain:
            self.answers |= _plain(groups)
        else:
            self.answers[APIS] = _aggregated(groups)

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> Object:
        assert accept == (ACCEPT if path == APIS else None)
        asked = "&".join(f"{name}={value}" for name, value in (query or {}).items())
        self.asked.append(f"{path}?{asked}" if asked else path)
        answer = self.answers.get(path, error(NotServed, f"{path} is not there"))
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    async def items(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> AsyncIterator[Object]:
        raise NotImplementedError
        yield {}


def _aggregated(groups: Groups) -> Object:
    items = []
    for group, versions in groups.items():
        listed = []
        for version, resources in versions.items():
            known = {"freshness": "Stale"} if resources is None else {"freshness": "Current"}
            listed.append(
                {"version": version, **({"resources": resources} if resources else {})} | known
            )
        items.append({"metadata": {"name": group}, "versions": listed})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


def _plain(groups: Groups) -> dict[str, Object | ClusterError]:
    answers: dict[str, Object | ClusterError] = {}
    listed = []
    for group, versions in groups.items():
        named = [{"groupVersion": f"{group}/{name}", "version": name} for name in versions]
        # The preferred version need not be the first that is listed.
        listed.append({"name": group, "versions": named[::-1], "preferredVersion": named[0]})
        for version, resources in versions.items():
            if resources is not None:
                entries = [entry for each in resources for entry in _entries(each)]
                answers[f"{APIS}/{group}/{version}"] = {"resources": entries}
    answers[APIS] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    return answers


def _entries(resource: Object) -> list[Object]:
    entry = {
        "name": resource["resource"],
        "singularName": resource["singularResource"],
        "namespaced": resource["scope"] == "Namespaced",
        "kind": resource["responseKind"]["kind"],
        "verbs": resource["verbs"],
        "shortNames": resource.get("shortNames"),
        "categories": resource.get("categories"),
    }
    subresources = [
        entry | {"name": f"{entry['name']}/{it['subresource']}", "verbs": it["verbs"]}
        for it in resource.get("subresources", ())
    ]
    return [entry, *subresources]
