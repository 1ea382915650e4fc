"""Where health and metrics are served."""

from __future__ import annotations

import socket

import pytest
from aiohttp import web

from kbind.errors import KbindError
from kbind.konnector.endpoints import parse_address, serve


@pytest.mark.parametrize(
    ("address", "meant"),
    [(":8081", (None, 8081)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:65535", ("::1", 65535))],
)
def test_addresses(address: str, meant: tuple[str | None, int]) -> None:
    assert parse_address(address) == meant


@pytest.mark.parametrize(
    "address", ["", "8081", ":", ":65536", ":-1", ":\u0661", ":\u00b2", ":" + "1" * 5000]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(address)


async def test_a_port_that_is_taken_is_told_in_plain_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(KbindError) as caught:
            await serve(web.Application(), address)
    assert caught.value.message == f"cannot listen on {address}: address already in use"


@pytest.mark.parametrize("host", ["x" * 100 + ".y", "no-such-host.invalid"])
async def test_a_host_that_cannot_be_had(host: str) -> None:
    with pytest.raises(KbindError, match=f"cannot listen on {host}:80: "):
        await serve(web.Application(), f"{host}:80")
