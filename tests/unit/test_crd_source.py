"""The schema source CRD: what is labelled, read once until it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from kbind_sources.crd import CRDS, METADATA_ONLY, CrdSource

from kbind import words
from kbind.errors import ClusterError, Forbidden, NotFound, NotServed, Unreachable
from kbind.facts import Definition

Object = dict[str, Any]


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


def error(kind: type[ClusterError]) -> ClusterError:
    return kind("no", side="provider", verb="get", path=CRDS)


class Provider:
    """Serves CRDs, lists their metadata, and notes what is asked."""

    def __init__(self, *crds: Object) -> None:
        self.crds = {it["metadata"]["name"]: it for it in crds}
        self.unlisted: set[str] = set()
        self.fails: ClusterError | None = None
        self.asked: list[str] = []

    def put(self, it: Object) -> None:
        self.crds[it["metadata"]["name"]] = it

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> Object:
        name = path.removeprefix(f"{CRDS}/")
        self.asked.append(name)
        if self.fails is not None:
            raise self.fails
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


async def test_exports_are_told_by_name() -> None:
    source = CrdSource(Provider(crd("widgets"), crd("gadgets")))
    exports = (await source.exports()).apis
    assert [api.name for api in exports] == ["gadgets.example.org", "widgets.example.org"]
    assert exports[0].versions == ("v1",)


async def test_at_rest_one_request_is_made() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    source = CrdSource(provider)
    first = await source.exports()
    provider.asked.clear()
    assert await source.exports() == first
    assert provider.asked == ["list"]


@pytest.mark.parametrize("change", [{"version": 2}, {"uid": "made anew"}])
async def test_only_what_changed_is_read_again(change: Object) -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    source = CrdSource(provider)
    before = (await source.exports()).apis
    provider.put(crd("widgets", **change))
    provider.asked.clear()
    after = (await source.exports()).apis
    assert provider.asked == ["list", "widgets.example.org"]
    assert [b == a for b, a in zip(before, after, strict=True)] == [True, False]


async def test_what_is_gone_or_going_is_not_exported() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"), crd("rockets", deletionTimestamp="now"))
    source = CrdSource(provider)
    assert await names(source) == ["gadgets", "widgets"]
    del provider.crds["gadgets.example.org"]
    provider.put(crd("widgets", deletionTimestamp="now"))
    assert await names(source) == []
    provider.put(crd("widgets", 3))
    assert await names(source) == ["widgets"]


async def test_what_goes_between_the_list_and_the_read_is_passed_over() -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    provider.unlisted.add("widgets.example.org")
    assert await names(CrdSource(provider)) == ["gadgets"]


@pytest.mark.parametrize("kind", [Forbidden, NotServed, Unreachable])
async def test_a_list_that_fails_half_way_is_no_answer_and_forgets_nothing(
    kind: type[ClusterError],
) -> None:
    provider = Provider(crd("widgets"), crd("gadgets"))
    source = CrdSource(provider)
    await source.exports()
    provider.fails = error(kind)
    with pytest.raises(kind):
        await source.exports()
    provider.fails = None
    provider.asked.clear()
    await source.exports()
    assert provider.asked == ["list"]


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
