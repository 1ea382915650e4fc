"""What each program of a real control plane is told, and where in its folder it keeps what.

Pure: builds paths and command lines, touches no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# What makes namespaces terminate, collects dependents, and fills token Secrets.
CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)


@dataclass(frozen=True)
class Layout:
    """The files of one cluster, all in *directory*."""

    directory: Path

    @property
    def data(self) -> Path:
        """etcd's folder."""
        return self.directory / "etcd"

    @property
    def certificate(self) -> Path:
        """The API server's certificate and its authority, PEM, written by the API server."""
        return self.directory / "apiserver.crt"

    @property
    def key(self) -> Path:
        """The key of that certificate; service account tokens are signed with it, too."""
        return self.directory / "apiserver.key"

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.csv"

    @property
    def audit_policy(self) -> Path:
        return self.directory / "audit-policy.json"

    @property
    def audit(self) -> Path:
        return self.directory / "audit.jsonl"

    @property
    def controllers_kubeconfig(self) -> Path:
        return self.directory / "controllers.kubeconfig"

    @property
    def proxy_authority(self) -> Path:
        """The authority of the next two, PEM: whoever it vouches for may speak in others' names."""
        return self.directory / "proxy-authority.crt"

    @property
    def proxy_certificate(self) -> Path:
        """What the API server shows to the servers that it passes requests on to, PEM."""
        return self.directory / "proxy.crt"

    @property
    def proxy_key(self) -> Path:
        return self.directory / "proxy.key"

    @property
    def sample_kubeconfig(self) -> Path:
        return self.directory / "sample-apiserver.kubeconfig"

    @property
    def sample_certificates(self) -> Path:
        """The folder in which sample-apiserver makes itself a certificate."""
        return self.directory / "sample-apiserver"

    def log(self, program: str) -> Path:
        return self.directory / f"{program}.log"


def etcd(layout: Layout, url: str) -> list[str]:
    """url: where etcd listens, on a port that it has to share (SO_REUSEPORT)."""
    return [
        "--name=kbind",
        f"--data-dir={layout.data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--socket-reuse-port",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(layout: Layout, etcd_url: str, port: int, audit: bool) -> list[str]:
    """port: of 127.0.0.1, which the API server has to share (SO_REUSEPORT)."""
    flags = [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        # Said, not guessed: the guess needs a default route. And it must not be written into the
        # endpoints of the service `kubernetes`, where loopback is refused.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        "--permit-port-sharing",
        # The API server makes itself a certificate here before it reads the keys below.
        f"--cert-dir={layout.directory}",
        f"--service-account-issuer=https://127.0.0.1:{port}",
        f"--service-account-signing-key-file={layout.key}",
        f"--service-account-key-file={layout.key}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        # Without it, a watch that a client left open holds up the end for half a minute.
        "--shutdown-watch-termination-grace-period=1s",
        # It serves Pods alone, and nothing runs them here.
        "--disable-admission-plugins=ServiceAccount",
    ]
    if audit:
        flags += [
            f"--audit-policy-file={layout.audit_policy}",
            f"--audit-log-path={layout.audit}",
            # Megabytes. At the default, 100, a second file begins, which nobody would read.
            "--audit-log-maxsize=100000",
        ]
    return flags


def controller_manager(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.controllers_kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        f"--service-account-private-key-file={layout.key}",
        f"--root-ca-file={layout.certificate}",
        "--leader-elect=false",
        "--secure-port=0",
        # At the default of 20 requests a second deletions are slow.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def aggregation(layout: Layout) -> list[str]:
    """What the API server is told besides, so that it can pass requests on."""
    return [
        f"--proxy-client-cert-file={layout.proxy_certificate}",
        f"--proxy-client-key-file={layout.proxy_key}",
        # It hands these on to whoever asks how to tell that a request was passed on.
        f"--requestheader-client-ca-file={layout.proxy_authority}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]


def sample_apiserver(layout: Layout, etcd_url: str, port: int) -> list[str]:
    """port: of 127.0.0.1, which sample-apiserver has to share (SO_REUSEPORT)."""
    return [
        f"--etcd-servers={etcd_url}",
        "--etcd-prefix=/sample-apiserver",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--cert-dir={layout.sample_certificates}",
        f"--kubeconfig={layout.sample_kubeconfig}",
        f"--authentication-kubeconfig={layout.sample_kubeconfig}",
        f"--authorization-kubeconfig={layout.sample_kubeconfig}",
    ]
