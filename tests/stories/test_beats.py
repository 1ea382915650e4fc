"""The heartbeat's periods, and what is told of it: minutes and hours in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest

from kbind import heartbeat, words
from kbind.apis import LEASES
from kbind.cluster.kubeconfig import Credentials
from kbind.cluster.transport import Reply, Request, Stream, Transport
from kbind.testing.audit import Entry
from kbind.testing.handles import Object, condition, find_condition
from kbind.testing.running import USER, RunningKonnector, add_connection, connection
from tests.clusters.scenes import PROVIDER, is_beat, message, uid_of
from tests.clusters.widgets import widget
from tests.stories.telling import Story, tell


async def lease_of(story: Story, connection: str = "provider") -> Object:
    """What the Connection's Lease should be, were it made now."""
    uid = await uid_of(story.consumer)
    at = heartbeat.key(connection, uid, None)
    return heartbeat.lease(at, connection, uid, story.time.now())


def asked(story: Story) -> list[Entry]:
    """The konnector's requests for Leases."""
    return [e for e in story.clusters[1].audit(USER) if e.resource == LEASES.plural]


def written(story: Story) -> list[Entry]:
    """The writes that were carried out among them."""
    return [e for e in asked(story) if e.writes and e.status < 300]


def on_leases(request: Request) -> bool:
    return "/leases" in request.path and request.headers["User-Agent"].startswith("kbind-konn")


def status_writes(story: Story) -> int:
    return sum(
        (e.resource, e.subresource) == ("connections", "status")
        for e in story.clusters[0].audit(USER)
    )


async def said(story: Story) -> str:
    """What the Connection says of the heartbeat; it has to be Ready whatever that does."""
    seen = await story.consumer.get(PROVIDER)
    assert condition(seen, "Ready")
    return message(seen, "Ready").removeprefix("schema source Auto uses CRD").removeprefix("; ")


async def beats(story: Story, seconds: int) -> list[float]:
    """When the Lease was written, in so many seconds from now on."""
    times = []
    count = len(written(story))
    for _ in range(seconds * 10):
        await story.wait(0.1)
        if len(written(story)) > count:
            count += 1
            times.append(story.time.seconds)
        assert len(written(story)) == count
    return times


@pytest.mark.parametrize("every", [0.0, 1.0, 7.0, 29.0, 29.9])
def test_the_lease_is_renewed_once_a_period_however_often_passes_are_woken(every: float) -> None:
    async def main(story: Story) -> None:
        await story.bound()

        async def wake() -> None:
            number = 0
            while every:
                await asyncio.sleep(every)
                number += 1
                stamp = {"metadata": {"annotations": {"woken": str(number)}}}
                await story.consumer.merge(PROVIDER, stamp)

        waking = asyncio.create_task(wake())
        before = len(asked(story))
        times = await beats(story, 1200)
        waking.cancel()
        gaps = [late - early for early, late in pairwise(times)]
        assert 38 <= len(times) <= 40
        assert min(gaps) >= words.PERIOD - 0.1  # they are looked for every 0.1 s
        assert max(gaps) < words.PERIOD + 2
        # One request a period, and nothing is read.
        assert [is_beat(e) for e in asked(story)[before:]] == [True] * len(times)

    tell(main)


@pytest.mark.parametrize("pause", [1.0, 5.0, 29.0, 29.95])
def test_a_restart_does_not_write_before_it_is_due(pause: float) -> None:
    async def main(story: Story) -> None:
        await story.bound()
        lease = await lease_of(story)
        renewed = (await story.provider.get(lease))["spec"]["renewTime"]
        age = (story.time.now() - datetime.fromisoformat(renewed)).total_seconds()
        await story.wait(words.PERIOD + pause - age)  # so long after the second beat
        assert len(written(story)) == 2
        restarted = story.time.seconds
        await story.konnector.restart()
        first, second, *_ = await beats(story, 75)
        assert abs(first - restarted - (words.PERIOD - pause)) < 0.5
        assert words.PERIOD - 0.1 <= second - first < words.PERIOD + 2

    tell(main)


def test_restarts_write_no_more_than_one_beat_a_period() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        start = story.time.seconds
        before = len(written(story))
        for pause in range(1, 40):
            await story.konnector.restart()
            await story.wait(pause)
        periods = (story.time.seconds - start) / words.PERIOD
        assert periods * 0.7 <= len(written(story)) - before <= periods + 1
        assert all(map(is_beat, written(story)[before:]))

    tell(main)


def test_two_konnectors_of_one_consumer_share_the_beat() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        second = RunningKonnector(story.clusters[0], connect=story.connect, now=story.time.now)
        await second.start()
        times = await beats(story, 600)
        assert len(times) <= 21
        assert await said(story) == ""
        await second.stop()

    tell(main)


def test_a_heartbeat_that_is_forbidden_is_told_once_and_holds_up_nothing() -> None:
    async def main(story: Story) -> None:
        provider = story.clusters[1]
        provider.deny(USER, "*", LEASES.name)
        await story.bound()
        assert "the heartbeat fails: provider: get" in await said(story)
        assert "403 Forbidden" in await said(story)
        seen = await story.consumer.get(PROVIDER)
        assert (find_condition(seen, "Ready") or {})["reason"] == words.Reason.AS_EXPECTED
        await story.synced(widget("one", size=1))

        before, count = status_writes(story), len(asked(story))
        await story.wait(20 * words.PERIOD)
        await story.konnector.restart()
        await story.wait(20 * words.PERIOD)
        assert status_writes(story) == before
        assert len(asked(story)) - count <= 42

        provider.allow(USER, "*", LEASES.name)
        await story.wait(2 * words.PERIOD)
        assert await said(story) == ""
        assert status_writes(story) == before + 1
        provider.deny(USER, "update", LEASES.name)
        await story.wait(2 * words.PERIOD)
        assert "the heartbeat fails: provider: replace" in await said(story)
        assert status_writes(story) == before + 2

    tell(main)


def test_a_server_that_fails_leases_is_told_when_it_goes_on_and_in_its_first_words() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        faults = story.clusters[1].faults
        before = status_writes(story)
        for _ in range(5):  # once, and the next one works
            fault = faults.fail(on_leases, 500, "InternalError", "a blip")
            await beats(story, 31)
            faults.remove(fault)
            await beats(story, 31)
        assert status_writes(story) == before

        for code in (500, 502, 504, 500):
            fault = faults.fail(on_leases, code, "InternalError", f"as ever {code}")
            await story.wait(3 * words.PERIOD)
            faults.remove(fault)
            fault = faults.hang(on_leases)
            await story.wait(3 * words.PERIOD)
            faults.remove(fault)
            assert "as ever 500" in await said(story)
        assert status_writes(story) == before + 1
        await story.wait(2 * words.PERIOD)
        assert await said(story) == ""
        assert status_writes(story) == before + 2

    tell(main)


def test_a_server_that_never_answers_for_leases_delays_nothing() -> None:
    async def main(story: Story) -> None:
        story.clusters[1].faults.hang(on_leases)
        await story.bound()
        seen = await story.consumer.get(PROVIDER)
        assert condition(seen, "Ready")
        await story.wait(words.PERIOD)
        assert "the heartbeat fails" in await said(story)
        one = await story.consumer.create(widget("one", size=1))
        await story.wait(0.1)
        assert (await story.provider.get(one))["spec"]["size"] == 1
        before = status_writes(story)
        await story.wait(20 * words.PERIOD)
        assert status_writes(story) == before

    tell(main)


def test_a_lease_of_somebody_else_is_left_alone() -> None:
    async def main(story: Story) -> None:
        theirs = await lease_of(story)
        await story.provider.namespace("kbind")
        theirs["spec"]["holderIdentity"] = "somebody"
        made = await story.provider.create(theirs)
        await story.bound()
        name = made["metadata"]["name"]
        assert f"Lease kbind/{name} is somebody else's" in await said(story)
        before = status_writes(story)
        await story.wait(20 * words.PERIOD)
        assert status_writes(story) == before
        assert await story.provider.get(made) == made
        await story.provider.delete(made)
        await story.wait(2 * words.PERIOD)
        assert await said(story) == ""
        ours = await story.provider.get(made)

        # Taken from us while we run: not taken back.
        await story.provider.merge(ours, {"spec": {"holderIdentity": "somebody"}})
        taken = await story.provider.get(ours)
        await story.wait(5 * words.PERIOD)
        assert await story.provider.get(ours) == taken
        assert "somebody else's" in await said(story)

    tell(main)


def test_a_lease_that_was_deleted_or_changed_by_hand_comes_right_at_the_next_beat() -> None:
    async def main(story: Story) -> None:
        await story.bound()
        lease = await lease_of(story)
        for _ in range(3):
            await story.provider.delete(lease)
            await story.wait(words.PERIOD + 1)
            assert (await story.provider.get(lease))["spec"]["leaseDurationSeconds"] == 60
        change = {
            "metadata": {"labels": {words.MANAGED: None, "mine": "too"}},
            "spec": {"leaseDurationSeconds": 5},
        }
        await story.provider.merge(lease, change)
        await story.wait(words.PERIOD + 1)
        seen = await story.provider.get(lease)
        assert seen["metadata"]["labels"] == {words.MANAGED: "true", "mine": "too"}
        assert seen["spec"]["leaseDurationSeconds"] == 60
        assert await said(story) == ""

    tell(main)


def test_connections_with_names_as_long_as_names_can_be_have_a_lease_each() -> None:
    async def main(story: Story) -> None:
        await add_connection(story.consumer, story.clusters[1])
        secret = {"namespace": "kbind", "name": "provider-kubeconfig"}
        names = [end.rjust(253, "a") for end in ("x", "y.z")] + ["a" * 240]
        for name in names:
            await story.consumer.create(connection(name, kubeconfigSecretRef=secret))
        found: dict[str, str] = {}
        for _ in range(2):
            await story.wait(words.PERIOD)
            for name in names:
                lease = await story.provider.get(await lease_of(story, name))
                assert lease["metadata"]["annotations"][words.CONNECTION] == name
                assert found.setdefault(name, lease["metadata"]["uid"]) == lease["metadata"]["uid"]
            await story.konnector.restart()
        assert len(set(found.values())) == len(names)

    tell(main)


class Dating:
    """A transport whose answers carry a Date, as those of real servers do."""

    def __init__(self, transport: Transport, story: Story, ahead: list[float]) -> None:
        self._transport = transport
        self._story = story
        self._ahead = ahead

    async def send(self, request: Request, *, timeout: float) -> Reply:
        reply = await self._transport.send(request, timeout=timeout)
        time = self._story.time.now() + timedelta(seconds=self._ahead[0])
        date = format_datetime(time.replace(microsecond=0), usegmt=True)
        return replace(reply, headers={**reply.headers, "date": date})

    def stream(self, request: Request, *, silence: float) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request, silence=silence)

    async def close(self) -> None:
        await self._transport.close()


def test_a_clock_that_differs_is_told_and_taken_back() -> None:
    ahead = [0.0]

    async def main(story: Story) -> None:
        async def connect(credentials: Credentials) -> Transport:
            return Dating(await story.connect(credentials), story, ahead)

        await story.konnector.stop()
        here = story.clusters[0]
        story.konnector = RunningKonnector(here, connect=connect, now=story.time.now)
        await story.konnector.start()
        await story.bound()
        before = status_writes(story)
        for number in range(20):
            ahead[0] = 4.0 * (-1) ** number
            await story.wait(words.PERIOD)
        assert (await said(story), status_writes(story)) == ("", before)

        for number in range(40):
            ahead[0] = 90 + number % 9 / 4
            await story.wait(words.PERIOD)
        assert "the provider's clock is about 90 s ahead of the konnector's" in await said(story)
        assert status_writes(story) == before + 1
        await story.konnector.restart()
        await story.wait(10 * words.PERIOD)
        assert status_writes(story) == before + 1

        story.clusters[1].deny(USER, "*", LEASES.name)
        ahead[0] = -15
        await story.wait(2 * words.PERIOD)
        both = await said(story)
        assert "the heartbeat fails" in both
        assert "s behind the konnector's" in both
        story.clusters[1].allow(USER, "*", LEASES.name)
        ahead[0] = 1
        await story.wait(2 * words.PERIOD)
        assert await said(story) == ""
        assert status_writes(story) == before + 3

    tell(main)
