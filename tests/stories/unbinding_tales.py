"""How bindings, Connections and Secrets are undone: stories, told in golden/stories."""

from __future__ import annotations

from kbind import words
from kbind.cluster.transport import Request
from kbind.testing.handles import Object, condition, new
from kbind.testing.running import USER, add_connection, binding, connection
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.stories.telling import Story, Tales

TALES = Tales()

DEFINITION = new("apiextensions.k8s.io/v1", "CustomResourceDefinition", WIDGETS)
SECRET = new("v1", "Secret", "provider-kubeconfig", "kbind")
SLOW = 3.0  # seconds that a provider takes for a deletion
KEPT = {"metadata": {"annotations": {words.DELETION_POLICY: words.ORPHAN}}}


def deletes(request: Request) -> bool:
    return request.method == "DELETE"


async def finalizers(story: Story, ref: Object) -> list[str]:
    found: list[str] = (await story.consumer.get(ref))["metadata"].get("finalizers") or []
    return found


@TALES.story("A Binding is deleted: the copies go, the instances stay")
async def binding_unbound(story: Story) -> None:
    bound = await story.bound()
    one = await story.synced(widget("one", size=1))
    kept = await story.synced(widget("kept", size=2))
    foreign = await story.provider.create(widget("taken", size=9))
    await story.consumer.create(widget("taken", size=3))
    await story.wait(60)
    with story.chapter(
        "team-a has three widgets: one; kept, whose copy is to be kept; and taken, in whose place "
        "the provider has a widget of its own. The Binding is deleted.",
        ready=True,
    ):
        await story.consumer.merge(kept, KEPT)
        await story.consumer.delete(bound)
        await story.wait(60)

    assert await story.consumer.find(bound) is None
    assert await story.provider.find(one) is None
    assert await story.provider.get(kept) == kept
    assert await story.provider.get(foreign) == foreign
    for each in (one, kept, foreign):
        assert await finalizers(story, each) == []
    assert await story.consumer.get(DEFINITION)
    with story.chapter(
        "It is created again: one has a copy again, and kept goes on with the one that stayed."
    ):
        bound = await story.consumer.create(binding([WIDGETS], "team-a"))
        await story.wait(60)
    assert (await story.provider.get(one))["metadata"]["uid"] != one["metadata"]["uid"]
    assert await story.provider.get(kept) == kept
    await story.end(one, kept, foreign, bound)


@TALES.story("The last ClusterBinding is deleted: copies, definition, instances")
async def cluster_binding_unbound(story: Story) -> None:
    await story.provider.install_crd(crd())
    for namespace in ("team-a", "team-b"):
        await story.consumer.namespace(namespace)
        await story.provider.namespace(namespace)
    await add_connection(story.consumer, story.clusters[1])
    bound = await story.consumer.create(binding([WIDGETS], name="everywhere"))
    await story.consumer.until(bound, lambda seen: condition(seen, "Synced"))
    made = [await story.synced(widget("one", team, size=1)) for team in ("team-a", "team-b")]
    with story.chapter(
        "team-a and team-b have a widget each. An administrator deletes the ClusterBinding; the "
        "provider takes its time to delete.",
        ready=True,
    ):
        story.clusters[1].faults.delay(deletes, SLOW)
        await story.consumer.delete(bound)
        await story.wait(SLOW - 1)
        assert await story.consumer.get(DEFINITION)
        assert len(await story.consumer.list("example.org/v1", "Widget")) == 2
        await story.wait(60)

    for ref in (bound, DEFINITION):
        assert await story.consumer.find(ref) is None
    for each in made:
        assert await story.provider.find(each) is None
    assert await story.provider.get(DEFINITION)
    await story.end(*made, bound)


@TALES.story("A Connection goes after its bindings, and its Secret last")
async def everything_deleted(story: Story) -> None:
    bound = await story.bound()
    one = await story.synced(widget("one", size=1))
    with story.chapter(
        "Connection and Secret are deleted before their time. Both stay, and go on serving: the "
        "widget is changed, and the change arrives.",
        ready=True,
    ):
        await story.consumer.delete(connection())
        await story.consumer.delete(SECRET)
        await story.wait(2)
        await story.consumer.merge(one, {"spec": {"size": 2}})
        await story.wait(60)
    assert (await story.provider.get(one))["spec"]["size"] == 2
    assert await finalizers(story, SECRET) == [words.CLEANUP]
    with story.chapter("The Binding is deleted, and with it goes all that waited.", ready=True):
        await story.consumer.delete(bound)
        await story.wait(60)

    for ref in (bound, connection(), SECRET):
        assert await story.consumer.find(ref) is None
    assert await story.provider.find(one) is None
    await story.end(one, bound, connection(), SECRET)


@TALES.story("Two Connections share a Secret")
async def shared_secret(story: Story) -> None:
    await story.provider.install_crd(crd())
    await add_connection(story.consumer, story.clusters[1])
    data = (await story.consumer.get(SECRET))["data"]
    await story.consumer.merge(SECRET, {"data": {"other": data[words.DEFAULT_KEY]}})
    reference = {"namespace": "kbind", "name": "provider-kubeconfig", "key": "other"}
    other = connection("other", kubeconfigSecretRef=reference)
    await story.consumer.create(other)
    for each in (connection(), other):
        await story.consumer.until(each, lambda seen: condition(seen, "Ready"))
    await story.wait(60)
    with story.chapter(
        "provider and other use the same Secret, each a key of its own. provider is deleted."
    ):
        await story.consumer.delete(connection())
        await story.wait(60)
    assert await story.consumer.find(connection()) is None
    assert await finalizers(story, SECRET) == [words.CLEANUP]
    with story.chapter("An hour passes: nothing is written to the Secret."):
        start = len(story.clusters[0].audit(USER))
        await story.wait(3600)
        written = [e for e in story.clusters[0].audit(USER)[start:] if e.writes]
        assert [str(e) for e in written if e.resource == "secrets"] == []
    with story.chapter("The Secret is deleted while other still uses it.", ready=True):
        await story.consumer.delete(SECRET)
        await story.wait(60)
    seen = await story.consumer.get(other)
    assert condition(seen, "Ready")
    await story.end(other)
    with story.chapter("other is deleted, and the Secret goes with it."):
        await story.consumer.delete(other)
        await story.wait(60)

    for ref in (other, SECRET):
        assert await story.consumer.find(ref) is None


@TALES.story("A Binding is deleted, and the provider never answers")
async def abandonment(story: Story) -> None:
    bound = await story.bound()
    made = [await story.synced(widget(name, size=1)) for name in ("one", "two")]
    with story.chapter("The provider is gone for good. The Binding is deleted.", ready=True):
        story.clusters[1].down = True
        await story.consumer.delete(bound)
        await story.wait(55)
        for each in made:
            assert await finalizers(story, each) == [words.SYNCER]
        await story.wait(65)

    assert await story.consumer.find(bound) is None
    for each in made:
        assert await finalizers(story, each) == []
    (event,) = await story.events()
    assert event["reason"] == words.Reason.COPIES_LEFT
    assert not [e for e in story.clusters[0].audit(USER) if e.status == 409]
    story.clusters[1].down = False
    await story.wait(120)
    for each in made:
        assert await story.provider.get(each) == each  # as the Event said
    await story.end(*made, events=True)


@TALES.story("Nothing is exported any longer, and the brake asks first")
async def brake(story: Story) -> None:
    await story.provider.install_crd(crd())
    await story.provider.namespace("team-a")
    await story.consumer.namespace("team-a")
    source = {"source": "CRD"}
    await add_connection(story.consumer, story.clusters[1], autoBind=True, schema=source)
    own = new(words.API_VERSION, "ClusterBinding", "provider")
    await story.consumer.until(own, lambda seen: condition(seen, "Synced"), 120)
    made = [await story.consumer.create(widget(f"w{n:02}", size=n)) for n in range(25)]
    await story.provider.until(made[-1], bool)
    await story.wait(60)
    with story.chapter(
        "A Connection with autoBind has brought widgets over, and team-a has 25 of them. The "
        "provider takes the label off its CRD, the only one that had it.",
        ready=True,
        counted=True,
    ):
        await story.provider.merge(crd(), {"metadata": {"labels": {words.EXPORTED: None}}})
        await story.wait(600)
    assert len(await story.provider.list("example.org/v1", "Widget")) == 25
    (event,) = await story.events()
    assert event["reason"] == words.Reason.BRAKED
    with story.chapter("Meanwhile one of them is changed, which goes up as ever.", counted=True):
        await story.consumer.merge(made[0], {"spec": {"size": 7}})
        await story.wait(60)
    assert (await story.provider.get(made[0]))["spec"]["size"] == 7
    with story.chapter(
        "An administrator has asked the provider, and confirms it.", ready=True, counted=True
    ):
        confirmed = {"metadata": {"annotations": {words.CONFIRM: words.TRUE}}}
        await story.consumer.merge(connection(), confirmed)
        await story.wait(60)

    for ref in (own, DEFINITION):
        assert await story.consumer.find(ref) is None
    assert await story.provider.list("example.org/v1", "Widget") == []
    await story.end(made[0], own, connection(), events=True)
