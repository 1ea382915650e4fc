"""CRDs that a server does not take, or takes for something else than was sent."""

from __future__ import annotations

from typing import Any

from kbind.testing.memory.patches import merge_patch
from tests.memory.replay.player import CRDS, MERGE_PATCH, Json, Player, crd

STRING: Json = {"type": "string"}
OBJECT: Json = {"type": "object"}
FREE: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED: Json = {"type": "object", "x-kubernetes-embedded-resource": True}


def _list(keys: Any, items: Json | None, kind: str = "map", **more: Any) -> Json:
    schema: Json = {"type": "array", "x-kubernetes-list-type": kind, **more}
    if items is not None:
        schema["items"] = items
    if keys is not None:
        schema["x-kubernetes-list-map-keys"] = keys
    return schema


def _item(*required: str, **properties: Json) -> Json:
    return {"type": "object", "properties": properties} | (
        {"required": list(required)} if required else {}
    )


# What stands at spec.x, under its title.
FIELDS: dict[str, Json] = {
    "no type": {"description": "x"},
    "type unknown": {"type": "strange"},
    "type unknown of a default": {"type": "strange", "default": "a"},
    "type null": {"type": "null"},
    "nothing but a combination": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "reference": {"$ref": "#/definitions/x", "type": "object"},
    "definitions": {"type": "object", "definitions": {"a": STRING}},
    "dependencies": {"type": "object", "dependencies": {"a": ["b"]}},
    "pattern properties": {"type": "object", "patternProperties": {"a": STRING}},
    "additional items": {"type": "array", "items": STRING, "additionalItems": True},
    "id": {"type": "object", "id": "x"},
    "schema": {"type": "object", "$schema": "x"},
    "array without items": {"type": "array"},
    "array of alternatives": {"type": "array", "items": [STRING]},
    "items without type": {"type": "array", "items": {}},
    "additional without type": {"type": "object", "additionalProperties": {}},
    "additional and properties": {
        "type": "object",
        "properties": {"a": STRING},
        "additionalProperties": STRING,
    },
    "additional false": {"type": "object", "additionalProperties": False},
    "additional true": {"type": "object", "additionalProperties": True},
    "unique": {"type": "array", "items": STRING, "uniqueItems": True},
    "type in a combination": {"type": "string", "anyOf": [{"type": "string"}]},
    "default in a combination": {"type": "string", "allOf": [{"default": "a"}]},
    "description in a combination": {"type": "string", "oneOf": [{"description": "a"}]},
    "title in a combination": {"type": "string", "not": {"title": "a"}},
    "nullable in a combination": {"type": "string", "oneOf": [{"nullable": True}]},
    "additional in a combination": {"type": "object", "allOf": [{"additionalProperties": STRING}]},
    "marker in a combination": {
        "type": "object",
        "allOf": [{"x-kubernetes-preserve-unknown-fields": True}],
    },
    "rule in a combination": {
        "type": "object",
        "allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}],
    },
    "list type in a combination": {
        "type": "array",
        "items": STRING,
        "allOf": [{"x-kubernetes-list-type": "set"}],
    },
    "unknown field in a combination": {
        "type": "object",
        "properties": {"a": STRING},
        "anyOf": [{"properties": {"b": {"minLength": 1}}}],
    },
    "unknown items in a combination": {"type": "object", "anyOf": [{"items": {"minLength": 1}}]},
    "deep in a combination": {
        "type": "object",
        "properties": {"a": STRING},
        "oneOf": [{"properties": {"a": {"type": "string", "enum": ["x"]}}}, {"required": ["a"]}],
    },
    "int or string with type": {"type": "string", "x-kubernetes-int-or-string": True},
    "int or string false": {"type": "string", "x-kubernetes-int-or-string": False},
    "int or string with other alternatives": {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "string"}, {"type": "integer"}],
    },
    "int or string with one of": {
        "x-kubernetes-int-or-string": True,
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    "int or string in all of": {
        "x-kubernetes-int-or-string": True,
        "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "a"}],
    },
    "preserve false": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    "preserve in a string": {"type": "string", "x-kubernetes-preserve-unknown-fields": True},
    "preserve in a list": {
        "type": "array",
        "items": STRING,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "embedded bare": EMBEDDED,
    "embedded string": {**EMBEDDED, "type": "string"},
    "embedded free": {**EMBEDDED, "x-kubernetes-preserve-unknown-fields": True},
    "embedded with labels": {
        **EMBEDDED,
        "properties": {"metadata": _item(labels=OBJECT, name={"type": "string", "minLength": 1})},
    },
    "embedded with a type": {**EMBEDDED, "properties": {"kind": {"type": "integer"}}},
    "embedded default incomplete": {
        **EMBEDDED,
        "x-kubernetes-preserve-unknown-fields": True,
        "default": {"kind": "Pod"},
    },
    "map without keys": _list(None, _item(name=STRING)),
    "map with no keys": _list([], _item(name=STRING)),
    "map without items": _list(["name"], None),
    "map key optional": _list(["name"], _item(name=STRING)),
    "map key with default": _list(["name"], _item(name={"type": "string", "default": "a"})),
    "map key unknown": _list(["other"], _item("name", name=STRING)),
    "map key twice": _list(["name", "name"], _item("name", name=STRING)),
    "map key nullable": _list(["name"], _item("name", name={"type": "string", "nullable": True})),
    "map key object": _list(["name"], _item("name", name=OBJECT)),
    "map of strings": _list(["name"], STRING),
    "map of nullable items": _list(["name"], {**_item("name", name=STRING), "nullable": True}),
    "map of preserved items": _list(
        ["name"], {**_item("name", name=STRING), "x-kubernetes-map-type": "atomic"}
    ),
    "map not a list": {"type": "object", "x-kubernetes-list-type": "map"},
    "keys without map": _list(["name"], _item("name", name=STRING), "atomic"),
    "keys without list type": {
        "type": "array",
        "items": _item("name", name=STRING),
        "x-kubernetes-list-map-keys": ["name"],
    },
    "list type unknown": _list(None, STRING, "heap"),
    "set of objects": _list(None, _item(name=STRING), "set"),
    "set of atomic objects": _list(
        None, {**_item(name=STRING), "x-kubernetes-map-type": "atomic"}, "set"
    ),
    "set of lists": _list(None, {"type": "array", "items": STRING}, "set"),
    "set of atomic lists": _list(None, _list(None, STRING, "atomic"), "set"),
    "set of nullable items": _list(None, {"type": "string", "nullable": True}, "set"),
    "map type unknown": {"type": "object", "x-kubernetes-map-type": "other"},
    "map type of a list": {"type": "array", "items": STRING, "x-kubernetes-map-type": "atomic"},
    "default of another type": {"type": "string", "default": 1},
    "default not in the enum": {"type": "string", "enum": ["a", "b"], "default": "c"},
    "default too large": {"type": "integer", "maximum": 3, "default": 4},
    "default with unknown fields": {**_item(a=STRING), "default": {"a": "x", "b": "y"}},
    "default without what is required": {**_item("a", a=STRING), "default": {}},
    "default completed by defaults": {
        **_item("a", a={"type": "string", "default": "x"}),
        "default": {},
    },
    "default null": {"type": "string", "default": None},
    "default null where nullable": {"type": "string", "nullable": True, "default": None},
    "default twice in a set": _list(None, STRING, "set", default=["a", "a"]),
    "nullable without type": {
        "nullable": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "pattern of another dialect": {"type": "string", "pattern": "^(?!a)b$"},
    "enum empty": {"type": "string", "enum": []},
    "enum twice": {"type": "string", "enum": ["a", "a"]},
    "format unknown": {"type": "string", "format": "strange"},
    "metadata deep down": _item(metadata=_item(name=STRING)),
    "empty things": {
        "type": "object",
        "description": "",
        "properties": {},
        "required": [],
        "nullable": False,
        "unknownWord": 1,
    },
    "int or string preserved": {
        "x-kubernetes-int-or-string": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "int or string embedded": {**EMBEDDED, "x-kubernetes-int-or-string": True},
    "embedded without type": {
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "embedded open": {**EMBEDDED, "additionalProperties": STRING},
    "embedded in metadata": {**EMBEDDED, "properties": {"metadata": EMBEDDED}},
    "embedded metadata a string": {**EMBEDDED, "properties": {"metadata": STRING}},
    "metadata in a combination": {
        "type": "object",
        "anyOf": [{"properties": {"metadata": {"minProperties": 1}}}],
    },
    "marker off in a combination": {
        "type": "object",
        "allOf": [{"x-kubernetes-map-type": "atomic", "x-kubernetes-int-or-string": True}],
    },
    "set of sets": _list(None, _list(None, STRING, "set"), "set"),
    "map of lists": _list(["name"], {"type": "array", "items": STRING}),
    "list type without type": {
        "x-kubernetes-list-type": "set",
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "map type without type": {
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "properties of another form": {"type": "object", "properties": ["a"]},
    "limit of another form": {"type": "string", "maxLength": "three"},
    "default deep down": {"type": "array", "items": {"type": "integer", "default": "a"}},
    "default of a list": {
        "type": "array",
        "items": {"type": "integer", "maximum": 3},
        "default": [1, 5],
    },
    "default of an embedded resource": {
        **EMBEDDED,
        "x-kubernetes-preserve-unknown-fields": True,
        "default": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
    },
    "rule without text": {"type": "string", "x-kubernetes-validations": [{"message": "m"}]},
    "rule with a line break": {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}],
    },
    "rule twice": {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "true"}, {"rule": "true"}],
    },
    "rule with an odd reason": {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "true", "reason": "Because"}],
    },
}

# Whole schemas.
ROOTS: dict[str, Json] = {
    "root without type": {"properties": {"spec": FREE}},
    "root a string": STRING,
    "root a list": {"type": "array", "items": STRING},
    "root nullable": {"type": "object", "nullable": True},
    "root with a default": {"type": "object", "default": {}},
    "root open": {"type": "object", "additionalProperties": STRING},
    "root embedded": EMBEDDED,
    "root empty": {},
    "metadata pattern": {"type": "object", "properties": {"metadata": _item(name=STRING)}},
    "metadata labels": {"type": "object", "properties": {"metadata": _item(labels=OBJECT)}},
    "metadata not an object": {"type": "object", "properties": {"metadata": STRING}},
    "metadata required": {
        "type": "object",
        "properties": {"metadata": _item("name", name=STRING)},
    },
    "metadata defaulted": {
        "type": "object",
        "properties": {"metadata": {"type": "object", "default": {}}},
    },
    "metadata default": {
        "type": "object",
        "properties": {"metadata": _item(name={"type": "string", "default": "a"})},
    },
    "metadata free": {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    },
    "kind restricted": {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": ["Thing"]}, "apiVersion": STRING},
    },
    "kind of another type": {"type": "object", "properties": {"kind": {"type": "integer"}}},
}


def _root(field: Json) -> Json:
    return {"type": "object", "properties": {"spec": _item(x=field)}}


# What is wrong above the schemas: a JSON merge patch of the spec.
SPECS: dict[str, Json] = {
    "no group": {"group": None},
    "group without dot": {"group": "single"},
    "group not a name": {"group": "Ex.Io"},
    "no scope": {"scope": None},
    "scope unknown": {"scope": "Galaxy"},
    "no names": {"names": None},
    "plural not a name": {"names": {"plural": "No_Good"}},
    "singular not a name": {"names": {"singular": "No_Good"}},
    "kind not a name": {"names": {"kind": "0x"}},
    "kind is the list": {"names": {"kind": "Bad", "listKind": "Bad"}},
    "short name not a name": {"names": {"shortNames": ["A_b"]}},
    "category not a name": {"names": {"categories": ["A_b"]}},
    "preserving": {"preserveUnknownFields": True},
    "no versions": {"versions": []},
    "conversion unknown": {"conversion": {"strategy": "Magic"}},
}

# Changes of the one version.
VERSIONS: dict[str, Json] = {
    "version name": {"name": "V_1"},
    "no version name": {"name": None},
    "not storage": {"storage": False},
    "not served": {"served": False},
    "no schema": {"schema": None},
    "status subresource not an object": {"subresources": {"status": None}},
    "scale without paths": {"subresources": {"scale": {}}},
    "scale elsewhere": {
        "subresources": {
            "scale": {"specReplicasPath": ".a.b", "statusReplicasPath": "status.replicas"}
        }
    },
    "scale with an odd path": {
        "subresources": {
            "scale": {"specReplicasPath": ".spec.r[0]", "statusReplicasPath": ".status.r"}
        }
    },
    "selectable without path": {"selectableFields": [{"jsonPath": ""}]},
    "selectable unknown": {"selectableFields": [{"jsonPath": ".spec.none"}]},
    "selectable list": {"selectableFields": [{"jsonPath": ".spec.list"}]},
    "selectable metadata": {"selectableFields": [{"jsonPath": ".metadata.name"}]},
    "selectable twice": {"selectableFields": [{"jsonPath": ".spec.x"}, {"jsonPath": ".spec.x"}]},
    "selectable odd": {"selectableFields": [{"jsonPath": "spec.x"}]},
    "column without path": {"additionalPrinterColumns": [{"name": "A", "type": "string"}]},
    "column of an odd type": {
        "additionalPrinterColumns": [{"name": "A", "type": "text", "jsonPath": ".a"}]
    },
    "warning without deprecation": {"deprecationWarning": "old"},
}


# Where the server shows its own structs, or the names of its own types.
_OTHER_WORDS = (
    "root nullable",
    "root with a default",
    "root open",
    "root embedded",
    "not storage",
    "properties of another form",
    "limit of another form",
)


async def refused(player: Player, group: str) -> None:
    """Nothing of this is stored."""
    for title, field in FIELDS.items():
        await _try(player, title, crd(group, "bads", "Bad", _root(field)))
    for title, schema in ROOTS.items():
        await _try(player, title, crd(group, "bads", "Bad", schema))
        bare = crd(group, "bads", "Bad", schema, status=False)
        await _try(player, f"{title}, no status", bare)
    fields = {"x": STRING, "list": {"type": "array", "items": STRING}, "of": STRING}
    sound = crd(group, "bads", "Bad", {"type": "object", "properties": {"spec": _item(**fields)}})
    for title, change in SPECS.items():
        await _try(player, title, {**sound, "spec": merge_patch(sound["spec"], change)})
    version = sound["spec"]["versions"][0]
    for title, change in VERSIONS.items():
        changed = merge_patch(version, change)
        await _try(player, title, {**sound, "spec": {**sound["spec"], "versions": [changed]}})
        other = {**version, "name": "v2", "storage": False, "subresources": {}}
        versions = [other, changed]
        two = {**sound, "spec": {**sound["spec"], "versions": versions}}
        await _try(player, f"{title}, beside another", two)


async def _try(player: Player, title: str, definition: Json) -> None:
    words = not title.startswith(_OTHER_WORDS)
    await player.send(title, "POST", CRDS, definition, words=words, dryRun="All")


async def approvals(player: Player) -> None:
    """Of a group that is not everybody's."""
    group = f"{player.run}.kubernetes.io"
    definition = crd(group, "guards", "Guard", FREE)
    path = f"{CRDS}/guards.{group}"
    annotation = "api-approved.kubernetes.io"
    for title, given in (("nonsense", "why not"), ("link", "https://example.org/1")):
        definition["metadata"]["annotations"] = {annotation: given}
        await player.send(f"approval by {title}", "POST", CRDS, definition)
    await player.until_served(f"/apis/{group}/v1")
    for title, value in (("taken away", None), ("nonsense later", "why"), ("later", "unapproved")):
        patch = {"metadata": {"annotations": {annotation: value}}}
        await player.send(f"approval {title}", "PATCH", path, patch, MERGE_PATCH)
        await player.settle()
    for _ in range(200):
        seen = await player.send("", "GET", path)
        conditions = seen["status"]["conditions"]
        if any(entry["reason"] == "UnapprovedAnnotation" for entry in conditions):
            break
        await player.settle()
    player.answers.append(("approval in the end", seen["status"]))
    await player.send("", "DELETE", path)
