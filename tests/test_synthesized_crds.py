"""Synthesized CRDs on real servers: accepted, stored as sent, and as good as the original."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kbind_sources.discovery import ACCEPT, APIS, Resource, parse
from kbind_sources.openapi import INDEX, OpenApiSource
from kbind_sources.synthesis import synthesize

from kbind.copying import same
from kbind.hooks import RESERVED, Offer
from kbind.jsons import encode
from kbind.konnector.reader import Reader
from kbind.schema import consumer_crd
from kbind.testing.handles import Handle, Object, load, new
from kbind.testing.real import RealCluster
from tests.clusters.scenes import offers
from tests.comparing import table
from tests.fidelity import holds, measure, summed
from tests.manifests import ROOT
from tests.public_apis import crds, needs_shared, samples
from tests.unit.openapi import COMPONENTS, schemas

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

LARGE = (
    "customresourcedefinitions.apiextensions-k8s-io.example.org",
    "deployments.apps.example.org",
    "pods.core.example.org",
)

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]


@dataclass(frozen=True, slots=True)
class Pair:
    provider: Handle
    consumer: Handle


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    folder = tmp_path_factory.mktemp("synthesized")
    clusters = await asyncio.gather(
        *(
            RealCluster.start(
                name, binaries=binaries, directory=folder, controllers=False, audit=False
            )
            for name in ("provider", "consumer")
        )
    )
    try:
        handles = [await Handle.open(cluster) for cluster in clusters]
        yield Pair(*handles)
        for handle in handles:
            await handle.close()
    finally:
        for cluster in clusters:
            await cluster.stop()


def wanted(offer: Offer) -> Object:
    crd = consumer_crd(offer, "provider", None)
    assert crd is not None
    return crd


async def built_in(provider: Handle) -> dict[str, Object]:
    """The groups that come with a server, by name, as discovery has them. "": the core group."""
    answers = [await provider.client.read(root, accept=ACCEPT) for root in ("/api", APIS)]
    groups = {it["metadata"].get("name", ""): it for answer in answers for it in answer["items"]}
    return {name: it for name, it in groups.items() if not name or name in RESERVED}


async def moved(provider: Handle, name: str, group: Object, to: str) -> dict[str, Offer]:
    """What a server with this built-in group as its group *to* would offer."""
    documents = {}
    for version in [it["version"] for it in group["versions"]]:
        path = f"apis/{name}/{version}" if name else f"api/{version}"
        documents[version] = await provider.client.read(f"{INDEX}/{path}")
        for schema in documents[version]["components"]["schemas"].values():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                if kind["group"] == name:
                    kind["group"] = to
    found = parse([(to, group)])
    assert not found.unread
    return {api: synthesize(versions, documents) for api, versions in found.apis.items()}


async def test_every_built_in_kind_makes_a_crd_that_a_server_accepts(pair: Pair) -> None:
    """References, recursion, unions and types of Go: what no CRD has is all in here."""
    found: dict[str, Offer] = {}
    for name, group in (await built_in(pair.provider)).items():
        to = f"{name.replace('.', '-') or 'core'}.example.org"
        found |= await moved(pair.provider, name, group, to)
    assert len(found) > 50
    for name, offer in found.items():
        crd = wanted(offer)
        raw = await pair.consumer.client.create(CRDS, encode(crd), query={"dryRun": "All"})
        # Else the konnector would write it again and again.
        assert same(load(raw)["spec"], crd["spec"]), name
    for name in LARGE:  # and be stored and served
        stored = await pair.consumer.install_crd(wanted(found[name]))
        problems = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
        assert problems.get("NonStructuralSchema", "False") == "False"


async def test_a_protected_group_is_accepted_as_unapproved(pair: Pair) -> None:
    name, to = "coordination.k8s.io", "coordination.test.k8s.io"
    group = (await built_in(pair.provider))[name]
    crd = wanted((await moved(pair.provider, name, group, to))[f"leases.{to}"])
    stored = await pair.consumer.install_crd(crd)
    assert same(stored["spec"], crd["spec"])


async def test_values_that_documents_of_other_servers_allow_are_stored_as_given(
    pair: Pair,
) -> None:
    either = [{"type": "integer"}, {"type": "string"}]
    node = {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Node"}}}
    fields = {
        "marked": {"x-kubernetes-int-or-string": True},
        "formatted": {"type": "string", "format": "int-or-string"},
        "either": {"oneOf": either, "type": "string"},
        "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "untyped": {"description": "anything"},
        "map": {"type": "object", "additionalProperties": True},
        "node": {"allOf": [{"$ref": "#/components/schemas/Node"}], "default": {}},
    }
    kind = {"group": "others.example.org", "version": "v1", "kind": "Other"}
    other = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": fields}},
        "x-kubernetes-group-version-kind": [kind],
    }
    resource = Resource("others.example.org", "v1", "others", "Other", False)
    document = {"components": {"schemas": {"Other": other, "Node": node}}}
    await pair.consumer.install_crd(synthesize([resource], {"v1": document}).crd)

    deep = {"child": {"child": {"child": {"child": {"beyond": {"the": "cut"}}}}}}
    for name, value in (("number", 5), ("text", "5%")):
        spec = dict.fromkeys(("marked", "formatted", "either", "quantity", "untyped"), value)
        given = spec | {"map": {"a": {"b": [value]}}, "node": deep}
        made = await pair.consumer.create(new("others.example.org/v1", "Other", name, spec=given))
        assert same(made["spec"], given)
    spare = new("others.example.org/v1", "Other", "spare", spec={"quantity": 0.5})
    made = await pair.consumer.create(spare)
    assert same(made["spec"], {"quantity": 0.5, "node": {}})


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(fields=st.lists(schemas, min_size=30, max_size=60))
async def test_schemas_of_any_shape_make_a_crd_that_a_server_accepts(
    pair: Pair, fields: list[Object]
) -> None:
    resource = Resource("example.org", "v1", "things", "Thing", True, status=True)
    kind = {"group": "example.org", "version": "v1", "kind": "Thing"}
    thing = {
        "type": "object",
        "properties": {f"field{number}": field for number, field in enumerate(fields)},
        "x-kubernetes-group-version-kind": [kind],
    }
    document = {"components": {"schemas": COMPONENTS | {"Thing": thing}}}
    crd = wanted(synthesize([resource], {"v1": document}))
    raw = await pair.consumer.client.create(CRDS, encode(crd), query={"dryRun": "All"})
    assert same(load(raw)["spec"], crd["spec"])


@needs_shared
async def test_objects_are_stored_alike_under_original_and_synthesized_crds(pair: Pair) -> None:
    """Even where the consumer stores another version: the one that discovery prefers."""
    originals = {crd["metadata"]["name"]: await pair.provider.install_crd(crd) for crd in crds()}
    totals = summed(await measure(pair.provider, originals))
    assert holds(totals)
    shown = (ROOT / "docs" / "schemas.md").read_text()
    for row in table(totals):
        counted = any(cell.strip("0") for cell in row[1:])
        assert not counted or f"| {' | '.join(row)} |" in shown, "make fidelity counts otherwise"
    found = await offers(OpenApiSource(Reader(pair.provider.client)), originals)
    storage = {}
    for name, original in originals.items():
        spec = original["spec"]
        version = next(each["name"] for each in spec["versions"] if each["storage"])
        storage[spec["group"], spec["names"]["kind"]] = version
        assert "permissive" not in found[name].note
        crd = wanted(found[name])
        stored = await pair.consumer.install_crd(crd)
        # Else the konnector would write it again and again.
        assert same(stored["spec"], crd["spec"]), name
        problems = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
        assert problems.get("NonStructuralSchema", "False") == "False"

    compared = 0
    for sample in samples():
        group = sample["apiVersion"].partition("/")[0]
        sample["apiVersion"] = f"{group}/{storage[group, sample['kind']]}"
        if (await pair.provider.api(sample)).namespaced:
            sample["metadata"]["namespace"] = "default"
        one, other = [
            await each.get(await each.create(sample)) for each in (pair.provider, pair.consumer)
        ]
        one.pop("metadata")
        other.pop("metadata")
        assert same(one, other), sample["kind"]
        compared += 1
    assert compared >= 8
