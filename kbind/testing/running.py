"""A konnector in this process, to start, stop and start again; and what it needs to be given."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from kbind import hooks, words
from kbind.apis import Key
from kbind.cluster.client import Client
from kbind.cluster.connect import connect
from kbind.cluster.kubeconfig import parse
from kbind.konnector.agent import Konnector
from kbind.konnector.passes import Report
from kbind.konnector.shared import Settings, utc_now
from kbind.rulebook import Rulebook, load
from kbind.testing.handles import DEADLINE, Cluster, Connect, Handle, Object, key, new

USER = "konnector"  # as whom it talks to every cluster, so that audit logs tell its requests


class RunningKonnector:
    """The konnector of one consumer. passes: how many it made over each instance so far.

    user: as whom it talks to the consumer; connect: as for ``Handle.open``, for every cluster it
    talks to; now: the wall clock of the times that it writes.
    """

    def __init__(
        self,
        consumer: Cluster,
        *,
        user: str = USER,
        overlays: Sequence[Path] = (),
        plugins: Sequence[object] = (),
        settings: Settings | None = None,
        connect: Connect = connect,
        now: Callable[[], datetime] = utc_now,
        on_report: Callable[[Report], None] = lambda report: None,
    ) -> None:
        self._consumer = consumer
        self._user = user
        self._book = load(overlays) if overlays else _bundled()
        self._sources = hooks.load(plugins) if plugins else _installed()
        self._settings = settings or Settings()
        self._connect = connect
        self._now = now
        self._on_report = on_report
        self.passes: Counter[tuple[str, Key]] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self.konnector: Konnector | None = None

    @property
    def running(self) -> bool:
        return self._task is not None

    async def start(self) -> None:
        credentials = parse(orjson.dumps(self._consumer.kubeconfig(self._user)))
        self._client = Client(await self._connect(credentials), side="consumer")
        self.konnector = Konnector(
            self._client,
            book=self._book,
            sources=self._sources,
            connect=self._connect,
            settings=self._settings,
            now=self._now,
            on_report=self._reported,
        )
        self._task = asyncio.create_task(self.konnector.run())

    async def stop(self) -> None:
        """As on SIGTERM. Raises what the konnector ended with, if it ended by itself."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def look_again(self, instance: Mapping[str, Any], times: int = 3) -> None:
        """Waits until *times* more passes over *instance* were made. Raises AssertionError where
        they are not made in time."""
        what = (instance["kind"], key(instance))
        goal = self.passes[what] + times
        end = asyncio.get_running_loop().time() + DEADLINE
        while self.passes[what] < goal:
            assert asyncio.get_running_loop().time() < end, f"no more passes over {what}"
            await asyncio.sleep(0.05)

    def _reported(self, report: Report) -> None:
        self.passes[report.scope.api.kind, report.key] += 1
        self._on_report(report)


@cache
def _bundled() -> Rulebook:
    """Loaded and proved once: most of what a start costs in process."""
    return load()


@cache
def _installed() -> hooks.Sources:
    """Looked for once: what is installed does not change."""
    return hooks.load(())


async def add_connection(
    consumer: Handle, provider: Cluster, name: str = "provider", **spec: Any
) -> Object:
    """A Secret with the konnector's kubeconfig for *provider*, and a Connection that names it.
    spec: further fields of the Connection's spec."""
    await consumer.namespace("kbind")
    secret = connection_secret(provider, name)
    await consumer.create(secret)
    return await consumer.create(connection(name, **spec))


def connection_secret(provider: Cluster, name: str = "provider", user: str = USER) -> Object:
    kubeconfig = orjson.dumps(provider.kubeconfig(user))
    data = {words.DEFAULT_KEY: base64.b64encode(kubeconfig).decode()}
    return new("v1", "Secret", f"{name}-kubeconfig", "kbind", data=data)


def connection(name: str = "provider", **spec: Any) -> Object:
    reference = {"namespace": "kbind", "name": f"{name}-kubeconfig"}
    return new(
        words.API_VERSION, "Connection", name, spec={"kubeconfigSecretRef": reference} | spec
    )


def binding(
    apis: Sequence[str],
    namespace: str | None = None,
    name: str = "bound",
    connection: str = "provider",
    **spec: Any,
) -> Object:
    """A Binding in *namespace*, or a ClusterBinding."""
    kind = "Binding" if namespace else "ClusterBinding"
    listed = [{"name": api} for api in apis]
    return new(
        words.API_VERSION,
        kind,
        name,
        namespace,
        spec={"connectionRef": {"name": connection}, "apis": listed} | spec,
    )
