"""The bundled schema sources keep what every source promises."""

from __future__ import annotations

from kbind_sources.crd import CrdSource
from kbind_sources.openapi import OpenApiSource

from kbind.testing.handles import Handle, Object
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


def elsewhere() -> Object:
    """Of another group: what OpenAPI knows of changes, it knows by group."""
    made = crd("gadgets", "Gadget", scope="Cluster", exported=False)
    made["metadata"]["name"] = "gadgets.example.com"
    made["spec"]["group"] = "example.com"
    return made


class TestOpenApi(SchemaSourceContract):
    factory = OpenApiSource

    async def prepare(self, provider: Handle) -> None:
        for made in (crd(exported=False), elsewhere()):
            await provider.install_crd(made)

    async def change(self, provider: Handle) -> None:
        version = crd(status=False)["spec"]["versions"]
        await provider.merge(crd(), {"spec": {"versions": version}})
