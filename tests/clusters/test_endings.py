"""Deletions that something stands in the way of: a CRD or a namespace that goes, a provider that is
away; and what a Connection that comes back makes up for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kbind import words
from kbind.testing.audit import Entry
from kbind.testing.handles import Handle, Object, new
from kbind.testing.running import (
    USER,
    RunningKonnector,
    add_connection,
    binding,
    connection_secret,
)
from tests.clusters.relay import Relay
from tests.clusters.scenes import (
    PROVIDER,
    crd_ref,
    event,
    events,
    message,
    ready,
    reason,
    secret,
    synced,
)
from tests.clusters.widgets import GADGETS, GROUP, WIDGETS, crd, gadget, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE = "endings"
BOUND = binding([WIDGETS], HERE)
EVERYWHERE = binding([WIDGETS], name="everywhere")
NAMESPACE = new("v1", "Namespace", HERE)
FOREIGN = "example.org/holds"
ORPHAN = {"metadata": {"annotations": {words.DELETION_POLICY: words.ORPHAN}}}
TERMINATION = 60.0  # seconds that a real namespace may take


@asynccontextmanager
async def begun(
    world: World, *names: str, **schema: str
) -> AsyncIterator[tuple[Relay, list[Object]]]:
    """Widgets with their copies, through a line that can be cut; one that is called orphan is to
    leave its copy behind. schema: of the Connection."""
    await world.provider.install_crd(crd())
    await world.consumer.namespace(HERE)
    async with Relay(world.provider.cluster) as relay:
        await add_connection(world.consumer, relay, schema=schema)
        await world.consumer.create(BOUND)
        await synced(world.consumer, BOUND)
        made = [await world.consumer.create(widget(name, HERE, size=1)) for name in names]
        for each in made:
            await world.provider.until(each, bool)
            if each["metadata"]["name"] == "orphan":
                await world.consumer.merge(each, ORPHAN)
        yield relay, made


async def widgets(cluster: Handle) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in await cluster.list(f"{GROUP}/v1", "Widget"))


async def down(world: World, relay: Relay) -> None:
    await relay.cut()
    await reason(world.consumer, PROVIDER, "Ready", "Unreachable")


async def held(world: World, instance: Object) -> None:
    """It waits, and says for what, once."""
    told = await event(world.consumer, instance, "ConnectionNotReady")
    assert "waits for Connection provider to be there and Ready" in told["message"]
    seen = await world.consumer.get(instance)
    assert seen["metadata"]["finalizers"] == [words.SYNCER]


async def made_anew(world: World, before: Object) -> None:
    """The CRD was brought over again, and nothing that was of it."""
    uid = before["metadata"]["uid"]
    await world.consumer.until(crd_ref(), lambda seen: seen["metadata"]["uid"] != uid, TERMINATION)
    await synced(world.consumer, BOUND)
    assert await widgets(world.consumer) == []


# --- a CRD that is deleted by hand ----------------------------------------------------------


async def test_a_crd_deleted_by_hand_is_drained_and_comes_back_empty(
    world: World, konnector: RunningKonnector
) -> None:
    async with begun(world, "one", "two", "orphan") as (_, made):
        kept = await world.provider.get(made[2])
        before = await world.consumer.get(crd_ref())
        start = len(world.provider.cluster.audit(USER))
        await world.consumer.delete(crd_ref())
        await made_anew(world, before)
        assert await widgets(world.provider) == ["orphan"]
        assert await world.provider.get(made[2]) == kept
        written = [e for e in world.provider.cluster.audit(USER)[start:] if e.writes]
        assert [(e.verb, e.name) for e in written if e.verb != "delete"] == []
        assert {e.name for e in written} == {"one", "two"}

        again = await world.consumer.create(widget("one", HERE, size=2))
        await world.provider.until(again, lambda seen: seen["spec"]["size"] == 2)


async def test_a_crd_that_is_going_is_said_to_be(world: World, konnector: RunningKonnector) -> None:
    async with begun(world, "one") as (_, (one,)):
        before = await world.consumer.get(crd_ref())
        hold = {"metadata": {"finalizers": [FOREIGN]}}
        await world.provider.merge(one, hold)
        await world.consumer.delete(crd_ref())
        seen = await reason(world.consumer, BOUND, "Ready", "SchemaTerminating")
        assert WIDGETS in message(seen, "Ready")
        seen = await reason(world.consumer, PROVIDER, "SchemaInSync", "SchemaTerminating")
        assert WIDGETS in message(seen, "SchemaInSync")
        await world.provider.merge(one, {"metadata": {"finalizers": None}})
        await made_anew(world, before)


async def test_a_crd_deleted_by_hand_waits_for_the_provider(
    world: World, konnector: RunningKonnector
) -> None:
    async with begun(world, "one", "orphan") as (relay, (one, orphan)):
        kept = await world.provider.get(orphan)
        before = await world.consumer.get(crd_ref())
        await down(world, relay)
        await world.consumer.delete(crd_ref())
        await world.consumer.gone(orphan)
        await held(world, one)
        going = await world.consumer.get(crd_ref())
        assert going["metadata"]["uid"] == before["metadata"]["uid"]

        await relay.mend()
        await made_anew(world, before)
        assert await widgets(world.provider) == ["orphan"]
        assert await world.provider.get(orphan) == kept


async def test_a_crd_of_others_that_is_deleted_by_hand_is_missed(
    world: World, konnector: RunningKonnector
) -> None:
    await world.consumer.install_crd(crd(exported=False))
    async with begun(world, "one", pullPolicy="None") as (_, (one,)):
        await world.consumer.delete(crd_ref())
        await reason(world.consumer, BOUND, "Ready", "SchemaMissing")
        assert await world.consumer.find(crd_ref()) is None
        assert await world.provider.find(one) is None


# --- a namespace that goes ------------------------------------------------------------------


@pytest.mark.parametrize("reachable", [True, False], ids=["reachable", "unreachable"])
async def test_a_namespace_that_goes_is_drained(
    world: World, konnector: RunningKonnector, reachable: bool
) -> None:
    """No Event can be made there any more, which is no reason to hold it up."""
    async with begun(world, "one", "two", "three", "orphan") as (relay, made):
        if reachable:
            await world.provider.merge(made[0], {"metadata": {"finalizers": [FOREIGN]}})
            # Binding and instances go in any order, and a binding that is undone awaits no copy.
            await world.consumer.create(EVERYWHERE)
            await synced(world.consumer, EVERYWHERE)
        else:
            await down(world, relay)
        await world.consumer.delete(NAMESPACE)
        await world.consumer.gone(made[3], TERMINATION)
        if reachable:
            seen = await reason(world.consumer, made[0], "Synced", "AwaitingFinalizers")
            assert FOREIGN in message(seen, "Synced")
            await world.provider.merge(made[0], {"metadata": {"finalizers": []}})
        else:
            for each in made[:3]:
                seen = await world.consumer.get(each)
                assert seen["metadata"]["finalizers"] == [words.SYNCER]
            assert await widgets(world.provider) == ["one", "orphan", "three", "two"]
            await relay.mend()
        await world.consumer.gone(NAMESPACE, TERMINATION)
        assert await widgets(world.provider) == ["orphan"]


async def test_copies_whose_namespace_went_are_made_again_once_it_is_gone(
    world: World, konnector: RunningKonnector
) -> None:
    async with begun(world, "one", "stays") as (_, (one, stays)):
        old = await world.provider.merge(stays, {"metadata": {"finalizers": [FOREIGN]}})
        await world.provider.delete(NAMESPACE)
        told = await event(world.consumer, one, "SyncFailed")
        assert "being terminated" in told["message"]
        await reason(world.consumer, stays, "Synced", "AwaitingFinalizers")
        await konnector.look_again(one)
        await event(world.consumer, one, "SyncFailed")
        assert await widgets(world.provider) == ["stays"]

        await world.provider.merge(stays, {"metadata": {"finalizers": []}})
        for each in (one, stays):
            again = await world.provider.until(
                each, lambda seen: seen["metadata"]["uid"] != old["metadata"]["uid"], TERMINATION
            )
            assert again["spec"] == old["spec"]
            now = await world.consumer.get(each)
            assert now["metadata"]["uid"] == each["metadata"]["uid"]


# --- a Connection that is not Ready ---------------------------------------------------------


@pytest.mark.parametrize("away", ["provider", "Secret"])
async def test_an_instance_deleted_while_its_connection_is_not_ready_waits_and_says_so(
    world: World, konnector: RunningKonnector, away: str
) -> None:
    async with begun(world, "one", "orphan", "later", "kept") as (relay, made):
        one, orphan, later, kept = made
        if away == "provider":
            await down(world, relay)
        else:
            await world.consumer.delete(secret(None))
            await world.consumer.merge(secret(None), {"metadata": {"finalizers": None}})
            await reason(world.consumer, PROVIDER, "Ready", "SecretNotFound")
        before = await world.consumer.get(kept)
        for each in (one, orphan, later):
            await world.consumer.delete(each)
        await world.consumer.gone(orphan)
        for each in (one, later):
            await held(world, each)
        await konnector.restart()
        # Orphan counts until the very end.
        await world.consumer.merge(later, ORPHAN)
        await world.consumer.gone(later)
        await held(world, one)
        assert await world.consumer.get(kept) == before
        assert await events(world.consumer, kept) == []
        assert await widgets(world.provider) == ["kept", "later", "one", "orphan"]

        if away == "provider":
            await relay.mend()
        else:
            await world.consumer.create(connection_secret(relay))
        await world.consumer.gone(one)
        assert await widgets(world.provider) == ["kept", "later", "orphan"]


async def test_what_happened_meanwhile_on_either_side_is_made_up_for(
    world: World, konnector: RunningKonnector
) -> None:
    names = ("edited", "deleted", "lost", "both", "reported", "rest")
    async with begun(world, *names) as (relay, made):
        edited, deleted, lost, both, reported, rest = made
        await down(world, relay)
        start = len(world.provider.cluster.audit(USER))
        await world.consumer.merge(edited, {"spec": {"size": 2}})
        created = await world.consumer.create(widget("created", HERE, size=3))
        for each in (deleted, both):
            await world.consumer.delete(each)
        for each in (lost, both):
            await world.provider.delete(each)
        await world.provider.set_status(reported, {"phase": "Ready"})
        await held(world, deleted)
        await held(world, both)
        standing = [
            (cluster, await cluster.get(rest)) for cluster in (world.consumer, world.provider)
        ]
        assert world.provider.cluster.audit(USER)[start:] == []

        await relay.mend()
        for each in (deleted, both):
            await world.consumer.gone(each)
            assert await world.provider.find(each) is None
        await world.provider.until(edited, lambda seen: seen["spec"]["size"] == 2)
        for each in (lost, created):
            copy = await world.provider.until(each, bool)
            assert copy["spec"]["size"] == each["spec"]["size"]
        await world.consumer.until(reported, lambda seen: seen["status"] == {"phase": "Ready"})
        for side, before in standing:
            assert await side.get(rest) == before
        for each in (edited, created, lost, reported, rest):
            assert await events(world.consumer, each) == []


async def test_a_provider_that_never_answers_costs_the_others_nothing(
    world: World, konnector: RunningKonnector
) -> None:
    async with begun(world, *(f"w{number}" for number in range(20))) as (relay, made):
        await world.second.install_crd(crd("gadgets", "Gadget"))
        await world.second.namespace(HERE)
        await add_connection(world.consumer, world.second.cluster, "second")
        beside = await world.consumer.create(binding([GADGETS], HERE, "gadgets", "second"))
        await synced(world.consumer, beside)
        well = await rounds(world, "well")

        relay.mute()
        for each in made:
            await world.consumer.merge(each, {"spec": {"size": 2}})
        silent = await rounds(world, "silent")
        for each in made[:5]:
            await world.consumer.delete(each)
        await reason(world.consumer, PROVIDER, "Connected", "Unreachable")
        away = await rounds(world, "away")
        await ready(world.consumer, beside)
        assert [requests for requests, _ in (silent, away)] == [well[0], well[0]]
        for _, took in (silent, away):  # where a request waits 10 s for an answer
            assert took < 2 * well[1] + 5, (well, silent, away)


async def rounds(world: World, name: str) -> tuple[list[str], float]:
    """Ten gadgets, one after the other, up, edited and gone: what the konnector wrote for them,
    and the seconds of the slowest."""
    sides = (world.consumer, world.second)
    start = [len(side.cluster.audit(USER)) for side in sides]
    slowest = 0.0
    for number in range(10):
        began = asyncio.get_running_loop().time()
        one = await world.consumer.create(gadget(f"{name}-{number}", HERE, size=1))
        await world.second.until(one, bool)
        await world.consumer.merge(one, {"spec": {"size": 2}})
        await world.second.until(one, lambda seen: seen["spec"]["size"] == 2)
        await world.consumer.delete(one)
        await world.consumer.gone(one)
        slowest = max(slowest, asyncio.get_running_loop().time() - began)
    found: list[Entry] = [
        entry
        for side, first in zip(sides, start, strict=True)
        for entry in side.cluster.audit(USER)[first:]
    ]
    written = [f"{e.verb} {e.status}" for e in found if e.writes and e.resource == "gadgets"]
    return sorted(written), slowest
