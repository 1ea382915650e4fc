"""From OpenAPI schemas to structural ones, construct by construct."""

from __future__ import annotations

from typing import Any

import pytest
from kbind_sources.keywords import expression
from kbind_sources.structural import Structural, structural

Schema = dict[str, Any]

ANY: Schema = {"x-kubernetes-preserve-unknown-fields": True}
EITHER = [{"type": "integer"}, {"type": "string"}]
INT_OR_STRING: Schema = {"x-kubernetes-int-or-string": True, "anyOf": EITHER}
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
RULE: Schema = {"rule": "self.a == self.b", "message": "a is b"}


def obj(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields}


def made(**fields: Schema) -> Structural:
    return structural(obj(**fields))


def field(schema: Schema) -> tuple[Schema, int]:
    """What becomes of a field with this schema, and how often something was made permissive."""
    result = made(spec=schema)
    assert {place[0] for place in result.loosened} <= {"spec"}
    found: Schema = result.schema["properties"]["spec"]
    return found, len(result.loosened)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(TEXT | {"description": "d", "format": "uuid", "pattern": "^a"}, id="text"),
        pytest.param(TEXT | {"enum": ["a", "b"], "nullable": True, "default": "a"}, id="enum"),
        pytest.param(NUMBER | {"minimum": 0, "exclusiveMinimum": True, "maximum": 9}, id="bounds"),
        pytest.param({"type": "number", "multipleOf": 2}, id="number"),
        pytest.param({"type": "object", "additionalProperties": TEXT}, id="map"),
        pytest.param({"type": "array", "items": TEXT, "maxItems": 3}, id="list"),
        pytest.param({"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, id="set"),
        pytest.param(
            {
                "type": "array",
                "items": obj(name=TEXT, port=NUMBER | {"default": 1}) | {"required": ["name"]},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "port"],
            },
            id="list of type map, of keys that are required or have defaults",
        ),
        pytest.param(obj(a=TEXT) | {"x-kubernetes-map-type": "atomic"}, id="atomic map"),
        pytest.param(obj(a=TEXT, b=TEXT) | {"x-kubernetes-validations": [RULE]}, id="CEL"),
        pytest.param(ANY, id="anything"),
        pytest.param({"type": "object"} | ANY, id="open object"),
        pytest.param(obj(a=TEXT) | ANY, id="open object with fields"),
        pytest.param(
            obj(a=TEXT, b=TEXT) | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            id="one field of two",
        ),
        pytest.param(
            obj(a=TEXT) | {"not": {"properties": {"a": {"enum": ["x"]}}}}, id="not this value"
        ),
        pytest.param(
            obj(a=TEXT) | {"allOf": [{"required": ["a"]}, {"properties": {"a": {"maxLength": 3}}}]},
            id="allOf of values",
        ),
        pytest.param(INT_OR_STRING | {"pattern": "^[0-9]+%?$"}, id="int-or-string"),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"pattern": "a"}, {"minimum": 1}]}
            | {"allOf": [{"anyOf": EITHER}, {"maxLength": 3}]},
            id="int-or-string with alternatives of its own",
        ),
        pytest.param({"type": "object", "minProperties": 0, "maxProperties": 1}, id="a limit of 0"),
    ],
)
def test_what_is_structural_stays_as_it_is(schema: Schema) -> None:
    assert field(schema) == (schema, 0)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"format": "int-or-string"}, INT_OR_STRING, id="by format"),
        pytest.param(
            {"type": "string", "format": "int-or-string"}, INT_OR_STRING, id="by format, with type"
        ),
        pytest.param({"oneOf": EITHER}, INT_OR_STRING, id="by oneOf"),
        pytest.param({"oneOf": EITHER[::-1], "type": "string"}, INT_OR_STRING, id="with type"),
        pytest.param({"x-kubernetes-int-or-string": True}, INT_OR_STRING, id="marker alone"),
        pytest.param({}, ANY, id="no schema is anything"),
        pytest.param({"description": "any JSON"}, ANY | {"description": "any JSON"}, id="JSON"),
        pytest.param({"properties": {"a": TEXT}}, obj(a=TEXT), id="type told from fields"),
        pytest.param({"items": TEXT}, {"type": "array", "items": TEXT}, id="type told from items"),
        pytest.param({"type": "array"}, {"type": "array", "items": ANY}, id="list of anything"),
        pytest.param(
            {"type": "object", "additionalProperties": True},
            {"type": "object", "additionalProperties": ANY},
            id="additionalProperties alone would be pruned within",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {}},
            {"type": "object", "additionalProperties": ANY},
            id="map of anything",
        ),
        pytest.param(
            obj(a=TEXT) | {"additionalProperties": True}, obj(a=TEXT) | ANY, id="open object"
        ),
        pytest.param(
            {"type": "object", "additionalProperties": False}, {"type": "object"}, id="closed"
        ),
        pytest.param(
            obj(a=TEXT) | {"required": ["a", "b"]},
            obj(a=TEXT, b=ANY) | {"required": ["a", "b"]},
            id="a required field that nothing describes would be pruned and then missed",
        ),
        pytest.param(
            {"allOf": [obj(a=TEXT)], "description": "beside", "default": {}, "nullable": True},
            obj(a=TEXT) | {"description": "beside", "default": {}, "nullable": True},
            id="allOf of one",
        ),
        pytest.param(
            {"allOf": [obj(a=TEXT), obj(b=TEXT) | {"required": ["b"]}]},
            obj(a=TEXT, b=TEXT) | {"required": ["b"]},
            id="allOf of two",
        ),
        pytest.param(
            {"allOf": [TEXT | {"pattern": "a", "maxLength": 3}, TEXT | {"pattern": "b"}]},
            TEXT | {"pattern": "a", "maxLength": 3, "allOf": [{"pattern": "b"}]},
            id="both patterns hold",
        ),
        pytest.param(
            {"allOf": [obj(a=TEXT | {"maxLength": 3}), obj(a=TEXT | {"minLength": 1})]},
            obj(a=TEXT | {"maxLength": 3, "minLength": 1}),
            id="allOf of a common field",
        ),
        pytest.param(
            {"allOf": [NUMBER | {"minimum": 3}, {"type": "number", "minimum": 1}]},
            NUMBER | {"minimum": 3, "allOf": [{"minimum": 1}]},
            id="an integer is a number",
        ),
        pytest.param(
            {"anyOf": [TEXT | {"format": "ipv4"}, TEXT | {"format": "ipv6", "title": "6"}]},
            TEXT | {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
            id="the common type of alternatives stands outside",
        ),
        pytest.param(
            {"type": "object", "oneOf": [{"required": ["a"], "properties": {"a": {}}}]},
            obj(a=ANY) | {"oneOf": [{"required": ["a"], "properties": {"a": {}}}]},
            id="a field that only a junctor names stands outside too",
        ),
        pytest.param(
            obj(a=TEXT) | {"default": {}, "required": ["a"]},
            obj(a=TEXT) | {"required": ["a"]},
            id="a default that is not valid is none",
        ),
        pytest.param(
            obj(a=TEXT) | {"default": {"b": 1}}, obj(a=TEXT), id="nor one that would be pruned"
        ),
        pytest.param(TEXT | {"format": "date-time", "default": {}},
            TEXT | {"format": "date-time"}, id="nor the zero of a type of Go"),
        pytest.param(
            TEXT | {"type": ["string", "null"]}, TEXT | {"nullable": True}, id="OpenAPI 3.1"
        ),
        pytest.param(
            obj(a=TEXT)
            | {"x-kubernetes-unions": [], "x-kubernetes-patch-strategy": "merge", "xml": {}},
            obj(a=TEXT),
            id="what constrains nothing is dropped",
        ),
        pytest.param(
            TEXT | {"description": "", "pattern": "", "enum": [], "exclusiveMinimum": False},
            TEXT,
            id="a server drops what is empty, and it would never be as it was sent",
        ),
    ],
)  # fmt: skip
def test_what_can_be_said_structurally_is(schema: Schema, expected: Schema) -> None:
    assert field(schema) == (expected, 0)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            {"oneOf": [{"type": "string"}, {"type": "number"}]}, ANY, id="resource.Quantity: 0.5"
        ),
        pytest.param({"type": "file"}, ANY, id="unknown type"),
        pytest.param({"allOf": [TEXT, NUMBER]}, ANY, id="types that contradict each other"),
        pytest.param({"type": "array", "items": TEXT, "uniqueItems": True},
            {"type": "array", "items": TEXT}, id="uniqueItems"),
        pytest.param(TEXT | {"pattern": "^(?!a)"}, TEXT, id="look-around is not in RE2"),
        pytest.param(TEXT | {"maxLength": "3"}, TEXT, id="a limit that is no number"),
        pytest.param(TEXT | {"maxLength": 2**63}, TEXT, id="a limit that is no int64"),
        pytest.param({"type": "number", "multipleOf": 0.5}, {"type": "number"}, id="multipleOf"),
        pytest.param(
            obj(a=TEXT) | {"additionalProperties": TEXT},
            obj(a=TEXT) | ANY,
            id="fields and a map at once",
        ),
        pytest.param(
            obj(a=TEXT) | {"oneOf": [obj(a=TEXT | {"maxLength": 1}), {"type": "string"}]},
            obj(a=TEXT),
            id="one alternative that cannot be said takes the others with it",
        ),
        pytest.param(
            obj(a=TEXT) | {"allOf": [{"maxProperties": 1}, {"not": {"type": "array"}}]},
            obj(a=TEXT) | {"allOf": [{"maxProperties": 1}]},
            id="of allOf the others stay",
        ),
        pytest.param(
            {"type": "object", "anyOf": [obj(a=TEXT), obj(b=NUMBER)]},
            obj(a=ANY, b=ANY),
            id="types of fields cannot depend on alternatives",
        ),
        pytest.param(
            {"type": "array", "x-kubernetes-list-type": "set", "items": obj(a=TEXT)},
            {"type": "array", "items": obj(a=TEXT)},
            id="a set of granular maps",
        ),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
                "items": obj(a=TEXT),
            },
            {"type": "array", "items": obj(a=TEXT)},
            id="a key that may be missing",
        ),
    ],
)  # fmt: skip
def test_what_cannot_is_permissive_and_counted(schema: Schema, expected: Schema) -> None:
    assert field(schema) == (expected, 1)


def test_a_rule_goes_where_something_within_was_made_permissive() -> None:
    rules: Schema = {"x-kubernetes-validations": [RULE]}
    cost: Schema = {"oneOf": [{"type": "string"}, {"type": "number"}]}
    result = made(spec=obj(near=obj(cost=cost) | rules, far=obj(a=TEXT) | rules) | rules)
    spec = result.schema["properties"]["spec"]
    assert "x-kubernetes-validations" not in spec
    assert "x-kubernetes-validations" not in spec["properties"]["near"]
    assert spec["properties"]["far"]["x-kubernetes-validations"] == [RULE]
    assert result.loosened == (("spec", "near", "cost"), ("spec", "near"), ("spec",))


def test_a_rule_goes_where_a_part_was_cut_before() -> None:
    rules: Schema = {"x-kubernetes-validations": [RULE]}
    given = obj(spec=obj(cut=ANY) | rules, status=obj(a=TEXT) | rules)
    result = structural(given, cut=[("spec", "cut")])
    assert "x-kubernetes-validations" not in result.schema["properties"]["spec"]
    assert "x-kubernetes-validations" in result.schema["properties"]["status"]
    assert result.loosened == (("spec", "cut"), ("spec",))


@pytest.mark.parametrize(("relation", "more"), [("set", 1), ("atomic", 0), (None, 0)])
def test_rules_on_items_look_back_only_where_items_are_found_again(
    relation: str | None, more: int
) -> None:
    back: Schema = {"rule": "self == oldSelf"}
    items = obj(a=TEXT) | {"x-kubernetes-validations": [back, RULE]}
    kind = {"x-kubernetes-list-type": relation} if relation else {}
    spec, count = field({"type": "array", "items": items} | kind)
    assert spec["items"]["x-kubernetes-validations"] == [RULE]
    assert count == 1 + more


def test_the_root_says_nothing_of_metadata() -> None:
    metadata = obj(name=TEXT | {"maxLength": 10})
    result = structural(obj(metadata=metadata, kind=TEXT | {"description": "d", "enum": ["A"]}))
    assert result.schema == obj(
        apiVersion=TEXT, kind=TEXT | {"description": "d"}, metadata={"type": "object"}
    )


def test_an_embedded_object_says_nothing_of_metadata_either() -> None:
    published = obj(apiVersion=TEXT, kind=TEXT, metadata=obj(labels=TEXT), spec=obj(a=TEXT))
    published |= {"x-kubernetes-embedded-resource": True, "required": ["kind", "apiVersion"]}
    spec, count = field(published)
    assert count == 0
    assert spec == published | obj(
        apiVersion=TEXT, kind=TEXT, metadata={"type": "object"}, spec=obj(a=TEXT)
    )


@pytest.mark.parametrize(
    "root",
    [{"type": "object"}, {}, {"type": "object", "additionalProperties": True}],
)
def test_a_root_without_fields_keeps_everything(root: Schema) -> None:
    """So are CRDs published whose own schema is not structural."""
    assert structural(root).schema["x-kubernetes-preserve-unknown-fields"] is True


def test_the_root_beside_a_status_subresource_takes_no_junctors() -> None:
    root = obj(spec=TEXT) | {"anyOf": [{"required": ["spec"]}]}
    assert "anyOf" in structural(root).schema
    result = structural(root, status=True)
    assert "anyOf" not in result.schema
    assert result.loosened == ((),)


def test_the_root_is_no_object_within_another() -> None:
    root = obj(spec=TEXT) | {"x-kubernetes-embedded-resource": True}
    assert "x-kubernetes-embedded-resource" not in structural(root, status=True).schema


def test_a_root_that_is_no_object_is_an_open_one() -> None:
    result = structural({"type": "array", "items": TEXT})
    assert result.schema["type"] == "object"
    assert result.schema["x-kubernetes-preserve-unknown-fields"] is True
    assert result.loosened == ((),)


@pytest.mark.parametrize(
    ("pattern", "known"),
    [
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", True),
        (r"^(?:\d{1,3}\.){3}\d+$", True),
        (r"\(\?=", True),
        ("[(?=]+", True),
        ("(?i)a", True),
        (r"\pL\x41", True),
        (r"\x41\b", True),
        ("a(?=b)", False),
        ("(?<!a)b", False),
        (r"(a)\1", False),
        (r"\u0041", False),
        ("a++", False),
        ("(?>a)", False),
        ("a{1,1001}", False),
    ],
)
def test_patterns_that_the_server_can_compile(pattern: str, known: bool) -> None:
    assert (expression(pattern) is not None) is known
