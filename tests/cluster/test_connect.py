from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from kbind.cluster.client import Client
from kbind.cluster.connect import connect, connect_own
from kbind.cluster.kubeconfig import Credentials
from kbind.cluster.transport import Request, Transport, TransportError
from kbind.errors import KbindError, KubeconfigInvalid, ServerFailed, Unauthorized, Unreachable
from tests.cluster.server import AUTHORITY, CLIENT, FOREIGN_AUTHORITY, proxy, serving
from tests.cluster.test_kubeconfig import b64

CA = AUTHORITY.cert_pem.bytes()
GET = Request("GET", "/version", {"q": "a b"})


def credentials(server: str, **changes: Any) -> Credentials:
    anonymous = Credentials(server, CA, None, False, None, None, None, None, None)
    return dataclasses.replace(anonymous, **changes)


@asynccontextmanager
async def connected(server: str, **changes: Any) -> AsyncIterator[Transport]:
    transport = await connect(credentials(server, **changes))
    try:
        yield transport
    finally:
        await transport.close()


async def fault(server: str, **changes: Any) -> str:
    async with connected(server, **changes) as transport:
        with pytest.raises(TransportError) as caught:
            await transport.send(GET, timeout=2.0)
    return str(caught.value)


async def test_a_request_and_its_reply() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        said = {
            "asked": f"{request.method} {request.raw_path}",
            "type": request.headers.get("Content-Type"),
            "body": (await request.read()).decode(),
        }
        return web.json_response(said, status=409, headers={"Retry-After": "7"})

    async with serving(handle) as server, connected(f"{server.url}/clusters/root:x") as transport:
        request = Request(
            "PATCH",
            "/apis/g/v1/widgets/a%2Fb",
            {"labelSelector": "a in (b, c)"},
            {"Content-Type": "application/apply-patch+yaml"},
            b'{"a":1}',
        )
        reply = await transport.send(request, timeout=5.0)
        assert reply.status == 409
        assert reply.headers["retry-after"] == "7"
        assert orjson.loads(reply.body) == {
            "asked": "PATCH /clusters/root:x/apis/g/v1/widgets/a%2Fb"
            "?labelSelector=a+in+%28b%2C+c%29",
            "type": "application/apply-patch+yaml",
            "body": '{"a":1}',
        }


async def test_two_servers_keep_their_tokens_apart() -> None:  # B01
    default = Configuration._default
    async with serving() as one, serving() as two:
        async with (
            connected(one.url, token="t1") as first,
            connected(two.url, token="t2") as second,
        ):
            await asyncio.gather(
                *(
                    transport.send(GET, timeout=5.0)
                    for _ in range(100)
                    for transport in (first, second)
                )
            )
        assert one.tokens == ["Bearer t1"] * 100
        assert two.tokens == ["Bearer t2"] * 100
    assert Configuration._default is default


async def test_the_server_name_is_asked_for_and_checked() -> None:  # B02 a
    async with serving(names=("api.internal",)) as server:
        async with connected(server.url, server_name="api.internal") as transport:
            assert (await transport.send(GET, timeout=5.0)).status == 200
        assert server.names == ["api.internal"]
        message = await fault(server.url)
        assert message.startswith("TLS: the certificate of 127.0.0.1:")


async def test_without_verification_the_client_certificate_is_still_presented() -> None:  # B02 b
    pair = {
        "client_certificate": CLIENT.cert_chain_pems[0].bytes(),
        "client_key": CLIENT.private_key_pem.bytes(),
    }
    async with serving(names=("other",), demand_certificate=True) as server:
        async with connected(server.url, ca=None, insecure=True, **pair) as transport:
            assert (await transport.send(GET, timeout=5.0)).status == 200
        assert server.peers == [True]
        await fault(server.url, ca=None, insecure=True)
        assert server.peers == [True]


async def test_a_wrong_ca_is_told_as_tls_and_nothing_is_sent() -> None:  # B02 d
    async with serving() as server:
        for ca in (FOREIGN_AUTHORITY.cert_pem.bytes(), None):
            assert (await fault(server.url, ca=ca, token="s3cret")).startswith("TLS: ")
        assert server.tokens == []


async def test_a_key_of_another_certificate_is_an_invalid_kubeconfig() -> None:
    with pytest.raises(KubeconfigInvalid) as caught:
        await connect(
            credentials(
                "https://p.example",
                client_certificate=CLIENT.cert_chain_pems[0].bytes(),
                client_key=trustme.CA().issue_cert("x").private_key_pem.bytes(),
            )
        )
    assert caught.value.field == "client-key-data"


async def test_the_proxy_is_used_with_its_password() -> None:
    async with serving() as server, proxy() as (url, asked):
        url = url.replace("http://", "http://user:pw@")
        async with connected(server.url, proxy=url, token="t1") as transport:
            assert (await transport.send(GET, timeout=5.0)).status == 200
        (headers,) = asked
        assert headers["Proxy-Authorization"] == f"Basic {b64(b'user:pw')}"
        assert "Authorization" not in headers
        assert server.tokens == ["Bearer t1"]


async def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with serving() as server, connected(server.url) as transport:
        assert (await transport.send(GET, timeout=5.0)).status == 200


async def test_failures_are_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        place = f"127.0.0.1:{mute.getsockname()[1]}"
        async with connected(f"https://{place}") as transport:
            with pytest.raises(TransportError, match=rf"^{place} sent nothing for 0.1 s$"):
                await transport.send(GET, timeout=0.1)
        assert "cannot be reached" in await fault("https://x.invalid", proxy="http://127.0.0.1:1")
    assert await fault(f"https://{place}") == f"{place} refuses the connection"
    assert await fault("https://x.invalid") == "the name of x.invalid cannot be resolved"


async def test_a_redirect_is_not_followed() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("https://elsewhere.invalid/")

    async with serving(handle) as server, connected(server.url, token="t") as transport:
        assert (await transport.send(GET, timeout=5.0)).status == 302


async def test_a_connection_that_went_stale_is_replaced_unnoticed() -> None:
    """Every second request meets a connection that the server drops instead of answering."""
    count = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count % 2 == 0:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({})

    async with serving(handle) as server, connected(server.url) as transport:
        client = Client(transport, side="provider")
        for _ in range(4):
            await client.apply("/x", b"{}", manager="m", force=True)
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:\d+ closed the connection"):
            await client.create("/x", b"{}")


async def test_a_stream_gives_what_comes_and_notices_silence() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntw")
        await asyncio.sleep(60)
        return response

    async with serving(handle) as server, connected(server.url) as transport:
        received = b""
        async with transport.stream(GET, silence=0.2) as stream:
            assert stream.status == 200
            with pytest.raises(TransportError, match=r"sent nothing for 0\.2 s"):  # noqa: PT012
                async for chunk in stream.chunks():
                    received += chunk
        assert received == b"one\ntw"


async def test_a_stream_that_is_cut_off_is_told_from_one_that_ends() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        if request.path == "/cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    async with serving(handle) as server, connected(server.url) as transport:
        async with transport.stream(Request("GET", "/ends"), silence=5.0) as stream:
            assert [chunk async for chunk in stream.chunks()] == [b"one\n"]
        async with transport.stream(Request("GET", "/cut"), silence=5.0) as stream:
            with pytest.raises(TransportError, match="broke"):
                async for _ in stream.chunks():
                    pass


async def test_many_watches_do_not_hold_up_a_request() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path == "/watch":
            await response.write(b"\n")
            await asyncio.sleep(60)
        return response

    async with serving(handle) as server, connected(server.url) as transport:
        opened = asyncio.Semaphore(0)

        async def watch() -> None:
            async with transport.stream(Request("GET", "/watch"), silence=60.0) as stream:
                async for _ in stream.chunks():
                    opened.release()

        watches = [asyncio.create_task(watch()) for _ in range(110)]
        for _ in watches:
            await asyncio.wait_for(opened.acquire(), 20)
        assert (await transport.send(GET, timeout=5.0)).status == 200
        await transport.close()
        ends = await asyncio.gather(*watches, return_exceptions=True)
        assert all(isinstance(end, TransportError) for end in ends)
        with pytest.raises(TransportError, match="closed on our side"):
            await transport.send(GET, timeout=5.0)


async def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbind.cluster.aio.ANSWER_LIMIT", 1 << 20)
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/version":
            return web.Response(body=b"x" * (1 << 20))
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                await response.write(b" " * 65536)
        return response

    async with serving(handle) as server, connected(server.url) as transport:
        client = Client(transport, side="provider")
        with pytest.raises(ServerFailed, match="the answer is longer than 1048576 bytes"):
            await client.get("/endless")
        assert len(await client.get("/version")) == 1 << 20
        assert asked == ["/endless", "/version"]


# Our own cluster.


def kubeconfig(directory: Path, server: str, **user: Any) -> str:
    path = directory / "config"
    path.write_bytes(
        orjson.dumps(
            {
                "current-context": "one",
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {"server": server, "certificate-authority-data": b64(CA)},
                    }
                ],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return str(path)


async def test_our_own_kubeconfig_comes_from_the_flag_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as server:
        path = kubeconfig(tmp_path, server.url, token="t1")
        monkeypatch.setenv("KUBECONFIG", path)
        for given in (path, None):
            transport = await connect_own(given)
            assert (await transport.send(GET, timeout=5.0)).status == 200
            await transport.close()
        assert server.tokens == ["Bearer t1"] * 2


async def test_a_rotated_token_file_is_read_when_the_old_token_is_refused(  # B06
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    accepted = "old"

    async def handle(request: web.Request) -> web.StreamResponse:
        good = request.headers.get("Authorization") == f"Bearer {accepted}"
        return web.json_response({}, status=200 if good else 401)

    async with serving(handle) as server:
        path = kubeconfig(tmp_path, server.url, tokenFile=str(token))
        client = Client(await connect_own(path), side="consumer")
        await client.get("/version")
        accepted = "new"
        token.write_text("new")
        await asyncio.gather(*(client.get("/version") for _ in range(5)))
        async with client.stream("/version", query={}, silence=5.0) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == b"{}"
        accepted = "another"
        with pytest.raises(Unauthorized):
            await client.get("/version")
        await client.close()


async def test_in_a_pod_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("pod-token\n")
    (tmp_path / "ca.crt").write_bytes(CA)
    module = "kubernetes.aio.config.incluster_config"
    monkeypatch.setattr(f"{module}.SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(f"{module}.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    async with serving() as server:
        host, port = server.url.removeprefix("https://").split(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        transport = await connect_own(None)
        await transport.send(GET, timeout=5.0)
        token.unlink()
        await transport.send(GET, timeout=5.0)
        await transport.close()
        assert [text and text.lower() for text in server.tokens] == ["bearer pod-token"] * 2


CONFIG = """
current-context: x
contexts: [{{name: x, context: {{cluster: x, user: x}}}}]
clusters: [{{name: x, cluster: {{server: "{server}"}}}}]
users: [{{name: x, user: {{token: t}}}}]
"""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no such file"),
        ("a: [", " cannot be read as YAML at line 1, column 5"),
        ("", " is empty"),
        ("\n", " is empty"),
        ("- a", " is empty or no mapping"),
        ("\x00\x01", " cannot be read as YAML"),
        ("[" * 200, " is nested too deep"),
        ("{current-context: x, contexts: [x]}", ": contexts is no list of entries with a name"),
        (CONFIG.format(server="ftp://s3cret"), 'with https://, but with "ftp://"'),
        (CONFIG.format(server="s3cret"), ": the server does not begin with https://"),
        ("{}", "current-context"),
        ("{current-context: x, contexts: [{name: x, token: s3cret}]}", "context"),
    ],
)
async def test_what_is_wrong_with_our_own_kubeconfig_is_said(
    tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(KbindError) as caught:
        await connect_own(str(path))
    assert str(caught.value).startswith(f"kubeconfig {path}")
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_outside_a_pod_the_flag_is_hinted_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KbindError, match="service account cannot be used") as caught:
        await connect_own(None)
    assert caught.value.hint is not None
    assert "--kubeconfig" in caught.value.hint
