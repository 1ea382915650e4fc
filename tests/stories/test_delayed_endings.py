"""Deletions that something stands in the way of, for long: in virtual time."""

from __future__ import annotations

import pytest

from kbind import words
from kbind.cluster.transport import Request
from kbind.testing.handles import find_condition, new
from kbind.testing.running import USER, connection
from tests.clusters.scenes import paused
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.stories.telling import Story, tell

FOREIGN = "example.org/holds"
SECRET = new("v1", "Secret", "provider-kubeconfig", "kbind")
TEAM = new("v1", "Namespace", "team-a")
DEFINITION = new("apiextensions.k8s.io/v1", "CustomResourceDefinition", WIDGETS)


def finalizers(*names: str) -> dict[str, object]:
    return {"metadata": {"finalizers": list(names)}}


def writes_of_copies(request: Request) -> bool:
    return request.method == "PATCH" and "/namespaces/team-a/widgets/" in request.path


def test_while_a_provider_is_away_its_api_is_watched_once_and_nothing_is_looked_at() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        consumer, provider = story.clusters
        made = [await story.synced(widget(f"w{n}", size=n)) for n in range(5)]
        provider.down = True
        provider.break_streams()
        await story.wait(2 * words.PERIOD)
        passes, start = story.konnector.passes.copy(), len(consumer.audit(USER))
        await story.wait(15 * words.PERIOD)
        assert story.konnector.passes == passes
        asked = [entry for entry in consumer.audit(USER)[start:] if entry.resource == "widgets"]
        assert {entry.verb for entry in asked} <= {"watch"}
        assert len(asked) <= 6  # one at a time, renewed whenever it has been silent for long
        assert await story.events() == []

        provider.down = False
        await story.wait(2 * words.PERIOD)
        assert [await story.provider.get(each) for each in made] == made

    tell(main)


def test_a_namespace_that_takes_its_time_to_go_is_not_hammered_at() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        one = await story.synced(widget("one", size=1))
        stays = await story.synced(widget("stays", size=2))
        await story.provider.merge(stays, finalizers(FOREIGN))
        await story.provider.delete(TEAM)
        provider = story.clusters[1]
        start = len(provider.audit(USER))
        minutes = 60
        await story.wait(minutes * 60)
        refused = [e for e in provider.audit(USER)[start:] if e.status == 403]
        assert {e.name for e in refused} == {"one"}
        assert 60 * minutes / words.PERIOD / 2 < len(refused) < 60 * minutes / 5
        told = [e for e in await story.events() if e["involvedObject"]["name"] == "one"]
        assert [e["reason"] for e in told] == [words.Reason.SYNC_FAILED]
        seen = await story.consumer.get(stays)
        assert (find_condition(seen, "Synced") or {})["reason"] == words.Reason.AWAITING_FINALIZERS

        await story.provider.merge(stays, finalizers())
        await story.wait(words.PERIOD)
        for each in (one, stays):
            copy = await story.provider.get(each)
            assert copy["metadata"]["uid"] != each["metadata"]["uid"]
            assert copy["spec"] == each["spec"]
        assert find_condition(await story.consumer.get(stays), "Synced") is None

    tell(main)


def test_a_namespace_goes_though_its_provider_is_gone_for_good() -> None:
    """Where it goes no Event can be made, so that the log alone names the copies."""

    async def main(story: Story) -> None:
        await story.bound()
        one = await story.synced(widget("one", size=1))
        story.clusters[1].down = True
        await story.wait(words.PERIOD)
        await story.consumer.delete(TEAM)
        await story.wait(45)
        assert await story.consumer.find(one)
        await story.wait(45)
        assert await story.consumer.find(TEAM) is None
        story.clusters[1].down = False
        await story.wait(2 * words.PERIOD)
        assert await story.provider.get(one) == one

    tell(main)


def test_credentials_that_were_missing_once_give_up_nothing_later() -> None:
    """The status of the Connection tells of the last konnector's time."""

    async def main(story: Story) -> None:
        bound = await story.bound()
        one = await story.synced(widget("one", size=1))
        right = await story.consumer.get(SECRET)
        await story.consumer.merge(SECRET, {"data": {words.DEFAULT_KEY: ""}})
        await story.wait(1)
        seen = await story.consumer.get(connection())
        assert (find_condition(seen, "SecretValid") or {})["reason"] == words.Reason.SECRET_INVALID
        await story.konnector.stop()
        await story.consumer.merge(SECRET, {"data": right["data"]})
        await story.consumer.delete(bound)
        await story.konnector.start()
        await story.wait(words.PERIOD)
        assert await story.consumer.find(bound) is None
        assert await story.provider.find(one) is None
        assert words.Reason.COPIES_LEFT not in {e["reason"] for e in await story.events()}

    tell(main)


def test_copies_that_are_given_up_half_way_are_named() -> None:
    """The binding is being undone in good order when its credentials are lost."""

    async def main(story: Story) -> None:
        bound = await story.bound()
        one = await story.synced(widget("one", size=1))
        await story.consumer.merge(one, paused())
        await story.consumer.delete(bound)
        await story.wait(5)
        await story.consumer.merge(SECRET, {"data": {words.DEFAULT_KEY: ""}})
        await story.wait(5)
        await story.consumer.merge(one, paused(None))
        await story.wait(5)
        assert await story.consumer.find(bound) is None
        assert "finalizers" not in (await story.consumer.get(one))["metadata"]
        assert await story.provider.find(one)
        (told,) = [e for e in await story.events() if e["reason"] == words.Reason.COPIES_LEFT]
        assert "team-a/one" in told["message"]

    tell(main)


def test_an_instance_that_was_refused_from_the_start_shows_nothing_of_it_later() -> None:
    """It was never held: what is in its way is the copy of its predecessor, which is watched."""

    async def main(story: Story) -> None:
        bound = await story.bound()
        one = await story.synced(widget("one", size=1))
        keep = {words.DELETION_POLICY: words.ORPHAN}
        await story.consumer.merge(one, {"metadata": {"annotations": keep}})
        await story.consumer.delete(one)
        await story.wait(1)
        await story.consumer.create(widget("one", size=2))
        await story.wait(1)
        seen = await story.consumer.get(one)
        assert words.CONFLICT in seen["metadata"]["annotations"]
        assert "finalizers" not in seen["metadata"]
        await story.consumer.delete(bound)
        await story.wait(words.PERIOD)
        assert await story.consumer.find(bound) is None
        seen = await story.consumer.get(one)
        assert words.CONFLICT not in (seen["metadata"].get("annotations") or {})
        assert find_condition(seen, "Synced") is None
        assert (await story.provider.get(one))["spec"]["size"] == 1

    tell(main)


def test_an_api_that_takes_its_time_to_go_is_filled_as_soon_as_it_is_back() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        await story.consumer.merge(connection(), {"spec": {"schema": {"source": "CRD"}}})
        one = await story.synced(widget("one", size=1))
        stays = await story.synced(widget("stays", size=2))
        await story.provider.merge(stays, finalizers(FOREIGN))
        await story.provider.delete(DEFINITION)
        provider = story.clusters[1]
        start = len(provider.audit(USER))
        await story.wait(3600)
        refused = [e for e in provider.audit(USER)[start:] if e.status == 403]
        assert {e.name for e in refused} == {"one"}
        assert len(refused) < 60
        told = [e for e in await story.events() if e["involvedObject"]["name"] == "one"]
        assert [e["reason"] for e in told] == [words.Reason.SYNC_FAILED]

        await story.provider.merge(stays, finalizers())
        await story.wait(words.PERIOD)
        await story.provider.install_crd(crd())
        await story.wait(words.PERIOD)
        for each in (one, stays):
            assert (await story.provider.get(each))["spec"] == each["spec"]

    tell(main)


@pytest.mark.parametrize("marked", [False, True], ids=["foreign", "ours"])
def test_a_delete_that_failed_spares_what_took_the_copys_place(marked: bool) -> None:
    """marked: by a tool that restores what it has saved, markers and all."""

    async def main(story: Story) -> None:
        await story.bound()
        copy = await story.synced(widget("one", size=1))
        provider = story.clusters[1]
        failing = provider.faults.fail(
            lambda request: (
                request.method == "DELETE"
                and request.headers.get("User-Agent", "").startswith("kbind-konnector")
            ),
            500,
            "InternalError",
            "the server has a bad day",
        )
        await story.consumer.delete(copy)
        await story.wait(5)
        assert failing.struck
        # Unseen by the watch, so that the delete that follows is based on the old copy.
        hidden = provider.faults.disconnect(lambda request: "watch" in request.query)
        provider.break_streams()
        await story.provider.delete(copy)
        taken = widget("one", size=9)
        if marked:
            kept = ("labels", "annotations")
            taken["metadata"] |= {part: copy["metadata"][part] for part in kept}
        taken = await story.provider.create(taken)
        provider.faults.remove(failing)
        await story.wait(5)
        provider.faults.remove(hidden)
        await story.wait(2 * words.PERIOD)

        assert await story.consumer.find(copy) is None
        deletes = [e.status for e in provider.audit(USER) if e.verb == "delete"]
        assert 409 in deletes
        assert await story.provider.find(taken) == (None if marked else taken)

    tell(main)


def test_a_deletion_that_overtakes_the_finalizer_leaves_nothing() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        consumer = story.clusters[0]
        going = widget("going", size=1)
        going["metadata"]["finalizers"] = [FOREIGN]

        async def overtake(_: Request) -> None:
            await story.consumer.delete(going)

        ours = "kbind-konnector"
        consumer.faults.add(
            lambda request: (
                writes_of_copies(request) and request.headers.get("User-Agent", "").startswith(ours)
            ),
            overtake,
            times=1,
        )
        await story.consumer.create(going)
        await story.wait(4 * words.PERIOD)
        seen = await story.consumer.get(going)
        assert seen["metadata"]["finalizers"] == [FOREIGN]
        assert seen["metadata"]["deletionTimestamp"]
        assert await story.provider.find(going) is None
        patches = [e.status for e in consumer.audit(USER) if e.resource == "widgets" and e.writes]
        assert patches == [409]
        assert await story.events() == []

    tell(main)


def test_a_konnector_that_starts_where_the_api_is_not_served_lets_orphans_go() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        held = await story.synced(widget("held", size=1))
        orphan = await story.synced(widget("orphan", size=1))
        await story.konnector.stop()
        keep = {words.DELETION_POLICY: words.ORPHAN}
        await story.consumer.merge(orphan, {"metadata": {"annotations": keep}})
        for each in (held, orphan):
            await story.consumer.delete(each)
        await story.provider.delete(DEFINITION)
        await story.konnector.start()
        await story.wait(20 * words.PERIOD)
        assert await story.consumer.find(orphan) is None
        (told,) = await story.events()
        assert told["involvedObject"]["name"] == "held"
        assert told["reason"] == words.Reason.SYNC_FAILED
        late = await story.consumer.create(widget("late", size=5))
        await story.wait(2 * words.PERIOD)

        await story.provider.install_crd(crd())
        await story.wait(2 * words.PERIOD)
        assert await story.consumer.find(held) is None
        assert (await story.provider.get(late))["spec"]["size"] == 5
        assert await story.provider.find(orphan) is None

    tell(main)
