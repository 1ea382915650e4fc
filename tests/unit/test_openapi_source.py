"""The schema source OpenAPI: what it reads, and that it reads nothing twice. What becomes of
the documents is the synthesis' own matter, and played by a stub."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kbind_sources import openapi
from kbind_sources.discovery import APIS, Resource
from kbind_sources.openapi import INDEX, OTHERS, OpenApiSource

from kbind import hooks
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
from kbind.hooks import Definition, Offer
from tests.unit import providers
from tests.unit.providers import Groups, Object, error, resource

AT_REST = [APIS, INDEX]

WIDGETS, GADGETS, BOXES = "widgets.example.org", "gadgets.example.org", "boxes.other.io"

OFFERED: Groups = {
    "example.org": {
        "v1": [resource(), resource("gadgets", "Gadget")],
        "v1beta1": [resource()],
    },
    "other.io": {"v1": [resource("boxes", "Box", scope="Cluster")]},
}


def at(group_version: str) -> str:
    return f"{INDEX}/apis/{group_version}"


class Provider(providers.Provider):
    """Serves an index and documents: each refers to what ``refer`` says."""

    def __init__(self, groups: Groups = OFFERED) -> None:
        super().__init__(groups)
        self.answers[INDEX] = {"paths": {}}
        for group, versions in groups.items():
            for version in versions:
                self.publish(f"apis/{group}/{version}")

    @property
    def index(self) -> Object:
        answer: Any = self.answers[INDEX]
        paths: Object = answer["paths"]
        return paths

    def publish(self, key: str, hash: str = "one", refer: Sequence[str] = ()) -> None:
        self.index[key] = {"serverRelativeURL": f"{INDEX}/{key}?hash={hash}"}
        self.answers[f"{INDEX}/{key}"] = {"is": key, "refers": list(refer)}


@pytest.fixture(autouse=True)
def synthesis(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Tells in which threads it worked."""
    threads = []

    def synthesize(
        versions: Sequence[Resource], documents: Mapping[str, Any], others: Mapping[str, Any]
    ) -> Offer:
        threads.append(threading.current_thread())
        if any(document.get("is") == "recursive" for document in documents.values()):
            raise RecursionError
        crd = {"versions": [it.version for it in versions], "from": documents, "others": others}
        return Offer(crd, Definition.SYNTHESIZED)

    def references(document: Mapping[str, Any]) -> set[str]:
        if document.get("is") == "deep":
            raise RecursionError
        return set(document["refers"])

    monkeypatch.setattr(openapi, "synthesize", synthesize)
    monkeypatch.setattr(openapi, "references", references)
    return threads


async def started(provider: Provider) -> OpenApiSource:
    source = OpenApiSource(provider)
    await source.exports()
    provider.asked.clear()
    return source


async def revisions(source: OpenApiSource) -> dict[str, str]:
    return {api.name: api.revision for api in (await source.exports()).apis}


async def offered(source: OpenApiSource, name: str) -> Mapping[str, Any]:
    offer = await source.definition(name)
    assert offer is not None
    assert offer.definition is Definition.SYNTHESIZED
    return offer.crd


def test_it_is_a_plugin() -> None:
    assert (
        hooks.load([openapi] if "OpenAPI" not in hooks.load() else [])["OpenAPI"] is OpenApiSource
    )


# --- what is exported ----------------------------------------------------------------------------


async def test_all_is_exported_but_what_comes_with_kubernetes_and_kbind() -> None:
    provider = Provider(
        {
            **OFFERED,
            "apps": {"v1": [resource("deployments", "Deployment")]},
            "metrics.k8s.io": {"v1beta1": None},
            "core.kbind.io": {"v1alpha1": [resource("bindings", "Binding")]},
            "catalog.kbind.io": {"v1alpha1": [resource("exports", "Export", scope="Cluster")]},
            "iam.kbind.io": {"v1alpha1": [resource("grants", "Grant", scope="Cluster")]},
            "gateway.networking.k8s.io": {"v1": [resource("gateways", "Gateway")]},
        }
    )
    exports = await OpenApiSource(provider).exports()
    assert [(api.name, api.scope, api.versions) for api in exports.apis] == [
        (BOXES, "Cluster", ("v1",)),
        (GADGETS, "Namespaced", ("v1",)),
        ("gateways.gateway.networking.k8s.io", "Namespaced", ("v1",)),
        (WIDGETS, "Namespaced", ("v1", "v1beta1")),
    ]
    assert exports.unread == {}


async def test_at_rest_two_requests_are_made() -> None:
    provider = Provider()
    source = await started(provider)
    assert await source.exports() == await source.exports()
    assert provider.asked == AT_REST * 2


async def test_a_revision_changes_with_the_documents_of_the_api_and_no_others() -> None:
    provider = Provider()
    source = await started(provider)
    before = await revisions(source)
    provider.publish("apis/example.org/v1beta1", "two")
    after = await revisions(source)
    assert {name for name in before if before[name] != after[name]} == {WIDGETS}
    provider.publish("apis/example.org/v1", "two")
    assert {name for name, it in (await revisions(source)).items() if it != after[name]} == {
        WIDGETS,
        GADGETS,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"shortNames": ["wd"]},
        {"categories": ["all"]},
        {"scope": "Cluster"},
        {"singularResource": ""},
        providers.below("status"),
    ],
    ids=repr,
)
async def test_a_revision_changes_with_what_discovery_tells_of_the_api(change: Object) -> None:
    provider = Provider()
    source = await started(provider)
    before = await revisions(source)
    versions: dict[str, list[Object] | None] = {
        "v1": [resource(**change), resource("gadgets", "Gadget")],
        "v1beta1": [resource(**change)],
    }
    provider.offer({**OFFERED, "example.org": versions})
    after = await revisions(source)
    assert {name for name in before if before[name] != after[name]} == {WIDGETS}


async def test_the_preferred_version_counts() -> None:
    provider = Provider()
    source = await started(provider)
    before = await revisions(source)
    turned = dict(reversed(list(OFFERED["example.org"].items())))
    provider.offer({**OFFERED, "example.org": turned})
    exports = await source.exports()
    changed = [api for api in exports.apis if api.revision != before[api.name]]
    assert [(api.name, api.versions) for api in changed] == [(WIDGETS, ("v1beta1", "v1"))]


@pytest.mark.parametrize(
    "entry", [None, {}, "there", {"serverRelativeURL": 7}, {"serverRelativeURL": "/openapi/v3/x"}]
)
async def test_a_version_without_a_document_leaves_its_api_unread(entry: Any) -> None:
    provider = Provider()
    provider.index["apis/example.org/v1beta1"] = entry
    source = OpenApiSource(provider)
    exports = await source.exports()
    assert [api.name for api in exports.apis] == [BOXES, GADGETS]
    assert exports.unread == {WIDGETS: "/openapi/v3 lists no document for version v1beta1"}
    with pytest.raises(SchemaSourceError, match="lists no document for version v1beta1"):
        await source.definition(WIDGETS)


async def test_a_group_that_is_not_listed_is_gone_when_it_is_missed_once_more() -> None:
    provider = Provider()
    source = await started(provider)
    rest = {group: versions for group, versions in OFFERED.items() if group != "other.io"}
    provider.offer(rest)
    missed = await source.exports()
    assert BOXES not in {api.name for api in missed.apis}
    assert set(missed.unread) == {"other.io"}
    assert (await source.exports()).unread == {}

    provider.offer(OFFERED)
    assert BOXES in await revisions(source)
    provider.offer(rest)
    assert set((await source.exports()).unread) == {"other.io"}
    provider.offer(OFFERED)
    assert (await source.exports()).unread == {}


async def test_a_group_that_is_unread_is_not_gone() -> None:
    provider = Provider()
    source = await started(provider)
    provider.offer({**OFFERED, "example.org": {"v1": None}})
    exports = await source.exports()
    assert [api.name for api in exports.apis] == [BOXES]
    assert list(exports.unread) == ["example.org"]
    with pytest.raises(SchemaSourceError, match="the server behind it does not answer"):
        await source.definition(WIDGETS)


@pytest.mark.parametrize("kind", [NotFound, NotServed])
async def test_a_provider_without_openapi_is_told(kind: type[ClusterError]) -> None:
    provider = Provider()
    provider.answers[INDEX] = error(kind)
    with pytest.raises(SchemaSourceError, match=r"serves no /openapi/v3.* use the source CRD"):
        await OpenApiSource(provider).exports()


@pytest.mark.parametrize("answer", [{}, {"paths": None}, {"paths": ["apis"]}])
async def test_an_index_without_paths_is_no_answer(answer: Object) -> None:
    provider = Provider()
    provider.answers[INDEX] = answer
    with pytest.raises(SchemaSourceError, match="/openapi/v3 without paths"):
        await OpenApiSource(provider).exports()


@pytest.mark.parametrize("place", [APIS, INDEX])
@pytest.mark.parametrize("kind", [Forbidden, Unauthorized, Unreachable, ServerFailed])
async def test_what_fails_as_a_whole_is_no_answer_and_forgets_nothing(
    place: str, kind: type[ClusterError]
) -> None:
    provider = Provider()
    source = await started(provider)
    sound = provider.answers[place]
    provider.answers[place] = error(kind)
    with pytest.raises(kind):
        await source.exports()
    provider.answers[place] = sound
    assert (await offered(source, GADGETS))["versions"] == ["v1"]


# --- definitions ---------------------------------------------------------------------------------


async def test_a_definition_is_made_of_the_documents_of_all_versions(
    synthesis: list[threading.Thread],
) -> None:
    provider = Provider()
    source = await started(provider)
    crd = await offered(source, WIDGETS)
    assert crd["versions"] == ["v1", "v1beta1"]
    assert {version: it["is"] for version, it in crd["from"].items()} == {
        "v1": "apis/example.org/v1",
        "v1beta1": "apis/example.org/v1beta1",
    }
    assert provider.asked == [
        f"{at('example.org/v1')}?hash=one",
        f"{at('example.org/v1beta1')}?hash=one",
    ]
    assert threading.main_thread() not in synthesis  # so that the event loop goes on meanwhile


async def test_many_apis_of_a_group_version_cost_one_document() -> None:
    plurals = [f"kind{number}s" for number in range(100)]
    listed = [resource(plural, plural.title()) for plural in plurals]
    provider = Provider({"example.org": {"v1": list(listed)}, "other.io": {"v1": list(listed)}})
    source = await started(provider)
    for group in ("example.org", "other.io"):
        for plural in plurals:
            await offered(source, f"{plural}.{group}")
    assert provider.asked == [f"{at(f'{g}/v1')}?hash=one" for g in ("example.org", "other.io")]


async def test_documents_of_one_group_alone_are_kept_and_of_one_pass() -> None:
    provider = Provider()
    source = await started(provider)
    for name in (GADGETS, BOXES, GADGETS):
        await offered(source, name)
    assert len(provider.asked) == 3
    await source.exports()
    await offered(source, GADGETS)
    assert len(provider.asked) == 3 + len(AT_REST) + 1


async def test_what_is_gone_has_no_definition() -> None:
    provider = Provider()
    source = await started(provider)
    provider.offer({"other.io": OFFERED["other.io"]})
    await source.exports()
    with pytest.raises(SchemaSourceError, match="asking once more"):
        await source.definition(WIDGETS)
    await source.exports()
    assert await source.definition(WIDGETS) is None


@pytest.mark.parametrize(
    ("between", "after"),
    [
        # One of them was not to be read before it went; a group of another has it in its name.
        ({"other.io": {"v1": None}}, {}),
        ({}, {"team.other.io": {"v1": None}}),
    ],
)
async def test_a_group_that_is_not_listed_is_missed_once_before_it_is_gone(
    between: Groups, after: Groups
) -> None:
    provider = Provider()
    source = await started(provider)
    provider.offer({**OFFERED, **between})
    await source.exports()
    provider.offer({"example.org": OFFERED["example.org"], **after})
    assert "asking once more" in (await source.exports()).unread["other.io"]
    assert (await source.exports()).unread.keys() == after.keys()


async def test_a_document_that_has_changed_meanwhile_is_read_as_it_is_now() -> None:
    class Moved(Provider):
        """Redirects from every hash, as servers do from an old one."""

        async def get(
            self,
            path: str,
            *,
            query: Mapping[str, str] | None = None,
            accept: str | None = None,
        ) -> Object:
            answer = await super().get(path, query=query, accept=accept)
            if query:
                raise error(ServerFailed, status=301)
            return answer

    provider = Moved()
    source = await started(provider)
    assert (await offered(source, GADGETS))["from"]["v1"]["is"] == "apis/example.org/v1"


async def test_documents_are_followed_as_far_as_the_index_lists_them() -> None:
    provider = Provider()
    own, shared, deeper = at("example.org/v1"), f"{INDEX}/shared", f"{INDEX}/deeper"
    elsewhere = ["/api/v1/secrets", f"{INDEX}/unknown", "https://elsewhere.io/openapi/v3"]
    provider.publish("apis/example.org/v1", refer=[shared, *elsewhere])
    provider.publish("shared", refer=[deeper, own])
    provider.publish("deeper", refer=[shared])
    source = await started(provider)
    crd = await offered(source, GADGETS)
    assert {path: it["is"] for path, it in crd["others"].items()} == {
        shared: "shared",
        deeper: "deeper",
    }
    assert provider.asked == [f"{path}?hash=one" for path in (own, shared, deeper)]


async def test_a_revision_changes_with_what_the_documents_refer_to() -> None:
    provider = Provider()
    provider.publish("shared")
    provider.publish("apis/example.org/v1", refer=[f"{INDEX}/shared"])
    source = await started(provider)
    await offered(source, GADGETS)
    known = await revisions(source)
    assert await revisions(source) == known
    provider.publish("shared", "two")
    after = await revisions(source)
    assert {name for name in known if known[name] != after[name]} == {GADGETS}


async def test_documents_are_not_followed_without_end() -> None:
    provider = Provider()
    for number in range(OTHERS + 1):
        provider.publish(f"shared{number}", refer=[f"{INDEX}/shared{number + 1}"])
    provider.publish("apis/example.org/v1", refer=[f"{INDEX}/shared0"])
    source = await started(provider)
    with pytest.raises(SchemaSourceError, match=r"of gadgets\.example\.org lead to more than 20"):
        await source.definition(GADGETS)
    assert len(provider.asked) == 1 + OTHERS
    assert (await offered(source, BOXES))["versions"] == ["v1"]


@pytest.mark.parametrize("kind", [Unreachable, ServerFailed, NotServed, Forbidden])
async def test_a_document_that_cannot_be_read_is_asked_for_once_a_pass(
    kind: type[ClusterError],
) -> None:
    provider = Provider()
    source = await started(provider)
    sound = provider.answers[at("example.org/v1")]
    provider.answers[at("example.org/v1")] = error(kind, "the answer is too long")
    for name in (GADGETS, WIDGETS):
        with pytest.raises(kind, match="the answer is too long"):
            await source.definition(name)
    assert provider.asked == [f"{at('example.org/v1')}?hash=one"]
    assert (await offered(source, BOXES))["versions"] == ["v1"]

    provider.answers[at("example.org/v1")] = sound
    await source.exports()
    assert (await offered(source, GADGETS))["versions"] == ["v1"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("recursive", "the schema of gadgets.example.org is nested too deep"),
        ("deep", "/openapi/v3/apis/example.org/v1 is nested too deep"),
    ],
)
async def test_a_document_without_end_is_told(what: str, said: str) -> None:
    provider = Provider()
    provider.answers[at("example.org/v1")] = {"is": what, "refers": []}
    source = await started(provider)
    with pytest.raises(SchemaSourceError, match=said):
        await source.definition(GADGETS)
    assert (await offered(source, BOXES))["versions"] == ["v1"]
