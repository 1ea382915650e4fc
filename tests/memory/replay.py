"""One script of requests, and what makes the answers of two servers comparable."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from kbind.cluster.transport import Reply, Request, Transport

Json = dict[str, Any]

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

WIDGET_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 100},
                "colour": {"type": "string", "default": "red", "enum": ["red", "green"]},
                "note": {"type": "string", "maxLength": 8, "pattern": "^[a-z]*$"},
                "ratio": {"type": "number"},
                "on": {"type": "boolean"},
                "port": {"x-kubernetes-int-or-string": True},
                "maybe": {"type": "string", "nullable": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "words": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
                "env": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "value": {"type": "string"},
                            "extra": {"type": "string"},
                        },
                    },
                },
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "nested": {
                    "type": "object",
                    "required": ["must"],
                    "properties": {
                        "must": {"type": "string"},
                        "level": {"type": "integer", "default": 3},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type", "status"],
                        "properties": {
                            "type": {"type": "string"},
                            "status": {"type": "string"},
                        },
                    },
                },
            },
        },
    },
}


def crd(group: str, plural: str, kind: str, schema: Json, **more: Any) -> Json:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if more.pop("status", True):
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": more.pop("versions", [version]),
            **more,
        },
    }


class Player:
    """Sends the script's requests and keeps the answers.

    run: a word that the server does not know yet, for the names of what the script makes.
    """

    def __init__(
        self, transport: Transport, settle: Callable[[], Awaitable[None]], run: str
    ) -> None:
        self.transport = transport
        self.run = run
        self.group = f"{run}.example.org"
        self.settle = settle
        self.answers: list[tuple[str, Any]] = []

    async def send(
        self,
        title: str,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
        *,
        accept: str = "application/json",
        words: bool = True,
        query: dict[str, str] | None = None,
        **more: str,
    ) -> Any:
        """One request; its answer is compared under *title* ("" to leave it out).

        words: compare the message, too; some name the innards of Go. query, more: the query;
        an underscore at the end of a name is for Python only.
        """
        headers = {"content-type": kind, "accept": accept, "user-agent": "replay/1.0 (test)"}
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        asked = {**(query or {}), **{name.rstrip("_"): value for name, value in more.items()}}
        reply = await self.transport.send(Request(method, path, asked, headers, raw), timeout=20)
        parsed = _parsed(reply)
        if title:
            shown = parsed
            if not words:
                shown = {name: parsed.get(name) for name in ("code", "reason")}
            self.answers.append((title, {"status": reply.status, "body": shown}))
        return parsed

    async def apply(self, title: str, path: str, body: Json, manager: str, **query: str) -> Any:
        return await self.send(
            title, "PATCH", path, body, APPLY, query={"fieldManager": manager, **query}
        )

    async def watch(self, title: str, path: str, **query: str) -> list[Json]:
        """The events of a watch that ends after a second."""
        query = {"watch": "true", "timeoutSeconds": "1", **query}
        raw = b""
        async with self.transport.stream(
            Request("GET", path, query, {"accept": "application/json"}), silence=20
        ) as stream:
            status = stream.status
            async for chunk in stream.chunks():
                raw += chunk
        events = [orjson.loads(line) for line in raw.splitlines() if line]
        if title:
            # Bookmarks come when the server likes.
            shown = [event for event in events if event.get("type") != "BOOKMARK"]
            self.answers.append((title, {"status": status, "events": shown}))
        return events

    async def until_served(self, path: str) -> None:
        for _ in range(200):
            reply = await self.transport.send(Request("GET", path), timeout=20)
            if reply.status == 200:
                return
            await self.settle()
        raise AssertionError(f"{path} is not served")


def _parsed(reply: Reply) -> Any:
    if reply.headers.get("content-type", "").startswith("application/json"):
        return orjson.loads(reply.body)
    return reply.body.decode()


def normalised(answers: list[tuple[str, Any]], run: str) -> list[tuple[str, Any]]:
    """Answers without what differs between two runs: UIDs, times, versions, the run's name.

    Versions become ranks among those that were seen of one object.
    """
    seen: dict[str, set[int]] = {}
    _collect(answers, seen)
    ranks = {
        (uid, version): f"<version {rank}>"
        for uid, versions in seen.items()
        for rank, version in enumerate(sorted(versions))
    }
    uids: dict[str, str] = {}
    return [(title, _normal(answer, run, ranks, uids)) for title, answer in answers]


def _collect(value: Any, seen: dict[str, set[int]]) -> None:
    if isinstance(value, dict):
        version = value.get("resourceVersion")
        if "uid" in value and isinstance(version, str) and version.isdigit():
            seen.setdefault(value["uid"], set()).add(int(version))
        for item in value.values():
            _collect(item, seen)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, seen)


def _normal(value: Any, run: str, ranks: dict[tuple[str, int], str], uids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        result: Json = {}
        for name, item in value.items():
            if name == "resourceVersion" and isinstance(item, str) and item.isdigit():
                result[name] = ranks.get((value.get("uid", ""), int(item)), "<version>")
            elif name in ("continue", "storageVersionHash") and item:
                result[name] = f"<{name}>"
            elif name in ("managedFields", "causes", "conditions") and isinstance(item, list):
                # Their order depends on seconds, or on Go's maps.
                entries = [_normal(entry, run, ranks, uids) for entry in item]
                result[name] = sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
            elif name == "message" and len(value.get("details", {}).get("causes", ())) > 1:
                result[name] = "".join(sorted(_normal(item, run, ranks, uids)))
            else:
                result[name] = _normal(item, run, ranks, uids)
        return result
    if isinstance(value, list):
        return [_normal(item, run, ranks, uids) for item in value]
    if isinstance(value, str):
        value = _TIME.sub("<time>", value.replace(run, "<run>"))
        value = re.sub(r"(precondition|record|version: 1) \(\d+\)", r"\1 (<version>)", value)
        return _UID.sub(lambda match: uids.setdefault(match[0], f"<uid {len(uids)}>"), value)
    return value


async def play(player: Player) -> None:
    """The whole script."""
    send, group = player.send, player.group
    await send("", "POST", "/api/v1/namespaces", {"metadata": {"name": player.run}})
    widgets = await _definitions(player, group)
    await _creating(player, group, widgets)
    await _applying(player, group, widgets)
    await _lists_and_maps(player, group, widgets)
    await _preconditions(player, group, widgets)
    await _patching(player, group, widgets)
    await _statuses(player, group, widgets)
    await _deleting(player, group, widgets)
    await _validating(player, group, widgets)
    await _paging(player, group, widgets)
    await _watching(player, group, widgets)
    await _builtins(player)
    await _more_definitions(player, group)


def _widget(group: str, name: str, spec: Any = None, **metadata: Any) -> Json:
    widget: Json = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
    }
    if spec is not None:
        widget["spec"] = spec
    return widget


async def _definitions(player: Player, group: str) -> str:
    send = player.send
    widgets = f"/apis/{group}/v1/namespaces/{player.run}/widgets"
    await send("api not served", "GET", widgets)
    definition = crd(group, "widgets", "Widget", WIDGET_SCHEMA)
    await send("crd created", "POST", CRDS, definition)
    await send("crd twice", "POST", CRDS, definition)
    await player.until_served(widgets)
    await player.settle()
    await send("crd established", "GET", f"{CRDS}/widgets.{group}")
    await send("group", "GET", f"/apis/{group}")
    await send("group version", "GET", f"/apis/{group}/v1")
    await send("other version", "GET", f"/apis/{group}/v2")
    await send("no such path", "GET", "/nowhere")
    await send("no such subresource", "GET", f"{widgets}/a/scale")
    return widgets


async def _creating(player: Player, group: str, widgets: str) -> None:
    send = player.send
    await send("get absent", "GET", f"{widgets}/a")
    await send(
        "create", "POST", widgets, _widget(group, "a", {"size": 1, "unknown": 2}, labels={"x": "y"})
    )
    await send("create again", "POST", widgets, _widget(group, "a"))
    elsewhere = f"/apis/{group}/v1/namespaces/missing/widgets"
    await send("create in no namespace", "POST", elsewhere, _widget(group, "a"))
    await send("get in no namespace", "GET", f"{elsewhere}/a")
    await send("list in no namespace", "GET", elsewhere)
    await send("create with version", "POST", widgets, _widget(group, "b", resourceVersion="7"))
    await send("create nameless", "POST", widgets, {**_widget(group, "x"), "metadata": {}})
    await send("create for other namespace", "POST", widgets, _widget(group, "b", namespace="o"))
    await send(
        "create wrong version", "POST", widgets, {**_widget(group, "b"), "apiVersion": "x/v1"}
    )
    await send(
        "create with status", "POST", widgets, {**_widget(group, "st"), "status": {"phase": "x"}}
    )
    await send(
        "create with odd metadata",
        "POST",
        widgets,
        _widget(group, "odd", labels={}, annotations={"k": "v"}, finalizers=[], bogus=1),
    )
    await send(
        "create with own manager",
        "POST",
        widgets,
        _widget(group, "own", {"size": 2}),
        fieldManager="me",
    )
    await send("dry run", "POST", widgets, _widget(group, "dry", {"size": 2}), dryRun="All")
    await send("dry run left nothing", "GET", f"{widgets}/dry")
    await send("metadata only", "GET", f"{widgets}/own", accept=_partial(""))
    await send("post to object", "POST", f"{widgets}/own", _widget(group, "own"))
    await send(
        "free parts",
        "POST",
        widgets,
        _widget(
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


def _partial(suffix: str) -> str:
    return f"application/json;as=PartialObjectMetadata{suffix};g=meta.k8s.io;v=v1"


async def _applying(player: Player, group: str, widgets: str) -> None:
    send, apply = player.send, player.apply
    a = f"{widgets}/applied"
    await apply("apply new", a, _widget(group, "applied", {"size": 1, "note": "x"}), "one")
    await apply("apply same", a, _widget(group, "applied", {"size": 1, "note": "x"}), "one")
    await apply("apply conflict", a, _widget(group, "applied", {"size": 2}), "two")
    await apply(
        "apply two conflicts", a, _widget(group, "applied", {"size": 2, "note": "y"}), "two"
    )
    await apply("apply shared", a, _widget(group, "applied", {"size": 1}), "two")
    await apply("apply shared again", a, _widget(group, "applied", {"size": 1}), "two")
    await apply("apply forced", a, _widget(group, "applied", {"size": 5}), "two", force="true")
    await apply("apply note only", a, _widget(group, "applied", {"note": "x"}), "one")
    await apply("apply nothing", a, _widget(group, "applied"), "one")
    await apply("apply empty spec", a, _widget(group, "applied", {}), "one")
    await apply("apply by name of URL", a, {"apiVersion": f"{group}/v1", "kind": "Widget"}, "one")
    await apply("apply other name", a, _widget(group, "other"), "one")
    await apply("apply other kind", a, {**_widget(group, "applied"), "kind": "Gadget"}, "one")
    await apply(
        "apply other version", a, {**_widget(group, "applied"), "apiVersion": "x/v1"}, "one"
    )
    await send("apply without manager", "PATCH", a, _widget(group, "applied"), APPLY)
    await apply("apply unknown field", a, _widget(group, "applied", {"bogus": 1}), "one")
    await apply("apply wrong type", a, _widget(group, "applied", {"size": "x"}), "one")
    await apply("apply managedFields", a, _widget(group, "applied", managedFields=[]), "one")
    await apply("apply metadata", a, _widget(group, "applied", labels={"a": "1"}), "one")
    await apply("apply less metadata", a, _widget(group, "applied", annotations={"b": "2"}), "one")
    await apply("apply null", a, _widget(group, "applied", {"note": None, "size": None}), "one")
    await send("update over apply", "PATCH", a, {"spec": {"size": 9, "on": True}}, MERGE_PATCH)
    await apply("apply meets update", a, _widget(group, "applied", {"size": 3}), "two")
    await apply("apply takes back", a, _widget(group, "applied", {"size": 3}), "two", force="true")
    await apply("apply gives up", a, _widget(group, "applied", {"colour": "red"}), "two")
    await send("force without apply", "PATCH", a, {"spec": {}}, MERGE_PATCH, force="true")
    await apply("apply yaml", a, _yaml(group), "yaml")  # type: ignore[arg-type]
    await apply(
        "apply in no namespace",
        f"/apis/{group}/v1/namespaces/missing/widgets/a",
        _widget(group, "a"),
        "one",
    )
    await send(
        "clear managedFields", "PATCH", a, {"metadata": {"managedFields": [{}]}}, MERGE_PATCH
    )
    await send("update untracked", "PATCH", a, {"spec": {"size": 4}}, MERGE_PATCH)
    await apply("apply after clearing", a, _widget(group, "applied", {"size": 4}), "one")


def _yaml(group: str) -> bytes:
    text = f"apiVersion: {group}/v1\nkind: Widget\nmetadata:\n  name: applied\n"
    return (text + "spec:\n  ratio: 1.50\n").encode()


async def _lists_and_maps(player: Player, group: str, widgets: str) -> None:
    apply, send = player.apply, player.send
    path = f"{widgets}/lists"

    async def state(title: str, manager: str, spec: Json, **query: str) -> None:
        await apply(title, path, _widget(group, "lists", spec), manager, **query)

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
        _widget(group, "twice", {"env": [env[0], env[0]], "tags": ["a", "a"]}),
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


async def _preconditions(player: Player, group: str, widgets: str) -> None:
    apply, send = player.apply, player.send
    path = f"{widgets}/pre"
    first = await apply(
        "apply version 1 creates",
        path,
        _widget(group, "pre", {"size": 1}, resourceVersion="1"),
        "k",
    )
    await apply(
        "apply version 1 on existing",
        path,
        _widget(group, "pre", {"size": 1}, resourceVersion="1"),
        "k",
    )
    uid, version = first["metadata"]["uid"], first["metadata"]["resourceVersion"]
    await apply("apply own uid", path, _widget(group, "pre", {"size": 2}, uid=uid), "k")
    await apply(
        "apply other uid", path, _widget(group, "pre", {"size": 3}, uid=_OTHER), "k", force="true"
    )
    await apply(
        "apply old version", path, _widget(group, "pre", {"size": 4}, resourceVersion=version), "k"
    )
    live = await send("", "GET", path)
    await apply(
        "apply live version",
        path,
        _widget(
            group, "pre", {"size": 4}, uid=uid, resourceVersion=live["metadata"]["resourceVersion"]
        ),
        "k",
    )
    await apply("apply uid to absent", f"{widgets}/absent", _widget(group, "absent", uid=uid), "k")
    await send(
        "put old version", "PUT", path, _widget(group, "pre", {"size": 5}, resourceVersion=version)
    )
    await send("put no version", "PUT", path, _widget(group, "pre", {"size": 5}))
    await send(
        "put absent", "PUT", f"{widgets}/absent", _widget(group, "absent", resourceVersion="5")
    )
    live = await send("", "GET", path)
    await send(
        "put other uid", "PUT", path, {**live, "metadata": {**live["metadata"], "uid": _OTHER}}
    )
    await send("put other name", "PUT", f"{widgets}/absent", live)
    await send("put unchanged", "PUT", path, live)
    live["spec"] = {"size": 6}
    live["metadata"]["labels"] = {"new": "one"}
    await send("put", "PUT", path, live)
    wrong = {"preconditions": {"uid": _OTHER}}
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


_OTHER = "00000000-0000-4000-8000-000000000000"


async def _patching(player: Player, group: str, widgets: str) -> None:
    send = player.send
    path = f"{widgets}/patched"
    await send(
        "", "POST", widgets, _widget(group, "patched", {"size": 1}, annotations={"a/b": "c"})
    )

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
    await jp("json patch uid", {"op": "replace", "path": "/metadata/uid", "value": _OTHER})
    await jp("json patch nothing")
    await send("merge patch", "PATCH", path, {"spec": {"size": None, "note": "m"}}, MERGE_PATCH)
    await send("merge patch same", "PATCH", path, {"spec": {"note": "m"}}, MERGE_PATCH)
    await send("merge patch name", "PATCH", path, {"metadata": {"name": "q"}}, MERGE_PATCH)
    await send("merge patch uid", "PATCH", path, {"metadata": {"uid": _OTHER}}, MERGE_PATCH)
    await send("merge patch spec gone", "PATCH", path, {"spec": None}, MERGE_PATCH)
    await send(
        "merge patch stale", "PATCH", path, {"metadata": {"resourceVersion": "1"}}, MERGE_PATCH
    )
    await send("merge patch absent", "PATCH", f"{widgets}/absent", {"spec": {}}, MERGE_PATCH)
    await send("strange patch", "PATCH", path, {"spec": {}}, "application/json")
    await send("broken json", "PATCH", path, b"{", MERGE_PATCH, words=False)
    await send("generation", "GET", path)


async def _statuses(player: Player, group: str, widgets: str) -> None:
    send, apply = player.send, player.apply
    path = f"{widgets}/state"
    await send("", "POST", widgets, _widget(group, "state", {"size": 1}))
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
    body = {**_widget(group, "state"), "status": {"phase": "applied"}}
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


async def _deleting(player: Player, group: str, widgets: str) -> None:
    send = player.send
    path = f"{widgets}/held"
    await send(
        "",
        "POST",
        widgets,
        _widget(group, "held", {"size": 1}, finalizers=["x.io/one", "x.io/two"]),
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


async def _validating(player: Player, group: str, widgets: str) -> None:
    send = player.send

    async def bad(title: str, spec: Any, name: str = "bad", **metadata: Any) -> None:
        await send(title, "POST", widgets, _widget(group, name, spec, **metadata))

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


async def _paging(player: Player, group: str, widgets: str) -> None:
    send = player.send
    await send("", "DELETE", widgets)
    for index in range(5):
        await send(
            "",
            "POST",
            widgets,
            _widget(group, f"p{index}", {"size": index}, labels={"n": str(index % 2)}),
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
    await send("metadata list", "GET", widgets, accept=_partial("List"), labelSelector="n=1")
    await send("namespaced without", "GET", f"/apis/{group}/v1/widgets/p1")


async def _watching(player: Player, group: str, widgets: str) -> None:
    send, watch = player.send, player.watch
    listed = await send("", "GET", widgets, limit="1")
    version = listed["metadata"]["resourceVersion"]
    await send("", "POST", widgets, _widget(group, "w", {"size": 1}, labels={"n": "0"}))
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


async def _builtins(player: Player) -> None:
    send, apply = player.send, player.apply
    secrets = f"/api/v1/namespaces/{player.run}/secrets"
    maps = f"/api/v1/namespaces/{player.run}/configmaps"
    secret: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await send(
        "secret", "POST", secrets, {**secret, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    )
    await send(
        "secret merge",
        "PATCH",
        f"{secrets}/s",
        {"stringData": {"a": "z"}, "data": {"c": None}},
        MERGE_PATCH,
    )
    await send("secret type", "PATCH", f"{secrets}/s", {"type": "kubernetes.io/tls"}, MERGE_PATCH)
    await send(
        "secret not base64", "PATCH", f"{secrets}/s", {"data": {"c": "?"}}, MERGE_PATCH, words=False
    )
    await apply(
        "secret apply",
        f"{secrets}/t",
        {**secret, "metadata": {"name": "t"}, "data": {"a": "ZA=="}},
        "one",
    )
    await apply(
        "secret apply text",
        f"{secrets}/t",
        {**secret, "metadata": {"name": "t"}, "stringData": {"b": "x"}},
        "one",
    )
    await apply(
        "secret apply unknown",
        f"{secrets}/t",
        {**secret, "metadata": {"name": "t"}, "bogus": 1},
        "one",
    )
    await apply(
        "tls without keys",
        f"{secrets}/u",
        {**secret, "metadata": {"name": "u"}, "type": "kubernetes.io/tls"},
        "one",
    )
    await send(
        "secret empty",
        "PATCH",
        f"{secrets}/s",
        [{"op": "replace", "path": "/data", "value": {}}],
        JSON_PATCH,
    )
    await send("secrets", "GET", secrets, fieldSelector="metadata.name=s")
    config: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    await send("config", "POST", maps, {**config, "data": {"a": "b"}, "immutable": True, "odd": 1})
    await send("config immutable", "PATCH", f"{maps}/c", {"data": {"a": "c"}}, MERGE_PATCH)
    await send("config mutable", "PATCH", f"{maps}/c", {"immutable": False}, MERGE_PATCH)
    await send(
        "config labels", "PATCH", f"{maps}/c", {"metadata": {"labels": {"x": "y"}}}, MERGE_PATCH
    )
    await send(
        "config wrong",
        "POST",
        maps,
        {**config, "metadata": {"name": "d"}, "data": {"a": 1}},
        words=False,
    )
    await send(
        "config bad key", "POST", maps, {**config, "metadata": {"name": "d"}, "data": {"a b": "1"}}
    )
    bare = {"metadata": {"name": "bare"}, "data": {"x": ""}}
    made = await send("config without type", "POST", maps, bare)
    del made["metadata"]["resourceVersion"]
    await send("config put", "PUT", f"{maps}/bare", {**made, "data": {"x": "2"}})
    await send("config empty", "PUT", f"{maps}/bare", {**made, "data": {}})
    await send("delete config", "DELETE", f"{maps}/c")
    await send(
        "event",
        "POST",
        f"/api/v1/namespaces/{player.run}/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "reason": "R",
            "message": "m",
            "type": "Warning",
            "count": 1,
            "involvedObject": {"kind": "Widget", "name": "a", "namespace": player.run},
            "source": {"component": "k"},
            "firstTimestamp": "2026-01-01T00:00:00Z",
        },
    )
    await send(
        "event elsewhere",
        "POST",
        f"/api/v1/namespaces/{player.run}/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "f"},
            "involvedObject": {"kind": "Widget", "name": "a", "namespace": "other"},
        },
    )
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{player.run}/leases"
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    made = await send("lease", "POST", leases, lease)
    made["spec"]["holderIdentity"] = "you"
    await send("lease put", "PUT", f"{leases}/l", made)
    await send("lease put stale", "PUT", f"{leases}/l", made)
    await send(
        "namespace",
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Bad_"}},
    )
    await send("immortal", "DELETE", "/api/v1/namespaces/kube-system")


async def _more_definitions(player: Player, group: str) -> None:
    send = player.send
    plain = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await send("", "POST", CRDS, crd(group, "plains", "Plain", plain, status=False))
    plains = f"/apis/{group}/v1/namespaces/{player.run}/plains"
    await player.until_served(plains)
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Plain",
        "metadata": {"name": "p"},
        "status": {"a": 1},
        "data": [1],
    }
    await send("without status subresource", "POST", plains, body)
    await send("status is a field", "PATCH", f"{plains}/p", {"status": {"b": 2}}, MERGE_PATCH)
    await send(
        "labels do not count",
        "PATCH",
        f"{plains}/p",
        {"metadata": {"labels": {"a": "b"}}},
        MERGE_PATCH,
    )
    await send(
        "no status endpoint", "PATCH", f"{plains}/p/status", {"status": {"b": 2}}, MERGE_PATCH
    )
    await player.apply("apply free root", f"{plains}/p", {**body, "status": {"a": 2}}, "one")
    await player.apply(
        "apply free root forced", f"{plains}/p", {**body, "status": {"a": 2}}, "one", force="true"
    )
    taken = crd(group, "others", "Widget", plain)
    await send("", "POST", CRDS, taken)
    await player.settle()
    other = await send("", "GET", f"{CRDS}/others.{group}")
    player.answers.append(("kind taken", other["status"]))
    await send("", "DELETE", f"{CRDS}/others.{group}")
    protected = crd(f"{player.run}.k8s.io", "prots", "Prot", plain)
    await send("not approved", "POST", CRDS, protected)
    protected["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await send("", "POST", CRDS, protected)
    await player.settle()
    prot = await send("", "GET", f"{CRDS}/prots.{player.run}.k8s.io")
    player.answers.append(("unapproved", prot["status"]))
    await send("", "DELETE", f"{CRDS}/prots.{player.run}.k8s.io")
    await send(
        "crd bad name",
        "POST",
        CRDS,
        {**crd(group, "bads", "Bad", plain), "metadata": {"name": "x"}},
    )
    await send(
        "crd no type",
        "POST",
        CRDS,
        crd(group, "bads", "Bad", {"type": "object", "properties": {"spec": {}}}),
    )
    await send(
        "crd webhook left",
        "POST",
        CRDS,
        crd(
            group,
            "bads",
            "Bad",
            plain,
            conversion={
                "strategy": "None",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://x.y/z"},
                },
            },
        ),
    )
    await _versions_of(player, group, plain)
    await _crd_going(player, group, plains)


async def _versions_of(player: Player, group: str, plain: Json) -> None:
    send = player.send
    old = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": plain},
    }
    new = {"name": "v1", "served": True, "storage": False, "schema": {"openAPIV3Schema": plain}}
    path = f"{CRDS}/moves.{group}"
    definition = crd(group, "moves", "Move", plain, versions=[old, new])
    await send("", "POST", CRDS, definition)
    moves = f"/apis/{group}/%s/namespaces/{player.run}/moves"
    await player.until_served(moves % "v1")
    body = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "Move",
        "metadata": {"name": "m"},
        "spec": {"a": 1},
    }
    await send("created at alpha", "POST", moves % "v1alpha1", body)
    await send("read at v1", "GET", moves % "v1" + "/m")
    await player.apply(
        "applied at v1",
        moves % "v1" + "/m",
        {**body, "apiVersion": f"{group}/v1", "spec": {"b": 2}},
        "k",
    )
    await player.apply(
        "applied at alpha", moves % "v1alpha1" + "/m", {**body, "spec": {"c": 3}}, "k"
    )
    await send("group with two", "GET", f"/apis/{group}")
    await send("crd scope", "PATCH", path, {"spec": {"scope": "Cluster"}}, MERGE_PATCH)
    await send("crd kind", "PATCH", path, {"spec": {"names": {"kind": "Moved"}}}, MERGE_PATCH)
    await send(
        "crd stored dropped",
        "PATCH",
        path,
        {"spec": {"versions": [{**new, "storage": True}]}},
        MERGE_PATCH,
    )
    moved = [{**old, "storage": False, "served": False}, {**new, "storage": True}]
    patched = await send("", "PATCH", path, {"spec": {"versions": moved}}, MERGE_PATCH)
    player.answers.append(("stored versions", patched["status"]["storedVersions"]))
    await player.settle()
    await player.settle()
    await send("alpha not served", "GET", moves % "v1alpha1" + "/m")
    await send("v1 still there", "GET", moves % "v1" + "/m")
    await player.apply(
        "applied after move",
        moves % "v1" + "/m",
        {**body, "apiVersion": f"{group}/v1", "spec": {"d": 4}},
        "k",
    )


async def _crd_going(player: Player, group: str, plains: str) -> None:
    send = player.send
    path = f"{CRDS}/plains.{group}"
    await send("", "PATCH", f"{plains}/p", {"metadata": {"finalizers": ["x.io/y"]}}, MERGE_PATCH)
    await send("crd deleted", "DELETE", path)
    await player.settle()
    await player.settle()
    held = await send("instance going", "GET", f"{plains}/p")
    assert held["metadata"].get("deletionTimestamp")
    body = {"apiVersion": f"{group}/v1", "kind": "Plain", "metadata": {"name": "q"}}
    await send("create while crd goes", "POST", plains, body)
    await send("release", "PATCH", f"{plains}/p", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    for _ in range(100):
        answer = await send("", "GET", path)
        if answer.get("code") == 404:
            break
        await player.settle()
    await send("crd gone", "GET", path)
    await player.settle()
    await send("api gone", "GET", plains)
