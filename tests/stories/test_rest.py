"""What has settled stays at rest, and what was cut off heals: long stretches in virtual time."""

from __future__ import annotations

import base64
import random

import orjson
import pytest

from kbind import words
from kbind.cluster.transport import Reply, Request
from kbind.testing.handles import Object, condition, find_condition, new
from kbind.testing.memory import MemoryCluster
from kbind.testing.running import USER, binding, connection
from tests.clusters.scenes import is_beat
from tests.clusters.widgets import GADGETS, WIDGETS, crd, gadget, widget
from tests.stories.telling import Story, tell


def asked(story: Story) -> list[int]:
    """How many requests the konnector has made of each cluster."""
    return [len(cluster.audit(USER)) for cluster in story.clusters]


def writes(story: Story, since: list[int]) -> list[str]:
    """The konnector's writes since ``asked`` answered that, but for heartbeats."""
    return [
        f"{cluster.name}: {entry}"
        for cluster, start in zip(story.clusters, since, strict=True)
        for entry in cluster.audit(USER)[start:]
        if entry.writes and not is_beat(entry)
    ]


async def all_of(story: Story, side: str) -> dict[str, Object]:
    handle = story.consumer if side == "consumer" else story.provider
    found = await handle.list("example.org/v1", "Widget")
    return {obj["metadata"]["name"]: obj for obj in found}


def test_nothing_is_written_at_rest_whatever_is_wrong() -> None:
    async def main(story: Story) -> None:
        bound = await story.bound()
        for number in range(30):
            made = await story.consumer.create(widget(f"w{number:02}", size=number))
            await story.provider.until(made, lambda seen: seen)
            await story.provider.set_status(made, {"phase": "Ready", "count": number})
        for number in range(3):
            refused = widget(f"taken{number}", size=number)
            await story.provider.create(refused)
            await story.consumer.create(refused)

        secret = new("v1", "Secret", "nowhere-kubeconfig", "kbind")
        there = await story.consumer.get(new("v1", "Secret", "provider-kubeconfig", "kbind"))
        await story.consumer.create(secret | {"data": unreachable(there["data"])})
        await story.consumer.create(connection("nowhere"))
        lost = await story.consumer.create(
            binding([WIDGETS], "team-a", name="lost", connection="missing")
        )
        await story.wait(120)

        assert condition(await story.consumer.get(bound), "Conflicts")
        down = await story.consumer.get(connection("nowhere"))
        assert (find_condition(down, "Ready") or {})["reason"] == words.Reason.UNREACHABLE
        stray = await story.consumer.get(lost)
        assert (find_condition(stray, "Ready") or {})["reason"] == words.Reason.CONNECTION_NOT_FOUND
        events = await story.events()
        assert len(events) == 3

        before = asked(story)
        # 24 periods: two passes of the backstop, and every watch renewed.
        await story.wait(24 * words.PERIOD + 2 * words.BACKSTOP)
        assert writes(story, before) == []
        assert await story.events() == events
        renewed = [e for e in story.clusters[0].audit(USER)[before[0] :] if e.verb == "watch"]
        assert {e.resource for e in renewed} >= {"widgets", "bindings", "connections"}

        await story.konnector.restart()
        await story.wait(10 * words.PERIOD)
        assert writes(story, before) == []
        assert await story.events() == events

    tell(main)


def unreachable(data: dict[str, str]) -> dict[str, str]:
    """A Secret's kubeconfig, of a server that is not there."""
    kubeconfig = base64.b64decode(data[words.DEFAULT_KEY]).replace(b"provider.mem", b"nowhere.mem")
    return {words.DEFAULT_KEY: base64.b64encode(kubeconfig).decode()}


OUTAGES = ("refused", "401", "403", "404", "503", "hangs", "empty lists")


def strike(cluster: MemoryCluster, outage: str) -> None:
    """From now on the konnector meets that *outage*."""

    def konnector(request: Request) -> bool:
        return request.headers.get("User-Agent", "").startswith("kbind-konnector")

    def lists(request: Request) -> bool:
        return konnector(request) and request.path == COLLECTION and "watch" not in request.query

    async def empty(_: Request) -> Reply:
        metadata = {"resourceVersion": str(cluster.server.store.version)}
        body = {"kind": "WidgetList", "apiVersion": "example.org/v1", "metadata": metadata}
        return Reply(200, {}, orjson.dumps(body | {"items": []}))

    match outage:
        case "refused":
            cluster.down = True
        case "hangs":
            cluster.faults.hang(konnector)
        case "404":
            cluster.faults.add(konnector, Reply(404, {}, b"404 page not found\n"))
        case "empty lists":
            cluster.faults.add(lists, empty)
            cluster.compact()  # so that watches that begin anew list first
        case code:
            reasons = {"401": "Unauthorized", "403": "Forbidden", "503": "ServiceUnavailable"}
            cluster.faults.fail(konnector, int(code), reasons[code], f"the server says {code}")
    cluster.break_streams()


COLLECTION = "/apis/example.org/v1/widgets"


def heal(cluster: MemoryCluster) -> None:
    cluster.down = False
    cluster.faults.clear()


async def equal(story: Story, names: list[str]) -> None:
    """Specs and statuses are the same on both sides, nothing was deleted, and nothing moves."""
    instances, copies = await all_of(story, "consumer"), await all_of(story, "provider")
    assert set(instances) == set(copies) == set(names)
    for name, instance in instances.items():
        assert copies[name]["spec"] == instance["spec"]
        assert instance.get("status") == copies[name].get("status")
    for cluster in story.clusters:
        assert [e for e in cluster.audit(USER) if e.verb.startswith("delete")] == []
    before = asked(story)
    await story.wait(10 * words.PERIOD)
    assert writes(story, before) == []


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("side", [0, 1], ids=["consumer", "provider"])
def test_an_outage_heals_and_deletes_nothing(outage: str, side: int) -> None:
    async def main(story: Story) -> None:
        await story.bound()
        names = [f"w{number:02}" for number in range(20)]
        for name in names:
            await story.consumer.create(widget(name, size=0))
        await story.wait(10)
        for turn, name in enumerate(names, 1):
            strike(story.clusters[side], outage)
            await edit(story, name, turn)
            await story.wait(turn)
            heal(story.clusters[side])
            await story.wait(20 - turn)
        strike(story.clusters[side], outage)
        await story.wait(600)
        heal(story.clusters[side])
        # A refusal may be the object's own, and is tried again with long pauses.
        await story.wait(330 if outage == "403" else 2 * words.PERIOD)
        await equal(story, names)
        attempts = [w for w in writes(story, [0, 0]) if "bindings/status" in w]
        assert len(attempts) < 400  # nobody hammers at a closed door

    tell(main)


def test_outages_of_both_heal_and_delete_nothing() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        names = [f"w{number:02}" for number in range(20)]
        for name in names:
            await story.consumer.create(widget(name, size=0))
        await story.wait(10)

        chance = random.Random(15)
        for turn in range(1, 101):
            for cluster in story.clusters:
                heal(cluster)
                if chance.random() < 0.5:
                    strike(cluster, chance.choice(OUTAGES))
            for name in chance.sample(names, 3):
                await edit(story, name, turn)
            await story.wait(chance.choice((0.1, 1, 5, 40)))
        for cluster in story.clusters:
            heal(cluster)
        await story.wait(330)
        await equal(story, names)

    tell(main)


async def edit(story: Story, name: str, turn: int) -> None:
    """An instance's spec and its copy's status are changed beside the servers, whether those can
    be reached or not."""
    down = [cluster.down for cluster in story.clusters]
    for cluster in story.clusters:
        cluster.down = False
    await story.consumer.merge(widget(name), {"spec": {"size": turn, "note": f"turn {turn}"}})
    if await story.provider.find(widget(name)):
        await story.provider.set_status(widget(name), {"phase": f"Turn{turn}", "count": turn})
    for cluster, was in zip(story.clusters, down, strict=True):
        cluster.down = was


def test_a_konnector_that_starts_while_the_provider_is_down_catches_up() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        kept = await story.synced(widget("kept", size=1))
        await story.konnector.stop()
        story.clusters[1].down = True
        await story.konnector.start()
        await story.consumer.merge(kept, {"spec": {"size": 2}})
        late = await story.consumer.create(widget("late", size=5))
        await story.wait(600)
        assert "finalizers" not in (await story.consumer.get(late))["metadata"]
        before = asked(story)
        await story.wait(20 * words.PERIOD)
        assert writes(story, before) == []
        story.clusters[1].down = False
        await story.wait(2 * words.PERIOD)
        assert (await story.provider.get(kept))["spec"]["size"] == 2
        assert (await story.provider.get(late))["spec"]["size"] == 5
        await equal(story, ["kept", "late"])

    tell(main)


def test_an_edit_that_came_in_with_an_answer_is_not_lost() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        one = await story.synced(widget("one", size=1))
        # The status is written before the watch tells of the edit, and the answer holds both.
        consumer = story.clusters[0]
        cut = consumer.faults.disconnect(lambda request: "watch" in request.query)
        consumer.break_streams()
        await story.consumer.merge(one, {"spec": {"size": 2}})
        await story.provider.set_status(one, {"phase": "Busy"})
        await story.wait(1)
        consumer.faults.remove(cut)
        await story.wait(words.PERIOD)
        assert (await story.consumer.get(one))["status"] == {"phase": "Busy"}
        assert (await story.provider.get(one))["spec"]["size"] == 2

    tell(main)


def test_an_api_whose_lists_never_come_holds_up_no_other() -> None:
    async def main(story: Story) -> None:
        gadgets = crd("gadgets", "Gadget")
        there = story.clusters[1]
        await story.provider.install_crd(gadgets)
        path = COLLECTION.replace("widgets", "gadgets")
        hung = there.faults.hang(lambda request: request.path == path)
        await story.bound()
        more = await story.consumer.create(binding([GADGETS], "team-a", "more"))
        await story.consumer.established(GADGETS)
        two = await story.consumer.create(gadget("two"))
        start = len(there.audit(USER))
        for number in range(10):
            one = await story.consumer.create(widget(f"w{number}", size=number))
            await story.provider.until(one, lambda seen: seen, 5)
            await story.wait(60)
            assert condition(await story.consumer.get(connection()), "Ready")
        seen = await story.consumer.get(more)
        assert condition(seen, "Synced", "False")
        assert path in (find_condition(seen, "Synced") or {})["message"]
        asked = [entry.path for entry in there.audit(USER)[start:]]
        assert asked.count("/apis") <= 60  # at most thrice as many discoveries as at rest

        there.faults.remove(hung)
        await story.provider.until(two, lambda seen: seen, 90)
        await story.consumer.until(more, lambda seen: condition(seen, "Synced"), 90)

    tell(main)
