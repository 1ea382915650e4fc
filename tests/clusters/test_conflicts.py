"""An object stands where the copy should be: whose it is, what is said, and how that ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kbind import words
from kbind.testing.handles import Object, condition, find_condition
from kbind.testing.running import RunningKonnector, add_connection
from tests.clusters.conftest import settings
from tests.clusters.scenes import Scene, event, events, reason, synced, uid_of
from tests.clusters.widgets import CONDITIONS, crd, widget

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def stranger(scene: Scene, name: str = "db", **marks: Any) -> Object:
    """A widget on the provider that no konnector made. marks: its annotations."""
    await scene.provider.namespace(scene.namespace)
    obj = scene.widget(name, size=1, note="mine")
    obj["metadata"]["annotations"] = {"team": "storage", **marks}
    return await scene.provider.create(obj)


async def refused(scene: Scene, instance: Object, why: str) -> Object:
    """The instance, once it is refused for that reason, with all that is said of it."""
    seen = await reason(scene.consumer, instance, "Synced", why)
    assert seen["metadata"]["annotations"][words.CONFLICT].startswith(f"{why}: ")
    warning = await event(scene.consumer, instance, why)
    assert warning["type"] == "Warning"
    assert warning["message"] in seen["metadata"]["annotations"][words.CONFLICT]
    return seen


async def adopt(scene: Scene) -> None:
    await scene.consumer.merge(scene.binding, {"spec": {"conflictPolicy": "Adopt"}})


# --- nobody's objects -----------------------------------------------------------------------


async def test_an_object_without_markers_is_left_alone(scene: Scene) -> None:
    theirs = await stranger(scene)
    instance = await scene.consumer.create(scene.widget("db", size=2))
    seen = await refused(scene, instance, "ForeignObjectExists")
    assert find_condition(seen, "Synced")["lastTransitionTime"]  # type: ignore[index]
    bound = await scene.conflicts(1)
    assert condition(bound, "Conflicts")
    assert condition(bound, "Ready")
    assert condition(bound, "Synced")
    assert await scene.provider.get(theirs) == theirs


async def test_a_standing_refusal_is_said_once(scene: Scene) -> None:
    theirs = await stranger(scene)
    instance = await scene.consumer.create(scene.widget("db"))
    before = await refused(scene, instance, "ForeignObjectExists")
    bound = await scene.conflicts(1)
    assert await scene.standing(instance) == (before, theirs)
    await scene.konnector.restart()
    assert await scene.standing(instance) == (before, theirs)
    assert len(await events(scene.consumer, instance)) == 1
    assert await scene.consumer.get(bound) == bound


async def test_a_refusal_holds_up_no_other_instance(scene: Scene) -> None:
    await stranger(scene)
    instance = await scene.consumer.create(scene.widget("db"))
    await refused(scene, instance, "ForeignObjectExists")
    await scene.synced("other")


async def test_a_refusal_ends_when_the_object_goes(scene: Scene) -> None:
    theirs = await stranger(scene)
    instance = await scene.consumer.create(scene.widget("db", size=2))
    await refused(scene, instance, "ForeignObjectExists")
    await scene.conflicts(1)

    await scene.provider.delete(theirs)
    copy = await scene.provider.until(
        instance, lambda seen: seen["metadata"]["uid"] != theirs["metadata"]["uid"]
    )
    assert copy["spec"]["size"] == 2
    seen = await scene.consumer.until(
        instance, lambda seen: words.CONFLICT not in seen["metadata"].get("annotations", {})
    )
    assert find_condition(seen, "Synced") is None
    assert seen["metadata"]["finalizers"] == [words.SYNCER]
    assert condition(await scene.conflicts(0), "Conflicts", "False")
    assert (await event(scene.consumer, instance, "ConflictResolved"))["type"] == "Normal"
    assert len(await events(scene.consumer, instance)) == 2


async def test_a_policy_changed_to_adopt_takes_the_object_over(scene: Scene) -> None:
    theirs = await stranger(scene)
    await scene.provider.set_status(theirs, {"phase": "Ready"})
    instance = await scene.consumer.create(scene.widget("db", size=2))
    await refused(scene, instance, "ForeignObjectExists")

    await adopt(scene)
    copy = await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 2)
    assert copy["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert copy["spec"]["note"] == "mine"
    annotations = copy["metadata"]["annotations"]
    assert annotations.pop(words.OBJECT_UID) == instance["metadata"]["uid"]
    assert annotations.pop(words.CLUSTER_UID) == await uid_of(scene.consumer)
    assert annotations == {"team": "storage"}
    seen = await scene.consumer.until(instance, lambda seen: seen["status"] == {"phase": "Ready"})
    assert seen["metadata"]["finalizers"] == [words.SYNCER]
    await scene.conflicts(0)

    await scene.consumer.delete(instance)
    await scene.consumer.gone(instance)
    assert await scene.provider.find(theirs) is None


async def test_a_label_alone_makes_nobody_an_owner(scene: Scene) -> None:
    await scene.provider.namespace(scene.namespace)
    obj = scene.widget("db", size=1)
    labels = {words.MANAGED: "true", words.CONSUMER: await uid_of(scene.consumer)}
    obj["metadata"]["labels"] = labels
    theirs = await scene.provider.create(obj)
    instance = await scene.consumer.create(scene.widget("db", size=2))
    await refused(scene, instance, "ForeignObjectExists")
    assert await scene.provider.get(theirs) == theirs


async def test_a_refused_instance_goes_without_the_object(scene: Scene) -> None:
    theirs = await stranger(scene)
    instance = await scene.consumer.create(scene.widget("db"))
    await refused(scene, instance, "ForeignObjectExists")
    await scene.consumer.delete(instance)
    await scene.consumer.gone(instance)
    await scene.conflicts(0)
    assert await scene.provider.get(theirs) == theirs


# --- somebody's objects ---------------------------------------------------------------------

OWNERS = {
    "one-marker": ({words.CLUSTER_UID: "{cluster}"}, "one of the two"),
    "other-marker": ({words.OBJECT_UID: "some-object"}, "one of the two"),
    "another-object": (
        {words.CLUSTER_UID: "{cluster}", words.OBJECT_UID: "some-object"},
        "another object of this same cluster",
    ),
    "another-cluster": (
        {words.CLUSTER_UID: "some-cluster", words.OBJECT_UID: "some-object"},
        "another consumer cluster",
    ),
}


@pytest.mark.parametrize("owner", OWNERS)
async def test_an_object_of_another_owner_is_never_taken(scene: Scene, owner: str) -> None:
    marks, said = OWNERS[owner]
    cluster = await uid_of(scene.consumer)
    marks = {name: value.format(cluster=cluster) for name, value in marks.items()}
    theirs = await stranger(scene, **marks)
    await adopt(scene)
    instance = await scene.consumer.create(scene.widget("db", size=2))
    seen = await refused(scene, instance, "OwnedByAnother")
    assert said in seen["metadata"]["annotations"][words.CONFLICT]
    await scene.conflicts(1)

    await scene.consumer.delete(instance)
    await scene.consumer.gone(instance)
    assert await scene.provider.get(theirs) == theirs


async def test_the_copy_of_an_orphaned_predecessor_is_not_taken(scene: Scene) -> None:
    first = await scene.synced("db", size=1)
    orphan = {"metadata": {"annotations": {words.DELETION_POLICY: "Orphan"}}}
    await scene.consumer.merge(first, orphan)
    await scene.consumer.delete(first)
    await scene.consumer.gone(first)
    copy = await scene.provider.get(first)

    second = await scene.consumer.create(scene.widget("db", size=2))
    seen = await refused(scene, second, "OwnedByAnother")
    assert "deletion-policy Orphan" in seen["metadata"]["annotations"][words.CONFLICT]
    assert await scene.provider.get(second) == copy


@pytest_asyncio.fixture(loop_scope="session")
async def second(scene: Scene) -> AsyncIterator[RunningKonnector]:
    """Another consumer of the same provider, which binds widgets in the same namespace."""
    consumer = scene.world.second
    running = RunningKonnector(consumer.cluster, settings=settings())
    await running.start()
    await consumer.namespace(scene.namespace)
    await add_connection(consumer, scene.provider.cluster)
    await consumer.create(scene.binding)
    await synced(consumer, scene.binding)
    yield running
    await running.stop()


async def test_of_two_consumers_the_first_owns(scene: Scene, second: RunningKonnector) -> None:
    other = scene.world.second
    mine = await scene.synced("db", size=1)
    theirs = await other.create(scene.widget("db", size=2))
    seen = await reason(other, theirs, "Synced", "OwnedByAnother")
    assert "another consumer cluster" in seen["metadata"]["annotations"][words.CONFLICT]
    copy = await scene.provider.get(mine)
    assert copy["spec"]["size"] == 1
    await second.look_again(theirs)
    assert await scene.provider.get(mine) == copy
    assert await other.get(theirs) == seen

    # Each keeps to its own, until the first lets go.
    apart = await other.create(scene.widget("apart"))
    await scene.provider.until(apart, lambda seen: seen)
    assert await scene.consumer.find(apart) is None
    await scene.consumer.delete(mine)
    await scene.consumer.gone(mine)
    await scene.provider.until(theirs, lambda seen: seen["spec"]["size"] == 2)
    await other.until(theirs, lambda seen: find_condition(seen, "Synced") is None)


# --- what the instance's own schema has to say ----------------------------------------------


async def test_a_schema_that_cannot_take_the_condition_does_without(scene: Scene) -> None:
    """The annotation and the Event say it, and nothing is tried over and over."""
    status = {
        "type": "object",
        "required": ["phase"],
        "properties": {"phase": {"type": "string"}, "conditions": CONDITIONS},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object"}, "status": status}}
    await scene.offer(crd("picky", "Picky", schema=schema))
    await scene.provider.namespace(scene.namespace)
    theirs = await scene.provider.create(widget("db", scene.namespace, "Picky"))
    instance = await scene.consumer.create(widget("db", scene.namespace, "Picky"))
    await event(scene.consumer, instance, "ForeignObjectExists")
    await scene.konnector.look_again(instance)
    before = await scene.consumer.get(instance)
    assert before["metadata"]["annotations"][words.CONFLICT]
    assert "status" not in before
    assert await scene.standing(instance) == (before, theirs)

    await scene.provider.delete(theirs)
    await scene.provider.until(
        instance, lambda seen: words.OBJECT_UID in seen["metadata"].get("annotations", {})
    )
    await scene.provider.set_status(instance, {"phase": "Ready"})
    await scene.consumer.until(instance, lambda seen: seen["status"] == {"phase": "Ready"})


async def test_a_synced_of_the_providers_own_is_kept(scene: Scene) -> None:
    own = {
        "type": "Synced",
        "status": "True",
        "reason": "Replicated",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    instance = await scene.synced("db")
    await scene.provider.set_status(instance, {"conditions": [own]})
    await scene.consumer.until(instance, lambda seen: seen["status"]["conditions"] == [own])
    marks = {words.CLUSTER_UID: None, words.OBJECT_UID: None}
    await scene.provider.merge(instance, {"metadata": {"annotations": marks}})
    await event(scene.consumer, instance, "ForeignObjectExists")
    await scene.konnector.look_again(instance)
    assert (await scene.consumer.get(instance))["status"] == {"conditions": [own]}
