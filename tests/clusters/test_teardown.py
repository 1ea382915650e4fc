"""Everything is taken down, as the documentation says or all at once: what remains is counted."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from itertools import count

import pytest

from kbind import words
from kbind.errors import NotFound, NotServed
from kbind.testing.handles import Handle, Object, load, new
from kbind.testing.running import RunningKonnector, add_connection, binding
from tests.clusters.scenes import PROVIDER, crd_ref, reason, secret, synced
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

TERMINATION = 90.0  # seconds that real namespaces may take
CORE = "core.kbind.io"
UNTOLD = ("events", "apiservices")
SERVED = ("/default", "/kube-root-ca.crt")
EVERYWHERE = binding([WIDGETS], name="everywhere")

_numbers = count()


async def everything(cluster: Handle) -> dict[str, Object]:
    """All objects of a cluster, by what they are called, in the version that is preferred; but
    Events, the namespace kbind, which is any test's, and what servers make by themselves, of
    namespaces and CRDs."""
    groups = load(await cluster.client.get("/apis"))["groups"]
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    found: dict[str, Object] = {}
    for root in roots:
        for resource in load(await cluster.client.get(root))["resources"]:
            name = resource["name"]
            if "list" not in resource["verbs"] or name in UNTOLD or "/" in name:
                continue
            for item in load(await cluster.client.get(f"{root}/{name}")).get("items") or ():
                metadata = item["metadata"]
                place = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
                if (name, place) != ("namespaces", "kbind") and not place.endswith(SERVED):
                    found[f"{name} {place}"] = item
    return found


async def added(cluster: Handle, before: Mapping[str, Object]) -> dict[str, Object]:
    """What is there now and was not."""
    found = await everything(cluster)
    assert not before.keys() - found.keys(), "something else was taken along"
    return {name: obj for name, obj in found.items() if name not in before}


def marks(objects: Mapping[str, Object]) -> list[str]:
    """Those that carry a finalizer of ours."""
    return [
        name
        for name, obj in objects.items()
        if any(CORE in each for each in obj["metadata"].get("finalizers") or ())
    ]


async def begin(world: World, *bindings: Object) -> tuple[str, list[dict[str, Object]]]:
    """What both clusters hold before anything is bound; then five widgets with copies, one that
    is refused and one whose copy is to stay, in a namespace of their own."""
    team = f"teardown-{next(_numbers)}"
    await world.provider.install_crd(crd())
    before = [await everything(side) for side in (world.consumer, world.provider)]
    await world.provider.namespace(team)
    await world.provider.create(widget("taken", team, size=9))
    await world.consumer.namespace(team)
    await add_connection(world.consumer, world.provider.cluster)
    for bound in bindings or (binding([WIDGETS], team),):
        await world.consumer.create(bound)
        await synced(world.consumer, bound)
    made = [
        await world.consumer.create(widget(f"w{number}", team, size=number)) for number in range(5)
    ]
    for each in made:
        await world.provider.until(each, bool)
        await world.provider.set_status(each, {"phase": "Ready"})
    taken = await world.consumer.create(widget("taken", team, size=1))
    await reason(world.consumer, taken, "Synced", "ForeignObjectExists")
    kept = {"metadata": {"annotations": {words.DELETION_POLICY: words.ORPHAN}}}
    await world.consumer.merge(made[0], kept)
    return team, before


async def in_order(world: World, bound: Object) -> None:
    """As docs/unbinding.md has it; kubectl waits after each."""
    for ref in (bound, PROVIDER, secret(None)):
        await world.consumer.delete(ref)
        await world.consumer.gone(ref)


async def provider_side(world: World, before: dict[str, Object], team: str) -> None:
    """The copy that was to stay, the foreign object, the Lease and the namespaces are left."""
    cluster = await added(world.provider, before)
    leases = [name for name in cluster if name.startswith("leases kbind/provider-")]
    assert len(leases) == 1
    others = {f"namespaces {team}", f"widgets {team}/taken", f"widgets {team}/w0"}
    assert cluster.keys() - {*leases} == others
    assert marks(cluster) == []
    assert cluster[f"widgets {team}/taken"]["spec"] == {"size": 9, "color": "red"}
    definition = "customresourcedefinitions widgets.example.org"
    after = await everything(world.provider)
    assert after[definition]["spec"] == before[definition]["spec"]


async def test_after_a_binding_and_its_connection_the_users_own_is_left(
    world: World, konnector: RunningKonnector
) -> None:
    team, (here, there) = await begin(world)
    await in_order(world, binding([WIDGETS], team))
    left = await added(world.consumer, here)
    names = [f"widgets {team}/{name}" for name in ("taken", "w0", "w1", "w2", "w3", "w4")]
    assert {*left} == {*names, f"namespaces {team}", f"customresourcedefinitions {WIDGETS}"}
    for name in names:
        metadata = left[name]["metadata"]
        assert "finalizers" not in metadata
        assert words.CONFLICT not in metadata.get("annotations", {})
        conditions = left[name].get("status", {}).get("conditions", [])
        assert "Synced" not in [each["type"] for each in conditions]
    assert left[f"widgets {team}/w1"]["status"] == {"phase": "Ready"}
    await provider_side(world, there, team)


async def test_after_a_cluster_binding_and_its_connection_nothing_of_the_api_is_left(
    world: World, konnector: RunningKonnector
) -> None:
    team, (here, there) = await begin(world, EVERYWHERE)
    await in_order(world, EVERYWHERE)
    await world.consumer.gone(crd_ref())
    left = await added(world.consumer, here)
    assert {*left} == {f"namespaces {team}"}
    await provider_side(world, there, team)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scope", ["Binding", "ClusterBinding"])
async def test_deleted_all_at_once_everything_ends(
    world: World, konnector: RunningKonnector, scope: str, seed: int
) -> None:
    """With the namespaces that hold Secret and instances, and in any order."""
    team, (here, there) = await begin(world, *([EVERYWHERE] if scope == "ClusterBinding" else []))
    bound = EVERYWHERE if scope == "ClusterBinding" else binding([WIDGETS], team)
    spaces = [new("v1", "Namespace", name) for name in ("kbind", team)]
    things = [bound, PROVIDER, secret(None), *spaces]
    if scope == "ClusterBinding":
        things.append(crd_ref())
    instances = [widget(f"w{number}", team) for number in (0, 2, 4)]
    order = [*things, *instances]
    chance = random.Random(f"{scope} {seed}")
    chance.shuffle(order)
    for each in order:
        with contextlib.suppress(NotFound, NotServed):  # others may have taken it along
            await world.consumer.delete(each)
        await asyncio.sleep(chance.choice((0, 0, 0.05, 0.3)))
    for each in things:
        await world.consumer.gone(each, TERMINATION)
    stays = {f"customresourcedefinitions {WIDGETS}"} if scope == "Binding" else set()
    assert {*await added(world.consumer, here)} == stays
    await provider_side(world, there, team)
