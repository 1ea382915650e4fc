"""What discovery tells, in both of its forms; what it does not tell is named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
from kbind_sources.discovery import APIS, Discovered, Resource, discover

from kbind.errors import (
    ClusterError,
    Forbidden,
    NotServed,
    SchemaSourceError,
    ServerFailed,
    Unauthorized,
    Unreachable,
)
from tests.unit.providers import Groups, Object, Provider, below, error, resource


@pytest.fixture(params=["aggregated", "plain"])
def plain(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "plain")


async def told(provider: Provider) -> Discovered:
    return await discover(provider, lambda group: True)


def names(found: Discovered) -> set[str]:
    return set(found.apis)


GADGETS: Groups = {"other.io": {"v1": [resource("gadgets", "Gadget")]}}


async def test_an_api_is_told_with_its_versions_the_preferred_one_first(plain: bool) -> None:
    widgets = resource(
        shortNames=["wd", "wdg"], categories=["all"], **below("status", "scale", "other")
    )
    found = await told(
        Provider(
            {
                "example.org": {
                    "v1": [widgets, resource("boxes", "Box", scope="Cluster", singularResource="")],
                    "v2alpha1": [resource()],
                },
                **GADGETS,
            },
            plain=plain,
        )
    )
    group = "example.org"
    assert found == Discovered(
        {
            "widgets.example.org": (
                Resource(
                    group, "v1", "widgets", "Widget", True, "widget", ("wd", "wdg"), ("all",),
                    status=True, scale=True,
                ),
                Resource(group, "v2alpha1", "widgets", "Widget", True, "widget"),
            ),
            "boxes.example.org": (Resource(group, "v1", "boxes", "Box", False),),
            "gadgets.other.io": (Resource("other.io", "v1", "gadgets", "Gadget", True, "gadget"),),
        },
        {},
        frozenset({"example.org", "other.io"}),
    )  # fmt: skip


async def test_only_what_can_be_read_listed_and_watched_is_an_api(plain: bool) -> None:
    found = await told(
        Provider(
            {
                "example.org": {
                    "v1": [
                        resource("widgetreviews", "WidgetReview", verbs=["create"]),
                        resource("ledgers", "Ledger", verbs=["get", "list", "create"]),
                        resource("shadows", "Shadow", verbs=None),
                        resource("logs", "Log", verbs=["get", "list", "watch"]),
                    ]
                }
            },
            plain=plain,
        )
    )
    assert (names(found), found.unread) == ({"logs.example.org"}, {})


async def test_a_subresource_without_its_resource_is_no_api() -> None:
    orphan = {"resource": "pods", "responseKind": {"kind": ""}, **below("metrics")}
    found = await told(Provider({"example.org": {"v1": [resource(), orphan]}}))
    assert (names(found), found.unread) == ({"widgets.example.org"}, {})

    provider = Provider({"example.org": {"v1": [resource()]}}, plain=True)
    listed: Any = provider.answers[f"{APIS}/example.org/v1"]
    listed["resources"].append(listed["resources"][0] | {"name": "pods/metrics"})
    found = await told(provider)
    assert (names(found), found.unread) == ({"widgets.example.org"}, {})


async def test_groups_that_nobody_wants_are_not_looked_at(plain: bool) -> None:
    provider = Provider(
        {
            "example.org": {"v1": [resource()], "v1beta1": [resource()]},
            "dead.example.com": {"v1": None},
            **GADGETS,
        },
        plain=plain,
    )
    found = await discover(provider, {"example.org"}.__contains__)
    assert (names(found), found.unread) == ({"widgets.example.org"}, {})
    versions = [f"{APIS}/example.org/{version}" for version in ("v1", "v1beta1")]
    assert provider.asked == [APIS, *(versions if plain else ())]


# --- what is not known ---------------------------------------------------------------------------


async def test_a_group_of_a_server_that_does_not_answer_is_unread(plain: bool) -> None:
    groups = {"example.org": {"v1": [resource()], "v1beta1": None}, **GADGETS}
    found = await told(Provider(groups, plain=plain))
    # At which versions widgets are served is not known, though one of them is.
    assert names(found) == {"gadgets.other.io"}
    assert list(found.unread) == ["example.org"]
    assert ("v1beta1: the server behind it does not answer" in found.unread["example.org"]) != plain
    assert ("/apis/example.org/v1beta1 is not there" in found.unread["example.org"]) == plain


async def test_a_group_whose_version_lists_no_resources_is_unread(plain: bool) -> None:
    found = await told(Provider({"example.org": {"v1": []}, **GADGETS}, plain=plain))
    assert names(found) == {"gadgets.other.io"}
    assert found.unread == {"example.org": "version v1: no resources are listed"}


@pytest.mark.parametrize("kind", [ServerFailed, NotServed, Forbidden, Unreachable])
async def test_a_version_that_cannot_be_read_is_told_in_the_servers_words(
    kind: type[ClusterError],
) -> None:
    provider = Provider({"example.org": {"v1": [resource()]}, **GADGETS}, plain=True)
    provider.answers[f"{APIS}/example.org/v1"] = error(kind, "the server's words")
    found = await told(provider)
    assert names(found) == {"gadgets.other.io"}
    assert found.unread == {"example.org": "the server's words"}


async def test_a_credential_that_is_refused_half_way_is_no_answer() -> None:
    provider = Provider({"example.org": {"v1": [resource()]}, **GADGETS}, plain=True)
    provider.answers[f"{APIS}/example.org/v1"] = error(Unauthorized)
    with pytest.raises(Unauthorized):
        await told(provider)


@pytest.mark.parametrize("kind", [Forbidden, Unauthorized, Unreachable, ServerFailed, NotServed])
async def test_discovery_that_fails_as_a_whole_is_no_answer(kind: type[ClusterError]) -> None:
    provider = Provider()
    provider.answers[APIS] = error(kind)
    with pytest.raises(kind):
        await told(provider)


async def test_a_slow_group_holds_up_no_other() -> None:
    class Slow(Provider):
        """Answers for the first group once the last has been asked for."""

        last = asyncio.Event()

        async def get(
            self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
        ) -> Object:
            if path == f"{APIS}/first.io/v1":
                await self.last.wait()
            if path == f"{APIS}/last.io/v1":
                self.last.set()
            return await super().get(path, query=query, accept=accept)

    groups = {f"{name}.io": {"v1": [resource()]} for name in ("first", "second", "last")}
    async with asyncio.timeout(10):
        found = await told(Slow(groups, plain=True))
    assert names(found) == {f"widgets.{group}" for group in groups}


@pytest.mark.parametrize(
    ("versions", "why"),
    [
        (
            {"v1": [resource(), resource(kind="Other")]},
            "version v1: two resources have this name",
        ),
        (
            {"v1": [resource()], "v1beta1": [resource(kind="OldWidget")]},
            "its kind is Widget at version v1 and OldWidget at version v1beta1",
        ),
        (
            {"v1": [resource()], "v1beta1": [resource(scope="Cluster")]},
            "its scope is Namespaced at version v1 and Cluster at version v1beta1",
        ),
    ],
    ids=["twice", "kind", "scope"],
)
async def test_resources_that_are_no_one_api_are_unread_by_their_name(
    versions: dict[str, list[Object] | None], why: str, plain: bool
) -> None:
    boxes = resource("boxes", "Box")
    groups = {"example.org": {v: [*(rs or ()), boxes] for v, rs in versions.items()}}
    found = await told(Provider(groups, plain=plain))
    assert names(found) == {"boxes.example.org"}
    assert found.unread == {"widgets.example.org": why}


# --- what is malformed ---------------------------------------------------------------------------

WIDGETS = "widgets.example.org"
GROUP = "example.org"


@pytest.mark.parametrize(
    ("at", "value", "unread", "why"),
    [
        ("versions.0.resources.0.responseKind", None, WIDGETS, "responseKind is missing"),
        ("versions.0.resources.0.responseKind", [], WIDGETS, "responseKind is no object"),
        ("versions.0.resources.0.responseKind.kind", "", WIDGETS, "kind is missing"),
        ("versions.0.resources.0.responseKind.kind", 7, WIDGETS, "kind is no text"),
        ("versions.0.resources.0.scope", "Everywhere", WIDGETS, "scope is 'Everywhere'"),
        ("versions.0.resources.0.verbs", "get", WIDGETS, "verbs is no list of texts"),
        ("versions.0.resources.0.verbs", [["get"]], WIDGETS, "verbs is no list of texts"),
        ("versions.0.resources.0.shortNames", {}, WIDGETS, "shortNames is no list of texts"),
        ("versions.0.resources.0.subresources", [7], WIDGETS, "subresources is no list of objects"),
        ("versions.0.resources.0.subresources", [{}], WIDGETS, "subresource is missing"),
        ("versions.0.resources.0.resource", None, GROUP, "resource is missing"),
        ("versions.0.resources.0.resource", "../pods", GROUP, "'../pods' is no name"),
        ("versions.0.resources.0.resource", "a.b", GROUP, "'a.b' is no name"),
        ("versions.0.resources.0", "widgets", GROUP, "resources is no list of objects"),
        ("versions.0.resources", 7, GROUP, "resources is no list of objects"),
        ("versions.0.version", None, GROUP, "version is missing"),
        ("versions.0.version", "v1?x", GROUP, "'v1?x' is no name"),
        ("versions.0", None, GROUP, "versions is no list of objects"),
        ("versions", {}, GROUP, "versions is no list of objects"),
        ("versions", None, GROUP, "no versions are listed"),
    ],
)
async def test_what_is_malformed_is_unread_by_the_narrowest_name(
    at: str, value: Any, unread: str, why: str
) -> None:
    provider = Provider(
        {GROUP: {"v1": [resource(**below("status")), resource("boxes", "Box")]}, **GADGETS}
    )
    put(provider.answers[APIS], ["items", 0, *steps(at)], value)
    found = await told(provider)
    boxes = set() if unread == GROUP else {"boxes.example.org"}
    assert names(found) == {"gadgets.other.io", *boxes}
    assert list(found.unread) == [unread]
    assert found.unread[unread].endswith(why)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ("items.0", "a group"),
        ("items.0.metadata", None),
        ("items.0.metadata.name", ""),
        ("items.0.metadata.name", 7),
        ("items", "all of them"),
        ("items", None),
        ("kind", "Status"),
        ("kind", None),
        ("kind", ["APIGroupList"]),
    ],
)
async def test_nothing_is_told_where_a_group_has_no_name(at: str, value: Any) -> None:
    provider = Provider({GROUP: {"v1": [resource()]}, **GADGETS})
    put(provider.answers[APIS], steps(at), value)
    with pytest.raises(SchemaSourceError, match="the provider"):
        await told(provider)


async def test_a_group_of_an_impossible_name_is_never_asked_about(plain: bool) -> None:
    provider = Provider({"../x": {"v1": [resource()]}, **GADGETS}, plain=plain)
    found = await told(provider)
    assert names(found) == {"gadgets.other.io"}
    assert found.unread == {"../x": "'../x' is no name"}
    assert not any("x" in path for path in provider.asked)


async def test_a_group_that_is_listed_twice_is_unread() -> None:
    provider = Provider({GROUP: {"v1": [resource()]}, **GADGETS})
    answer: Any = provider.answers[APIS]
    answer["items"].append(answer["items"][0])
    found = await told(provider)
    assert names(found) == {"gadgets.other.io"}
    assert found.unread == {GROUP: "the group is listed twice"}


async def test_whatever_is_malformed_other_groups_go_on_and_nothing_is_passed_over(
    plain: bool,
) -> None:
    """Each value of what tells of one group is replaced by others, one at a time."""
    groups = {GROUP: {"v1": [resource(shortNames=["wd"], **below("status"))]}, **GADGETS}
    sound = Provider(groups, plain=plain)
    tried = 0
    for place in (APIS, f"{APIS}/{GROUP}/v1") if plain else (APIS,):
        root: Any = sound.answers[place]
        for path in paths(root):
            if path[1:2] == [1]:
                continue  # the other group
            for value in (None, 7, True, "", "odd one", "/", [], [7], ["odd"], {}, {"name": 7}):
                broken = Provider()
                broken.answers = {**sound.answers, place: deepcopy(root)}
                put(broken.answers[place], path, value)
                tried += 1
                try:
                    found = await told(broken)
                except SchemaSourceError:
                    assert path[-1] in ("kind", "items", "groups", "metadata", "name", 0)
                    continue
                if path[0] in ("items", "groups") and len(path) == 1:
                    assert value == []  # which is how no groups are told
                    continue
                assert "gadgets.other.io" in found.apis
                assert (
                    "verbs" in path
                    or "name" in path
                    or WIDGETS in found.apis
                    or ({WIDGETS, GROUP} & found.unread.keys())
                ), f"{path} = {value!r}"
    assert tried > 200


def steps(at: str) -> list[str | int]:
    return [int(step) if step.isdigit() else step for step in at.split(".")]


def put(obj: Any, path: list[str | int], value: Any) -> None:
    for step in path[:-1]:
        obj = obj[step]
    obj[path[-1]] = value


def paths(value: Any, to: tuple[str | int, ...] = ()) -> Iterator[list[str | int]]:
    """Every place in a JSON value."""
    if to:
        yield list(to)
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*to, step))
