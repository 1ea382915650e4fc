"""A CRD from discovery and OpenAPI documents: names, subresources, references, limits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from kbind_sources.discovery import Resource
from kbind_sources.references import DEPTH, NODES, expand
from kbind_sources.structural import parts
from kbind_sources.synthesis import references, synthesize

from kbind import words
from kbind.errors import SchemaSourceError
from kbind.facts import Definition
from kbind.schema import consumer_crd
from tests.unit.openapi import published

Object = dict[str, Any]

ANY: Object = {"x-kubernetes-preserve-unknown-fields": True}
TEXT: Object = {"type": "string"}
WIDGETS = Resource("example.org", "v1", "widgets", "Widget", True, "widget")


def ref(name: str, path: str = "") -> Object:
    return {"$ref": f"{path}#/components/schemas/{name}"}


def obj(**fields: Object) -> Object:
    return {"type": "object", "properties": fields}


def document(schema: Object, version: str = "v1", **components: Any) -> Object:
    kind = {"group": "example.org", "version": version, "kind": "Widget"}
    widget = schema | {"x-kubernetes-group-version-kind": [kind]}
    return {"components": {"schemas": {"org.example.Widget": widget} | components}}


def synthesized(
    schema: Object, resource: Resource = WIDGETS, others: Any = None, **components: Any
) -> tuple[Object, str]:
    """The CRD's spec, and the note."""
    offer = synthesize([resource], {"v1": document(schema, **components)}, others)
    assert offer.definition is Definition.SYNTHESIZED
    spec: Object = offer.crd["spec"]
    return spec, offer.note


def spec_of(schema: Object, others: Any = None, **components: Any) -> Object:
    """What becomes of the field spec."""
    spec, _ = synthesized(obj(spec=schema), others=others, **components)
    found: Object = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def test_names_scope_and_version() -> None:
    resource = replace(WIDGETS, short_names=("wd",), categories=("all",), status=True)
    spec, note = synthesized(obj(spec=obj(size=TEXT)), resource)
    (version,) = spec.pop("versions")
    assert spec == {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
            "shortNames": ["wd"],
            "categories": ["all"],
        },
    }
    assert note == ""
    assert version.pop("schema")["openAPIV3Schema"]["properties"]["spec"] == obj(size=TEXT)
    assert version == {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
    }  # fmt: skip


def test_names_that_discovery_leaves_out() -> None:
    spec, _ = synthesized(obj(), replace(WIDGETS, singular="", namespaced=False))
    assert spec["scope"] == "Cluster"
    assert spec["names"]["singular"] == "widget"
    assert "shortNames" not in spec["names"]


def test_a_list_kind_of_its_own_is_found_by_its_items() -> None:
    items = {"type": "array", "items": ref("org.example.Widget")}
    kind = {"group": "example.org", "version": "v1", "kind": "Widgets"}
    many = obj(items=items) | {"x-kubernetes-group-version-kind": [kind]}
    spec, _ = synthesized(obj(), many=many)
    assert spec["names"]["listKind"] == "Widgets"


def test_the_first_version_is_stored_and_all_are_served() -> None:
    documents = {
        "v1": document(obj(spec=obj(a=TEXT))),
        "v1beta1": document(obj(spec={"type": "file"}), "v1beta1"),
    }
    offer = synthesize([WIDGETS, replace(WIDGETS, version="v1beta1")], documents)
    versions = offer.crd["spec"]["versions"]
    assert [(v["name"], v["served"], v["storage"]) for v in versions] == [
        ("v1", True, True),
        ("v1beta1", True, False),
    ]
    assert offer.note == "v1beta1: 1 part of spec made permissive"
    assert consumer_crd(offer, "provider", None) is not None


@pytest.mark.parametrize(
    ("group", "value"),
    [
        ("example.org", None),
        ("notk8s.io", None),
        ("gateway.networking.k8s.io", "unapproved, synthesized from OpenAPI"),
        ("kubernetes.io", "unapproved, synthesized from OpenAPI"),
    ],
)
def test_protected_groups_are_marked_as_unapproved(group: str, value: str | None) -> None:
    kind = {"group": group, "version": "v1", "kind": "Widget"}
    schema = obj() | {"x-kubernetes-group-version-kind": [kind]}
    offer = synthesize(
        [replace(WIDGETS, group=group)], {"v1": {"components": {"schemas": {"W": schema}}}}
    )
    annotations = offer.crd["metadata"].get("annotations", {})
    assert annotations.get(words.API_APPROVED) == value


@pytest.mark.parametrize("found", [{}, {"components": {}}, {"components": {"schemas": {"X": {}}}}])
def test_a_document_without_the_kind_is_told(found: Object) -> None:
    with pytest.raises(SchemaSourceError, match=r"widgets\.example\.org.*example\.org/v1.*Widget"):
        synthesize([WIDGETS], {"v1": found})


def test_a_group_that_no_crd_can_have_is_told() -> None:
    with pytest.raises(SchemaSourceError, match=r"deployments\.apps: a CRD needs a group with"):
        synthesize([replace(WIDGETS, group="apps", plural="deployments")], {"v1": {}})


@pytest.mark.parametrize(
    ("status", "scale", "note"),
    [
        pytest.param(
            {"replicas": {"type": "integer"}, "selector": TEXT},
            {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
            "",
            id="with a selector",
        ),
        pytest.param(
            {"replicas": {"type": "integer"}, "selector": obj()},
            {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            "",
            id="with a selector of another form",
        ),
        pytest.param({}, None, "no scale subresource", id="without replicas in the status"),
    ],
)
def test_scale_where_the_fields_are(status: Object, scale: Object | None, note: str) -> None:
    schema = obj(spec=obj(replicas={"type": "integer"}), status=obj(**status))
    spec, told = synthesized(schema, replace(WIDGETS, scale=True))
    assert spec["versions"][0].get("subresources", {}).get("scale") == scale
    assert told == note


def test_selectable_fields_that_a_server_takes() -> None:
    schema = obj(spec=obj(color=TEXT, parts=obj())) | {
        "x-kubernetes-selectable-fields": [
            {"fieldPath": path} for path in ("spec.color", "spec.parts", "spec.gone", "metadata.x")
        ]
    }
    spec, _ = synthesized(schema)
    assert spec["versions"][0]["selectableFields"] == [{"jsonPath": ".spec.color"}]


def test_references_are_replaced() -> None:
    found = spec_of(
        {"description": "beside", "default": {}, "allOf": [ref("Inner")]},
        Inner=obj(name=ref("Text~1"), names={"type": "array", "items": ref("Text~1")}),
        **{"Text/": TEXT},
    )
    names = {"type": "array", "items": TEXT}
    assert found == obj(name=TEXT, names=names) | {"description": "beside", "default": {}}


def test_references_into_other_documents() -> None:
    path = "/openapi/v3/apis/other.org/v1"
    other = {"components": {"schemas": {"Outer": obj(inner=ref("Inner")), "Inner": TEXT}}}
    given = document(obj(spec=ref("Outer", path)))
    assert references(given) == {path}
    assert references(other) == set()
    assert spec_of(ref("Outer", path), {path: other}) == obj(inner=TEXT)


def test_a_reference_to_nothing_is_permissive() -> None:
    spec, note = synthesized(obj(spec=obj(a=ref("Gone"), b=ref("Gone", "/openapi/v3/gone"))))
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"] == obj(a=ANY, b=ANY)
    assert note == "2 parts of spec made permissive"


def test_a_type_stands_once_within_itself() -> None:
    node = obj(value=TEXT, child=ref("Node"))
    open_object: Object = {"type": "object"} | ANY
    assert spec_of(ref("Node"), Node=node) == obj(
        value=TEXT, child=obj(value=TEXT, child=open_object)
    )


def test_types_that_refer_to_nothing_but_each_other_end() -> None:
    assert spec_of(ref("A"), A=ref("B"), B=ref("A")) == ANY
    assert spec_of(ref("A"), A={"allOf": [ref("A")]}) == ANY


def test_a_type_that_has_a_form_of_its_own_is_an_open_object() -> None:
    """runtime.RawExtension is published as an object without fields; within a CRD's schema the
    same means that nothing is kept."""
    raw: Object = {"type": "object", "description": "raw"}
    found = spec_of(obj(raw=ref("Raw"), closed={"type": "object"}), Raw=raw)
    assert found == obj(raw=raw | ANY, closed={"type": "object"})


def test_a_type_takes_more_than_its_document_says() -> None:
    """A program that reads objects into types takes an empty text for none, and base64 in lines.
    How lists merge stays as it is."""
    env = {
        "type": "array",
        "items": obj(name=TEXT) | {"required": ["name"]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    policy = TEXT | {"enum": ["Always", "Never"]}
    found = spec_of(
        ref("Spec"),
        Spec=obj(
            env=env,
            names={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            policy=policy,
            must=policy | {"default": ""},
            known=policy | {"default": "Always"},
            bundle=TEXT | {"format": "byte"},
            size={"type": "integer", "enum": [1, 2]},
        ),
    )
    open_policy = TEXT | {"enum": ["Always", "Never", ""]}
    assert found == obj(
        env=env,
        names={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        policy=open_policy,
        must=open_policy,
        known=open_policy | {"default": "Always"},
        bundle=TEXT,
        size={"type": "integer", "enum": [1, 2]},
    )


def test_a_crd_says_what_its_server_holds_everybody_to() -> None:
    """All of its schema stands in one place, and nothing in it is behind a reference."""
    listed = {
        "type": "array",
        "items": TEXT | {"enum": ["a"]},
        "x-kubernetes-list-type": "set",
    }
    schema = obj(listed=listed, bundle=TEXT | {"format": "byte"})
    assert spec_of(schema) == schema


@pytest.mark.parametrize("beside", [True, False])
def test_the_zero_of_a_type_with_a_form_of_its_own_is_no_default(beside: bool) -> None:
    """A quantity cannot be read from {}, nor is it what a RawExtension that is missing means."""
    quantity = {"oneOf": [TEXT, {"type": "number"}]}
    raw: Object = {"type": "object", "description": "raw"}

    def zero(name: str) -> Object:
        return {"default": {}} | ({"allOf": [ref(name)]} if beside else ref(name))

    given = obj(size=zero("Quantity"), raw=zero("Raw"), inner=zero("Inner"))
    found = spec_of(given, Quantity=quantity, Raw=raw, Inner=obj(a=TEXT))
    assert found == obj(size=ANY, raw=raw | ANY, inner=obj(a=TEXT) | {"default": {}})


def test_metadata_within_a_template_keeps_what_it_has() -> None:
    name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    found = spec_of(obj(metadata={"default": {}, "allOf": [ref(name)]}), **{name: obj(uid=TEXT)})
    metadata = found["properties"]["metadata"]
    assert metadata["x-kubernetes-preserve-unknown-fields"] is True
    assert metadata["properties"]["labels"] == {"type": "object", "additionalProperties": TEXT}
    assert metadata["default"] == {}


def test_a_document_that_explodes_is_cut_where_it_fits() -> None:
    types: Any = {f"T{n}": obj(a=ref(f"T{n + 1}"), b=ref(f"T{n + 1}")) for n in range(40)}
    given = document(obj(spec=ref("T0"), status=obj(phase=TEXT)), T40=TEXT, **types)
    began = time.process_time()
    offer = synthesize([WIDGETS], {"v1": given})
    assert time.process_time() - began < 20
    schema = offer.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert NODES / 10 < count(schema) < NODES
    assert schema["properties"]["status"] == obj(phase=TEXT)
    assert offer.note.endswith("parts of spec made permissive")


def test_a_document_that_is_deeper_than_anything_is_cut() -> None:
    schema: Object = TEXT
    for _ in range(300):
        schema = obj(a=schema)
    expanded = expand("#/components/schemas/org.example.Widget", document(schema), {})
    assert expanded.cut == (("a",) * DEPTH,)


def test_descriptions_go_before_a_crd_is_too_large_to_store() -> None:
    long = TEXT | {"description": "long " * 1000}
    fields = {f"field{number}": long for number in range(300)}
    spec, note = synthesized(obj(spec=obj(**fields)))
    found = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert found["properties"]["field7"] == TEXT
    assert note == ""


def test_a_published_crd_comes_back_as_it_was() -> None:
    crd = {
        "spec": {
            "group": "example.org",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": EVERYTHING}}],
        }
    }
    offer = synthesize([WIDGETS], {"v1": published(crd, "v1")})
    assert offer.note == ""
    schema = offer.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in parts(schema):
        part.pop("description", None)  # servers describe the fields of embedded objects
    assert schema["properties"]["spec"] == EVERYTHING["properties"]["spec"]


EVERYTHING = obj(
    spec=obj(
        port={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT]},
        free=ANY,
        open=obj(a=TEXT) | ANY,
        template=obj(apiVersion=TEXT, kind=TEXT, metadata={"type": "object"})
        | {"x-kubernetes-embedded-resource": True, "required": ["kind", "apiVersion"]},
        tags={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        choice=obj(a=TEXT | {"nullable": True}, b=TEXT | {"default": "b"})
        | {"oneOf": [{"required": ["a"]}, {"not": {"required": ["a"]}}]},
    )
    | {
        "required": ["port"],
        "x-kubernetes-validations": [{"rule": "has(self.port)", "fieldPath": ".port"}],
    }
)


def count(schema: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    return 1 + sum(count(part) for part in (schema.get("properties") or {}).values())
