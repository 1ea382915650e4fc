"""Patches, status, deletion, validation, pages and watches."""

from __future__ import annotations

from typing import Any

from tests.memory.replay.player import (
    JSON_PATCH,
    MERGE_PATCH,
    OTHER_UID,
    Json,
    Player,
    partial_form,
    widget,
)


async def patching(player: Player, group: str, widgets: str) -> None:
    send = player.send
    path = f"{widgets}/patched"
    await send("", "POST", widgets, widget(group, "patched", {"size": 1}, annotations={"a/b": "c"}))

    async def jp(title: str, *operations: Json) -> None:
        await send(title, "PATCH", path, list(operations), JSON_PATCH)

    await jp(
        "json patch test",
        {"op": "test", "path": "/spec/size", "value": 1},
        {"op": "replace", "path": "/spec/size", "value": 2},
    )
    await jp("json patch test fails", {"op": "test", "path": "/spec/size", "value": 1})
    await jp("json patch test absent", {"op": "test", "path": "/spec/absent", "value": 1})
    await jp("json patch test absent null", {"op": "test", "path": "/spec/absent", "value": None})
    await jp("json patch missing parent", {"op": "add", "path": "/spec/labels/x", "value": "1"})
    await jp("json patch remove absent", {"op": "remove", "path": "/spec/absent"})
    await jp("json patch replace absent", {"op": "replace", "path": "/spec/absent", "value": 1})
    await jp(
        "json patch escaped", {"op": "replace", "path": "/metadata/annotations/a~1b", "value": "d"}
    )
    await jp(
        "json patch stale", {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}
    )
    await jp(
        "json patch finalizers", {"op": "add", "path": "/metadata/finalizers", "value": ["x.io/y"]}
    )
    await jp("json patch more", {"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/z"})
    await jp("json patch none", {"op": "remove", "path": "/metadata/finalizers"})
    await jp("json patch uid", {"op": "replace", "path": "/metadata/uid", "value": OTHER_UID})
    await jp("json patch nothing")
    await send("merge patch", "PATCH", path, {"spec": {"size": None, "note": "m"}}, MERGE_PATCH)
    await send("merge patch same", "PATCH", path, {"spec": {"note": "m"}}, MERGE_PATCH)
    await send("merge patch name", "PATCH", path, {"metadata": {"name": "q"}}, MERGE_PATCH)
    await send("merge patch uid", "PATCH", path, {"metadata": {"uid": OTHER_UID}}, MERGE_PATCH)
    await send("merge patch spec gone", "PATCH", path, {"spec": None}, MERGE_PATCH)
    await send(
        "merge patch stale", "PATCH", path, {"metadata": {"resourceVersion": "1"}}, MERGE_PATCH
    )
    await send("merge patch absent", "PATCH", f"{widgets}/absent", {"spec": {}}, MERGE_PATCH)
    await send("strange patch", "PATCH", path, {"spec": {}}, "application/json")
    await send("broken json", "PATCH", path, b"{", MERGE_PATCH, words=False)
    await send("generation", "GET", path)


async def statuses(player: Player, group: str, widgets: str) -> None:
    send, apply = player.send, player.apply
    path = f"{widgets}/state"
    await send("", "POST", widgets, widget(group, "state", {"size": 1}))
    live = await send("", "GET", path)
    changed = {**live, "status": {"phase": "up"}, "spec": {"size": 7}}
    live = await send("put status", "PUT", f"{path}/status", changed)
    await send("get status", "GET", f"{path}/status")
    await send("status by main", "PATCH", path, {"status": {"phase": "no"}}, MERGE_PATCH)
    await send(
        "status by json patch",
        "PATCH",
        f"{path}/status",
        [{"op": "add", "path": "/status", "value": {"conditions": [{"type": "R", "status": "T"}]}}],
        JSON_PATCH,
    )
    await send(
        "spec by status",
        "PATCH",
        f"{path}/status",
        {"spec": {"size": 8}, "metadata": {"labels": {"a": "b"}}},
        MERGE_PATCH,
    )
    await send("bad status", "PATCH", f"{path}/status", {"status": {"phase": 5}}, MERGE_PATCH)
    await send(
        "bad condition",
        "PATCH",
        f"{path}/status",
        {"status": {"conditions": [{"type": "X"}]}},
        MERGE_PATCH,
    )
    await send("status of absent", "PATCH", f"{widgets}/absent/status", {"status": {}}, MERGE_PATCH)
    body = {**widget(group, "state"), "status": {"phase": "applied"}}
    await apply("apply status", f"{path}/status", body, "st")
    await apply(
        "apply status of absent",
        f"{widgets}/absent/status",
        {**body, "metadata": {"name": "absent"}},
        "st",
    )
    await send(
        "status empty",
        "PATCH",
        f"{path}/status",
        [{"op": "replace", "path": "/status", "value": {}}],
        JSON_PATCH,
    )
    await send(
        "status removed",
        "PATCH",
        f"{path}/status",
        [{"op": "remove", "path": "/status"}],
        JSON_PATCH,
    )
    await send("delete status", "DELETE", f"{path}/status")


async def deleting(player: Player, group: str, widgets: str) -> None:
    send = player.send
    path = f"{widgets}/held"
    await send(
        "",
        "POST",
        widgets,
        widget(group, "held", {"size": 1}, finalizers=["x.io/one", "x.io/two"]),
    )
    await send("delete held", "DELETE", path)
    await send("delete held again", "DELETE", path)
    await send("going", "GET", path)
    await send(
        "new finalizer",
        "PATCH",
        path,
        {"metadata": {"finalizers": ["x.io/one", "x.io/two", "x.io/three"]}},
        MERGE_PATCH,
    )
    await send("edit while going", "PATCH", path, {"spec": {"size": 2}}, MERGE_PATCH)
    await send("undo going", "PATCH", path, {"metadata": {"deletionTimestamp": None}}, MERGE_PATCH)
    await send("one less", "PATCH", path, {"metadata": {"finalizers": ["x.io/two"]}}, MERGE_PATCH)
    await send("the last", "PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
    await send("gone", "GET", path)
    await send("delete collection", "DELETE", widgets, labelSelector="x=y")
    await send("after collection", "GET", f"{widgets}/a")


async def validating(player: Player, group: str, widgets: str) -> None:
    send = player.send

    async def bad(title: str, spec: Any, name: str = "bad", **metadata: Any) -> None:
        await send(title, "POST", widgets, widget(group, name, spec, **metadata))

    await bad("not an integer", {"size": "1"})
    await bad("not whole", {"size": 1.5})
    await bad("too small", {"size": -1})
    await bad("too large", {"size": 101})
    await bad("not in enum", {"colour": "blue"})
    await bad("too long", {"note": "abcdefghij"})
    await bad("no match", {"note": "A"})
    await bad("too many", {"words": ["a", "b", "c", "d"]})
    await bad("missing", {"nested": {}})
    await bad("not a map", {"labels": ["a"]})
    await bad("not a list", {"words": {"a": 1}})
    await bad("wrong item", {"words": [1]})
    await bad("wrong value", {"labels": {"a": 1}})
    await bad("neither", {"port": True})
    await bad("spec a string", "text")
    await bad("several", {"size": "1", "on": "yes", "nested": {}})
    await bad("bad name", {}, name="Bad_Name")
    await bad("long name", {}, name="a" * 254)
    await bad("bad label", {}, labels={"a": "b c"})
    await bad("long label", {}, labels={"a": "b" * 64})
    await bad("bad label key", {}, labels={"a b": "c"})
    await bad("bad finalizer", {}, finalizers=["a b"])
    await send("not json", "POST", widgets, b"nonsense", words=False)
    await send("a list", "POST", widgets, [1], words=False)


async def paging(player: Player, group: str, widgets: str) -> None:
    send = player.send
    await send("", "DELETE", widgets)
    for index in range(5):
        await send(
            "",
            "POST",
            widgets,
            widget(group, f"p{index}", {"size": index}, labels={"n": str(index % 2)}),
        )
    page = await send("first page", "GET", widgets, limit="2")
    token = page["metadata"]["continue"]
    await send("", "DELETE", f"{widgets}/p3")
    page = await send("second page", "GET", widgets, limit="2", continue_=token)
    await send("last page", "GET", widgets, limit="2", continue_=page["metadata"]["continue"])
    await send("bad token", "GET", widgets, limit="2", continue_="nonsense", words=False)
    await send("selected", "GET", widgets, labelSelector="n=0")
    await send("selected page", "GET", widgets, labelSelector="n=0", limit="1")
    await send("in", "GET", widgets, labelSelector="n in (1,2),!absent")
    await send("notin", "GET", widgets, labelSelector="n notin (1),n")
    await send("unequal", "GET", widgets, labelSelector="n!=0")
    await send("by name", "GET", widgets, fieldSelector="metadata.name=p1")
    await send("by other field", "GET", widgets, fieldSelector="spec.size=1")
    await send("across namespaces", "GET", f"/apis/{group}/v1/widgets", labelSelector="n=1")
    await send("cached", "GET", widgets, resourceVersion="0", labelSelector="n=1")
    await send("metadata list", "GET", widgets, accept=partial_form("List"), labelSelector="n=1")
    await send("namespaced without", "GET", f"/apis/{group}/v1/widgets/p1")


async def watching(player: Player, group: str, widgets: str) -> None:
    send, watch = player.send, player.watch
    listed = await send("", "GET", widgets, limit="1")
    version = listed["metadata"]["resourceVersion"]
    await send("", "POST", widgets, widget(group, "w", {"size": 1}, labels={"n": "0"}))
    await send("", "PATCH", f"{widgets}/w", {"spec": {"size": 2}}, MERGE_PATCH)
    await send("", "PATCH", f"{widgets}/w", {"metadata": {"labels": {"n": "1"}}}, MERGE_PATCH)
    await send("", "PATCH", f"{widgets}/w", {"metadata": {"labels": {"n": "0"}}}, MERGE_PATCH)
    await send("", "PATCH", f"{widgets}/w/status", {"status": {"phase": "x"}}, MERGE_PATCH)
    await send("", "PATCH", f"{widgets}/w", {"metadata": {"finalizers": ["x.io/y"]}}, MERGE_PATCH)
    await send("", "DELETE", f"{widgets}/w")
    await send(
        "last finalizer", "PATCH", f"{widgets}/w", {"metadata": {"finalizers": []}}, MERGE_PATCH
    )
    await watch("watch all", widgets, resourceVersion=version)
    await watch("watch selected", widgets, resourceVersion=version, labelSelector="n=0")
    await watch("watch other", widgets, resourceVersion=version, labelSelector="n=1")
    await watch("watch by name", widgets, resourceVersion=version, fieldSelector="metadata.name=w")
    await watch("watch from now", widgets, labelSelector="n=1")
    await watch("watch bookmarks", widgets, resourceVersion=version, allowWatchBookmarks="true")
    await watch("watch too old", widgets, resourceVersion="1")
    await watch("watch bad version", widgets, resourceVersion="x")
