"""The bundled schema sources keep what every source promises."""

from __future__ import annotations

from kbind_sources.crd import CrdSource

from kbind.testing.handles import Handle
from kbind.testing.schema_source import SchemaSourceContract
from tests.clusters.widgets import crd


class TestCrd(SchemaSourceContract):
    factory = CrdSource

    async def prepare(self, provider: Handle) -> None:
        for made in (crd(), crd("gadgets", "Gadget", scope="Cluster")):
            await provider.install_crd(made)

    async def change(self, provider: Handle) -> None:
        version = crd(status=False)["spec"]["versions"]
        await provider.merge(crd(), {"spec": {"versions": version}})

    async def prepare_nothing(self, provider: Handle) -> None:
        await provider.install_crd(crd(exported=False))
