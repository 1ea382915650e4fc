"""An API that the provider serves without a CRD, bound and kept in step like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kbind import words
from kbind.facts import Asked
from kbind.testing.aggregated import API_VERSION, GROUP, AggregatedCluster
from kbind.testing.handles import Handle, Object, condition, new
from kbind.testing.running import USER, RunningKonnector, add_connection, binding, connection
from tests.clusters.scenes import OWN, bound, crd_ref, discoveries, exports, message, synced
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.parametrize("kind", ["real"], indirect=True, scope="session"),
]

FISCHERS, FLUNDERS = f"fischers.{GROUP}", f"flunders.{GROUP}"
API_SERVICE = new("apiregistration.k8s.io/v1", "APIService", f"v1alpha1.{GROUP}")


@dataclass(frozen=True, slots=True)
class Provider:
    cluster: AggregatedCluster
    handle: Handle

    def written(self) -> int:
        """How often the konnector has written flunders here."""
        return sum(e.resource == "flunders" and e.writes for e in self.cluster.audit(USER))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def provider(
    binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Provider]:
    folder = tmp_path_factory.mktemp("aggregated")
    cluster = await AggregatedCluster.start("aggregated", binaries=binaries, directory=folder)
    handle = await Handle.open(cluster)
    yield Provider(cluster, handle)
    await handle.close()
    await cluster.stop()


def flunder(name: str, **spec: Any) -> Object:
    return new(API_VERSION, "Flunder", name, "team-a", spec=spec)


async def bind_flunders(world: World, provider: Provider, **spec: Any) -> None:
    """spec: further fields of the Connection's."""
    await world.consumer.namespace("team-a")
    source = {"source": Asked.OPENAPI}
    await add_connection(world.consumer, provider.cluster, schema=source, **spec)
    made = await world.consumer.create(binding([FLUNDERS], "team-a"))
    await world.consumer.established(FLUNDERS)
    await synced(world.consumer, made)


async def test_a_spec_goes_up_and_a_deletion_takes_it_away(
    world: World, provider: Provider, konnector: RunningKonnector
) -> None:
    await bind_flunders(world, provider)
    one = await world.consumer.create(flunder("one", reference="another"))
    copy = await provider.handle.until(one, lambda seen: seen)
    # Its server fills in the second field.
    assert copy["spec"] == {"reference": "another", "referenceType": "Flunder"}
    assert copy["metadata"]["labels"][words.MANAGED] == words.TRUE
    assert copy["metadata"]["annotations"][words.OBJECT_UID] == one["metadata"]["uid"]

    await world.consumer.merge(one, {"spec": {"reference": "a-third"}})
    await provider.handle.until(one, lambda seen: seen["spec"]["reference"] == "a-third")
    written = provider.written()
    await konnector.restart()
    await konnector.look_again(one, 1)
    assert provider.written() == written

    await world.consumer.delete(one)
    await world.consumer.gone(one)
    assert await provider.handle.find(one) is None


async def test_what_is_bound_outlasts_a_server_that_is_down(
    world: World, provider: Provider, konnector: RunningKonnector
) -> None:
    await bind_flunders(world, provider, autoBind=True)
    await world.consumer.until(OWN, lambda seen: bound(seen) == [FISCHERS, FLUNDERS])
    one = await world.consumer.create(flunder("one", reference="another"))
    await provider.handle.until(one, lambda seen: seen)

    await provider.cluster.stop_sample()
    # Has the API server look: its discovery is stale from here on.
    await provider.handle.merge(API_SERVICE, {"metadata": {"annotations": {"looked": "1"}}})
    await discoveries(provider.handle, 3)
    await world.consumer.merge(one, {"spec": {"reference": "a-third"}})
    await world.consumer.established(FLUNDERS)
    # What is down is named, and others go on.
    await world.consumer.until(
        connection(), lambda seen: f"{GROUP} (" in message(seen, "Ready"), deadline=75
    )
    await provider.handle.install_crd(crd(exported=False))
    seen = await world.consumer.until(connection(), lambda seen: WIDGETS in exports(seen))
    assert exports(seen) == [FISCHERS, FLUNDERS, WIDGETS]
    assert condition(seen, "Ready")
    assert f"{GROUP} (" in message(seen, "Ready")
    assert condition(seen, "SchemaInSync", "Unknown")
    assert FLUNDERS in message(seen, "SchemaInSync")
    await world.consumer.create(binding([WIDGETS], "team-a", "more"))
    await world.consumer.established(WIDGETS)
    two = await world.consumer.create(widget("two"))
    await provider.handle.until(two, lambda seen: seen)
    assert bound(await world.consumer.get(OWN)) == [FISCHERS, FLUNDERS]

    await provider.cluster.start_sample()
    await world.consumer.until(
        OWN, lambda seen: bound(seen) == [FISCHERS, FLUNDERS, WIDGETS], deadline=60
    )
    await provider.handle.until(
        one, lambda seen: seen["spec"]["reference"] == "a-third", deadline=60
    )
    await world.consumer.delete(one)
    await world.consumer.gone(one, deadline=60)
    assert await provider.handle.find(one) is None
    await provider.handle.delete(crd_ref())
