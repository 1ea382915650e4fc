"""The transport over the session of the ``kubernetes`` package."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from yarl import URL

from kbind.cluster.transport import AnswerTooLong, Reply, Request, Stream, TransportError

CONNECT_TIMEOUT: Final = 10.0
"""Seconds until a connection for a stream must stand, TLS included."""

REQUEST_CONNECTIONS: Final = 64
"""Requests on their way to one server at a time; others queue within their timeout. Streams have
a pool of their own without a limit, so that no number of watches holds up a request."""

ANSWER_LIMIT: Final = 64 << 20
"""Bytes of one answer that are held in memory: twenty times a page of usual objects. Nothing else
bounds what a server sends within the timeout. Streams are bounded by whoever reads them."""

_BUFFER: Final = 1 << 17  # bytes read ahead of whoever reads a stream, at most about twice this


class Authorization(Protocol):
    """Where the value of the Authorization header comes from."""

    async def header(self) -> str | None:
        """The value as of now, None for anonymous. Raises TransportError."""
        ...

    async def renew(self, refused: str | None) -> bool:
        """Called after a 401 with the value it was the answer to: whether there is another."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """One token for the transport's whole life."""

    value: str | None

    async def header(self) -> str | None:
        return self.value

    async def renew(self, refused: str | None) -> bool:
        return False


class AioTransport:
    """One server. A 401 is tried again, once, where the authorization has news.

    Redirects are not followed (they would carry the token elsewhere), cookies are not kept, and
    neither the environment's proxies nor ~/.netrc are looked at.
    """

    def __init__(
        self, configuration: Configuration, rest: RESTClientObject, authorization: Authorization
    ) -> None:
        """Use ``open_transport``. configuration: with its host, server name and proxy;
        rest: made of it, so with its TLS context."""
        self._base = configuration.host.rstrip("/")
        self._place = URL(self._base).authority
        self._server_name: str | None = configuration.tls_server_name
        self._proxy: str | None = configuration.proxy
        self._authorization = authorization
        rest.maxsize = REQUEST_CONNECTIONS
        self._requests: aiohttp.ClientSession = rest._create_pool_manager()
        rest.maxsize = 0
        self._streams: aiohttp.ClientSession = rest._create_pool_manager()
        self._following: set[aiohttp.ClientResponse] = set()

    async def send(self, request: Request, *, timeout: float) -> Reply:
        limits = aiohttp.ClientTimeout(total=timeout)
        try:
            authorization = await self._authorization.header()
            reply = await self._send(request, authorization, limits)
            if reply.status == 401 and await self._authorization.renew(authorization):
                authorization = await self._authorization.header()
                reply = await self._send(request, authorization, limits)
        except _FAILURES as error:
            raise TransportError(_explain(error, self._place, timeout)) from error
        return reply

    @asynccontextmanager
    async def stream(self, request: Request, *, silence: float) -> AsyncIterator[Stream]:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=silence)
        try:
            authorization = await self._authorization.header()
            response = await self._open(self._streams, request, authorization, limits)
            if response.status == 401 and await self._renewed(response, authorization):
                authorization = await self._authorization.header()
                response = await self._open(self._streams, request, authorization, limits)
        except _FAILURES as error:
            raise TransportError(_explain(error, self._place, silence)) from error
        self._following.add(response)
        try:
            yield _Stream(response, self._place, silence)
        finally:
            self._following.discard(response)
            response.close()  # A stream left half way is of no use to another request.

    async def close(self) -> None:
        for response in self._following:
            # The session closes its sockets without a word to whoever reads from them.
            response.content.set_exception(RuntimeError("closed"))
        await self._requests.close()
        await self._streams.close()

    async def _send(
        self, request: Request, authorization: str | None, limits: aiohttp.ClientTimeout
    ) -> Reply:
        response = await self._open(self._requests, request, authorization, limits)
        async with response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > ANSWER_LIMIT:
                    response.close()
                    raise AnswerTooLong(f"the answer is longer than {ANSWER_LIMIT} bytes")
        return Reply(response.status, _headers(response), bytes(body))

    async def _renewed(self, response: aiohttp.ClientResponse, refused: str | None) -> bool:
        """Whether to ask again; the first answer is then done with."""
        renewed = False
        try:
            renewed = await self._authorization.renew(refused)
        except asyncio.CancelledError:
            response.close()
            raise
        if renewed:
            response.close()
        return renewed

    async def _open(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        authorization: str | None,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        url = self._base + request.path
        if request.query:
            url = f"{url}?{urlencode(request.query)}"
        headers = dict(request.headers)
        if authorization is not None:
            headers["Authorization"] = authorization
        return await session.request(
            request.method,
            URL(url, encoded=True),
            data=request.body,
            headers=headers,
            timeout=limits,
            allow_redirects=False,
            server_hostname=self._server_name,
            proxy=self._proxy,
        )


class _Stream:
    def __init__(self, response: aiohttp.ClientResponse, place: str, silence: float) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = _headers(response)
        self._response = response
        self._place = place
        self._silence = silence

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except _FAILURES as error:
            raise TransportError(_explain(error, self._place, self._silence)) from error


async def open_transport(
    configuration: Configuration, authorization: Authorization
) -> AioTransport:
    """A transport for *configuration*. Raises ssl.SSLError or OSError where its certificates
    cannot be used. Connects to nothing yet."""
    configuration.client_session_kwargs = {
        "trust_env": False,
        "cookie_jar": aiohttp.DummyCookieJar(),
        "read_bufsize": _BUFFER,
    }
    # Newer Pythons demand extensions that many clusters' own CAs lack and kubectl never misses.
    configuration.disable_strict_ssl_verification = True
    # Reading the system's CAs takes tens of milliseconds.
    rest = await asyncio.to_thread(RESTClientObject, configuration)
    # As in kubectl: whatever certificate is given as CA is trusted, also one that is no root.
    rest.ssl_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return AioTransport(configuration, rest, authorization)


_FAILURES: Final = (aiohttp.ClientError, OSError, TimeoutError, RuntimeError, ValueError)
"""What a session raises: RuntimeError once it is closed, ValueError for what it cannot send."""


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _explain(error: Exception, place: str, seconds: float) -> str:
    """What happened, in words of our own: those of the libraries may quote URLs and headers."""
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=cause):
            why = getattr(cause, "verify_message", "") or "it cannot be verified"
            return f"TLS: the certificate of {place} is not trusted: {why}"
        case aiohttp.ClientConnectorSSLError():
            return f"TLS: no secure connection to {place}: {_reason(error)}"
        case aiohttp.ClientConnectorDNSError():
            return f"the name of {error.host} cannot be resolved"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy {error.host}:{error.port} cannot be reached: {_reason(error)}"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy does not let us through to {place}: {error.status}"
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {place} in time"
        case TimeoutError():
            return f"{place} sent nothing for {seconds:.3g} s"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return f"{place} refuses the connection"
        case aiohttp.ClientConnectorError():
            return f"no connection to {place}: {_reason(error)}"
        case aiohttp.ServerDisconnectedError():
            return f"{place} closed the connection without an answer"
        case RuntimeError():
            return "the connection is closed on our side"
        case ValueError():
            return f"the request cannot be sent to {place}: {type(error).__name__}"
        case _ if "SSL" in str(error):
            return f"TLS: {place} ended the connection: {_reason(error)}"
    return f"the connection to {place} broke: {_reason(error)}"


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    if not reason and isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error.strerror
    return str(reason or type(error).__name__)
