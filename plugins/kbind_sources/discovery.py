"""What a provider's discovery tells of its APIs.

Aggregated discovery is one request. A server that does not know it answers the same request with
its groups alone, and each of their versions is one more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kbind.errors import ClusterError, SchemaSourceError, Unauthorized
from kbind.hooks import ProviderReader

APIS: Final = "/apis"

ACCEPT: Final = ",".join(
    (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    )
)

AT_ONCE: Final = 8  # reads of plain discovery, so that a slow group does not hold up the others

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(_LABEL)
_GROUP: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NEEDED: Final = frozenset({"get", "list", "watch"})
_SCOPES: Final = {True: "Namespaced", False: "Cluster"}  # by whether it is namespaced


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource at one version, as discovery shows it.

    singular: "" where discovery gives none. status, scale: whether it has that subresource.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: bool = False


@dataclass(frozen=True, slots=True)
class Discovered:
    """apis: by name (``<plural>.<group>``) the versions that serve it, the preferred one first;
    only what can be read, listed and watched. unread: by API name or group, why nothing certain
    is known of it; nothing of it is among the apis. groups: all that were listed."""

    apis: Mapping[str, tuple[Resource, ...]]
    unread: Mapping[str, str]
    groups: frozenset[str]


async def discover(provider: ProviderReader, wanted: Callable[[str], bool]) -> Discovered:
    """The APIs of the groups that are *wanted*. Raises ClusterError where discovery does not
    answer, SchemaSourceError where the answer is something else or does not name its groups."""
    answer = await provider.get(APIS, accept=ACCEPT)
    kind = answer.get("kind")
    if kind == "APIGroupDiscoveryList":
        return parse(_named(answer, "items", wanted))
    if kind == "APIGroupList":
        return await _one_by_one(provider, _named(answer, "groups", wanted))
    raise SchemaSourceError(f"the provider answers {APIS} with kind {kind!r}, not with its groups")


def parse(groups: Iterable[tuple[str, Any]]) -> Discovered:
    """groups: by name, each an APIGroupDiscovery."""
    apis: dict[str, list[Resource]] = {}
    unread: dict[str, str] = {}
    seen: set[str] = set()
    for name, group in groups:
        try:
            if name in seen:
                raise _Malformed("the group is listed twice")
            seen.add(name)
            for resource in _resources(name, group, unread):
                apis.setdefault(f"{resource.plural}.{name}", []).append(resource)
        except _Malformed as error:
            unread[name] = str(error)
    for api, versions in apis.items():
        if objection := _objection(versions):
            unread[api] = objection
    read = {
        api: tuple(versions)
        for api, versions in apis.items()
        if api not in unread and versions[0].group not in unread
    }
    return Discovered(read, unread, frozenset(seen))


class _Malformed(Exception):
    """What is not as discovery says such things, or says nothing."""


def _named(answer: Mapping[str, Any], field: str, wanted: Callable[[str], bool]) -> list[Any]:
    """The groups of an answer with their names. One without a name could be any of those that
    are known, so that nothing certain is left: raises SchemaSourceError."""
    named = []
    try:
        if answer.get(field) is None:
            raise _Malformed(f"{field} is missing")
        for group in _objects(answer, field):
            name = _text(group if field == "groups" else _object(group, "metadata"), "name")
            if wanted(name):
                named.append((name, group))
    except _Malformed as error:
        raise SchemaSourceError(f"the provider's answer to {APIS} is malformed: {error}") from None
    return named


def _resources(
    group: str, discovered: Mapping[str, Any], unread: dict[str, str]
) -> Iterable[Resource]:
    """What one group offers, version by version; APIs that are malformed go to *unread*. Raises
    _Malformed for what may be any API of the group."""
    _check_name(group, _GROUP)
    versions = _objects(discovered, "versions")
    if not versions:
        raise _Malformed("no versions are listed")
    for listed in versions:
        version = _check_name(_text(listed, "version"))
        if listed.get("freshness") == "Stale":
            raise _Malformed(f"version {version}: the server behind it does not answer")
        entries = _objects(listed, "resources")
        if not entries:
            # So does a server answer whose own list is not complete yet.
            raise _Malformed(f"version {version}: no resources are listed")
        for entry in entries:
            plural = _check_name(_text(entry, "resource"))
            try:
                if set(_texts(entry, "verbs")) >= _NEEDED:
                    yield _resource(group, version, plural, entry)
            except _Malformed as error:
                unread[f"{plural}.{group}"] = f"version {version}: {error}"


def _resource(group: str, version: str, plural: str, entry: Mapping[str, Any]) -> Resource:
    scope = _text(entry, "scope")
    if scope not in _SCOPES.values():
        raise _Malformed(f"scope is {scope!r}")
    below = {_text(it, "subresource") for it in _objects(entry, "subresources")}
    return Resource(
        group,
        version,
        plural,
        _text(_object(entry, "responseKind"), "kind"),
        scope == _SCOPES[True],
        _text(entry, "singularResource", ""),
        _texts(entry, "shortNames"),
        _texts(entry, "categories"),
        "status" in below,
        "scale" in below,
    )


def _objection(versions: list[Resource]) -> str | None:
    """Why the versions of one API cannot be one API."""
    first = versions[0]
    seen: set[str] = set()
    for resource in versions:
        if resource.version in seen:
            return f"version {resource.version}: two resources have this name"
        seen.add(resource.version)
        for what, one, other in (
            ("kind", first.kind, resource.kind),
            ("scope", _SCOPES[first.namespaced], _SCOPES[resource.namespaced]),
        ):
            if one != other:
                return (
                    f"its {what} is {one} at version {first.version} "
                    f"and {other} at version {resource.version}"
                )
    return None


# --- plain discovery ---------------------------------------------------------------------------


async def _one_by_one(provider: ProviderReader, groups: list[Any]) -> Discovered:
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(name: str, group: Mapping[str, Any]) -> dict[str, Any] | Exception:
        try:
            _check_name(name, _GROUP)
            versions = []
            for version in _versions(group):
                async with gate:
                    listed = await provider.get(f"{APIS}/{name}/{version}")
                versions.append({"version": version, "resources": _entries(listed)})
        except (ClusterError, _Malformed) as error:
            return error
        return {"versions": versions}

    answers = await asyncio.gather(*(read(name, group) for name, group in groups))
    told: list[tuple[str, Any]] = []
    unread: dict[str, str] = {}
    for (name, _), answer in zip(groups, answers, strict=True):
        if isinstance(answer, Unauthorized):
            raise answer  # true of all groups
        if isinstance(answer, Exception):
            unread[name] = str(answer)
        else:
            told.append((name, answer))
    found = parse(told)
    listed = frozenset(name for name, _ in groups)
    return Discovered(found.apis, {**found.unread, **unread}, listed)


def _versions(group: Mapping[str, Any]) -> list[str]:
    """Of an APIGroup, the preferred one first."""
    versions = [_check_name(_text(it, "version")) for it in _objects(group, "versions")]
    preferred = _text(_object(group, "preferredVersion"), "version")
    return sorted(versions, key=lambda version: version != preferred)


def _entries(listed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The resources of an APIResourceList, in the words of aggregated discovery."""
    entries: list[dict[str, Any]] = []
    below: dict[str, list[dict[str, str]]] = {}
    for resource in _objects(listed, "resources"):
        name, _, subresource = _text(resource, "name").partition("/")
        if subresource:
            below.setdefault(name, []).append({"subresource": subresource})
            continue
        namespaced = resource.get("namespaced")
        entries.append(
            {
                "resource": name,
                "responseKind": {"kind": resource.get("kind")},
                "scope": _SCOPES[namespaced] if isinstance(namespaced, bool) else None,
                "singularResource": resource.get("singularName"),
                "verbs": resource.get("verbs"),
                "shortNames": resource.get("shortNames"),
                "categories": resource.get("categories"),
                "subresources": below.setdefault(name, []),
            }
        )
    return entries


# --- values of an answer -----------------------------------------------------------------------


def _object(obj: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = obj.get(field)
    if isinstance(value, dict):
        return value
    raise _Malformed(f"{field} is missing" if value is None else f"{field} is no object")


def _objects(obj: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    """A list that may be absent. An empty list of Go may be null."""
    value = obj.get(field)
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    raise _Malformed(f"{field} is no list of objects")


def _text(obj: Mapping[str, Any], field: str, default: str | None = None) -> str:
    """default: where a text may be absent or empty."""
    value = obj.get(field) or default
    if isinstance(value, str):
        return value
    raise _Malformed(f"{field} is no text" if value else f"{field} is missing")


def _texts(obj: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """A list that may be absent."""
    value = obj.get(field)
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _Malformed(f"{field} is no list of texts")


def _check_name(name: str, shape: re.Pattern[str] = _NAME) -> str:
    if shape.fullmatch(name):
        return name
    raise _Malformed(f"{name[:80]!r} is no name")
