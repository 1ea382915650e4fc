"""What a server says of the APIs that CRDs define: /openapi/v3, and discovery in its forms."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson

from kbind.cluster.transport import Request
from tests.memory.replay.player import AGGREGATED, CRDS, MERGE_PATCH, Json, Player, crd

INDEX = "/openapi/v3"
OLDER = AGGREGATED.replace("v=v2", "v=v2beta1")
STRING: Json = {"type": "string"}
EITHER = [{"type": "integer"}, {"type": "string"}]

SPEC: dict[str, Json] = {
    "text": {
        "type": "string",
        "title": "Text",
        "description": "a < b & c",
        "default": "x",
        "example": "ex",
        "externalDocs": {"url": "https://example.org", "description": "more"},
        "enum": ["x", "y"],
        "minLength": 0,
        "maxLength": 5,
        "pattern": "^[a-z]*$",
        "format": "strange",
    },
    "number": {
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "maximum": 10,
        "exclusiveMaximum": True,
        "exclusiveMinimum": True,
        "multipleOf": 2,
        "default": 2,
    },
    "ratio": {"type": "number", "format": "double", "default": 1.5},
    "replicas": {"type": "integer"},
    "nothing": {"type": "string", "nullable": True, "default": None, "enum": ["a", None]},
    "either": {"x-kubernetes-int-or-string": True},
    "eitherTyped": {"type": "string", "x-kubernetes-int-or-string": True},
    "eitherNull": {"x-kubernetes-int-or-string": True, "nullable": True},
    "eitherAny": {"x-kubernetes-int-or-string": True, "anyOf": EITHER, "default": 3},
    "eitherAll": {
        "x-kubernetes-int-or-string": True,
        "allOf": [{"anyOf": EITHER}, {"pattern": "a"}],
    },
    "eitherNot": {"x-kubernetes-int-or-string": True, "not": {"enum": ["a"]}},
    "eitherOne": {"x-kubernetes-int-or-string": True, "oneOf": [{"enum": [1]}, {"enum": ["a"]}]},
    "eitherMore": {"x-kubernetes-int-or-string": True, "anyOf": [{"enum": [1]}, {"enum": ["a"]}]},
    "eitherBoth": {
        "x-kubernetes-int-or-string": True,
        "allOf": [{"pattern": "a"}],
        "anyOf": [{"enum": [1]}, {"enum": ["a"]}],
    },
    "eitherOther": {"x-kubernetes-int-or-string": True, "allOf": [{"pattern": "a"}]},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "free": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": STRING},
    },
    "open": {"type": "object", "additionalProperties": True},
    "shut": {"type": "object", "additionalProperties": False},
    "named": {
        "type": "object",
        "x-kubernetes-map-type": "granular",
        "additionalProperties": {"x-kubernetes-int-or-string": True},
    },
    "atomic": {
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "minProperties": 1,
        "maxProperties": 3,
        "properties": {"key": STRING},
    },
    "set": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": STRING,
        "minItems": 1,
        "maxItems": 4,
        "default": ["a"],
    },
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "port"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": STRING,
                "port": {"type": "integer", "default": 1},
                "values": {"type": "array", "x-kubernetes-list-type": "atomic", "items": STRING},
            },
        },
    },
    "template": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "restricted": {
        "type": "object",
        "description": "An object of its own.",
        "x-kubernetes-embedded-resource": True,
        "required": ["apiVersion", "spec"],
        "properties": {
            "apiVersion": {"type": "string", "enum": ["v1"]},
            "kind": STRING,
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": {"type": "object", "properties": {"on": {"type": "boolean"}}},
        },
    },
    "combined": {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "anyOf": [{"properties": {"a": {"minLength": 1}}}, {"not": {"required": ["b"]}}],
        "allOf": [{"minProperties": 0}],
        "not": {"required": ["c"]},
    },
    "completed": {
        "type": "object",
        "nullable": True,
        "default": {},
        "properties": {"deep": {"type": "string", "default": "d"}},
    },
    "empty": {
        "type": "object",
        "description": "",
        "properties": {},
        "required": [],
        "nullable": False,
        "unknownWord": 1,
    },
    "list": {"type": "array", "items": STRING, "uniqueItems": False, "enum": []},
}

WHOLE: Json = {
    "type": "object",
    "description": "Everything at once.",
    "required": ["spec"],
    "x-kubernetes-validations": [{"rule": "has(self.spec)", "message": ""}],
    "properties": {
        "apiVersion": {"type": "string", "description": "of our own"},
        "kind": STRING,
        "metadata": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 20, "pattern": "^a"}},
        },
        "spec": {
            "type": "object",
            "description": "What is wanted.",
            "default": {"text": "x"},
            "required": ["text"],
            "x-kubernetes-validations": [
                {
                    "rule": "self.text != 'z'",
                    "message": "no z",
                    "reason": "FieldValueInvalid",
                    "fieldPath": ".text",
                },
                {
                    "rule": "self.text == oldSelf.text",
                    "messageExpression": "'kept'",
                    "optionalOldSelf": False,
                },
            ],
            "properties": SPEC,
        },
        "status": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"replicas": {"type": "integer"}, "selector": STRING},
        },
    },
}
FREE: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
NOTHING: Json = {"components": {"schemas": {}}}


def _versions() -> list[Json]:
    old: Json = {
        "name": "v1beta1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": "use v1",
        "schema": {"openAPIV3Schema": FREE},
        "additionalPrinterColumns": [],
        "bogus": 1,
    }
    new: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "deprecated": False,
        "schema": {"openAPIV3Schema": copy.deepcopy(WHOLE)},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "selectableFields": [{"jsonPath": ".spec.text"}],
        "additionalPrinterColumns": [
            {"name": "Text", "type": "string", "jsonPath": ".spec.text", "priority": 0}
        ],
    }
    return [old, new]


async def published(player: Player) -> None:
    """The life of an API as it is published: it comes, changes, loses a version, and goes."""
    group = f"all.{player.run}.example.org"
    path = f"{CRDS}/wholes.{group}"
    names = {
        "plural": "wholes",
        "kind": "Whole",
        "shortNames": ["wh", "who"],
        "categories": ["all", "zeta"],
    }
    definition = crd(group, "wholes", "Whole", WHOLE, versions=_versions(), names=names)
    await player.send("whole created", "POST", CRDS, definition)
    await player.send("", "POST", CRDS, crd(group, "bits", "Bit", FREE, scope="Cluster"))
    await _until(player, group, "v1", "Bit Whole", lambda seen: _kinds(seen) == ["Bit", "Whole"])
    await _until(player, group, "v1beta1", "Whole", lambda seen: _kinds(seen) == ["Whole"])
    await _stand(player, group, "at first")
    await _negotiation(player, group)
    before = {version: await _url(player, group, version) for version in ("v1", "v1beta1")}

    versions = _versions()
    versions[1]["additionalPrinterColumns"] = []
    spec = versions[1]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] = {**SPEC, "latecomer": STRING}
    await player.send("", "PATCH", path, {"spec": {"versions": versions}}, MERGE_PATCH)
    await _until(player, group, "v1", "Bit Whole", lambda seen: "latecomer" in str(seen))
    await _stand(player, group, "after a change")
    after = {version: await _url(player, group, version) for version in ("v1", "v1beta1")}
    changed = {version: before[version] != after[version] for version in before}
    player.answers.append(("hashes that changed", changed))

    versions[0]["served"] = False
    await player.send("", "PATCH", path, {"spec": {"versions": versions}}, MERGE_PATCH)
    # The document of a version that is no longer served stays for as long as its CRD.
    await _until(player, group, "v1beta1", "", lambda seen: _kinds(seen) == ["Whole"])
    await _stand(player, group, "without a version")

    await player.send("", "DELETE", path)
    await _until(player, group, "v1beta1", "", lambda seen: seen is None)
    await _until(player, group, "v1", "Bit", lambda seen: _kinds(seen) == ["Bit"])
    await _stand(player, group, "after one is deleted")
    await player.send("", "DELETE", f"{CRDS}/bits.{group}")
    await _until(player, group, "v1", "", lambda seen: seen is None)
    await _stand(player, group, "after both are deleted")


def _kinds(document: Any) -> list[str]:
    names = (document or NOTHING)["components"]["schemas"]
    last = [name.rpartition(".")[2] for name in names if not name.startswith("io.k8s.")]
    return sorted(name for name in last if not name.endswith("List"))


async def _index(player: Player) -> Json:
    """The index comes as text, whatever is asked for."""
    paths: Json = orjson.loads(await player.send("", "GET", INDEX))["paths"]
    return paths


async def _url(player: Player, group: str, version: str) -> str | None:
    entry = (await _index(player)).get(f"apis/{group}/{version}")
    return entry["serverRelativeURL"] if entry else None


async def _document(player: Player, url: str | None) -> Any:
    """None where there is none; one of nothing where the index lags behind it."""
    if url is None:
        return None
    path, _, hashed = url.partition("?hash=")
    request = Request("GET", path, {"hash": hashed}, {"accept": "application/json"})
    reply = await player.transport.send(request, timeout=20)
    current = reply.headers.get("etag") == f'"{hashed}"'
    return orjson.loads(reply.body) if current else NOTHING


async def _until(
    player: Player, group: str, version: str, kinds: str, met: Callable[[Any], bool]
) -> None:
    """Waits until discovery lists *kinds* and the document is as it should be; each follows a
    change after a moment, for itself."""
    for _ in range(100):
        document = await _document(player, await _url(player, group, version))
        listed = await player.send("", "GET", f"/apis/{group}/{version}")
        resources = listed["resources"] if isinstance(listed, dict) else ()
        plain = sorted(entry["kind"] for entry in resources if "/" not in entry["name"])
        whole = await player.send("", "GET", "/apis", accept=AGGREGATED)
        if met(document) and kinds.split() == plain == _aggregated(whole, group, version):
            return
        await player.settle()
    raise AssertionError(f"{group}/{version} is not published as expected")


def _aggregated(whole: Json, group: str, version: str) -> list[str]:
    return sorted(
        resource["responseKind"]["kind"]
        for item in whole["items"]
        if item["metadata"]["name"] == group
        for listed in item["versions"]
        if listed["version"] == version
        for resource in listed["resources"]
    )


async def _stand(player: Player, group: str, when: str) -> None:
    """All that is said of a group."""
    entries = await _index(player)
    own = {
        path: entry["serverRelativeURL"].partition("=")[0]
        for path, entry in entries.items()
        if group in path or path in ("api", "api/v1", "apis", "apis/apiextensions.k8s.io/v1")
    }
    player.answers.append((f"index {when}", own))
    for version in ("v1", "v1beta1"):
        document = await _document(player, await _url(player, group, version))
        shown = document and {name: document[name] for name in ("openapi", "info", "components")}
        player.answers.append((f"document of {version} {when}", shown))
        await _listed(player, f"resources of {version} {when}", f"/apis/{group}/{version}")
    await player.send(f"no document {when}", "GET", f"{INDEX}/apis/{group}/v2")
    await player.send(f"versions {when}", "GET", f"/apis/{group}")
    whole = await player.send("", "GET", "/apis", accept=AGGREGATED)
    items = [item for item in whole["items"] if item["metadata"]["name"] == group]
    player.answers.append((f"aggregated {when}", items))
    plain = await player.send("", "GET", "/apis")
    groups = [entry for entry in plain["groups"] if entry["name"] == group]
    player.answers.append((f"groups {when}", groups))


async def _listed(player: Player, title: str, path: str) -> None:
    """Resources of one version, which the server lists in no order."""
    answer = await player.send("", "GET", path)
    if isinstance(answer, dict) and "resources" in answer:
        answer["resources"].sort(key=lambda entry: str(entry["name"]))
    player.answers.append((title, answer))


async def _negotiation(player: Player, group: str) -> None:
    """Which form is answered where several are asked for, and to whom nothing is told again."""
    for accept in (
        AGGREGATED,
        OLDER,
        f"{AGGREGATED},{OLDER},application/json",
        f"{OLDER},{AGGREGATED}",
        f"{OLDER},application/json",
        f"application/json,{AGGREGATED}",
        f"{AGGREGATED};q=0.1,application/json;q=0.9",
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
        "application/json ; g=apidiscovery.k8s.io ; v=v2 ; as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2",
        "application/*",
        "*/*",
        "image/png",
    ):
        for path in ("/api", "/apis", f"/apis/{group}", f"/apis/{group}/v1"):
            if path == "/api" and accept in ("application/*", "image/png"):
                continue  # which /api takes for something else than the rest does
            reply = await _reply(player, path, accept)
            answer = orjson.loads(reply.body)
            said = {name: answer.get(name) for name in ("kind", "apiVersion", "message")}
            said |= {"status": reply.status, "type": reply.headers.get("content-type")}
            player.answers.append((f"{path.replace(group, 'all')} as {accept}", said))
    document = f"{INDEX}/apis/{group}/v1"
    for path, accept in ((document, "*/*"), ("/apis", AGGREGATED)):
        tag = (await _reply(player, path, accept)).headers["etag"]
        known = await _reply(player, path, accept, tag)
        other = await _reply(player, path, accept, '"other"')
        statuses = [known.status, len(known.body), known.headers["etag"] == tag, other.status]
        player.answers.append((f"{path.replace(group, 'all')} known", statuses))
    odd = await _reply(player, document, "application/yaml")
    player.answers.append(("document as yaml", [odd.status, len(odd.body)]))
    found = await _reply(player, document, "*/*")
    url = await _url(player, group, "v1") or ""
    hashed = url.partition("?hash=")[2]
    player.answers.append(("tag is the hash", found.headers["etag"] == f'"{hashed}"'))
    index = await _reply(player, INDEX, "application/json")
    player.answers.append(("type of the index", index.headers["content-type"]))


async def _reply(player: Player, path: str, accept: str, known: str = "") -> Any:
    headers = {"accept": accept} | ({"if-none-match": known} if known else {})
    return await player.transport.send(Request("GET", path, {}, headers), timeout=20)
