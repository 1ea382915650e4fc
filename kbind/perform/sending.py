"""One call, sent: the only place that writes to a cluster."""

from __future__ import annotations

from typing import Protocol

from kbind.calls import Call, Verb
from kbind.jsons import encode


class Writer(Protocol):
    """The writing face of a client; every method answers with the body of a 2xx, else raises
    ClusterError."""

    async def create(self, path: str, body: bytes) -> bytes: ...
    async def replace(self, path: str, body: bytes) -> bytes: ...
    async def apply(self, path: str, body: bytes, *, manager: str, force: bool) -> bytes: ...
    async def merge(self, path: str, body: bytes, *, manager: str) -> bytes: ...
    async def patch(self, path: str, body: bytes, *, manager: str) -> bytes: ...
    async def delete(self, path: str, *, uid: str | None) -> bytes: ...


async def send(call: Call, writer: Writer) -> bytes:
    """Sends *call* and answers with the server's body. Raises ClusterError."""
    if call.verb is Verb.DELETE:
        return await writer.delete(call.path, uid=call.body)
    body = encode(call.body)
    match call.verb:
        case Verb.CREATE:
            return await writer.create(call.path, body)
        case Verb.REPLACE:
            return await writer.replace(call.path, body)
        case Verb.APPLY:
            return await writer.apply(call.path, body, manager=call.manager, force=call.force)
        case Verb.MERGE:
            return await writer.merge(call.path, body, manager=call.manager)
        case Verb.PATCH:
            return await writer.patch(call.path, body, manager=call.manager)
