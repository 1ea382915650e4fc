"""A real cluster that serves an API without CRDs: sample-apiserver's, through aggregation."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import trustme

from kbind.testing import flags
from kbind.testing.handles import Handle, new
from kbind.testing.processes import Server
from kbind.testing.real import STOP_DEADLINE, RealCluster, write_secret

GROUP = "wardle.example.com"
API_VERSION = f"{GROUP}/v1alpha1"

PROGRAM = "sample-apiserver"


class AggregatedCluster(RealCluster):
    """A cluster whose API server passes requests for wardle.example.com/v1alpha1 on to a
    sample-apiserver: flunders, which are namespaced, and fischers, which are not.

    Discovery and OpenAPI of the API server follow a moment after the first answer.
    """

    def __init__(self, name: str, binaries: Path, directory: Path) -> None:
        super().__init__(name, binaries, directory)
        self._sample_port = self._reserve_port()
        self._sample: Server | None = None

    async def start_sample(self) -> None:
        """Run sample-apiserver, and return when it answers through the API server.

        Raises: ControlPlaneError.
        """
        told = flags.sample_apiserver(self._layout, self._etcd, self._sample_port)
        self._sample = await self._run(PROGRAM, told)
        async with aiohttp.ClientSession() as session:
            # Refused unless the APIService is Available.
            await self._wait_for(f"/apis/{API_VERSION}/flunders", session)

    async def stop_sample(self) -> None:
        """Stop sample-apiserver alone; its objects are in etcd and stay."""
        if self._sample is not None:
            await self._sample.stop(STOP_DEADLINE)
            self._servers.remove(self._sample)
            self._sample = None

    def _further_flags(self) -> list[str]:
        authority = trustme.CA()
        proxy = authority.issue_cert("kube-apiserver")
        authority.cert_pem.write_to_path(self._layout.proxy_authority)
        proxy.cert_chain_pems[0].write_to_path(self._layout.proxy_certificate)
        write_secret(self._layout.proxy_key, proxy.private_key_pem.bytes().decode())
        return flags.aggregation(self._layout)

    async def _start(self, controllers: bool, audit: bool) -> None:
        await super()._start(controllers, audit)
        write_secret(self._layout.sample_kubeconfig, json.dumps(self.kubeconfig(PROGRAM)))
        handle = await Handle.open(self)
        try:
            # The API server calls a service of this type by its external name.
            service = {"type": "ExternalName", "externalName": "localhost"}
            await handle.create(new("v1", "Service", PROGRAM, "default", spec=service))
            await handle.create(_api_service(self._sample_port))
        finally:
            await handle.close()
        await self.start_sample()


def _api_service(port: int) -> dict[str, object]:
    group, version = API_VERSION.split("/")
    return new(
        "apiregistration.k8s.io/v1",
        "APIService",
        f"{version}.{group}",
        spec={
            "group": group,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"namespace": "default", "name": PROGRAM, "port": port},
            "insecureSkipTLSVerify": True,
        },
    )
