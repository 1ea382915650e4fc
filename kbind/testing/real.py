"""A real Kubernetes control plane as child processes: etcd, API server, controller manager.

Small and quick rather than safe: data is thrown away at the end, and nothing survives a crash.
The servers listen on 127.0.0.1 alone. Linux only.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import shutil
import socket
import ssl
import time
from pathlib import Path
from typing import Any, Self

import aiohttp

from kbind.testing import flags
from kbind.testing.audit import Entry
from kbind.testing.errors import ControlPlaneError
from kbind.testing.flags import Layout
from kbind.testing.processes import Server

# The users of every cluster and their groups. The konnector has a name of its own so that the
# audit log tells its requests from a test's; `limited` may do what a test grants it.
USERS: dict[str, tuple[str, ...]] = {
    "admin": ("system:masters",),
    "konnector": ("system:masters",),
    "limited": (),
    "system:kube-controller-manager": ("system:masters",),
    "sample-apiserver": ("system:masters",),
}

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}

NAMESPACES = "/api/v1/namespaces"

START_DEADLINE = 60.0  # seconds, for each thing that start() waits for
STOP_DEADLINE = 10.0  # seconds, for each process


class RealCluster:
    """One running cluster. Made by start(), ended by stop().

    Waits that no flag shortens: the namespace controller begins 5 seconds after a namespace's
    deletion, and the garbage collector looks for new kinds every 30 seconds, so that dependents
    of a kind just installed by a CRD may stay that long.
    """

    def __init__(self, name: str, binaries: Path, directory: Path) -> None:
        self.name = name
        self._binaries = binaries
        self._layout = Layout(directory)
        self._servers: list[Server] = []
        self._reserved: list[socket.socket] = []
        self._tokens = {user: secrets.token_hex(16) for user in USERS}
        self._etcd = f"http://127.0.0.1:{self._reserve_port()}"
        self._port = self._reserve_port()

    @classmethod
    async def start(
        cls,
        name: str,
        *,
        binaries: Path,
        directory: Path,
        controllers: bool = True,
        audit: bool = True,
    ) -> Self:
        """Start a cluster and return when it serves and its first namespaces exist.

        name: of the cluster, its context, and its folder below *directory*, which must be new.
        binaries: the folder that binaries.find_or_build() returns.
        controllers: run the controller manager; without it namespaces never finish terminating.
        audit: write the audit log, which audit_events() reads.
        Raises: ControlPlaneError, after everything that was started has been stopped.
        """
        cluster = cls(name, binaries, directory / name)
        try:
            await cluster._start(controllers, audit)
        except BaseException:
            await cluster.stop()
            raise
        return cluster

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca_pem(self) -> str:
        """The certificates to trust, as PEM."""
        return self._layout.certificate.read_text()

    @property
    def token(self) -> str:
        """The bearer token of `admin`."""
        return self.token_for("admin")

    @property
    def audit_path(self) -> Path:
        return self._layout.audit

    def token_for(self, user: str) -> str:
        """Return the bearer token of *user*, one of USERS; KeyError for anybody else."""
        return self._tokens[user]

    def kubeconfig(self, user: str = "admin") -> dict[str, Any]:
        """Return a kubeconfig whose current context is *user*, one of USERS, on this cluster."""
        authority = base64.b64encode(self._layout.certificate.read_bytes()).decode()
        cluster = {"server": self.server, "certificate-authority-data": authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.name,
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.token_for(user)}}],
        }

    def audit_events(self, user: str | None = None) -> list[dict[str, Any]]:
        """Return the audit events so far, oldest first; only those of *user* where one is given.

        Each is an Event of audit.k8s.io/v1 at level Metadata: verb, user, userAgent, objectRef,
        stage, responseStatus. A request is there before its answer is complete; a watch is there
        twice, as ResponseStarted and ResponseComplete.
        Raises: FileNotFoundError when the cluster was started without audit.
        """
        # What follows the last line break is a line still being written, or nothing.
        lines = self.audit_path.read_bytes().split(b"\n")[:-1]
        events = [json.loads(line) for line in lines]
        # A request whose token nobody knows has no user name.
        return [event for event in events if user is None or event["user"].get("username") == user]

    def audit(self, user: str) -> list[Entry]:
        """What *user* has asked for so far, oldest first; as ``audit_events`` otherwise."""
        return [
            _entry(event)
            for event in self.audit_events(user)
            if event["stage"] != "ResponseStarted"
        ]

    async def stop(self) -> None:
        """Stop every process and delete the data; logs stay. May be called more than once."""
        try:
            # The last started first: an API server without etcd takes half a minute to end.
            while self._servers:
                await self._servers[-1].stop(STOP_DEADLINE)
                self._servers.pop()
        finally:
            for server in self._servers:
                server.kill()
            for reserved in self._reserved:
                reserved.close()
            shutil.rmtree(self._layout.data, ignore_errors=True)

    def _reserve_port(self) -> int:
        """Return a port of 127.0.0.1 that nobody else can get before our server binds it.

        The socket stays bound but never listens, so it takes no connections; only a server that
        shares ports (SO_REUSEPORT) and runs as the same user can bind beside it.
        """
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        self._reserved.append(reserved)
        port: int = reserved.getsockname()[1]
        return port

    async def _start(self, controllers: bool, audit: bool) -> None:
        layout = self._layout
        try:
            layout.directory.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise ControlPlaneError(f"cluster {self.name} has no new folder: {error}") from error
        write_secret(layout.tokens, self._token_lines())
        layout.audit_policy.write_text(json.dumps(AUDIT_POLICY))
        await self._run("etcd", flags.etcd(layout, self._etcd))
        told = flags.apiserver(layout, self._etcd, self._port, audit) + self._further_flags()
        await self._run("kube-apiserver", told)
        async with aiohttp.ClientSession() as session:
            for path in ("/readyz", f"{NAMESPACES}/default", f"{NAMESPACES}/kube-system"):
                await self._wait_for(path, session)
            if controllers:
                kubeconfig = self.kubeconfig("system:kube-controller-manager")
                write_secret(layout.controllers_kubeconfig, json.dumps(kubeconfig))
                await self._run("kube-controller-manager", flags.controller_manager(layout))
                # A controller makes it: the sign that they run.
                await self._wait_for(f"{NAMESPACES}/default/serviceaccounts/default", session)

    def _further_flags(self) -> list[str]:
        """What else the API server is told; its folder is there for the files that this needs."""
        return []

    def _token_lines(self) -> str:
        """One line a user, as --token-auth-file wants it: token, name, uid, quoted groups."""
        return "".join(
            f'{token},{user},{user},"{",".join(USERS[user])}"\n'
            for user, token in self._tokens.items()
        )

    async def _run(self, program: str, arguments: list[str]) -> Server:
        log = self._layout.log(program)
        server = await Server.start(self._binaries / program, arguments, log)
        self._servers.append(server)
        return server

    async def _wait_for(self, path: str, session: aiohttp.ClientSession) -> None:
        """Return as soon as the API server answers a GET of *path* with 200."""
        end = time.monotonic() + START_DEADLINE
        while not await self._answers(path, session):
            for server in self._servers:
                if not server.running:
                    what = f"cluster {self.name}: {server.name} ended while the cluster started"
                    raise ControlPlaneError(what, output=server.tail())
            if time.monotonic() > end:
                what = f"cluster {self.name}: no {path} after {START_DEADLINE:.0f} s"
                tails = [f"{server.log}:\n{server.tail()}" for server in self._servers]
                raise ControlPlaneError(what, output="\n".join(tails))
            await asyncio.sleep(0.05)

    async def _answers(self, path: str, session: aiohttp.ClientSession) -> bool:
        try:
            # The API server writes its certificate while it starts.
            trust = ssl.create_default_context(cadata=self.ca_pem)
            async with session.get(
                self.server + path,
                ssl=trust,
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=aiohttp.ClientTimeout(total=5),
            ) as response:
                return response.status == 200
        except (OSError, aiohttp.ClientError):
            return False


def _entry(event: dict[str, Any]) -> Entry:
    ref = event.get("objectRef") or {}
    return Entry(
        verb=event["verb"] if ref else "",
        user=event["user"].get("username", ""),
        agent=event.get("userAgent", ""),
        path=event["requestURI"],
        group=ref.get("apiGroup", ""),
        resource=ref.get("resource", ""),
        namespace=ref.get("namespace", ""),
        name=ref.get("name", ""),
        subresource=ref.get("subresource", ""),
        status=(event.get("responseStatus") or {}).get("code", 0),
    )


def write_secret(file: Path, content: str) -> None:
    file.touch(mode=0o600)
    file.write_text(content)
