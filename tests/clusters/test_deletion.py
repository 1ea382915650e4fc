"""What goes when an instance goes, what stays, and what comes after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbind import words
from kbind.testing.handles import Object, find_condition
from kbind.testing.running import binding
from tests.clusters.scenes import Scene, event, message, reason, uid_of
from tests.clusters.widgets import WIDGETS

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOREIGN = "example.org/holds"


def policy(value: str) -> Object:
    return {"metadata": {"annotations": {words.DELETION_POLICY: value}}}


def finalizers(*names: str) -> Object:
    return {"metadata": {"finalizers": list(names)}}


def of(instance: Object) -> Callable[[Object], bool]:
    """Whether an object is marked as the copy of *instance*."""
    uid = instance["metadata"]["uid"]
    return lambda seen: bool(seen["metadata"]["annotations"][words.OBJECT_UID] == uid)


async def test_the_copy_goes_with_its_instance(scene: Scene) -> None:
    instance = await scene.synced("one")
    await scene.consumer.delete(instance)
    await scene.consumer.gone(instance)
    assert await scene.provider.find(instance) is None


async def test_a_copy_that_is_held_holds_its_instance(scene: Scene) -> None:
    instance = await scene.synced("one")
    await scene.provider.merge(instance, finalizers(FOREIGN))
    await scene.consumer.delete(instance)
    told = await event(scene.consumer, instance, "AwaitingFinalizers")
    assert FOREIGN in told["message"]
    seen = await reason(scene.consumer, instance, "Synced", "AwaitingFinalizers")
    assert message(seen, "Synced") == told["message"]
    await scene.konnector.look_again(instance)
    assert (await scene.consumer.get(instance))["metadata"]["finalizers"] == [words.SYNCER]
    assert (await scene.provider.get(instance))["metadata"]["deletionTimestamp"]
    await event(scene.consumer, instance, "AwaitingFinalizers")

    await scene.provider.merge(instance, finalizers())
    await scene.provider.gone(instance)
    await scene.consumer.gone(instance)


async def test_the_finalizer_of_another_on_the_instance_is_left(scene: Scene) -> None:
    held = scene.widget("one")
    held["metadata"]["finalizers"] = [FOREIGN]
    instance = await scene.consumer.create(held)
    await scene.provider.until(instance, lambda seen: seen)
    await scene.consumer.delete(instance)
    await scene.provider.gone(instance)
    await scene.consumer.until(instance, lambda seen: seen["metadata"]["finalizers"] == [FOREIGN])
    await scene.synced("later")
    assert await scene.provider.find(instance) is None
    await scene.consumer.merge(instance, finalizers())
    await scene.consumer.gone(instance)


@pytest.mark.parametrize("value", ["Orphan", "orphan", "Delete"])
async def test_orphan_and_only_orphan_keeps_the_copy(scene: Scene, value: str) -> None:
    instance = await scene.synced("one", size=1)
    copy = await scene.provider.get(instance)
    await scene.consumer.merge(instance, policy(value))
    await scene.consumer.delete(instance)
    await scene.consumer.gone(instance)
    assert await scene.provider.find(instance) == (copy if value == "Orphan" else None)


async def test_what_goes_before_it_was_seen_is_left_alone(scene: Scene) -> None:
    """A server takes no finalizer for an object that is being deleted."""
    apart = f"{scene.namespace}-apart"
    await scene.consumer.namespace(apart)
    going = scene.widget("going")
    going["metadata"] |= {"namespace": apart, "finalizers": [FOREIGN]}
    going = await scene.consumer.create(going)
    await scene.consumer.delete(going)
    going = await scene.consumer.get(going)

    await scene.consumer.create(binding([WIDGETS], apart))
    later = scene.widget("later")
    later["metadata"]["namespace"] = apart
    await scene.consumer.create(later)
    await scene.provider.until(later, lambda seen: seen)
    assert await scene.consumer.get(going) == going
    assert await scene.provider.find(going) is None
    await scene.consumer.merge(going, finalizers())
    await scene.consumer.gone(going)


async def test_a_copy_that_was_deleted_is_made_again(scene: Scene) -> None:
    instance = await scene.synced("one", size=1)
    first = await scene.provider.get(instance)
    await scene.provider.delete(first)
    second = await scene.provider.until(
        instance, lambda seen: seen["metadata"]["uid"] != first["metadata"]["uid"]
    )
    assert second["spec"] == first["spec"]


async def test_a_copy_is_made_again_once_the_old_one_is_gone(scene: Scene) -> None:
    instance = await scene.synced("one", size=1)
    first = await scene.provider.merge(instance, finalizers(FOREIGN))
    await scene.provider.delete(first)
    seen = await reason(scene.consumer, instance, "Synced", "AwaitingFinalizers")
    assert FOREIGN in message(seen, "Synced")
    await scene.consumer.merge(instance, {"spec": {"size": 2}})
    before, going = await scene.standing(instance)
    assert going["spec"]["size"] == 1

    await scene.provider.merge(instance, finalizers())
    second = await scene.provider.until(
        instance, lambda seen: seen["metadata"]["uid"] != first["metadata"]["uid"]
    )
    assert second["spec"]["size"] == 2
    after = await scene.consumer.until(
        instance, lambda seen: find_condition(seen, "Synced") is None
    )
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_orphan_lets_an_instance_go_whose_copy_is_going_already(scene: Scene) -> None:
    instance = await scene.synced("one")
    await scene.provider.merge(instance, finalizers(FOREIGN))
    await scene.consumer.delete(instance)
    await event(scene.consumer, instance, "AwaitingFinalizers")
    await scene.consumer.merge(instance, policy("Orphan"))
    await scene.consumer.gone(instance)
    copy = await scene.provider.merge(instance, finalizers())
    assert of(instance)(copy)
    await scene.provider.gone(instance)


async def test_an_object_that_took_the_copys_place_survives(scene: Scene) -> None:
    instance = await scene.synced("one", size=1)
    await scene.konnector.stop()
    await scene.provider.delete(instance)
    theirs = await scene.provider.create(scene.widget("one", size=7))
    await scene.consumer.delete(instance)
    await scene.konnector.start()
    await scene.consumer.gone(instance)
    assert await scene.provider.get(theirs) == theirs


async def test_a_name_may_be_taken_again_at_once(scene: Scene) -> None:
    cluster = await uid_of(scene.consumer)
    seen = set()
    for size in (1, 2, 3):
        instance = await scene.consumer.create(scene.widget("one", size=size))
        copy = await scene.provider.until(instance, of(instance))
        assert copy["spec"]["size"] == size
        assert copy["metadata"]["annotations"][words.CLUSTER_UID] == cluster
        seen.add(copy["metadata"]["uid"])
        await scene.consumer.delete(instance)
        await scene.consumer.gone(instance)
    assert len(seen) == 3
    assert await scene.provider.find(instance) is None


async def test_an_instance_torn_from_its_finalizer_leaves_its_copy_to_nobody(scene: Scene) -> None:
    """Whoever takes our finalizer off by hand leaves a copy that the next instance of that name
    does not get."""
    first = await scene.synced("one", size=1)
    await scene.konnector.stop()
    await scene.consumer.merge(first, finalizers())
    await scene.consumer.delete(first)
    second = await scene.consumer.create(scene.widget("one", size=2))
    copy = await scene.provider.get(first)
    await scene.konnector.start()
    await reason(scene.consumer, second, "Synced", "OwnedByAnother")
    assert await scene.provider.get(first) == copy
    await scene.provider.delete(copy)
    await scene.provider.until(second, lambda seen: seen["spec"]["size"] == 2)


async def test_an_instance_that_is_deleted_at_once_leaves_nothing(scene: Scene) -> None:
    instances = [await scene.consumer.create(scene.widget(f"brief-{n}")) for n in range(5)]
    for instance in instances:
        await scene.consumer.delete(instance)
    for instance in instances:
        await scene.consumer.gone(instance)
    await scene.synced("later")
    for instance in instances:
        assert await scene.provider.find(instance) is None


async def test_an_instance_that_nobody_covers_any_longer_is_still_drained(scene: Scene) -> None:
    instance = await scene.synced("one")
    await scene.consumer.delete(scene.binding)
    await scene.consumer.gone(scene.binding)
    await scene.consumer.delete(instance)
    await scene.consumer.gone(instance)
    assert await scene.provider.find(instance) is None
    await scene.consumer.create(scene.binding)
