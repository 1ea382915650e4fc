"""Calls to one API server: bytes in, bytes out, and one tree of exceptions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import orjson

from kbind import __version__
from kbind.cluster.answers import failure
from kbind.cluster.backoff import delay
from kbind.cluster.transport import AnswerTooLong, Reply, Request, Transport, TransportError
from kbind.errors import ClusterError, ServerFailed, Throttled, Unreachable

USER_AGENT: Final = f"kbind-konnector/{__version__}"

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

ATTEMPTS: Final = 3
"""How often one call is sent at most."""

PATIENCE: Final = 5.0
"""Seconds of Retry-After that a call waits for itself; beyond that the caller decides."""

ERROR_BODY_LIMIT: Final = 1 << 20
"""Bytes read of a refusal of a stream."""


@dataclass(frozen=True, slots=True)
class Dated:
    """What an answer says of the server's clock. date: its Date header; sent, received: the
    loop's time, in seconds."""

    date: str
    sent: float
    received: float


class Client:
    """One server under one identity.

    side: what messages call it (consumer, provider); timeout: seconds that one call may take,
    repetitions and pauses included. Every method returns the body of a 2xx and raises a
    ``ClusterError`` for everything else. A call is repeated by itself where that is safe: after
    429, or 503 with Retry-After, always (it was not carried out); after a broken connection only
    where carrying it out twice does the same as once. So an apply or a delete may meet its own
    first half as a ``Conflict`` or ``NotFound``: look again, as ever after those.

    dated: the last answer of a call that told the server's time.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        side: str,
        user_agent: str = USER_AGENT,
        timeout: float = 10.0,
    ) -> None:
        self.side = side
        self._transport = transport
        self._user_agent = user_agent
        self._timeout = timeout
        self.dated: Dated | None = None

    async def get(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """An object, a page of a list, or a document. accept: a media type, else JSON."""
        request = self._request("GET", path, query, accept=accept)
        return await self._call("get", request, repeatable=True, timeout=timeout)

    async def read(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str | None = None
    ) -> dict[str, Any]:
        """``get``, decoded. Raises ServerFailed also for what is no JSON object."""
        try:
            answer = orjson.loads(await self.get(path, query=query, accept=accept))
        except orjson.JSONDecodeError:
            answer = None
        if isinstance(answer, dict):
            return answer
        raise ServerFailed(
            f"{self.side}: get {path}: answered with something other than a JSON object; "
            "is this a Kubernetes API server?",
            side=self.side,
            verb="get",
            path=path,
        )

    async def create(
        self, path: str, body: bytes, *, query: Mapping[str, str] | None = None
    ) -> bytes:
        """POST to a collection (or to a subresource that takes one)."""
        request = self._request("POST", path, query, body, JSON)
        return await self._call("create", request, repeatable=False)

    async def replace(
        self, path: str, body: bytes, *, query: Mapping[str, str] | None = None
    ) -> bytes:
        """PUT of a whole object, which carries the resourceVersion it replaces."""
        request = self._request("PUT", path, query, body, JSON)
        return await self._call("replace", request, repeatable=False)

    async def apply(self, path: str, body: bytes, *, manager: str, force: bool) -> bytes:
        """Server-side apply of JSON as field manager *manager*."""
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        request = self._request("PATCH", path, query, body, APPLY)
        return await self._call("apply", request, repeatable=True)

    async def merge(self, path: str, body: bytes, *, manager: str) -> bytes:
        """JSON merge patch."""
        request = self._request("PATCH", path, {"fieldManager": manager}, body, MERGE_PATCH)
        return await self._call("merge", request, repeatable=True)

    async def patch(self, path: str, body: bytes, *, manager: str) -> bytes:
        """JSON patch; its operations may add up, so it is never sent twice by itself."""
        request = self._request("PATCH", path, {"fieldManager": manager}, body, JSON_PATCH)
        return await self._call("patch", request, repeatable=False)

    async def delete(self, path: str, *, uid: str | None) -> bytes:
        """DELETE in the background. uid: the object that is meant; another one under the same
        name is a Conflict. None: whichever stands there."""
        options: dict[str, object] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
        }
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        request = self._request("DELETE", path, None, orjson.dumps(options), JSON)
        return await self._call("delete", request, repeatable=uid is not None)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        silence: float,
        accept: str | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of an answer that goes on, cut anywhere. silence: seconds without a byte
        until the peer counts as dead (Unreachable)."""
        request = self._request("GET", path, query, accept=accept)
        try:
            async with self._transport.stream(request, silence=silence) as stream:
                if not 200 <= stream.status < 300:
                    body = await self._refusal(stream.chunks())
                    raise failure(
                        stream.status,
                        stream.headers,
                        body,
                        side=self.side,
                        verb="watch",
                        path=path,
                    )
                chunks = stream.chunks()
                try:
                    yield chunks
                finally:
                    if isinstance(chunks, AsyncGenerator):
                        await chunks.aclose()
        except TransportError as error:
            raise self._unreachable("watch", path, error) from error

    async def close(self) -> None:
        """Frees every connection; calls under way end as Unreachable."""
        await self._transport.close()

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content: str | None = None,
        accept: str | None = None,
    ) -> Request:
        headers = {"User-Agent": self._user_agent, "Accept": accept or JSON}
        if content is not None:
            headers["Content-Type"] = content
        return Request(method, path, dict(query or {}), headers, body)

    async def _call(
        self, verb: str, request: Request, *, repeatable: bool, timeout: float | None = None
    ) -> bytes:
        now = asyncio.get_running_loop().time
        deadline = now() + (self._timeout if timeout is None else timeout)
        attempt = 0
        while True:
            attempt += 1
            error: ClusterError
            pause: float | None
            sent = now()
            try:
                reply = await self._transport.send(request, timeout=max(deadline - sent, 0.001))
            except AnswerTooLong as cause:
                # There is an answer, and it would be no shorter the next time.
                said = f"{self.side}: {verb} {request.path}: {cause}"
                raise ServerFailed(said, side=self.side, verb=verb, path=request.path) from cause
            except TransportError as cause:
                error = self._unreachable(verb, request.path, cause)
                error.__cause__ = cause
                pause = delay(attempt, base=0.05, cap=1.0) if repeatable else None
            else:
                if "date" in reply.headers:
                    self.dated = Dated(reply.headers["date"], sent, now())
                if 200 <= reply.status < 300:
                    return reply.body
                error = self._failure(verb, request.path, reply)
                pause = _pause(error, attempt)
            if pause is None or attempt >= ATTEMPTS or now() + pause >= deadline:
                raise error
            await asyncio.sleep(pause)

    def _failure(self, verb: str, path: str, reply: Reply) -> ClusterError:
        return failure(
            reply.status, reply.headers, reply.body, side=self.side, verb=verb, path=path
        )

    def _unreachable(self, verb: str, path: str, error: TransportError) -> Unreachable:
        return Unreachable(
            f"{self.side}: {verb} {path}: {error}", side=self.side, verb=verb, path=path
        )

    @staticmethod
    async def _refusal(chunks: AsyncIterator[bytes]) -> bytes:
        body = b""
        async for chunk in chunks:
            body += chunk
            if len(body) > ERROR_BODY_LIMIT:
                break
        return body


def _pause(error: ClusterError, attempt: int) -> float | None:
    """Seconds until an answered call is sent again, or None: it is not."""
    if isinstance(error, Throttled):
        if error.retry_after is None:
            return delay(attempt)
    elif not (isinstance(error, ServerFailed) and error.status == 503):
        return None
    if error.retry_after is None or error.retry_after > PATIENCE:
        return None
    # Everybody was told the same number: spread out behind it.
    return error.retry_after + random.uniform(0.0, 0.2 + error.retry_after / 4)
