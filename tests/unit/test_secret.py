"""What is read of a Connection's Secret, and how often."""

from __future__ import annotations

import base64
import threading
from typing import Any

import orjson
import pytest

from kbind.cluster.client import Client
from kbind.cluster.kubeconfig import Credentials, parse
from kbind.konnector.judging import Stop
from kbind.konnector.secret import LARGE, SecretWatch
from tests.cluster.scripted import Scripted, line, listing, until, widget

GOOD = orjson.dumps(
    {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://p.example"}}],
    }
)


def secret(version: int, kubeconfig: bytes) -> dict[str, Any]:
    data = {"kubeconfig": base64.b64encode(kubeconfig).decode()}
    return widget("access", version) | {"data": data}


async def test_a_secret_is_read_once_whether_it_is_good_or_bad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    off_the_loop: list[bool] = []

    def counting(data: bytes) -> Credentials:
        off_the_loop.append(threading.current_thread() is not threading.main_thread())
        return parse(data)

    monkeypatch.setattr("kbind.konnector.secret.parse", counting)
    transport = Scripted(listing(7, secret(3, b"[")))
    told: list[None] = []
    reference = {"namespace": "team-a", "name": "access"}
    consumer = Client(transport, side="consumer")
    secrets = SecretWatch(consumer, reference, lambda: told.append(None))
    try:
        for _ in range(3):
            with pytest.raises(Stop, match="cannot be read as YAML"):
                await secrets.credentials()
        assert off_the_loop == [False]
        watch = await transport.watch()
        for version, kubeconfig in ((8, GOOD), (9, GOOD + b" " * LARGE)):
            told.clear()
            watch.send(line("MODIFIED", secret(version, kubeconfig)))
            await until(lambda: told)
            for _ in range(3):
                assert (await secrets.credentials()).server == "https://p.example"
        assert off_the_loop == [False, False, True]
    finally:
        secrets.close()
