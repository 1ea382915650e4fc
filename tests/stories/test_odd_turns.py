"""Turns that are rare and must come out all the same: in virtual time."""

from __future__ import annotations

from kbind import words
from kbind.cluster.transport import Request
from kbind.testing.handles import Handle, Object, condition, find_condition, new
from kbind.testing.memory import MemoryCluster
from kbind.testing.running import USER, binding, connection, connection_secret
from tests.clusters.scenes import crd_ref
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.stories.telling import Story, tell

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
CONNECTIONS = "connections.core.kbind.io"


def reason(obj: Object) -> str:
    return str((find_condition(obj, "Ready") or {}).get("reason"))


def test_a_connection_made_anew_behind_the_watch_leads_to_its_own_provider() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        other = MemoryCluster("other", now=story.time.now)
        story.connect.add(other)
        await story.consumer.create(connection_secret(other, "other"))
        here = story.clusters[0]
        for verb in ("list", "watch"):
            here.deny(USER, verb, CONNECTIONS)
        here.break_streams()
        await story.wait(1)
        await story.consumer.merge(connection(), {"metadata": {"finalizers": None}})
        await story.consumer.delete(connection())
        anew = connection() | {"spec": connection("other")["spec"]}
        await story.consumer.create(anew)
        here.compact()
        for verb in ("list", "watch"):
            here.allow(USER, verb, CONNECTIONS)
        await story.wait(120)

        theirs = await Handle.open(other, connect=story.connect)
        there = await theirs.get(new("v1", "Namespace", "kube-system"))
        await theirs.close()
        seen = await story.consumer.get(anew)
        assert condition(seen, "Ready")
        assert seen["status"]["remoteClusterUID"] == there["metadata"]["uid"]
        one = await story.consumer.create(widget("one", size=1))
        await story.wait(60)
        assert await story.provider.find(one) is None

    tell(main)


def test_a_binding_of_another_version_of_the_crd_harms_itself_alone() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        definition = await story.consumer.get(
            new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "bindings.core.kbind.io")
        )
        spec = definition["spec"]
        fields = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        del fields["properties"]["conflictPolicy"]["enum"]
        await story.consumer.merge(definition, {"spec": spec})
        await story.consumer.namespace("team-b")
        newer = binding([WIDGETS], "team-b", "newer", conflictPolicy="Newer")
        await story.consumer.create(newer)
        await story.wait(60)
        assert reason(await story.consumer.get(newer)) == words.Reason.SPEC_INVALID
        await story.konnector.restart()
        await story.wait(60)
        one = await story.consumer.create(widget("one", size=1))
        await story.provider.until(one, lambda seen: seen)
        await story.consumer.merge(newer, {"spec": {"conflictPolicy": "Fail"}})
        await story.consumer.until(newer, lambda seen: condition(seen, "Ready"))

    tell(main)


def test_an_edit_beside_our_own_write_is_taken_in() -> None:
    """Somebody edits a binding just before its status is written: the answer to that write comes
    before the event, and holds the edit as well."""

    async def main(story: Story) -> None:
        bound = await story.bound()
        await story.provider.install_crd(crd("gadgets", "Gadget"))
        await story.wait(60)
        here = story.clusters[0]

        async def edit(request: Request) -> None:
            apis = [{"name": WIDGETS}, {"name": GADGETS}]
            await story.consumer.merge(bound, {"spec": {"apis": apis}})

        here.faults.clear()  # the story's own ear, which would hear it first
        here.faults.add(lambda it: it.path.endswith("/bindings/bound/status"), edit, times=1)
        changed = crd()
        changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "changed"
        await story.provider.merge(changed, {"spec": changed["spec"]})
        await story.wait(120)
        two = await story.consumer.create(gadget("two", size=1))
        await story.provider.until(two, lambda seen: seen, deadline=60)

    tell(main)


def test_a_crd_that_changed_behind_the_watch_is_read_before_it_is_written_again() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        here = story.clusters[0]
        for verb in ("list", "watch"):
            here.deny(USER, verb, CRDS)
        here.break_streams()
        await story.wait(5)
        await story.consumer.merge(crd_ref(), {"metadata": {"annotations": {"seen": "by others"}}})
        changed = crd()
        changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "changed"
        before = len(here.audit(USER))
        await story.provider.merge(changed, {"spec": changed["spec"]})
        await story.wait(120)
        made = await story.consumer.get(crd_ref())
        assert made["spec"]["versions"] == changed["spec"]["versions"]
        assert made["metadata"]["annotations"]["seen"] == "by others"
        written = [it for it in here.audit(USER)[before:] if it.resource == CRDS.partition(".")[0]]
        assert [it.status for it in written if it.writes] == [409, 200]

    tell(main)


def test_a_crd_that_was_taken_out_behind_the_watch_may_come_back() -> None:
    async def main(story: Story) -> None:
        bound = await story.bound()
        here = story.clusters[0]
        for verb in ("list", "watch"):
            here.deny(USER, verb, CRDS)
        here.break_streams()
        await story.wait(5)
        await story.consumer.merge(crd_ref(), {"metadata": {"labels": {words.MANAGED: None}}})
        await story.consumer.merge(crd_ref(), {"metadata": {"annotations": {"seen": "by others"}}})
        changed = crd()
        changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "changed"
        await story.provider.merge(changed, {"spec": changed["spec"]})
        await story.wait(60)
        for verb in ("list", "watch"):
            here.allow(USER, verb, CRDS)
        await story.wait(60)
        assert reason(await story.consumer.get(bound)) == "Unmanaged"
        await story.consumer.delete(crd_ref())
        await story.wait(60)
        assert (await story.consumer.get(crd_ref()))["spec"]["versions"] == (
            changed["spec"]["versions"]
        )
        assert reason(await story.consumer.get(bound)) == "AsExpected"

    tell(main)


def test_what_could_not_be_looked_at_is_looked_at_again() -> None:
    async def main(story: Story) -> None:
        await story.provider.install_crd(crd())
        await story.consumer.namespace("team-a")
        here = story.clusters[0]
        await story.consumer.namespace("kbind")
        await story.consumer.create(connection_secret(story.clusters[1]))
        await story.consumer.create(connection(schema={"pullPolicy": "None"}))
        bound = await story.consumer.create(binding([WIDGETS], "team-a"))
        await story.wait(60)
        assert reason(await story.consumer.get(bound)) == words.Reason.SCHEMA_MISSING
        here.deny(USER, "get", CRDS)
        await story.wait(60)
        assert reason(await story.consumer.get(bound)) == words.Reason.SCHEMA_SOURCE_FAILED
        here.allow(USER, "get", CRDS)
        await story.wait(60)
        assert reason(await story.consumer.get(bound)) == words.Reason.SCHEMA_MISSING

    tell(main)
