"""The schema source CRD: what is labelled, looked up in discovery until it is settled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from kbind_sources.crd import CRDS, METADATA_ONLY, CrdSource
from kbind_sources.discovery import APIS

from kbind import words
from kbind.errors import (
    ClusterError,
    Forbidden,
    NotFound,
    NotServed,
    SchemaSourceError,
    ServerFailed,
    Unauthorized,
    Unreachable,
)
from kbind.facts import Definition
from tests.unit import providers
from tests.unit.providers import Object, error, resource


def crd(plural: str = "widgets", version: int = 1, **metadata: Any) -> Object:
    name = f"{plural}.example.org"
    return {
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)} | metadata,
        "spec": {
            "group": "example.org",
            "names": {"plural": plural, "kind": plural.title()},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }


def serving(it: Object, *versions: str) -> Object:
    listed = [{"name": name, "served": True, "storage": False} for name in versions]
    return it | {"spec": it["spec"] | {"versions": listed}}


class Provider(providers.Provider):
    """Serves CRDs, lists their metadata, discovers what they define, and notes what is asked:
    "list", APIS, or the name of a CRD."""

    def __init__(self, *crds: Object) -> None:
        super().__init__()
        self.crds = {it["metadata"]["name"]: it for it in crds}
        self.unlisted: set[str] = set()
        self.unserved: set[str] = set()
        self.fails: ClusterError | None = None
        self.discover()

    def put(self, it: Object) -> None:
        self.crds[it["metadata"]["name"]] = it

    def discover(self) -> None:
        """Discovery catches up with the CRDs."""
        versions: dict[str, list[Object]] = {}
        for name in self.crds.keys() - self.unserved:
            spec = self.crds[name]["spec"]
            names = spec["names"]
            for it in spec["versions"]:
                found = resource(names["plural"], names["kind"], scope=spec["scope"])
                versions.setdefault(it["name"], []).append(found)
        self.offer({"example.org": versions} if versions else {})

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> Object:
        if self.fails is not None:
            raise self.fails
        if path == APIS:
            return await super().get(path, query=query, accept=accept)
        name = path.removeprefix(f"{CRDS}/")
        self.asked.append(name)
        if name in self.answers:
            answer = self.answers[name]
            if isinstance(answer, ClusterError):
                raise answer
            return answer
        if name not in self.crds or name in self.unlisted:
            raise error(NotFound)
        return self.crds[name]

    async def items(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> AsyncIterator[Object]:
        assert (path, accept) == (CRDS, METADATA_ONLY)
        assert query == {"labelSelector": f"{words.EXPORTED}=true"}
        self.asked.append("list")
        for it in self.crds.values():
            yield {"metadata": it["metadata"]}
            if self.fails is not None:
                raise self.fails


async def names(source: CrdSource) -> list[str]:
    return [api.resource for api in (await source.exports()).apis]


async def settled(provider: Provider) -> CrdSource:
    """A source that has seen all there is, twice."""
    source = CrdSource(provider)
    await source.exports()
    await source.exports()
    provider.asked.clear()
    return source


async def test_exports_are_told_by_name() -> None:
    source = CrdSource(Provider(crd("widgets"), crd("gadgets")))
    exports = (await source.exports()).apis
    assert [api.name for api in exports] == ["gadgets.example.org", "widgets.example.org"]
    assert exports[0].versions == ("v1",)


async def test_no_crd_is_read_whole_before_it_is_wanted() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    source = CrdSource(provider)
    first = await source.exports()
    assert provider.asked == ["list", APIS]
    assert await source.exports() == first


async def test_at_rest_one_request_is_made() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    source = await settled(provider)
    before = await source.exports()
    assert await source.exports() == before
    assert provider.asked == ["list"] * 2


@pytest.mark.parametrize("change", [{"version": 2}, {"uid": "made anew"}])
async def test_what_changed_is_looked_up_in_this_pass_and_the_next(change: Object) -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    source = await settled(provider)
    before = (await source.exports()).apis
    provider.put(crd("widgets", **change))
    provider.asked.clear()
    after = (await source.exports()).apis
    assert [b == a for b, a in zip(before, after, strict=True)] == [True, False]
    assert [(await source.exports()).apis for _ in range(2)] == [after] * 2
    assert provider.asked == ["list", APIS] * 2 + ["list"]


async def test_discovery_that_lags_behind_is_caught_up_with() -> None:
    provider = Provider(crd("widgets"))
    source = await settled(provider)
    provider.put(serving(crd("widgets", 2), "v1", "v2"))
    (seen,) = (await source.exports()).apis
    assert seen.versions == ("v1",)
    provider.discover()
    (seen,) = (await source.exports()).apis
    assert seen.versions == ("v2", "v1")


async def test_versions_stand_in_the_order_of_kubernetes_however_they_were_found() -> None:
    provider = Provider(serving(crd("widgets"), "v1alpha1", "v10", "v2beta1", "v2"))
    in_order = ("v10", "v2", "v2beta1", "v1alpha1")
    (discovered,) = (await CrdSource(provider).exports()).apis
    provider.unserved.add("widgets.example.org")
    provider.discover()
    (read,) = (await CrdSource(provider).exports()).apis
    assert discovered == read
    assert read.versions == in_order


async def test_a_crd_that_discovery_does_not_list_is_read_whole_once() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    provider.unserved.add("widgets.example.org")
    provider.discover()
    source = CrdSource(provider)
    exports = await source.exports()
    assert [api.versions for api in exports.apis] == [("v1",), ("v1",)]
    assert provider.asked == ["list", APIS, "widgets.example.org"]
    provider.asked.clear()
    assert await source.exports() == exports
    assert provider.asked == ["list", APIS]  # gadgets, for the second time


async def test_a_crd_of_a_group_that_is_unread_is_read_whole() -> None:
    provider = Provider(crd("widgets"))
    provider.offer({"example.org": {"v1": None}})
    (api,) = (await CrdSource(provider).exports()).apis
    assert api.versions == ("v1",)
    assert provider.asked == ["list", APIS, "widgets.example.org"]


async def test_what_is_gone_or_going_is_not_exported() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"), crd("rockets", deletionTimestamp="now"))
    source = CrdSource(provider)
    assert await names(source) == ["gadgets", "widgets"]
    del provider.crds["gadgets.example.org"]
    provider.put(crd("widgets", deletionTimestamp="now"))
    assert await names(source) == []
    provider.put(crd("widgets", 3))
    assert await names(source) == ["widgets"]


async def test_the_last_one_that_is_going_is_not_taken_for_none() -> None:
    provider = Provider(crd("widgets"))
    source = CrdSource(provider)
    await source.exports()
    provider.put(crd("widgets", deletionTimestamp="now"))
    exports = await source.exports()
    assert (exports.apis, set(exports.unread)) == ((), {"widgets.example.org"})
    del provider.crds["widgets.example.org"]
    exports = await source.exports()
    assert (exports.apis, exports.unread) == ((), {})


async def test_what_goes_between_the_list_and_the_read_is_passed_over() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    provider.unlisted.add("widgets.example.org")
    provider.unserved.add("widgets.example.org")
    provider.discover()
    exports = await CrdSource(provider).exports()
    assert ([api.resource for api in exports.apis], exports.unread) == (["gadgets"], {})


@pytest.mark.parametrize("kind", [Forbidden, NotServed, Unreachable])
async def test_a_list_that_fails_half_way_is_no_answer_and_forgets_nothing(
    kind: type[ClusterError],
) -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    source = await settled(provider)
    provider.fails = error(kind)
    with pytest.raises(kind):
        await source.exports()
    provider.fails = None
    provider.asked.clear()
    await source.exports()
    assert provider.asked == ["list"]


@pytest.mark.parametrize("kind", [Forbidden, NotServed, Unreachable, ServerFailed])
async def test_discovery_that_fails_is_no_answer_and_forgets_nothing(
    kind: type[ClusterError],
) -> None:
    provider = Provider(crd("widgets"))
    source = await settled(provider)
    provider.put(crd("gadgets"))
    provider.answers[APIS] = error(kind)
    with pytest.raises(kind):
        await source.exports()
    provider.discover()
    assert await names(source) == ["gadgets", "widgets"]


@pytest.mark.parametrize("kind", [Forbidden, ServerFailed, Unreachable])
async def test_a_crd_that_cannot_be_read_is_unread_and_others_go_on(
    kind: type[ClusterError],
) -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    provider.unserved.add("widgets.example.org")
    provider.discover()
    provider.answers["widgets.example.org"] = error(kind, "the server's words")
    source = CrdSource(provider)
    for _ in range(2):
        exports = await source.exports()
        assert [api.resource for api in exports.apis] == ["gadgets"]
        assert exports.unread == {"widgets.example.org": "the server's words"}
    del provider.answers["widgets.example.org"]
    assert await names(source) == ["gadgets", "widgets"]


async def test_a_credential_that_is_refused_half_way_is_no_answer() -> None:
    provider = Provider(crd("widgets"))
    provider.offer({})
    provider.answers["widgets.example.org"] = error(Unauthorized)
    with pytest.raises(Unauthorized):
        await CrdSource(provider).exports()


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({}, "'spec' is missing"),
        ({"metadata": {}, "spec": {}}, "'name' is missing"),
        ({"metadata": "none", "spec": None}, ""),
        (crd() | {"spec": {"group": "example.org"}}, "'names' is missing"),
        (crd() | {"spec": crd()["spec"] | {"versions": "all"}}, ""),
    ],
)
async def test_a_crd_that_is_malformed_is_unread_and_others_go_on(
    broken: Object, said: str
) -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    provider.unserved.add("widgets.example.org")
    provider.discover()
    provider.answers["widgets.example.org"] = broken
    exports = await CrdSource(provider).exports()
    assert [api.resource for api in exports.apis] == ["gadgets"]
    assert list(exports.unread) == ["widgets.example.org"]
    assert exports.unread["widgets.example.org"].startswith(f"the CRD is malformed: {said}")


async def test_a_crd_without_a_revision_is_unread_and_others_go_on() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    del provider.crds["widgets.example.org"]["metadata"]["uid"]
    exports = await CrdSource(provider).exports()
    assert [api.resource for api in exports.apis] == ["gadgets"]
    said = "the CRD's metadata is malformed: 'uid' is missing"
    assert exports.unread == {"widgets.example.org": said}


@pytest.mark.parametrize("metadata", [None, "widgets", {}, {"name": None}, {"name": 7}])
async def test_a_list_with_a_crd_without_a_name_is_no_answer(metadata: Any) -> None:
    provider = Provider(crd("gadgets"))
    provider.crds["widgets.example.org"] = {"metadata": metadata}
    with pytest.raises(SchemaSourceError, match="has no name"):
        await CrdSource(provider).exports()


async def test_a_definition_is_the_whole_crd_as_it_is_now() -> None:
    provider = Provider(crd("widgets"))
    source = CrdSource(provider)
    await source.exports()
    provider.put(crd("widgets", 2))
    offer = await source.definition("widgets.example.org")
    assert offer is not None
    assert offer.definition is Definition.ORIGINAL
    assert offer.crd == crd("widgets", 2)
    assert await source.definition("nothing.example.org") is None


async def test_a_definition_that_cannot_be_read_is_not_gone() -> None:
    provider = Provider(crd("widgets"))
    provider.fails = error(Forbidden)
    with pytest.raises(Forbidden):
        await CrdSource(provider).definition("widgets.example.org")
