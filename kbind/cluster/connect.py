"""From credentials to a transport."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Final

import structlog
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from kbind.cluster.aio import Fixed, open_transport
from kbind.cluster.kubeconfig import Credentials
from kbind.cluster.kubeconfig import load as load_kubeconfig
from kbind.cluster.transport import Transport
from kbind.errors import KbindError, KubeconfigInvalid

log = structlog.get_logger(__name__)

LOAD_TIMEOUT: Final = 60.0
"""Seconds for the loader of our own kubeconfig, which may run a program for a token."""

RENEW_PAUSE: Final = 5.0
"""Seconds between two renewals of our own token at least."""


async def connect(credentials: Credentials) -> Transport:
    """A transport to the server of a kubeconfig. Sends nothing yet. Raises KubeconfigInvalid
    where the certificate and its key do not belong together."""
    configuration = Configuration(
        host=credentials.server,
        ca_cert_data=credentials.ca.decode("ascii") if credentials.ca is not None else None,
        verify_ssl=not credentials.insecure,
        tls_server_name=credentials.server_name,
        proxy=credentials.proxy,
    )
    token = credentials.token
    authorization = Fixed(f"Bearer {token}" if token is not None else None)
    if credentials.client_certificate is None or credentials.client_key is None:
        return await open_transport(configuration, authorization)
    # OpenSSL takes the pair from a file only; this one is in memory and has no name on disk.
    memory = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        os.write(memory, credentials.client_certificate.rstrip() + b"\n" + credentials.client_key)
        configuration.cert_file = configuration.key_file = f"/proc/self/fd/{memory}"
        return await open_transport(configuration, authorization)
    except ssl.SSLError as error:
        raise KubeconfigInvalid(
            "does not fit the client certificate", field="client-key-data"
        ) from error
    finally:
        os.close(memory)


async def connect_own(kubeconfig: str | None, context: str | None = None) -> Transport:
    """A transport to the cluster that the konnector serves.

    kubeconfig: a path, or several as in ``KUBECONFIG``; None: those of ``KUBECONFIG``, else the
    service account of the pod. context: instead of the current one. These files are the
    operator's own, so the package's loaders may run the programs and read the files they name.
    The pod's token is read again as it is rotated, and everything is loaded anew when the server
    no longer accepts what was loaded (a new client certificate takes a restart). Raises
    KbindError.
    """
    own = _Own(kubeconfig or os.environ.get("KUBECONFIG") or None, context)
    configuration = await own.load()
    try:
        return await open_transport(configuration, own)
    except (OSError, ssl.SSLError) as error:
        raise KbindError(
            f"{own.source}: its certificates cannot be used: {error.strerror}"
        ) from error


class _Own:
    """Authorization from the package's loaders."""

    def __init__(self, paths: str | None, context: str | None) -> None:
        self.source = f"kubeconfig {paths}" if paths else "the pod's service account"
        self._paths = paths
        self._context = context
        self._configuration = Configuration()
        self._renewing = asyncio.Lock()
        self._renewed = -RENEW_PAUSE

    async def load(self) -> Configuration:
        configuration = Configuration()
        try:
            async with asyncio.timeout(LOAD_TIMEOUT):
                if self._paths is None:
                    load_incluster_config(configuration)  # type: ignore[no-untyped-call]
                else:
                    self._find()
                    await load_kube_config(  # type: ignore[no-untyped-call]
                        self._paths, self._context, configuration, persist_config=False
                    )
        except KbindError:
            raise
        except Exception as error:
            # The loaders raise whatever their parts do, a TypeError for an empty file. What is
            # looked for only now cannot refuse a file that they take.
            fault = next(filter(None, map(_fault, self._files())), None)
            raise KbindError(
                fault or f"{self.source} cannot be used: {_told(error)}", hint=self._hint()
            ) from error
        if not configuration.host.lower().startswith(("https://", "http://")):
            # Not quoted whole: whoever mixes up fields may have put anything there.
            scheme, there, _ = configuration.host.partition("://")
            begins = f', but with "{scheme[:20]}://"' if there else ""
            raise KbindError(f"{self.source}: the server does not begin with https://{begins}")
        self._configuration = configuration
        return configuration

    async def header(self) -> str | None:
        configuration = self._configuration
        try:
            value = await configuration.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError) as error:
            # Half way through a rotation: what was read last is good for a while yet.
            log.warning("the token cannot be read again", error=_told(error))
            value = configuration.api_key.get("BearerToken")
        return value.strip() if value else None

    async def renew(self, refused: str | None) -> bool:
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if now - self._renewed >= RENEW_PAUSE:
                self._renewed = now
                try:
                    await self.load()
                except KbindError as error:
                    log.warning("credentials cannot be loaded again", error=str(error))
            return await self.header() != refused

    def _find(self) -> None:
        if not self._files():
            raise KbindError(f"{self.source}: there is no such file")

    def _files(self) -> list[Path]:
        names = filter(None, (self._paths or "").split(os.pathsep))
        return [path for name in names if (path := Path(name).expanduser()).exists()]

    def _hint(self) -> str:
        if self._paths is None:
            return "outside a pod, name a file with --kubeconfig or KUBECONFIG"
        return "does kubectl work with it? The loader also needs a writable temporary directory"


def _fault(path: Path) -> str | None:
    """What is wrong with a file that the loader did not take, where it is something simple."""
    try:
        config = load_kubeconfig(path.read_bytes())
    except OSError as error:
        return f"kubeconfig {path} cannot be read: {error.strerror}"
    except KubeconfigInvalid as error:
        return f"kubeconfig {path} {error.message.removeprefix('kubeconfig: ')}"
    for kind in ("clusters", "contexts", "users"):
        entries = config.get(kind) or []
        named = isinstance(entries, list) and all(
            isinstance(entry, dict) and "name" in entry for entry in entries
        )
        if not named:
            return f"kubeconfig {path}: {kind} is no list of entries with a name"
    return None


def _told(error: Exception) -> str:
    """The loaders' own words as far as they are safe: after a brace they quote whole entries."""
    if isinstance(error, TimeoutError):
        return f"not loaded within {LOAD_TIMEOUT:g} s"
    if isinstance(error, ConfigException):
        return str(error).split("{", 1)[0].rstrip()
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return type(error).__name__
