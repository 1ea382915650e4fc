"""What changes or ends under its objects: schemas, versions, namespaces."""

from __future__ import annotations

import copy

from tests.memory.replay.player import (
    CRDS,
    JSON_PATCH,
    MERGE_PATCH,
    Json,
    Player,
    crd,
    widget,
)


async def _gone(player: Player, path: str) -> None:
    # What ends namespaces looks again after a growing while.
    for _ in range(300):
        answer = await player.send("", "GET", path)
        if answer.get("code") == 404:
            return
        await player.settle()
    raise AssertionError(f"{path} does not go")


async def schema_changes(player: Player, group: str) -> None:
    send, apply = player.send, player.apply
    schema: Json = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "old": {"type": "string"},
                    "kept": {"type": "string"},
                    "list": {"type": "array", "items": {"type": "string"}},
                },
            }
        },
    }
    await send("", "POST", CRDS, crd(group, "changes", "Change", schema))
    changes = f"/apis/{group}/v1/namespaces/{player.run}/changes"
    await player.until_served(changes)
    path = f"{changes}/c"
    body: Json = {"apiVersion": f"{group}/v1", "kind": "Change", "metadata": {"name": "c"}}
    spec = {"old": "o", "kept": "k", "list": ["a", "b"]}
    await apply("before the change", path, {**body, "spec": spec}, "k")
    new = copy.deepcopy(schema)
    fields = new["properties"]["spec"]["properties"]
    del fields["old"]
    fields["fresh"] = {"type": "string", "default": "f"}
    fields["kept"]["maxLength"] = 1
    fields["list"]["x-kubernetes-list-type"] = "set"
    versions = crd(group, "changes", "Change", new)["spec"]["versions"]
    await send(
        "", "PATCH", f"{CRDS}/changes.{group}", {"spec": {"versions": versions}}, MERGE_PATCH
    )
    for _ in range(50):
        seen = await send("", "GET", path)
        if "fresh" in seen["spec"]:
            break
        await player.settle()
    await send("after the change", "GET", path)
    await send(
        "label after the change", "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH
    )
    fields["kept"]["maxLength"] = 0
    fields["kept"]["pattern"] = "^z*$"
    versions = crd(group, "changes", "Change", new)["spec"]["versions"]
    await send(
        "", "PATCH", f"{CRDS}/changes.{group}", {"spec": {"versions": versions}}, MERGE_PATCH
    )
    await player.settle()
    await player.settle()
    await player.settle()
    await send("old fault may stay", "PATCH", path, {"spec": {"fresh": "g"}}, MERGE_PATCH)
    await send("new fault may not", "PATCH", path, {"spec": {"kept": "q"}}, MERGE_PATCH)
    await send("", "DELETE", f"{CRDS}/changes.{group}")


async def version_dropped(player: Player, group: str) -> None:
    """managedFields that name a version which the CRD does not have any more."""
    send, apply = player.send, player.apply
    plain: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"served": True, "schema": {"openAPIV3Schema": plain}}
    old = {**served, "name": "v1alpha1", "storage": True}
    new = {**served, "name": "v1", "storage": False}
    definition = f"{CRDS}/drops.{group}"
    await send("", "POST", CRDS, crd(group, "drops", "Drop", plain, versions=[old, new]))
    drops = f"/apis/{group}/%s/namespaces/{player.run}/drops"
    await player.until_served(drops % "v1alpha1")
    body: Json = {"apiVersion": f"{group}/v1alpha1", "kind": "Drop", "metadata": {"name": "d"}}
    await apply("", drops % "v1alpha1" + "/d", {**body, "spec": {"a": 1, "b": 2}}, "k")
    await send("", "PATCH", drops % "v1alpha1" + "/d", {"spec": {"c": 3}}, MERGE_PATCH)
    moved = [{**old, "storage": False, "served": False}, {**new, "storage": True}]
    await send("", "PATCH", definition, {"spec": {"versions": moved}}, MERGE_PATCH)
    for _ in range(4):
        await player.settle()
    # Moves what is stored to v1; without it the server could not read the object any more.
    await send(
        "", "PATCH", drops % "v1" + "/d", {"metadata": {"labels": {"moved": "x"}}}, MERGE_PATCH
    )
    stored = [{"op": "replace", "path": "/status/storedVersions", "value": ["v1"]}]
    await player.settle()
    await send("", "PATCH", f"{definition}/status", stored, JSON_PATCH)
    await send(
        "", "PATCH", definition, {"spec": {"versions": [{**new, "storage": True}]}}, MERGE_PATCH
    )
    for _ in range(4):
        await player.settle()
    await send("read after the drop", "GET", drops % "v1" + "/d")
    body["apiVersion"] = f"{group}/v1"
    await apply("apply after the drop", drops % "v1" + "/d", {**body, "spec": {"a": 5}}, "k")
    await send(
        "update after the drop", "PATCH", drops % "v1" + "/d", {"spec": {"e": 6}}, MERGE_PATCH
    )
    await apply("other after the drop", drops % "v1" + "/d", {**body, "spec": {"f": 7}}, "other")
    there = await send("", "GET", drops % "v1" + "/d")
    entries = there["metadata"]["managedFields"]
    place = next(i for i, entry in enumerate(entries) if entry["manager"] == "k")
    renamed = [
        {
            "op": "replace",
            "path": f"/metadata/managedFields/{place}/apiVersion",
            "value": body["apiVersion"],
        }
    ]
    await send(
        "one of two stale entries renamed", "PATCH", drops % "v1" + "/d", renamed, JSON_PATCH
    )
    known = [entry for entry in entries if entry["apiVersion"] == body["apiVersion"]]
    cleaned = [{"op": "replace", "path": "/metadata/managedFields", "value": known}]
    await send("stale entries taken away", "PATCH", drops % "v1" + "/d", cleaned, JSON_PATCH)
    await apply(
        "apply after cleaning", drops % "v1" + "/d", {**body, "spec": {"a": 8}}, "k", force="true"
    )
    await send("", "DELETE", definition)


async def namespace_ends(player: Player, group: str, widgets: str) -> None:
    send = player.send
    name = f"{player.run}-end"
    inside = widgets.replace(f"namespaces/{player.run}/", f"namespaces/{name}/")
    await send(
        "namespace made",
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
    )
    await send("", "POST", inside, widget(group, "held", finalizers=["x.io/y"]))
    await send("", "POST", inside, widget(group, "free"))
    await send("namespace deleted", "DELETE", f"/api/v1/namespaces/{name}")
    await _gone(player, f"{inside}/free")
    await send("create in a dying namespace", "POST", inside, widget(group, "late"))
    await player.apply("apply in a dying namespace", f"{inside}/late", widget(group, "late"), "k")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
    await send(
        "config in a dying namespace", "POST", f"/api/v1/namespaces/{name}/configmaps", config
    )
    await send(
        "edit in a dying namespace", "PATCH", f"{inside}/held", {"spec": {"size": 3}}, MERGE_PATCH
    )
    await send(
        "release in a dying namespace",
        "PATCH",
        f"{inside}/held",
        {"metadata": {"finalizers": None}},
        MERGE_PATCH,
    )
    await _gone(player, f"/api/v1/namespaces/{name}")
    await send("namespace gone", "GET", f"/api/v1/namespaces/{name}")
