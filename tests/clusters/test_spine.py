"""Bind an API and keep its instances in step."""

from __future__ import annotations

import pytest

from kbind import words
from kbind.testing.handles import condition
from kbind.testing.running import RunningKonnector, add_connection, binding
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def bind_widgets(world: World) -> None:
    """Widgets of the provider, bound in team-a and served on the consumer."""
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(binding([WIDGETS], "team-a"))
    await world.consumer.established(WIDGETS)


async def test_an_instance_goes_up_and_its_status_comes_down(
    world: World, konnector: RunningKonnector
) -> None:
    await bind_widgets(world)
    one = await world.consumer.create(widget("one", size=3, labels={"a": "x"}))
    copy = await world.provider.until(one, lambda seen: seen)
    assert copy["spec"] == one["spec"]
    assert copy["metadata"]["labels"][words.MANAGED] == "true"
    assert copy["metadata"]["annotations"][words.OBJECT_UID] == one["metadata"]["uid"]

    await world.provider.set_status(one, {"phase": "Ready", "count": 1})
    seen = await world.consumer.until(one, lambda seen: seen.get("status"))
    assert seen["status"] == {"phase": "Ready", "count": 1}
    assert seen["metadata"]["finalizers"] == [words.SYNCER]

    await world.consumer.merge(one, {"spec": {"size": 4}})
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 4)

    await world.consumer.delete(one)
    await world.consumer.gone(one)
    assert await world.provider.find(one) is None

    bound = await world.consumer.until(
        binding([WIDGETS], "team-a"), lambda seen: condition(seen, "Ready")
    )
    assert [api["name"] for api in bound["status"]["boundAPIs"]] == [WIDGETS]
