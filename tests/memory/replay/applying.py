"""Creating and applying: merging, ownership, conflicts, preconditions."""

from __future__ import annotations

from tests.memory.replay.player import (
    APPLY,
    JSON_PATCH,
    MERGE_PATCH,
    OTHER_UID,
    Json,
    Player,
    partial_form,
    widget,
)


async def creating(player: Player, group: str, widgets: str) -> None:
    send = player.send
    await send("get absent", "GET", f"{widgets}/a")
    await send(
        "create", "POST", widgets, widget(group, "a", {"size": 1, "unknown": 2}, labels={"x": "y"})
    )
    await send("create again", "POST", widgets, widget(group, "a"))
    elsewhere = f"/apis/{group}/v1/namespaces/missing/widgets"
    await send("create in no namespace", "POST", elsewhere, widget(group, "a"))
    await send("get in no namespace", "GET", f"{elsewhere}/a")
    await send("list in no namespace", "GET", elsewhere)
    await send("create with version", "POST", widgets, widget(group, "b", resourceVersion="7"))
    await send("create nameless", "POST", widgets, {**widget(group, "x"), "metadata": {}})
    await send("create for other namespace", "POST", widgets, widget(group, "b", namespace="o"))
    await send(
        "create wrong version", "POST", widgets, {**widget(group, "b"), "apiVersion": "x/v1"}
    )
    await send(
        "create with status", "POST", widgets, {**widget(group, "st"), "status": {"phase": "x"}}
    )
    await send(
        "create with odd metadata",
        "POST",
        widgets,
        widget(group, "odd", labels={}, annotations={"k": "v"}, finalizers=[], bogus=1),
    )
    await send(
        "create with own manager",
        "POST",
        widgets,
        widget(group, "own", {"size": 2}),
        fieldManager="me",
    )
    await send("dry run", "POST", widgets, widget(group, "dry", {"size": 2}), dryRun="All")
    await send("dry run left nothing", "GET", f"{widgets}/dry")
    await send("metadata only", "GET", f"{widgets}/own", accept=partial_form(""))
    await send("post to object", "POST", f"{widgets}/own", widget(group, "own"))
    await send(
        "free parts",
        "POST",
        widgets,
        widget(
            group,
            "free",
            {
                "free": {"a": {"b": [1, {"c": None}], "e": {}}, "n": None, "f": 1.0, "g": 1.5},
                "template": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"labels": {"a": "b"}, "creationTimestamp": None, "odd": 1},
                    "spec": {"x": 1},
                    "status": {"y": 2},
                },
                "maybe": None,
                "note": None,
                "colour": None,
                "nested": {"must": "be"},
                "port": "5%",
            },
        ),
    )


async def applying(player: Player, group: str, widgets: str) -> None:
    send, apply = player.send, player.apply
    a = f"{widgets}/applied"
    await apply("apply new", a, widget(group, "applied", {"size": 1, "note": "x"}), "one")
    await apply("apply same", a, widget(group, "applied", {"size": 1, "note": "x"}), "one")
    await apply("apply conflict", a, widget(group, "applied", {"size": 2}), "two")
    await apply("apply two conflicts", a, widget(group, "applied", {"size": 2, "note": "y"}), "two")
    await apply("apply shared", a, widget(group, "applied", {"size": 1}), "two")
    await apply("apply shared again", a, widget(group, "applied", {"size": 1}), "two")
    await apply("apply forced", a, widget(group, "applied", {"size": 5}), "two", force="true")
    await apply("apply note only", a, widget(group, "applied", {"note": "x"}), "one")
    await apply("apply nothing", a, widget(group, "applied"), "one")
    await apply("apply empty spec", a, widget(group, "applied", {}), "one")
    await apply("apply by name of URL", a, {"apiVersion": f"{group}/v1", "kind": "Widget"}, "one")
    await apply("apply other name", a, widget(group, "other"), "one")
    await apply("apply other kind", a, {**widget(group, "applied"), "kind": "Gadget"}, "one")
    await apply("apply other version", a, {**widget(group, "applied"), "apiVersion": "x/v1"}, "one")
    await send("apply without manager", "PATCH", a, widget(group, "applied"), APPLY)
    await apply("apply unknown field", a, widget(group, "applied", {"bogus": 1}), "one")
    await apply("apply wrong type", a, widget(group, "applied", {"size": "x"}), "one")
    await apply("apply managedFields", a, widget(group, "applied", managedFields=[]), "one")
    await apply("apply metadata", a, widget(group, "applied", labels={"a": "1"}), "one")
    await apply("apply less metadata", a, widget(group, "applied", annotations={"b": "2"}), "one")
    await apply("apply null", a, widget(group, "applied", {"note": None, "size": None}), "one")
    await send("update over apply", "PATCH", a, {"spec": {"size": 9, "on": True}}, MERGE_PATCH)
    await apply("apply meets update", a, widget(group, "applied", {"size": 3}), "two")
    await apply("apply takes back", a, widget(group, "applied", {"size": 3}), "two", force="true")
    await apply("apply gives up", a, widget(group, "applied", {"colour": "red"}), "two")
    await send("force without apply", "PATCH", a, {"spec": {}}, MERGE_PATCH, force="true")
    await apply("apply yaml", a, _yaml(group), "yaml")
    await apply(
        "apply in no namespace",
        f"/apis/{group}/v1/namespaces/missing/widgets/a",
        widget(group, "a"),
        "one",
    )
    await send(
        "clear managedFields", "PATCH", a, {"metadata": {"managedFields": [{}]}}, MERGE_PATCH
    )
    await send("update untracked", "PATCH", a, {"spec": {"size": 4}}, MERGE_PATCH)
    await apply("apply after clearing", a, widget(group, "applied", {"size": 4}), "one")


def _yaml(group: str) -> bytes:
    text = f"apiVersion: {group}/v1\nkind: Widget\nmetadata:\n  name: applied\n"
    return (text + "spec:\n  ratio: 1.50\n").encode()


async def lists_and_maps(player: Player, group: str, widgets: str) -> None:
    apply, send = player.apply, player.send
    path = f"{widgets}/lists"

    async def state(title: str, manager: str, spec: Json, **query: str) -> None:
        await apply(title, path, widget(group, "lists", spec), manager, **query)

    await state("sets", "one", {"tags": ["a", "b"], "labels": {"k": "1", "l": "2"}})
    await state("sets merge", "two", {"tags": ["b", "c"], "labels": {"m": "3"}})
    await state("sets shrink", "one", {"tags": ["a"], "labels": {"k": "1"}})
    await state("map conflict", "two", {"labels": {"k": "9"}})
    await state("sets empty", "one", {"tags": [], "labels": {}})
    await state("sets gone", "two", {"size": 1})
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    await state("list map", "one", {"env": env})
    await state(
        "list map merges",
        "two",
        {"env": [{"name": "C", "value": "3"}, {"name": "A", "extra": "e"}]},
    )
    await state("list map conflict", "two", {"env": [{"name": "B", "value": "x"}]})
    await state("list map reorder", "one", {"env": [env[1], env[0]]})
    await state("list map shrinks", "one", {"env": [{"name": "B", "value": "2"}]})
    await state("list map twice", "one", {"env": [env[0], env[0]]})
    await state("list map keyless", "one", {"env": [{"value": "x"}]})
    await state("set twice", "one", {"tags": ["a", "a"]})
    await state("atomic list", "one", {"words": ["a", "b"]})
    await state("atomic list conflict", "two", {"words": ["a"]})
    await state("atomic map", "one", {"whole": {"a": "1"}})
    await state("atomic map conflict", "two", {"whole": {"b": "1"}})
    await state("atomic map forced", "two", {"whole": {"b": "1"}}, force="true")
    await state("free", "one", {"free": {"m": {"x": 1, "y": {}}, "l": [1, 2], "e": []}})
    await state("free merges", "two", {"free": {"m": {"z": 2}}})
    await state("free conflict", "two", {"free": {"l": [3], "m": {"x": "1"}}})
    await state("free same", "one", {"free": {"m": {"x": 1, "y": {}}, "l": [1, 2], "e": []}})
    await state("free null", "one", {"free": {"m": None, "n": None}})
    await state("free type changes", "one", {"free": {"m": "text", "l": {"a": 1}}}, force="true")
    await send(
        "create twice in list",
        "POST",
        widgets,
        widget(group, "twice", {"env": [env[0], env[0]], "tags": ["a", "a"]}),
    )
    await send(
        "json patch list",
        "PATCH",
        path,
        [
            {"op": "add", "path": "/spec/env", "value": [{"name": "Z", "value": "z"}]},
            {"op": "add", "path": "/spec/tags", "value": ["q"]},
        ],
        JSON_PATCH,
    )
    await state("apply after patch", "one", {"env": [{"name": "Z", "value": "y"}], "tags": ["q"]})
    await state("nothing left", "one", {})


async def preconditions(player: Player, group: str, widgets: str) -> None:
    apply, send = player.apply, player.send
    path = f"{widgets}/pre"
    first = await apply(
        "apply version 1 creates",
        path,
        widget(group, "pre", {"size": 1}, resourceVersion="1"),
        "k",
    )
    await apply(
        "apply version 1 on existing",
        path,
        widget(group, "pre", {"size": 1}, resourceVersion="1"),
        "k",
    )
    uid, version = first["metadata"]["uid"], first["metadata"]["resourceVersion"]
    await apply("apply own uid", path, widget(group, "pre", {"size": 2}, uid=uid), "k")
    await apply(
        "apply other uid", path, widget(group, "pre", {"size": 3}, uid=OTHER_UID), "k", force="true"
    )
    await apply(
        "apply old version", path, widget(group, "pre", {"size": 4}, resourceVersion=version), "k"
    )
    live = await send("", "GET", path)
    await apply(
        "apply live version",
        path,
        widget(
            group, "pre", {"size": 4}, uid=uid, resourceVersion=live["metadata"]["resourceVersion"]
        ),
        "k",
    )
    await apply("apply uid to absent", f"{widgets}/absent", widget(group, "absent", uid=uid), "k")
    await send(
        "put old version", "PUT", path, widget(group, "pre", {"size": 5}, resourceVersion=version)
    )
    await send("put no version", "PUT", path, widget(group, "pre", {"size": 5}))
    await send(
        "put absent", "PUT", f"{widgets}/absent", widget(group, "absent", resourceVersion="5")
    )
    live = await send("", "GET", path)
    await send(
        "put other uid", "PUT", path, {**live, "metadata": {**live["metadata"], "uid": OTHER_UID}}
    )
    await send("put other name", "PUT", f"{widgets}/absent", live)
    await send("put unchanged", "PUT", path, live)
    live["spec"] = {"size": 6}
    live["metadata"]["labels"] = {"new": "one"}
    await send("put", "PUT", path, live)
    wrong = {"preconditions": {"uid": OTHER_UID}}
    await send("delete other uid", "DELETE", path, wrong)
    await send(
        "delete old version", "DELETE", path, {"preconditions": {"resourceVersion": version}}
    )
    await send(
        "delete own uid",
        "DELETE",
        path,
        {"preconditions": {"uid": uid}, "propagationPolicy": "Background"},
    )
    await send("delete absent", "DELETE", path, {"preconditions": {"uid": uid}})
