"""A proxy before a cluster, which answers some paths otherwise than the cluster does."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from typing import Self

import aiohttp
import trustme
from aiohttp import web

from kbind.testing.audit import Entry
from kbind.testing.handles import Cluster, Object
from kbind.testing.memory import failure

Wrong = Callable[[bytes], bytes] | int
"""What is wrong with an answer: what becomes of its body, or the status in its place."""

_HOPS = {"content-encoding", "content-length", "transfer-encoding", "connection", "host"}


class Front:
    """Passes requests on to *cluster* from a port of its own, watches as they come; itself a
    cluster to whoever asks only for kubeconfigs."""

    def __init__(self, cluster: Cluster) -> None:
        self.name = cluster.name
        self.wrong: dict[str, Wrong] = {}
        self._cluster = cluster
        self._authority = trustme.CA()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._url = ""

    async def __aenter__(self) -> Self:
        behind = self._cluster.kubeconfig()["clusters"][0]["cluster"]
        authority = base64.b64decode(behind["certificate-authority-data"]).decode()
        trusting = ssl.create_default_context(cadata=authority)
        self._session = aiohttp.ClientSession(
            behind["server"],
            connector=aiohttp.TCPConnector(ssl=trusting, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1").configure_cert(serving)
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=serving).start()
        self._url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def audit(self, user: str) -> list[Entry]:
        return self._cluster.audit(user)

    def kubeconfig(self, user: str = "admin") -> Object:
        kubeconfig = self._cluster.kubeconfig(user)
        authority = base64.b64encode(self._authority.cert_pem.bytes()).decode()
        kubeconfig["clusters"][0]["cluster"] = {
            "server": self._url,
            "certificate-authority-data": authority,
        }
        return kubeconfig

    async def _pass_on(self, incoming: web.Request) -> web.StreamResponse:
        assert self._session is not None
        wrong = None if "watch" in incoming.query else self.wrong.get(incoming.path)
        if isinstance(wrong, int):
            reply = failure(wrong, "ServiceUnavailable", "come back later")
            return web.Response(status=wrong, headers=reply.headers, body=reply.body)
        headers = {k: v for k, v in incoming.headers.items() if k.lower() not in _HOPS}
        body = await incoming.read()
        async with self._session.request(
            incoming.method,
            incoming.raw_path,
            headers=headers,
            data=body or None,
            allow_redirects=False,
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOPS}
            if wrong is not None:
                body = wrong(await answer.read())
                return web.Response(status=answer.status, headers=kept, body=body)
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(incoming)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        return response
