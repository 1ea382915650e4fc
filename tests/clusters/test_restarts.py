"""A konnector that was away: what changed meanwhile is made up for, what did not is left."""

from __future__ import annotations

import pytest

from kbind import words
from tests.clusters.scenes import Scene, crd_ref

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_was_created_meanwhile_is_synced(scene: Scene) -> None:
    await scene.konnector.stop()
    instance = await scene.consumer.create(scene.widget("one", size=1))
    await scene.konnector.start()
    await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 1)


async def test_what_was_changed_meanwhile_follows(scene: Scene) -> None:
    instance = await scene.synced("one", size=1, note="gone soon", labels={"a": "x", "b": "y"})
    await scene.konnector.stop()
    await scene.consumer.merge(instance, {"spec": {"size": 2, "note": None, "labels": {"b": None}}})
    await scene.provider.set_status(instance, {"phase": "Ready"})
    await scene.konnector.start()
    copy = await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 2)
    assert copy["spec"] == {"size": 2, "color": "red", "labels": {"a": "x"}}
    await scene.consumer.until(instance, lambda seen: seen["status"] == {"phase": "Ready"})


async def test_what_was_deleted_meanwhile_is_drained(scene: Scene) -> None:
    instance = await scene.synced("one")
    await scene.konnector.stop()
    await scene.consumer.delete(instance)
    await scene.konnector.start()
    await scene.consumer.gone(instance)
    assert await scene.provider.find(instance) is None


async def test_a_copy_that_vanished_meanwhile_is_made_again(scene: Scene) -> None:
    instance = await scene.synced("one", size=1)
    await scene.konnector.stop()
    await scene.provider.delete(instance)
    await scene.konnector.start()
    await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 1)


async def test_an_instance_deleted_meanwhile_whose_copy_is_gone_is_released(scene: Scene) -> None:
    instance = await scene.synced("one")
    await scene.konnector.stop()
    await scene.provider.delete(instance)
    await scene.consumer.delete(instance)
    await scene.konnector.start()
    await scene.consumer.gone(instance)


async def test_a_deletion_under_way_is_finished(scene: Scene) -> None:
    instance = await scene.synced("one")
    await scene.provider.merge(instance, {"metadata": {"finalizers": ["example.org/holds"]}})
    await scene.consumer.delete(instance)
    await scene.provider.until(instance, lambda seen: seen["metadata"]["deletionTimestamp"])
    await scene.konnector.stop()
    await scene.provider.merge(instance, {"metadata": {"finalizers": []}})
    await scene.provider.gone(instance)
    await scene.konnector.start()
    await scene.consumer.gone(instance)


async def test_what_is_settled_is_not_written_again(scene: Scene) -> None:
    instance = await scene.synced("one", size=1)
    await scene.provider.set_status(instance, {"phase": "Ready"})
    await scene.consumer.until(instance, lambda seen: seen["status"] == {"phase": "Ready"})
    refs = [scene.binding, crd_ref(), instance]
    before = [await scene.consumer.get(ref) for ref in refs], await scene.provider.get(instance)
    await scene.konnector.restart()
    later = await scene.synced("later")
    await scene.consumer.until(later, lambda seen: seen["metadata"]["finalizers"] == [words.SYNCER])
    after = [await scene.consumer.get(ref) for ref in refs], await scene.provider.get(instance)
    assert after == before
