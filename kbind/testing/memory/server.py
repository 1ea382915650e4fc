"""The API server itself: one request in, one answer out, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlencode

import orjson

from kbind.apis import Key
from kbind.cluster.transport import Reply, Request
from kbind.errors import KbindError
from kbind.jsons import encode
from kbind.manifests import documents
from kbind.testing.audit import Entry
from kbind.testing.memory import discovery, openapi, patches, schema
from kbind.testing.memory.access import Access
from kbind.testing.memory.catalog import Catalog
from kbind.testing.memory.decoding import Target
from kbind.testing.memory.reads import Form, Reader, WatchStream, one
from kbind.testing.memory.resources import NAMESPACE_RESOURCE, Resource
from kbind.testing.memory.status import (
    Cause,
    Refusal,
    bad_request,
    forbidden,
    invalid,
    method_not_allowed,
    not_acceptable,
    not_found,
    unsupported_media_type,
)
from kbind.testing.memory.store import Store
from kbind.testing.memory.upkeep import Upkeep
from kbind.testing.memory.writes import Writer

Json = dict[str, Any]

_JSON = {"content-type": "application/json"}
_TEXT = {"content-type": "text/plain; charset=utf-8"}
_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_PARTIAL = "application/json;as=PartialObjectMetadata"
_METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_LONGEST_MANAGER = 128  # bytes
_IMMORTAL = ("default", "kube-system", "kube-public")


@dataclass(frozen=True, slots=True)
class Route:
    """What a path names. name: "" for a collection."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


def route(path: str) -> Route | None:
    """None for a path that names no resource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    if len(rest) > 3:
        return None
    return Route(group, version, plural, namespace, name, subresource)


class ApiServer:
    """One cluster's API. now: the time of its writes; uid: gives new objects theirs."""

    def __init__(self, now: Callable[[], datetime], uid: Callable[[], str]) -> None:
        self.store = Store()
        self.catalog = Catalog()
        self.reader = Reader(self.store)
        self.access = Access()
        self.requests: list[Entry] = []
        self._writer = Writer(self.store, self.catalog, now, uid)
        self._upkeep = Upkeep(self.store, self.catalog, self._writer, self.reader)
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self._writer.create(Target(NAMESPACE_RESOURCE, "", name), body, "kube-apiserver")

    def handle(self, request: Request, user: str) -> Reply | WatchStream:
        """Answer *request*. A refusal is a Reply like others."""
        where = route(request.path)
        verb = _verb(request, where)
        try:
            answer = self._answer(request, user, where, verb)
        except Refusal as refusal:
            answer = reply(refusal.code, refusal.status)
        self.record(request, user, answer.status if isinstance(answer, Reply) else 200)
        return answer

    def record(self, request: Request, user: str, status: int) -> None:
        """Keep a request in mind, whoever answered it."""
        where = route(request.path) or Route("", "", "", "", "", "")
        query = urlencode(request.query)
        self.requests.append(
            Entry(
                verb=_verb(request, where) if where.plural else "",
                user=user,
                agent=_header(request, "user-agent"),
                path=f"{request.path}?{query}" if query else request.path,
                group=where.group,
                resource=where.plural,
                namespace=where.namespace,
                name=where.name,
                subresource=where.subresource,
                status=status,
            )
        )

    def _answer(
        self, request: Request, user: str, where: Route | None, verb: str
    ) -> Reply | WatchStream:
        if where is None:
            return self._about(request)
        place = (where.group, where.plural, where.namespace, where.name, where.subresource)
        self.access.check(user, verb, *place)
        resource = self.catalog.find(where.group, where.version, where.plural)
        if resource is None or (where.namespace and not resource.namespaced):
            return _nowhere()
        if where.subresource and not (where.subresource == "status" and resource.status):
            if resource.custom:
                raise not_found(resource.group, resource.plural, where.name)
            return _nowhere()
        if where.name and resource.namespaced and not where.namespace:
            return _nowhere()
        if request.method == "GET":
            return self._read(request, resource, where, verb)
        absent = self.store.get(resource.name, Key(where.namespace, where.name)) is None
        if verb == "patch" and absent and _header(request, "content-type").startswith(_APPLY):
            self.access.check(user, "create", *place)  # an apply that makes an object creates it
        return self._write(request, resource, where, verb)

    # Outside of resources

    def _about(self, request: Request) -> Reply:
        path = request.path.rstrip("/")
        if request.method != "GET":
            return _nowhere()
        if path in ("/healthz", "/readyz", "/livez"):
            return Reply(200, _TEXT, b"ok")
        if path == "/version":
            return reply(200, discovery.VERSION)
        if path == openapi.ROOT:
            return Reply(200, _TEXT, encode(openapi.index(self.catalog)))
        if path.startswith(f"{openapi.ROOT}/"):
            return self._document(request, path.removeprefix(f"{openapi.ROOT}/"))
        return self._discovery(request, path)

    def _document(self, request: Request, path: str) -> Reply:
        document = openapi.find(self.catalog, path)
        if document is None:
            return Reply(404, {}, b"")
        if "plain" not in discovery.forms(_header(request, "accept")):
            return Reply(406, {}, b"")
        return _tagged(request, "application/json", document.body, document.tag)

    def _discovery(self, request: Request, path: str) -> Reply:
        forms = discovery.forms(_header(request, "accept"))
        core = path == "/api"
        parts = path.strip("/").split("/")
        found: Json | None = None
        if path in ("/api", "/apis") and "aggregated" in forms:
            body = encode(discovery.aggregated(self.catalog, core=core))
            return _tagged(request, discovery.AGGREGATED, body, openapi.tag(body))
        if path in ("/api", "/apis"):
            found = discovery.core_versions() if core else discovery.group_list(self.catalog)
        elif parts == ["api", "v1"]:
            found = discovery.resource_list(self.catalog, "", "v1")
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.group(self.catalog, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.resource_list(self.catalog, parts[1], parts[2])
        if found is None:
            return _nowhere()
        if "plain" not in forms:
            raise not_acceptable()
        return reply(200, found)

    # Reading

    def _read(
        self, request: Request, resource: Resource, where: Route, verb: str
    ) -> Reply | WatchStream:
        form = Form(resource, _PARTIAL in _header(request, "accept").replace(" ", ""))
        if verb == "watch":
            return self.reader.watch(resource, where.namespace, request.query, form)
        if verb == "list":
            return reply(
                200, self.reader.collection(resource, where.namespace, request.query, form)
            )
        return reply(200, one(self.store, resource, Key(where.namespace, where.name), form))

    # Writing

    def _write(self, request: Request, resource: Resource, where: Route, verb: str) -> Reply:
        if not where.name and verb in ("update", "patch"):
            raise bad_request("name must be provided")
        if verb not in resource.verbs:
            raise method_not_allowed(resource.group, resource.plural, verb)
        if where.subresource and verb not in ("update", "patch"):
            raise method_not_allowed(resource.group, resource.plural, verb)
        target = Target(resource, where.namespace, where.name, where.subresource)
        dry = request.query.get("dryRun") == "All"
        manager = _manager(request, verb)
        code = 200
        if verb == "create":
            obj = self._writer.create(target, _body(request), manager, dry=dry)
            code = 201
        elif verb == "update":
            obj = self._writer.replace(target, _body(request), manager, dry=dry)
        elif verb == "patch":
            obj, created = self._patch(request, target, manager, dry=dry)
            code = 201 if created else 200
        elif verb == "delete":
            obj = self._delete(request, target, dry=dry)
        else:
            obj = self._delete_collection(request, target)
        self._upkeep.after(resource.name)
        if obj["kind"] == "Status" or obj["kind"] == resource.list_kind:
            return reply(code, obj)
        partial = _PARTIAL in _header(request, "accept").replace(" ", "")
        return reply(code, Form(resource, partial).one(obj))

    def _patch(
        self, request: Request, target: Target, manager: str, *, dry: bool
    ) -> tuple[Json, bool]:
        kind = _header(request, "content-type").split(";")[0].strip()
        force = request.query.get("force", "")
        if kind == _APPLY:
            if not request.query.get("fieldManager"):
                text = "Required value: is required for apply patch"
                cause = Cause("FieldValueRequired", "fieldManager", text)
                raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
            body = _yaml(request.body or b"")
            return self._writer.apply(target, body, manager, force=force == "true", dry=dry)
        if kind not in (_JSON_PATCH, _MERGE_PATCH):
            raise unsupported_media_type([_JSON_PATCH, _MERGE_PATCH, _APPLY])
        if force:
            text = "Forbidden: may not be specified for non-apply patch"
            cause = Cause("FieldValueForbidden", "force", text)
            raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
        patch = _body(request)
        change = patches.json_patch if kind == _JSON_PATCH else patches.merge_patch
        return self._writer.patch(target, lambda obj: change(obj, patch), manager, dry=dry), False

    def _delete(self, request: Request, target: Target, *, dry: bool) -> Json:
        if target.resource is NAMESPACE_RESOURCE and target.name in _IMMORTAL:
            raise forbidden("", "namespaces", target.name, "this namespace may not be deleted")
        options = _body(request) if request.body else {}
        return self._writer.delete(target, options, dry=dry)

    def _delete_collection(self, request: Request, target: Target) -> Json:
        resource = target.resource
        form = Form(resource, partial=False)
        listed = self.reader.collection(resource, target.namespace, request.query, form)
        for obj in listed["items"]:
            metadata = obj["metadata"]
            one_target = Target(resource, metadata.get("namespace", ""), metadata["name"])
            self._writer.delete(one_target, {})
        return listed


def reply(code: int, body: Any) -> Reply:
    """A JSON answer."""
    return Reply(code, _JSON, encode(body))


def failure(code: int, reason: str, message: str) -> Reply:
    """A Status answer, as faults inject it."""
    return reply(code, Refusal(code, reason, message).status)


def _tagged(request: Request, kind: str, body: bytes, tag: str) -> Reply:
    """An answer that is not repeated to those who have it."""
    headers = {"content-type": kind, "etag": f'"{tag}"', "vary": "Accept"}
    if _header(request, "if-none-match") == headers["etag"]:
        return Reply(304, headers, b"")
    return Reply(200, headers, body)


def _nowhere() -> Reply:
    """Nothing is served under that path: not even a Status."""
    return Reply(404, _TEXT, b"404 page not found\n")


def _verb(request: Request, where: Route | None) -> str:
    if where is None:
        return ""
    if request.method in ("GET", "HEAD"):
        if where.name:
            return "get"
        return "watch" if request.query.get("watch") in ("true", "1") else "list"
    verb = _METHODS.get(request.method, request.method.lower())
    return "deletecollection" if verb == "delete" and not where.name else verb


def _header(request: Request, name: str) -> str:
    for key, value in request.headers.items():
        if key.lower() == name:
            return value
    return ""


def _manager(request: Request, verb: str) -> str:
    named = request.query.get("fieldManager", "")
    if len(named) > _LONGEST_MANAGER:
        complaint = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
        cause = Cause("FieldValueTooLong", "fieldManager", complaint)
        raise invalid("meta.k8s.io", f"{verb.capitalize()}Options", "", [cause])
    return named or _header(request, "user-agent").split("/")[0] or "unknown"


def _body(request: Request) -> Any:
    try:
        return schema.normalized_json(request.body or b"")
    except orjson.JSONDecodeError as error:
        kind = _header(request, "content-type")
        if kind.startswith("application/yaml"):
            return _yaml(request.body or b"")
        if kind.startswith("application/vnd.kubernetes.protobuf"):
            raise unsupported_media_type(["application/json", "application/yaml"]) from None
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def _yaml(body: bytes) -> Any:
    """JSON, or YAML where it is not."""
    try:
        return schema.normalized_json(body)
    except orjson.JSONDecodeError:
        try:
            parsed = next(documents(body.decode(), "body"), None)
        except (KbindError, UnicodeDecodeError) as error:
            raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(parsed, dict):
        raise bad_request("error decoding YAML: not an object")
    return parsed
