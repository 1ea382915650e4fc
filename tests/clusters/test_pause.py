"""What is paused is read and not written, says so, and catches up at once."""

from __future__ import annotations

import pytest

from kbind import words
from kbind.testing.handles import condition
from kbind.testing.running import binding
from tests.clusters.scenes import (
    Scene,
    Writes,
    event,
    events,
    message,
    paused,
    paused_binding,
    synced,
)
from tests.clusters.widgets import WIDGETS, widget

pytestmark = pytest.mark.asyncio(loop_scope="session")

# --- an instance -----------------------------------------------------------------------------


async def test_a_paused_instance_is_written_on_neither_side_and_catches_up(scene: Scene) -> None:
    instance = await scene.synced("one", size=1)
    await scene.consumer.merge(instance, paused())
    bound = await scene.consumer.until(
        scene.binding, lambda seen: "1 instances are paused" in message(seen, "Ready")
    )
    assert condition(bound, "Synced")
    writes = Writes(scene.world)
    await scene.consumer.merge(instance, {"spec": {"size": 2}})
    await scene.provider.set_status(instance, {"phase": "Busy"})
    await scene.wake(instance)
    other = await scene.synced("other")
    seen, copy = await scene.consumer.get(instance), await scene.provider.get(instance)
    assert copy["spec"]["size"] == 1
    assert "status" not in seen
    assert seen["metadata"]["finalizers"] == [words.SYNCER]
    assert not [write for write in writes.all() if "/one " in write]

    await scene.consumer.merge(instance, paused(None))
    await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 2)
    await scene.consumer.until(instance, lambda seen: seen["status"] == {"phase": "Busy"})
    await scene.consumer.until(scene.binding, lambda seen: message(seen, "Ready") == "")
    assert await scene.provider.find(other)


@pytest.mark.parametrize("value", ["True", "yes", "false", ""])
async def test_only_the_exact_value_pauses(scene: Scene, value: str) -> None:
    made = scene.widget("one", size=1)
    made["metadata"]["annotations"] = {words.PAUSED: value}
    await scene.consumer.create(made)
    await scene.provider.until(made, lambda seen: seen)


async def test_what_is_paused_from_the_start_is_not_held(scene: Scene) -> None:
    made = scene.widget("one", size=1)
    made["metadata"] |= paused()["metadata"]
    made = await scene.consumer.create(made)
    await scene.wake(made)
    assert await scene.provider.find(made) is None
    assert "finalizers" not in (await scene.consumer.get(made))["metadata"]
    await scene.consumer.delete(made)
    await scene.consumer.gone(made)


@pytest.mark.parametrize("policy", ["Delete", "Orphan"])
async def test_a_paused_instance_waits_with_its_deletion_and_says_so_once(
    scene: Scene, policy: str
) -> None:
    instance = await scene.synced("one", size=1)
    copy = await scene.provider.get(instance)
    annotations = {words.PAUSED: "true", words.DELETION_POLICY: policy}
    await scene.consumer.merge(instance, {"metadata": {"annotations": annotations}})
    await scene.consumer.delete(instance)
    told = await event(scene.consumer, instance, "Paused")
    assert "the instance is paused" in told["message"]
    assert words.PAUSED in told["message"]
    await scene.wake(instance)
    await scene.konnector.restart()
    await synced(scene.consumer, scene.binding)
    await scene.wake(instance)
    assert await events(scene.consumer, instance) == [told]
    assert (await scene.consumer.get(instance))["metadata"]["finalizers"] == [words.SYNCER]
    assert await scene.provider.get(instance) == copy

    await scene.consumer.merge(instance, paused(None))
    await scene.consumer.gone(instance)
    assert (await scene.provider.find(instance) is None) is (policy == "Delete")


async def test_a_copy_that_went_meanwhile_is_made_again(scene: Scene) -> None:
    instance = await scene.synced("one", size=1)
    await scene.consumer.merge(instance, paused())
    await scene.wake(instance)
    await scene.provider.delete(instance)
    await scene.wake(instance)
    assert await scene.provider.find(instance) is None
    await scene.consumer.merge(instance, paused(None))
    await scene.provider.until(instance, lambda seen: seen)


# --- a binding -------------------------------------------------------------------------------


async def test_a_paused_binding_holds_its_instances_and_no_others(scene: Scene) -> None:
    edited, deleted = await scene.synced("edited", size=1), await scene.synced("deleted", size=1)
    apart = f"{scene.namespace}-apart"
    await scene.consumer.namespace(apart)
    await scene.consumer.create(binding([WIDGETS], apart))
    await scene.consumer.merge(scene.binding, paused())
    await paused_binding(scene.consumer, scene.binding)

    writes = Writes(scene.world)
    await scene.consumer.merge(edited, {"spec": {"size": 2}})
    await scene.consumer.delete(deleted)
    late = await scene.consumer.create(scene.widget("late"))
    told = await event(scene.consumer, deleted, "Paused")
    assert f"Binding {scene.namespace}/bound is paused" in told["message"]
    elsewhere = await scene.consumer.create(widget("elsewhere", apart))
    await scene.provider.until(elsewhere, lambda seen: seen)
    await scene.wake(late)
    assert not [write for write in writes.all("widgets") if f" {scene.namespace}/" in write], (
        writes.all()
    )
    assert (await scene.provider.get(edited))["spec"]["size"] == 1
    assert await scene.provider.find(deleted)
    assert await scene.provider.find(late) is None

    await scene.consumer.merge(scene.binding, paused(None))
    await scene.provider.until(edited, lambda seen: seen["spec"]["size"] == 2)
    await scene.consumer.gone(deleted)
    assert await scene.provider.find(deleted) is None
    await scene.provider.until(late, lambda seen: seen)
    await synced(scene.consumer, scene.binding)
