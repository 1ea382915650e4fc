"""Several passes end to end, told in golden/stories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kbind import words
from kbind.testing.handles import condition, find_condition
from kbind.testing.memory import failure
from kbind.testing.running import add_connection, binding, connection
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.golden import GoldenFile, files
from tests.stories.telling import Story, Tales, written
from tests.stories.unbinding_tales import TALES as UNBINDING

TALES = Tales()


class StoryFile(GoldenFile):
    """``test_golden_story[stories/drift]`` is ``golden/stories/drift.yaml``."""

    test = "test_golden_story"
    owned = ("stories",)


def cluster_markers(of: str) -> dict[str, str]:
    """The annotations of a copy that belongs to the instance with that UID."""
    return {words.CLUSTER_UID: "consumer-uid-2", words.OBJECT_UID: of}


@TALES.story("An API is bound, and the first instance goes up")
async def bind_and_first_sync(story: Story) -> None:
    await story.provider.install_crd(crd())
    with story.chapter(
        "The provider exports widgets. On the consumer an administrator creates a Connection to "
        "it, and team-a a Binding that lists the API."
    ):
        await story.consumer.namespace("team-a")
        await add_connection(story.consumer, story.clusters[1])
        bound = await story.consumer.create(binding([WIDGETS], "team-a"))
        await story.consumer.until(bound, lambda seen: condition(seen, "Synced"))
        await story.wait(60)
    with story.chapter(
        "team-a creates its first widget. The provider has no namespace team-a yet."
    ):
        one = await story.consumer.create(widget("one", size=3))
        await story.wait(60)

    copy = await story.provider.get(one)
    assert copy["spec"] == {"size": 3, "color": "red"}
    assert copy["metadata"]["annotations"] == cluster_markers(one["metadata"]["uid"])
    assert (await story.consumer.get(one))["metadata"]["finalizers"] == [words.SYNCER]
    assert condition(await story.consumer.get(bound), "Ready")
    await story.end(one, bound)


@TALES.story("Auto falls through to OpenAPI, and comes back to labelled CRDs")
async def auto_and_back(story: Story) -> None:
    await story.provider.install_crd(crd(exported=False))
    await story.provider.namespace("team-a")
    connected = connection()

    def uses(source: str) -> Callable[[Any], bool]:
        return lambda seen: seen["status"]["activeSchemaSource"] == source

    with story.chapter(
        "No CRD of the provider is labelled. A Connection leaves the source at Auto, and team-a "
        "binds widgets: what is discovered is offered, and a CRD is put together."
    ):
        await story.consumer.namespace("team-a")
        await add_connection(story.consumer, story.clusters[1])
        bound = await story.consumer.create(binding([WIDGETS], "team-a"))
        await story.consumer.until(bound, lambda seen: condition(seen, "Synced"))
        await story.consumer.until(connected, uses("OpenAPI"))
        one = await story.consumer.create(widget("one", size=1))
        await story.wait(60)
    with story.chapter(
        "The provider labels its CRD for export. It is the source from now on, and its own "
        "definition takes the place of the other."
    ):
        await story.provider.merge(crd(), {"metadata": {"labels": {words.EXPORTED: "true"}}})
        await story.consumer.until(connected, uses("CRD"), 60)
        await story.wait(60)
    with story.chapter("The list of CRDs fails for a while, which is no empty list."):
        failing = story.clusters[1].faults.add(
            lambda request: request.path.endswith("/customresourcedefinitions"),
            failure(503, "ServiceUnavailable", "come back later"),
        )
        await story.wait(90)
        seen = await story.consumer.get(connected)
        assert uses("CRD")(seen)
        assert condition(seen, "Ready")
        assert condition(seen, "SchemaInSync", "Unknown")
        story.clusters[1].faults.remove(failing)
        await story.wait(60)
    with story.chapter(
        "The provider takes the label away: back to what is discovered. Nothing was deleted."
    ):
        await story.provider.merge(crd(), {"metadata": {"labels": {words.EXPORTED: None}}})
        await story.consumer.until(connected, uses("OpenAPI"), 60)
        await story.consumer.merge(one, {"spec": {"size": 2}})
        await story.wait(60)

    assert (await story.provider.get(one))["spec"]["size"] == 2
    assert condition(await story.consumer.get(bound), "Ready")
    assert condition(await story.consumer.get(connected), "SchemaInSync")
    await story.end(one, bound, connected)


@TALES.story("The copy's status shows on the instance")
async def status(story: Story) -> None:
    await story.bound()
    one = await story.consumer.create(widget("one", size=3))
    await story.wait(60)
    with story.chapter("The provider's controller reports a phase."):
        await story.provider.set_status(one, {"phase": "Working", "count": 1})
        await story.wait(60)
    assert (await story.consumer.get(one))["status"] == {"phase": "Working", "count": 1}
    with story.chapter("It reports another phase, and no count any longer."):
        await story.provider.set_status(one, {"phase": "Ready"})
        await story.wait(60)
    assert (await story.consumer.get(one))["status"] == {"phase": "Ready"}
    with story.chapter("It takes its status away: the instance keeps the last one."):
        await story.provider.merge(one, {"status": None}, "status")
        await story.wait(60)
    assert (await story.consumer.get(one))["status"] == {"phase": "Ready"}
    await story.provider.set_status(one, {"phase": "Ready"})
    await story.wait(60)
    with story.chapter("It reports again. Then somebody on the consumer writes another status."):
        await story.consumer.set_status(one, {"phase": "Fine"})
        await story.wait(60)

    assert (await story.consumer.get(one))["status"] == {"phase": "Ready"}
    await story.end(one)


@TALES.story("What is changed on the copy by hand is set right")
async def drift(story: Story) -> None:
    await story.bound()
    one = widget("one", size=3, labels={"a": "x", "b": "y"})
    await story.synced(one)
    with story.chapter("The user changes size, removes label a and adds a note."):
        await story.consumer.merge(
            one, {"spec": {"size": 4, "labels": {"a": None}, "note": "mine"}}
        )
        await story.wait(60)
    wanted = {"size": 4, "color": "red", "labels": {"b": "y"}, "note": "mine"}
    assert (await story.provider.get(one))["spec"] == wanted
    with story.chapter("The user removes the last label, and leaves the map empty."):
        await story.consumer.merge(one, {"spec": {"labels": {"b": None}}})
        await story.wait(60)
    wanted["labels"] = {}
    assert (await story.provider.get(one))["spec"] == wanted
    with story.chapter("Somebody on the provider sets another size and removes the note."):
        await story.provider.merge(one, {"spec": {"size": 9, "note": None}})
        await story.wait(60)
    assert (await story.provider.get(one))["spec"] == wanted
    with story.chapter("Somebody on the provider adds a field that the instance does not have."):
        await story.provider.merge(one, {"spec": {"list": [1]}})
        await story.wait(60)
    assert (await story.provider.get(one))["spec"] == wanted | {"list": [1]}
    with story.chapter("Somebody takes kbind's label off the copy, so that the watch loses it."):
        await story.provider.merge(one, {"metadata": {"labels": {words.CONSUMER: None}}})
        await story.wait(60)
    labels = (await story.provider.get(one))["metadata"]["labels"]
    assert labels[words.CONSUMER] == "consumer-uid-2"
    before = await story.provider.get(one)
    with story.chapter("Somebody deletes the copy."):
        await story.provider.delete(one)
        await story.wait(60)

    copy = await story.provider.get(one)
    assert copy["metadata"]["uid"] != before["metadata"]["uid"]
    assert copy["spec"] == wanted
    assert (await story.consumer.get(one))["status"] == {"phase": "Ready"}
    await story.end(one)


@TALES.story("An object stands in the way, and goes")
async def refusal_and_healing(story: Story) -> None:
    bound = await story.bound()
    foreign = await story.provider.create(widget("one", size=100))
    with story.chapter("The provider has a widget one of its own. team-a creates one as well."):
        one = await story.consumer.create(widget("one", size=3))
        await story.wait(20)
    seen = await story.consumer.get(one)
    assert seen["metadata"]["annotations"][words.CONFLICT].startswith("ForeignObjectExists: ")
    assert condition(seen, "Synced", "False")
    assert (await story.provider.get(one)) == foreign
    assert condition(await story.consumer.get(bound), "Conflicts")
    with story.chapter("Ten minutes pass: it is looked at every 30 seconds, and nothing is said."):
        await story.wait(600)
    assert len(await story.events()) == 1
    with story.chapter("The provider's owner deletes that widget."):
        await story.provider.delete(one)
        await story.wait(31)

    seen = await story.consumer.get(one)
    assert words.CONFLICT not in seen["metadata"].get("annotations", {})
    assert find_condition(seen, "Synced") is None
    assert (await story.provider.get(one))["spec"] == {"size": 3, "color": "red"}
    await story.wait(60)
    assert condition(await story.consumer.get(bound), "Conflicts", "False")
    assert [e["reason"] for e in await story.events()] == [
        "ForeignObjectExists",
        "ConflictResolved",
    ]
    await story.end(one, bound, events=True)


@TALES.story("An object that nobody marked is adopted")
async def adoption(story: Story) -> None:
    bound = await story.bound()
    before = await story.provider.create(widget("one", size=100, note="theirs"))
    await story.provider.set_status(before, {"phase": "Ready"})
    with story.chapter("team-a creates a widget whose name is taken; its Binding says Fail."):
        one = await story.consumer.create(widget("one", size=3))
        await story.wait(60)
    assert (await story.provider.get(one))["spec"]["size"] == 100
    with story.chapter("The Binding is changed to say Adopt."):
        await story.consumer.merge(bound, {"spec": {"conflictPolicy": "Adopt"}})
        await story.wait(60)

    copy = await story.provider.get(one)
    assert copy["metadata"]["uid"] == before["metadata"]["uid"]
    assert copy["metadata"]["annotations"] == cluster_markers(one["metadata"]["uid"])
    assert copy["spec"] == {"size": 3, "color": "red", "note": "theirs"}
    assert (await story.consumer.get(one))["status"] == {"phase": "Ready"}
    await story.end(one, events=True)


@TALES.story("An instance is deleted, and its copy with it")
async def deletion(story: Story) -> None:
    await story.bound()
    copy = await story.synced(widget("one", size=3))
    with story.chapter("The user deletes the widget."):
        await story.consumer.delete(copy)
        await story.wait(60)

    assert await story.consumer.find(copy) is None
    assert await story.provider.find(copy) is None
    await story.end(copy)


@TALES.story("A finalizer on the provider holds the deletion up")
async def deletion_held_by_a_provider_finalizer(story: Story) -> None:
    await story.bound()
    copy = await story.synced(widget("one", size=3))
    await story.provider.merge(copy, {"metadata": {"finalizers": ["example.org/backup"]}})
    await story.wait(60)
    with story.chapter(
        "The user deletes the widget, whose copy the provider wants to back up first."
    ):
        await story.consumer.delete(copy)
        await story.wait(120)
    held = await story.consumer.get(copy)
    assert held["metadata"]["finalizers"] == [words.SYNCER]
    assert (await story.provider.get(copy))["metadata"]["deletionTimestamp"]
    (event,) = await story.events()
    assert "example.org/backup" in event["message"]
    await story.end(copy, events=True)
    assert story.shown["consumer"][0]["being deleted"]
    with story.chapter("The backup is done, and the provider takes its finalizer off."):
        await story.provider.merge(copy, {"metadata": {"finalizers": None}})
        await story.wait(2)

    assert await story.consumer.find(copy) is None
    assert await story.provider.find(copy) is None
    await story.end(copy, events=True)


@TALES.story("Instances are deleted while the provider is away")
async def deletion_while_the_provider_is_away(story: Story) -> None:
    await story.bound()
    one = await story.synced(widget("one", size=3))
    two = await story.synced(widget("two", size=4))
    with story.chapter("The provider does not answer any more, and the user deletes both widgets."):
        story.clusters[1].down = True
        story.clusters[1].break_streams()
        await story.wait(60)
        for each in (one, two):
            await story.consumer.delete(each)
        await story.wait(600)
    with story.chapter("The user gives the second one's copy up."):
        keep = {words.DELETION_POLICY: words.ORPHAN}
        await story.consumer.merge(two, {"metadata": {"annotations": keep}})
        await story.wait(60)
    assert await story.consumer.find(two) is None
    held = await story.consumer.get(one)
    assert held["metadata"]["finalizers"] == [words.SYNCER]
    with story.chapter("The provider is back."):
        story.clusters[1].down = False
        await story.wait(60)
    assert await story.consumer.find(one) is None
    assert await story.provider.find(one) is None
    assert await story.provider.get(two) == two
    await story.end(one, two, events=True)


@TALES.story("Everything changes while the konnector is stopped")
async def restart(story: Story) -> None:
    await story.bound()
    names = ("quiet", "edited", "ready", "deleted", "unmade")
    made = {name: await story.synced(widget(name, size=1, note="old")) for name in names}
    with story.chapter("The konnector is stopped and started, and nothing has changed."):
        await story.konnector.restart()
        await story.wait(60)
    assert not story.told[-1].get("other writes")
    assert not any(record["writes"] for record in story.told[-1]["passes"])
    with story.chapter(
        "It is stopped. Meanwhile edited gets another size and loses its note, ready gets another "
        "status on the provider, deleted is deleted, unmade loses its copy, and late is created. "
        "It is started again."
    ):
        await story.konnector.stop()
        await story.consumer.merge(made["edited"], {"spec": {"size": 2, "note": None}})
        await story.provider.set_status(made["ready"], {"phase": "Busy"})
        await story.consumer.delete(made["deleted"])
        await story.provider.delete(made["unmade"])
        late = await story.consumer.create(widget("late", size=5))
        await story.wait(3600)
        await story.konnector.start()
        await story.wait(60)

    assert (await story.provider.get(made["edited"]))["spec"] == {"size": 2, "color": "red"}
    assert (await story.consumer.get(made["ready"]))["status"] == {"phase": "Busy"}
    assert await story.consumer.find(made["deleted"]) is None
    assert await story.provider.find(made["deleted"]) is None
    unmade = await story.provider.get(made["unmade"])
    assert unmade["metadata"]["uid"] != made["unmade"]["metadata"]["uid"]
    assert (await story.provider.get(late))["spec"] == {"size": 5, "color": "red"}
    assert (await story.provider.get(made["quiet"])) == made["quiet"]
    await story.end(*made.values(), late)


@TALES.story("Writing is paused, and catches up")
async def pause(story: Story) -> None:
    bound = await story.bound()
    one = await story.synced(widget("one", size=3))
    two = await story.synced(widget("two", size=3))
    on = {"metadata": {"annotations": {words.PAUSED: "true"}}}
    off = {"metadata": {"annotations": {words.PAUSED: None}}}
    with story.chapter("The user pauses widget one, and changes it."):
        await story.consumer.merge(one, on)
        await story.consumer.merge(one, {"spec": {"size": 4}})
        await story.wait(60)
    assert (await story.provider.get(one))["spec"]["size"] == 3
    with story.chapter("An administrator pauses the Connection; the user deletes widget two."):
        await story.consumer.merge(connection(), on)
        await story.consumer.delete(two)
        await story.wait(60)
    seen = find_condition(await story.consumer.get(connection()), "Ready")
    assert seen is not None
    assert (seen["status"], seen["reason"]) == ("True", words.Reason.PAUSED)
    assert await story.provider.get(two) == two
    with story.chapter("Ten minutes pass, and more: nothing is written, nothing is said again."):
        await story.wait(700)
    assert not any(record["writes"] for record in story.told[-1]["passes"])
    (event,) = await story.events()
    assert event["reason"] == words.Reason.PAUSED
    with story.chapter("The Connection is resumed: two goes, one is still paused."):
        await story.consumer.merge(connection(), off)
        await story.wait(2)
    assert await story.consumer.find(two) is None
    assert await story.provider.find(two) is None
    with story.chapter("The user takes the annotation off widget one."):
        await story.consumer.merge(one, off)
        await story.wait(2)

    assert (await story.provider.get(one))["spec"]["size"] == 4
    assert condition(await story.consumer.get(bound), "Synced")
    await story.end(one, two, connection(), bound, events=True)


@TALES.story("An instance goes and leaves its copy behind")
async def orphan(story: Story) -> None:
    await story.bound()
    copy = await story.synced(widget("one", size=3))
    with story.chapter("The user asks for the copy to be kept, and deletes the widget."):
        keep = {"metadata": {"annotations": {words.DELETION_POLICY: words.ORPHAN}}}
        await story.consumer.merge(copy, keep)
        await story.consumer.delete(copy)
        await story.wait(60)
    assert await story.consumer.find(copy) is None
    assert await story.provider.get(copy) == copy
    with story.chapter("A widget of the same name is created: the copy is its predecessor's."):
        one = await story.consumer.create(widget("one", size=4))
        await story.wait(60)

    refused = await story.consumer.get(one)
    assert refused["metadata"]["annotations"][words.CONFLICT].startswith("OwnedByAnother: ")
    assert await story.provider.get(copy) == copy
    await story.end(one, events=True)


ALL = TALES.by_name | UNBINDING.by_name


@pytest.mark.parametrize("name", [f"stories/{name}" for name in ALL])
def test_golden_story(name: str, snapshot: SnapshotAssertion) -> None:
    tale = ALL[name.removeprefix("stories/")]
    told = written(tale)
    assert told == snapshot.use_extension(StoryFile)
    assert written(tale) == told  # told twice, it is the same


def test_golden_stories_holds_nothing_else() -> None:
    assert files("stories") == {f"stories/{name}" for name in ALL}
