"""Synthesized CRDs held against what they were made from: nothing that the original accepts is
refused, and nothing of it is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kbind_sources.discovery import Resource
from kbind_sources.references import expand
from kbind_sources.structural import structural
from kbind_sources.synthesis import synthesize

from kbind.copying import same
from kbind.testing.memory import crdchecks
from kbind.testing.memory import schema as storing
from kbind.testing.memory.crds import decode, prepare
from kbind.testing.memory.validation import schemas_with_lists, validate, validate_lists
from tests.public_apis import crds, needs_shared
from tests.unit.openapi import COMPONENTS, garbage, published, schemas, values

Object = dict[str, Any]

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def stored(schema: Object, obj: Object) -> Object | None:
    """What a server with this schema stores; None where it refuses."""
    obj = copy.deepcopy(obj)
    storing.prune(obj, schema)
    storing.default(obj, schema)
    storing.drop_nulls(obj, schema)
    if validate(schema, obj) or validate_lists(schema, obj, schemas_with_lists(schema)):
        return None
    return obj


def made_of(crd: Object, version: str) -> Object:
    spec = crd["spec"]
    resource = Resource(
        spec["group"], version, spec["names"]["plural"], spec["names"]["kind"],
        spec["scope"] == "Namespaced", status=True,
    )  # fmt: skip
    offer = synthesize([resource], {version: published(crd, version)})
    assert offer.note == ""
    schema: Object = offer.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def of_kind(crd: Object, obj: Object) -> Object:
    return obj | {"apiVersion": "any/v1", "kind": crd["spec"]["names"]["kind"], "metadata": {}}


def public() -> list[tuple[Object, str]]:
    return [(crd, version["name"]) for crd in crds() for version in crd["spec"]["versions"]]


@needs_shared
@pytest.mark.parametrize(
    ("crd", "version"), [pytest.param(c, v, id=f"{c['metadata']['name']}-{v}") for c, v in public()]
)
def test_a_public_crd_and_its_copy_store_the_same(crd: Object, version: str) -> None:
    (given_version,) = [v for v in crd["spec"]["versions"] if v["name"] == version]
    original = given_version["schema"]["openAPIV3Schema"]
    copied = made_of(crd, version)

    @settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
    @given(values(original))
    def check(obj: Object) -> None:
        obj = of_kind(crd, obj)
        before = stored(original, obj)
        assume(before is not None)
        assert same(stored(copied, obj), before)

    check()


@settings(deadline=None, suppress_health_check=SLOW)
@given(st.data())
def test_what_an_api_accepts_is_accepted_and_kept_whole(data: st.DataObject) -> None:
    """For APIs that are no CRDs: their servers prune nothing that their schema has no word on."""
    document = {"components": {"schemas": COMPONENTS | {"Thing": thing(data.draw(schemas))}}}
    expanded = expand("#/components/schemas/Thing", document, {})
    made = structural(expanded.schema, cut=expanded.cut).schema
    obj = {"spec": data.draw(values(expanded.schema["properties"]["spec"]))}
    # A field that the schema does not name is lost on either side.
    assume(not validate(expanded.schema, obj) and "unknown" not in str(obj))
    after = copy.deepcopy(obj)
    storing.prune(after, made)
    assert same(after, obj)
    storing.default(after, made)
    assert not validate(made, after)


@settings(deadline=None, suppress_health_check=SLOW)
@given(garbage)
def test_no_document_breaks_it(spec: Any) -> None:
    """Whatever stands in a document: there is a CRD, and it is one that JSON can hold."""
    kind = {"group": "example.org", "version": "v1", "kind": "Thing"}
    whole = thing(spec) | {"x-kubernetes-group-version-kind": [kind]}
    other = spec if isinstance(spec, dict) else {}
    for root in (whole, other | {"x-kubernetes-group-version-kind": [kind]}):
        resource = Resource("example.org", "v1", "things", "Thing", True, scale=True)
        offer = synthesize([resource], {"v1": {"components": {"schemas": {"Thing": root}}}})
        assert validate_crd(offer.crd) == []


def validate_crd(crd: Any) -> list[Any]:
    return crdchecks.check(prepare(decode(crd), None), None)


def thing(spec: Object) -> Object:
    return {"type": "object", "properties": {"spec": spec}}
