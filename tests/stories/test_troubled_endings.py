"""Bindings are undone while something goes wrong, for long: in virtual time."""

from __future__ import annotations

import base64

import pytest

from kbind import words
from kbind.cluster.transport import Request
from kbind.testing.handles import Object, condition, find_condition
from kbind.testing.running import USER, binding, connection
from tests.clusters.scenes import is_beat, kubeconfig_data, secret
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.stories.telling import Story, tell
from tests.stories.test_rest import OUTAGES, all_of, heal, strike
from tests.stories.unbinding_tales import DEFINITION, deletes


def by_konnector(request: Request) -> bool:
    return request.headers.get("User-Agent", "").startswith("kbind-konnector")


def held(obj: Object) -> list[str]:
    found: list[str] = obj["metadata"].get("finalizers") or []
    return found


async def many(story: Story, count: int) -> list[Object]:
    made = [await story.consumer.create(widget(f"w{n:02}", size=n)) for n in range(count)]
    await story.provider.until(made[-1], bool)
    await story.wait(60)
    return made


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("side", [0, 1], ids=["consumer", "provider"])
def test_an_outage_in_the_midst_of_an_unbinding_leaves_nothing_behind(
    outage: str, side: int
) -> None:
    async def main(story: Story) -> None:
        bound = await story.bound()
        made = await many(story, 50)
        slow = story.clusters[1].faults.delay(deletes, 2)
        await story.consumer.delete(bound)
        await story.wait(3)
        assert 0 < len(await all_of(story, "provider")) < len(made)
        story.clusters[1].faults.remove(slow)
        strike(story.clusters[side], outage)
        await story.wait(40)  # by then, a provider is not given up
        heal(story.clusters[side])
        await story.wait(300)
        assert await story.consumer.find(bound) is None
        assert await all_of(story, "provider") == {}
        left = await all_of(story, "consumer")
        assert len(left) == len(made)
        assert [name for name, each in left.items() if held(each)] == []
        told = {event["reason"] for event in await story.events()}
        assert words.Reason.COPIES_LEFT not in told

    tell(main)


def test_what_took_a_copys_place_is_spared_by_an_unbinding() -> None:
    async def main(story: Story) -> None:
        bound = await story.bound()
        one = await story.synced(widget("one", size=1))
        provider = story.clusters[1]
        hidden = provider.faults.disconnect(lambda request: "watch" in request.query)
        provider.break_streams()
        await story.provider.delete(one)
        theirs = await story.provider.create(widget("one", size=9))
        await story.consumer.delete(bound)
        await story.wait(5)
        provider.faults.remove(hidden)
        await story.wait(2 * words.PERIOD)
        assert await story.consumer.find(bound) is None
        assert held(await story.consumer.get(one)) == []
        assert await story.provider.get(theirs) == theirs

    tell(main)


def test_an_instance_made_anew_while_a_delete_fails_does_not_get_the_old_copy() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        copy = await story.synced(widget("one", size=1))
        failing = story.clusters[1].faults.fail(
            lambda request: deletes(request) and by_konnector(request),
            500,
            "InternalError",
            "the server has a bad day",
        )
        await story.consumer.delete(copy)
        await story.wait(3)
        assert failing.struck
        await story.consumer.merge(copy, {"metadata": {"finalizers": []}})
        again = await story.consumer.create(widget("one", size=2))
        await story.wait(3)
        story.clusters[1].faults.remove(failing)
        await story.wait(2 * words.PERIOD)
        seen = await story.consumer.get(again)
        assert seen["metadata"]["uid"] == again["metadata"]["uid"]
        assert (find_condition(seen, "Synced") or {})["reason"] == "OwnedByAnother"
        assert await story.provider.get(copy) == copy

    tell(main)


async def both_bound(story: Story) -> tuple[Object, Object]:
    """A Binding for widgets and one for gadgets, each with an instance of its own."""
    bound = await story.bound()
    await story.provider.install_crd(crd("gadgets", "Gadget"))
    beside = await story.consumer.create(binding([GADGETS], "team-a", "beside"))
    await story.consumer.until(beside, lambda seen: condition(seen, "Synced"), 120)
    for each in (widget("one", size=1), gadget("one", size=1)):
        await story.consumer.create(each)
        await story.provider.until(each, bool)
    await story.wait(60)
    return bound, beside


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_an_api_that_cannot_be_listed_holds_up_the_undoing_of_no_other(how: str) -> None:
    async def main(story: Story) -> None:
        bound, beside = await both_bound(story)
        provider = story.clusters[1]

        def lists(request: Request) -> bool:
            return request.method == "GET" and request.path == "/apis/example.org/v1/gadgets"

        if how == "fails":
            provider.faults.fail(lists, 500, "InternalError", "conversion webhook failed")
        else:
            provider.faults.hang(lists)
        provider.compact()
        provider.break_streams()
        await story.konnector.restart()
        await story.wait(90)
        assert condition(await story.consumer.get(connection()), "Ready")
        assert condition(await story.consumer.get(bound), "Synced")
        assert not condition(await story.consumer.get(beside), "Synced")
        await story.consumer.merge(widget("one"), {"spec": {"size": 2}})
        await story.provider.until(widget("one"), lambda seen: seen["spec"]["size"] == 2, 5)

        for each in (bound, beside):
            await story.consumer.delete(each)
        await story.wait(5)
        assert await story.consumer.find(bound) is None
        assert await story.provider.find(widget("one")) is None
        assert held(await story.consumer.get(gadget("one"))) == [words.SYNCER]
        await story.wait(90)
        assert await story.consumer.find(beside) is None
        assert held(await story.consumer.get(gadget("one"))) == []
        (event,) = await story.events()
        assert event["reason"] == words.Reason.COPIES_LEFT
        assert "gadgets.example.org may remain there: team-a/one" in event["message"]
        assert await story.provider.find(gadget("one"))

    tell(main)


@pytest.mark.parametrize("kind", ["bindings", "clusterbindings"])
def test_bindings_that_cannot_be_listed_are_not_taken_for_none(kind: str) -> None:
    async def main(story: Story) -> None:
        team = await story.bound()
        everywhere = await story.consumer.create(binding([WIDGETS], name="everywhere"))
        one = await story.synced(widget("one", size=1))
        await story.konnector.stop()
        consumer = story.clusters[0]
        failing = consumer.faults.fail(
            lambda request: request.path == f"/apis/core.kbind.io/v1alpha1/{kind}",
            500,
            "InternalError",
            "the server has a bad day",
        )
        await story.consumer.delete(everywhere if kind == "bindings" else team)
        await story.konnector.start()
        await story.wait(300)
        assert failing.struck > 1
        assert await story.provider.get(one) == one
        assert held(await story.consumer.get(one)) == [words.SYNCER]
        consumer.faults.remove(failing)
        await story.wait(60)
        gone, stays = (everywhere, team) if kind == "bindings" else (team, everywhere)
        assert await story.consumer.find(gone) is None
        assert condition(await story.consumer.get(stays), "Synced")
        assert await story.consumer.get(DEFINITION)
        assert await story.provider.get(one) == one

    tell(main)


def test_a_token_that_is_revoked_is_replaced_and_a_broken_secret_is_not_worked_around() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        one = await story.synced(widget("one", size=1))
        provider = story.clusters[1]

        async def edited(size: int) -> bool:
            await story.consumer.merge(one, {"spec": {"size": size}})
            await story.wait(words.PERIOD)
            return bool((await story.provider.get(one))["spec"]["size"] == size)

        provider.revoke(USER)
        await story.wait(1)
        assert not await edited(2)
        renewed = kubeconfig_data(provider.kubeconfig(USER))
        await story.consumer.merge(secret(None), {"data": renewed})
        assert await edited(3)

        broken = {words.DEFAULT_KEY: base64.b64encode(b"{").decode()}
        await story.consumer.merge(secret(None), {"data": broken})
        await story.wait(words.PERIOD)
        assert not await edited(4)
        seen = await story.consumer.get(connection())
        assert condition(seen, "SecretValid", "False")
        await story.consumer.merge(secret(None), {"data": renewed})
        assert await edited(5)
        assert held(await story.consumer.get(one)) == [words.SYNCER]
        for cluster in story.clusters:
            assert [str(e) for e in cluster.audit(USER) if e.verb.startswith("delete")] == []

    tell(main)


def test_a_deletion_that_the_provider_refuses_blocks_says_why_and_comes_to_rest() -> None:
    async def main(story: Story) -> None:
        bound = await story.bound()
        made = await many(story, 10)
        provider = story.clusters[1]
        refused = provider.faults.fail(
            lambda request: deletes(request) and request.path.endswith("/w03"),
            403,
            "Forbidden",
            "admission webhook says: the backup is not done",
        )
        await story.consumer.delete(bound)
        await story.wait(120)
        assert list(await all_of(story, "provider")) == ["w03"]
        seen = find_condition(await story.consumer.get(bound), "Ready") or {}
        assert (seen["status"], seen["reason"]) == ("False", words.Reason.UNBINDING)
        assert "1 of 10 instances left" in seen["message"]
        assert "the backup is not done" in seen["message"]
        (event,) = await story.events()
        assert event["involvedObject"]["name"] == "w03"
        assert "the backup is not done" in event["message"]

        start = [len(cluster.audit(USER)) for cluster in story.clusters]
        await story.wait(3600)
        written = [
            [e for e in cluster.audit(USER)[first:] if e.writes and not is_beat(e)]
            for cluster, first in zip(story.clusters, start, strict=True)
        ]
        assert [str(e) for e in written[0]] == []
        assert {(e.verb, e.name) for e in written[1]} == {("delete", "w03")}
        assert len(written[1]) < 3600 / 30
        provider.faults.remove(refused)
        await story.consumer.gone(bound, 330)
        assert held(await story.consumer.get(made[3])) == []

    tell(main)
