"""Corners: numbers, many managers, bodies and kinds of unusual form."""

from __future__ import annotations

import json
from typing import Any

from tests.memory.replay.player import (
    CRDS,
    JSON_PATCH,
    MERGE_PATCH,
    Json,
    Player,
    crd,
    partial_form,
    widget,
)


async def numbers(player: Player, group: str, widgets: str) -> None:
    """Numbers, booleans and text are told apart, and kept as the server keeps them."""
    path = f"{widgets}/numbers"

    async def free(title: str, value: str) -> None:
        start = json.dumps(widget(group, "numbers", {"free": {"v": 0}}))
        raw = start.replace('"v": 0', f'"v": {value}').encode()
        await player.apply(title, path, raw, "n")

    for value in ("1", "1.0", '"1"', "true", '"true"', "1.5", "1e3", "9007199254740993", "null"):
        await free(f"number {value}", value)
    await free("list of numbers", "[1.0, 2.50, -0.0, 1e-7]")
    await free("nested empties", '{"a": {}, "b": [], "c": {"d": {}}}')
    await free("nested empties again", '{"a": {}, "b": [], "c": {"d": {}}}')


async def managers(player: Player, group: str, widgets: str) -> None:
    send, apply = player.send, player.apply
    path = f"{widgets}/many"
    await send("", "POST", widgets, widget(group, "many", {"labels": {"start": "x"}}))
    for index in range(12):
        await send(
            "",
            "PATCH",
            path,
            {"spec": {"labels": {f"k{index:02}": "v"}}},
            MERGE_PATCH,
            fieldManager=f"m{index:02}",
        )
    many = await send("", "GET", path)
    entries = many["metadata"]["managedFields"]
    # Which ones are the oldest hangs on seconds; how many stay does not.
    player.answers.append(("most managers", len(entries)))
    await send("managers reset", "PATCH", path, {"metadata": {"managedFields": []}}, MERGE_PATCH)
    path = f"{widgets}/mixed"
    await apply("mixed apply", path, widget(group, "mixed", {"size": 1, "note": "a"}), "m")
    await send(
        "mixed update", "PATCH", path, {"spec": {"note": "b"}}, MERGE_PATCH, fieldManager="m"
    )
    await apply("mixed conflict with self", path, widget(group, "mixed", {"note": "c"}), "m")
    await apply("mixed force", path, widget(group, "mixed", {"note": "c"}), "m", force="true")
    await apply("mixed size left", path, widget(group, "mixed", {"note": "c"}), "m")
    await send("mixed take out", "PATCH", path, {"spec": {"note": None}}, MERGE_PATCH)
    await apply("mixed put back", path, widget(group, "mixed", {"note": "c"}), "m")
    finalizers = {"finalizers": ["x.io/a"]}
    await apply("finalizer applied", path, widget(group, "mixed", **finalizers), "f")
    added = [{"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/b"}]
    await send("finalizer added", "PATCH", path, added, JSON_PATCH, fieldManager="g")
    await apply("finalizer let go", path, widget(group, "mixed"), "f")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"}
    await apply("owner", path, widget(group, "mixed", ownerReferences=[owner]), "o")
    other = {**owner, "name": "p", "uid": "u-2"}
    await apply("two owners", path, widget(group, "mixed", ownerReferences=[other]), "p")
    await send(
        "metadata patched",
        "PATCH",
        path,
        {"metadata": {"annotations": {"a": None, "b": ""}}},
        MERGE_PATCH,
        accept=partial_form(""),
    )
    await send("", "PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
    await send("", "DELETE", path)


async def odd_bodies(player: Player, group: str, widgets: str) -> None:
    send = player.send
    made = await send(
        "", "POST", widgets, {**widget(group, "x"), "metadata": {"generateName": "gen-"}}
    )
    name = made["metadata"]["name"]
    player.answers.append(("generated", [name[:4], len(name)]))
    await send("", "DELETE", f"{widgets}/{made['metadata']['name']}")
    long = "m" * 129
    await send("long manager", "POST", widgets, widget(group, "lm"), fieldManager=long)
    future = await send("", "GET", widgets, limit="1")
    version = int(future["metadata"]["resourceVersion"]) + 100000
    await send("from the future", "GET", widgets, resourceVersion=str(version), words=False)
    await send("bad label selector", "GET", widgets, labelSelector="a in", words=False)
    await send("bad field selector", "GET", widgets, fieldSelector="a", words=False)
    await send("put on collection", "PUT", widgets, widget(group, "a"))
    await send("patch on collection", "PATCH", widgets, {}, MERGE_PATCH)
    await send("put without body", "PUT", f"{widgets}/a", words=False)
    await player.watch(
        "watch metadata", widgets, resourceVersion="0", labelSelector="n=1", accept=partial_form("")
    )
    await player.watch("watch one", f"{widgets}/p1", resourceVersion="0")


async def odd_kinds(player: Player, group: str) -> None:
    """Kinds whose spec is no map, or that have none."""
    send, apply = player.send, player.apply

    async def kind(plural: str, spec: Json, **more: Any) -> str:
        schema: Json = {"type": "object", "properties": {"spec": spec}}
        if spec == {}:
            schema = {"type": "object", "properties": {"data": {"type": "string"}}}
        scope = more.pop("scope", "Namespaced")
        await send("", "POST", CRDS, crd(group, plural, plural.capitalize(), schema, scope=scope))
        where = f"namespaces/{player.run}/" if scope == "Namespaced" else ""
        path = f"/apis/{group}/v1/{where}{plural}"
        await player.until_served(path)
        return path

    def body(plural: str, **fields: Any) -> Json:
        return {
            "apiVersion": f"{group}/v1",
            "kind": plural.capitalize(),
            "metadata": {"name": "a.b-c.d"},
            **fields,
        }

    path = await kind("texts", {"type": "string"})
    await apply("spec text", f"{path}/a.b-c.d", body("texts", spec="x"), "k")
    await apply("spec text gone", f"{path}/a.b-c.d", body("texts"), "k")
    await apply("spec text null", f"{path}/a.b-c.d", body("texts", spec=None), "k")
    path = await kind("lists", {"type": "array", "items": {"type": "integer"}})
    await apply("spec list", f"{path}/a.b-c.d", body("lists", spec=[1, 2]), "k")
    await apply("spec list shorter", f"{path}/a.b-c.d", body("lists", spec=[]), "k")
    path = await kind("nothings", {}, scope="Cluster")
    await apply("no spec", f"{path}/a.b-c.d", body("nothings", data="x"), "k")
    await send("cluster list", "GET", path)
    await send("cluster in namespace", "GET", f"/apis/{group}/v1/namespaces/{player.run}/nothings")
    await send(
        "cluster with namespace",
        "POST",
        path,
        {**body("nothings"), "metadata": {"name": "n", "namespace": "other"}},
    )
    peers = {
        "type": "object",
        "properties": {
            "peers": {
                "type": "array",
                "x-kubernetes-list-type": "set",
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"a": {"type": "string"}},
                },
            }
        },
    }
    path = await kind("peers", peers)
    spec = {"peers": [{"a": "1"}, {"a": "2"}]}
    await send("set of maps", "POST", path, body("peers", spec=spec))
    await apply("apply over set of maps", f"{path}/a.b-c.d", body("peers", spec={}), "k")
    await apply("apply set of maps", f"{path}/a.b-c.d", body("peers", spec=spec), "k")
    await send(
        "patch set of maps",
        "PATCH",
        f"{path}/a.b-c.d",
        {"spec": {"peers": [{"a": "3"}]}},
        MERGE_PATCH,
    )
    await send(
        "set of maps twice",
        "PATCH",
        f"{path}/a.b-c.d",
        {"spec": {"peers": [{"a": "3"}, {"a": "3"}]}},
        MERGE_PATCH,
    )
    mixed = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "known": {"type": "object", "properties": {"a": {"type": "string", "default": "d"}}},
            "open": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {"x": {"type": "integer", "default": 4}},
                },
            },
            "any": {"x-kubernetes-preserve-unknown-fields": True},
        },
    }
    path = await kind("mixes", mixed)
    await send(
        "mixed preserve",
        "POST",
        path,
        body(
            "mixes",
            spec={
                "known": {"b": 1},
                "free": {"c": {"d": 1}},
                "open": {"k": {"y": 1}, "l": {}},
                "any": [1, {"z": None}],
            },
        ),
    )
    await apply(
        "mixed preserve applied",
        f"{path}/a.b-c.d",
        body("mixes", spec={"free": {"e": 1}, "any": [1, {"z": None}], "open": {"l": {"x": 4}}}),
        "k",
    )
