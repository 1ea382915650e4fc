"""What plays a script of requests, and what makes the answers of two servers comparable."""

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
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
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

    settle: waits for what a server does by itself; watching: seconds for which watches run;
    run: a word that the server does not know yet, for the names of what the script makes.
    """

    def __init__(
        self,
        transport: Transport,
        settle: Callable[[], Awaitable[None]],
        run: str,
        watching: str = "1",
    ) -> None:
        self.transport = transport
        self.run = run
        self.group = f"{run}.example.org"
        self.settle = settle
        self.watching = watching
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

    async def apply(
        self, title: str, path: str, body: Json | bytes, manager: str, **query: str
    ) -> Any:
        return await self.send(
            title, "PATCH", path, body, APPLY, query={"fieldManager": manager, **query}
        )

    async def watch(
        self, title: str, path: str, *, accept: str = "application/json", **query: str
    ) -> list[Json]:
        """The events of a watch that ends by itself."""
        query = {"watch": "true", "timeoutSeconds": self.watching, **query}
        raw = b""
        async with self.transport.stream(
            Request("GET", path, query, {"accept": accept}), silence=20
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
    return [(title, _normal(answer, run, ranks, {})) for title, answer in answers]


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
                result[name.replace(run, "<run>")] = _normal(item, run, ranks, uids)
        return result
    if isinstance(value, list):
        return [_normal(item, run, ranks, uids) for item in value]
    if isinstance(value, str):
        value = _TIME.sub("<time>", value.replace(run, "<run>"))
        value = re.sub(r"(precondition|record|version: 1) \(\d+\)", r"\1 (<version>)", value)
        return _UID.sub(lambda match: uids.setdefault(match[0], f"<uid {len(uids)}>"), value)
    return value


def widget(group: str, name: str, spec: Any = None, **metadata: Any) -> Json:
    widget: Json = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
    }
    if spec is not None:
        widget["spec"] = spec
    return widget


def partial_form(suffix: str) -> str:
    return f"application/json;as=PartialObjectMetadata{suffix};g=meta.k8s.io;v=v1"


OTHER_UID = "00000000-0000-4000-8000-000000000000"
