"""Schemas of every shape that OpenAPI documents have, values for them, and documents of CRDs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kbind.testing.memory import crds
from kbind.testing.memory.openapi import describe

Schema = dict[str, Any]

NAMES = st.sampled_from(["a", "b", "name", "metadata"])
letters = st.sampled_from(["", "a", "b", "1", "5%"])
scalars = st.one_of(st.integers(-2, 6), st.booleans(), letters, st.just(1.5))
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
_TEXTS = {
    "date-time": ["2026-01-02T03:04:05Z"],
    "byte": ["YQ=="],
    "uri": ["https://example.org"],
    "date": ["2026-01-02"],
    "ipv4": ["10.0.0.1"],
    "uuid": ["00000000-0000-0000-0000-000000000000"],
    "email": ["a@example.org"],
}
PRESERVE = "x-kubernetes-preserve-unknown-fields"


def _some(*, optional: dict[str, Any], **must: Any) -> st.SearchStrategy[Schema]:
    given = {name: st.just(value) for name, value in must.items()}
    return st.fixed_dictionaries(given, optional=optional)


_marks: dict[str, Any] = {
    "description": st.just("what it is"),
    "nullable": st.booleans(),
    "default": anything,
    "title": st.just("title"),
}
_leaves = st.one_of(
    _some(
        type="string",
        optional=_marks
        | {
            "minLength": st.integers(0, 2),
            "pattern": st.sampled_from(["^a", "[0-9]", "", "^(?!b)a", r"\d"]),
            "enum": st.lists(letters, min_size=1, max_size=3),
            "format": st.sampled_from(["date-time", "unknown", "int-or-string"]),
        },
    ),
    _some(
        type="integer",
        optional=_marks
        | {
            "minimum": st.integers(0, 2),
            "exclusiveMinimum": st.booleans(),
            "maximum": st.integers(2, 5),
            "format": st.just("int32"),
        },
    ),
    _some(type="number", optional=_marks | {"multipleOf": st.sampled_from([1, 0.5])}),
    _some(type="boolean", optional=_marks),
    _some(optional={"description": st.just("anything"), PRESERVE: st.booleans()}),
    st.just({"x-kubernetes-int-or-string": True}),
    st.just({"oneOf": [{"type": "string"}, {"type": "integer"}], "type": "string"}),
    st.just({"oneOf": [{"type": "string"}, {"type": "number"}]}),
    st.just({"$ref": "#/components/schemas/Leaf"}),
    st.just({"$ref": "#/components/schemas/Tree"}),
    st.just({"$ref": "#/components/schemas/Missing"}),
)


def _nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    parts = st.lists(inner, min_size=1, max_size=2)
    junctors = {"allOf": parts, "anyOf": parts, "oneOf": parts, "not": inner}
    objects = _some(
        type="object",
        optional=_marks
        | junctors
        | {
            "properties": fields,
            "required": st.lists(NAMES, max_size=2),
            "additionalProperties": inner | st.booleans() | st.just({}),
            "maxProperties": st.integers(1, 3),
            "x-kubernetes-map-type": st.just("atomic"),
        },
    )
    any_of = _some(optional=_marks | junctors)
    lists = _some(
        type="array",
        optional=_marks
        | {
            "items": inner,
            "minItems": st.integers(0, 1),
            "uniqueItems": st.booleans(),
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
            "x-kubernetes-list-map-keys": st.lists(NAMES, max_size=2),
        },
    )
    beside = st.builds(lambda part, marks: marks | {"allOf": [part]}, inner, _some(optional=_marks))
    return objects | any_of | lists | beside


schemas = st.recursive(_leaves, _nested, max_leaves=6)

COMPONENTS: Schema = {
    "Leaf": {"description": "A leaf.", "type": "string", "minLength": 1},
    "Tree": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"default": "", "allOf": [{"$ref": "#/components/schemas/Leaf"}]},
            "a": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
            "b": {"default": {}, "allOf": [{"$ref": "#/components/schemas/Tree"}]},
        },
    },
}

_KEYWORDS = st.sampled_from(
    [
        "type", "properties", "items", "additionalProperties", "allOf", "anyOf", "oneOf", "not",
        "required", "enum", "default", "description", "format", "pattern", "minimum", "maxLength",
        "multipleOf", "nullable", "uniqueItems", "$ref", "apiVersion", "metadata", "spec",
        "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type", "x-kubernetes-int-or-string", "x-kubernetes-embedded-resource",
        "x-kubernetes-selectable-fields", "rule", "fieldPath", PRESERVE,
    ]
)  # fmt: skip
_WORDS = st.sampled_from(["object", "array", "string", "map", "set", "atomic", "spec.a", "(", "#/"])
garbage = st.recursive(
    scalars | _WORDS | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS, inner, min_size=1, max_size=5)
    ),
    max_leaves=25,
)


def published(crd: Schema, version: str) -> Schema:
    """The document that a server makes of one version of a CRD, served or not."""
    accepted = crds.judged(crds.prepare(crds.decode(crd), None), [], "")
    return describe([made for made in crds.served(accepted) if made.version == version])


@st.composite
def values(draw: st.DrawFn, schema: Schema) -> Any:
    """Values that are mostly valid: a test filters the rest."""
    if schema.get("nullable") and draw(st.integers(0, 9)) == 0:
        return None
    schema = _chosen(draw, schema)
    if schema.get("enum"):
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        kind = draw(st.sampled_from(["integer", "string"]))
    if kind is None:
        # Who writes fields means objects, though JSON schema would take anything else too.
        named = "properties" in schema or "additionalProperties" in schema
        kind = "object" if named else "array" if "items" in schema else None
    if kind == "object":
        return draw(_objects(schema))
    if kind == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
        items = values(schema.get("items") or {})
        return draw(st.lists(items, min_size=least, max_size=max(least, min(most, least + 2))))
    if kind == "string":
        return draw(_strings(schema))
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("maximum", 5) - 5)
        return draw(st.integers(int(least), int(min(schema.get("maximum", least + 5), least + 5))))
    return draw(st.booleans() if kind == "boolean" else anything)


def _chosen(draw: st.DrawFn, schema: Schema) -> Schema:
    """With one alternative of each junctor, as far as that can be said flatly."""
    for name in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(name)
        if parts:
            rest = {key: value for key, value in schema.items() if key != name}
            chosen = parts if name == "allOf" else [draw(st.sampled_from(parts))]
            for part in chosen:
                fields = rest.get("properties", {}) | part.get("properties", {})
                rest = rest | part | ({"properties": fields} if fields else {})
            return _chosen(draw, rest)
    return schema


@st.composite
def _objects(draw: st.DrawFn, schema: Schema) -> Schema:
    fields = schema.get("properties") or {}
    names = set(schema.get("required") or ())
    if fields:
        names |= set(draw(st.lists(st.sampled_from(sorted(fields)), max_size=3)))
    made = {name: draw(values(fields.get(name) or {})) for name in sorted(names)}
    rest = schema.get("additionalProperties")
    if rest is not None and rest is not False:
        inner = values(rest) if isinstance(rest, dict) else anything
        made |= draw(st.dictionaries(NAMES, inner, max_size=2))
    elif schema.get(PRESERVE):
        made |= draw(st.dictionaries(st.just("other"), anything, max_size=1))
    elif draw(st.integers(0, 9)) == 0:
        made["unknown"] = 1  # will be pruned
    return made


@st.composite
def _strings(draw: st.DrawFn, schema: Schema) -> str:
    known = _TEXTS.get(schema.get("format", ""))
    if known:
        return draw(st.sampled_from(known))
    if schema.get("pattern"):
        return str(draw(st.from_regex(schema["pattern"])))
    least = schema.get("minLength", 0)
    most = min(schema.get("maxLength", least + 3), least + 3)
    return draw(st.text("ab1", min_size=least, max_size=most))
