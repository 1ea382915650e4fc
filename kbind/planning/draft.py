"""A cluster as it would be: reads go to its server, writes stay here and show in later reads.

Whatever is built on a client works on a draft, and nothing that it does reaches the server but GET.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from kbind.apis import CRDS, EVENTS, NAMESPACES, Key, qualified
from kbind.cluster.client import APPLY, MERGE_PATCH
from kbind.cluster.transport import Reply, Request, Stream, Transport
from kbind.jsons import encode
from kbind.keeping import is_going
from kbind.planning import served
from kbind.planning.journal import Write, current
from kbind.planning.served import Object, Place, Refused, Target
from kbind.steps import Side

FIRST: Final = 1 << 62
"""The first version that is given here: higher than those of any server."""

_READ_TIMEOUT: Final = 10.0  # seconds for a read that a write here needs
_HEADERS: Final = {"content-type": "application/json"}
_EMPTY: Final = {
    "apiVersion": "v1",
    "kind": "List",
    "metadata": {"resourceVersion": str(FIRST)},
    "items": [],
}

_DONE: Final = b'{"apiVersion":"v1","kind":"Status","status":"Success"}'

OnChange = Callable[["Draft", Place, Object | None, Object | None], None]


class Draft:
    """A transport. connection: whose provider it is, "" for the consumer. now: of objects that
    are created, RFC 3339; on_change: told every object before and after a write.

    What a server would say to a write is known only as far as it follows from the objects: no
    permission, validation or admission is asked.
    """

    def __init__(
        self,
        server: Transport,
        side: Side,
        connection: str,
        now: Callable[[], str],
        on_change: OnChange,
    ) -> None:
        self.side = side
        self.connection = connection
        self._server = server
        self._now = now
        self._on_change = on_change
        self._known: dict[tuple[str, str], dict[Key, bytes | None]] = {}
        self._changed: set[Place] = set()
        self._count = 0

    def standing(self, place: Place) -> Object | None:
        """The object as far as it has been read or written, None where none is known."""
        raw = self._of(place).get(place.key)
        return None if raw is None else orjson.loads(raw)

    async def send(self, request: Request, *, timeout: float) -> Reply:
        target = served.target(request.path)
        if request.method == "GET":
            return await self._get(request, target, timeout)
        if target is None:
            return _refusal(Refused(404, "NotFound"), "")
        try:
            return await self._write(request, target)
        except Refused as refused:
            return _refusal(refused, target.name or target.namespace)

    @asynccontextmanager
    async def stream(self, request: Request, *, silence: float) -> AsyncIterator[Stream]:
        """A watch that tells nothing: whoever keeps a cache is told by *on_change*."""
        yield _Silence()

    async def close(self) -> None:
        await self._server.close()

    # --- reads -------------------------------------------------------------------------------

    async def _get(self, request: Request, target: Target | None, timeout: float) -> Reply:
        if target is None or target.subresource:
            return await self._server.send(request, timeout=timeout)
        if target.name and target.place() in self._changed:
            raw = self._of(target.place())[target.place().key]
            return _refusal(Refused(404, "NotFound"), target.name) if raw is None else _ok(raw)
        reply = await self._server.send(request, timeout=timeout)
        if reply.status == 404 and not target.name and self._serves(target):
            reply = _ok(encode(_EMPTY))
        if reply.status != 200:
            return reply
        if target.name:
            self._of(target.place()).setdefault(target.place().key, reply.body)
            return reply
        return self._listed(request, target, reply)

    def _listed(self, request: Request, target: Target, reply: Reply) -> Reply:
        """A page of a list, with what was written here in the place of what the server has."""
        try:
            page = orjson.loads(reply.body)
            # Items of some lists leave out what the list says of all of them.
            of = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
            items = [of | item for item in page.get("items") or ()]
            places = [Place(target.group, target.plural, Key.of(item)) for item in items]
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
            return reply  # whoever asked will say what is wrong with it
        shown = []
        for item, place in zip(items, places, strict=True):
            if place not in self._changed:
                self._of(place)[place.key] = encode(item)
                shown.append(item)
        if not (page.get("metadata") or {}).get("continue"):
            shown += self._written(request, target)
        if len(shown) == len(items) and not self._changed:
            return reply
        return _ok(encode(page | {"items": shown}))

    def _serves(self, target: Target) -> bool:
        """Whether a CRD that was created here defines the API."""
        place = _crd(target.group, target.plural)
        return place in self._changed and self.standing(place) is not None

    def _written(self, request: Request, target: Target) -> list[Object]:
        shown = []
        for place in self._changed:
            obj = self.standing(place)
            if obj is None or (place.group, place.plural) != (target.group, target.plural):
                continue
            if target.namespace in ("", place.key.namespace) and _selected(request.query, obj):
                shown.append(obj)
        return shown

    def _of(self, place: Place) -> dict[Key, bytes | None]:
        return self._known.setdefault((place.group, place.plural), {})

    # --- writes ------------------------------------------------------------------------------

    async def _write(self, request: Request, target: Target) -> Reply:
        body = orjson.loads(request.body or b"{}")
        if request.method == "POST":
            return await self._create(target, body)
        place = target.place()
        refused = await self._look(place, request.path.removesuffix(f"/{target.subresource}"))
        if refused is not None:
            return refused
        standing = self.standing(place)
        content = request.headers.get("Content-Type")
        if standing is None and content == APPLY:
            return await self._create(target, body, target.name)
        if standing is None:
            raise Refused(404, "NotFound")
        if request.method == "DELETE":
            return self._delete(place, standing, body)
        if request.method == "PUT":
            return _ok(self._put(place, standing, served.replaced(standing, body)))
        if content in (APPLY, MERGE_PATCH):
            change = served.applied if content == APPLY else served.merged
            return _ok(self._put(place, standing, change(standing, body)))
        return _ok(self._put(place, standing, served.patched(standing, body)))

    async def _create(self, target: Target, body: Object, name: str = "") -> Reply:
        place = target.place(name or body["metadata"]["name"])
        trace = (place.group, place.plural) == (EVENTS.group, EVENTS.plural)
        if not trace and not name:
            collection = "" if not target.namespace else f"/namespaces/{target.namespace}"
            path = f"{target.root}{collection}/{target.plural}/{place.key.name}"
            if (refused := await self._look(place, path)) is not None:
                return refused
        if self.standing(place) is not None:
            raise Refused(409, "AlreadyExists")
        if not trace and not await self._has_namespace(target.namespace):
            raise Refused(404, "NotFound", f"there is no namespace {target.namespace}")
        if self.standing(place) is not None:  # by another task meanwhile
            raise Refused(409, "AlreadyExists")
        self._count += 1
        uid = f"{self.side}-{self.connection}-{self._count}"
        made = served.created(body, target.namespace, uid, self._now())
        return _ok(self._put(place, None, made))

    async def _has_namespace(self, namespace: str) -> bool:
        if not namespace:
            return True
        place = Place(NAMESPACES.group, NAMESPACES.plural, Key("", namespace))
        refused = await self._look(place, NAMESPACES.path(place.key))
        # Where it cannot be read nobody can say; most often it is there.
        return refused is not None or self.standing(place) is not None

    async def _look(self, place: Place, path: str) -> Reply | None:
        """Sees to it that the object is known; the server's answer where that cannot be."""
        if place.key in self._of(place):
            return None
        reply = await self._server.send(Request("GET", path), timeout=_READ_TIMEOUT)
        if reply.status not in (200, 404):
            return reply
        self._of(place).setdefault(place.key, reply.body if reply.status == 200 else None)
        return None

    def _delete(self, place: Place, standing: Object, options: Object) -> Reply:
        served.check(standing, options.get("preconditions") or {})
        if is_going(standing):
            return _ok(encode(standing))
        going = self._parting(standing)
        if (place.group, place.plural) == (CRDS.group, CRDS.plural):
            answer = self._put(place, standing, going, keep=True)
            self._delete_all(going)
            return _ok(answer)
        answer = self._put(place, standing, going)
        return _ok(answer if served.is_held(going) else _DONE)

    def _parting(self, obj: Object) -> Object:
        return obj | {"metadata": obj["metadata"] | {"deletionTimestamp": self._now()}}

    def _delete_all(self, crd: Object) -> None:
        """The instances of a CRD go with it, and it goes when the last of them has gone."""
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        for key in list(self._known.get((group, plural), {})):
            place = Place(group, plural, key)
            obj = self.standing(place)
            if obj is not None and not is_going(obj):
                self._put(place, obj, self._parting(obj), echo=True)
        self._end_crd(group, plural)

    def _end_crd(self, group: str, plural: str) -> None:
        place = _crd(group, plural)
        crd = self.standing(place) if place in self._changed else None
        if crd is None or not is_going(crd):
            return
        if not any(self._known.get((group, plural), {}).values()):
            self._put(place, crd, crd, echo=True)

    def _put(
        self,
        place: Place,
        before: Object | None,
        after: Object,
        *,
        echo: bool = False,
        keep: bool = False,
    ) -> bytes:
        """Takes in how an object stands after a write. keep: whatever its finalizers say."""
        self._count += 1
        metadata = after["metadata"] | {"resourceVersion": str(FIRST + self._count)}
        after = after | {"metadata": metadata}
        raw = encode(after)
        gone = is_going(after) and not served.is_held(after) and not keep
        self._of(place)[place.key] = None if gone else raw
        self._changed.add(place)
        left = None if gone else after
        write = Write(self.side, self.connection, place, before, left, echo)
        current().wrote(write)
        self._on_change(self, place, before, left)
        if gone and not echo:
            self._end_crd(place.group, place.plural)
        return raw


def _ok(raw: bytes) -> Reply:
    return Reply(200, _HEADERS, raw)


def _refusal(refused: Refused, name: str) -> Reply:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": refused.status,
        "reason": refused.reason,
        "message": refused.message,
        "details": {"name": name},
    }
    return Reply(refused.status, _HEADERS, encode(status))


def _crd(group: str, plural: str) -> Place:
    """Where the CRD of an API stands."""
    return Place(CRDS.group, CRDS.plural, Key("", qualified(group, plural)))


def _selected(query: Mapping[str, str], obj: Mapping[str, Any]) -> bool:
    """Whether a list shows an object: selectors of one equality, which is what is asked here."""
    labels = obj["metadata"].get("labels") or {}
    name, _, value = query.get("labelSelector", "").partition("=")
    field, _, wanted = query.get("fieldSelector", "").partition("=")
    shown = not name or labels.get(name) == value
    return shown and (not field or obj["metadata"]["name"] == wanted)


@dataclass(slots=True)
class _Silence:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    async def chunks(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""
