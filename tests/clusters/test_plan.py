"""``kbind plan``: what it says beforehand is what then happens, and saying it writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from kbind import hooks, words
from kbind.cluster.connect import connect
from kbind.cluster.kubeconfig import parse
from kbind.errors import NotServed
from kbind.jsons import encode
from kbind.planning.action import Deletion, manifests
from kbind.planning.foreseen import Act, Foreseen
from kbind.planning.planner import plan
from kbind.rulebook import load
from kbind.testing.handles import Handle, Object, key
from kbind.testing.running import RunningKonnector, add_connection, binding
from tests.clusters.scenes import eventually, reason, synced
from tests.clusters.widgets import WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

USER = "planner"
BOUND = binding([WIDGETS], "team-a")
EVERYWHERE = binding([WIDGETS], name="everywhere")
ORPHAN = {"metadata": {"annotations": {words.DELETION_POLICY: words.ORPHAN}}}

CORE = ("Connection", "ClusterBinding", "Binding")
KINDS = (
    *((words.API_VERSION, kind) for kind in CORE),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("v1", "Secret"),
    ("v1", "Namespace"),
    ("example.org/v1", "Widget"),
    ("example.org/v1", "Gadget"),
)
Name = tuple[str, str, str]  # side, kind, key
Effect = tuple[str, str, str, str]  # side, action, kind, key


async def planned(world: World, asked: Deletion | Sequence[Object]) -> Foreseen:
    """What is planned by a user of its own."""
    credentials = parse(orjson.dumps(world.consumer.cluster.kubeconfig(USER)))
    wanted: Any = asked
    if not isinstance(asked, Deletion):
        texts = [("manifest", "\n---\n".join(encode(each).decode() for each in asked))]
        wanted = manifests(texts, None)
    return await plan(await connect(credentials), wanted, book=load(), sources=hooks.load())


async def snapshot(world: World) -> dict[Name, Object]:
    """What there is on both sides, without what only tells."""
    found = {}
    for side, handle in (("consumer", world.consumer), ("provider", world.provider)):
        for api_version, kind in KINDS:
            for obj in await _list(handle, api_version, kind):
                group = (obj.get("spec") or {}).get("group")
                namespace = obj["metadata"].get("namespace")
                if group == words.GROUP or (kind == "Secret" and namespace != "kbind"):
                    continue
                found[side, kind, str(key(obj))] = _bare(obj)
    return found


async def _list(handle: Handle, api_version: str, kind: str) -> list[Object]:
    if kind in CORE and handle.cluster.name == "provider":
        return []
    try:
        return await handle.list(api_version, kind)
    except Exception as error:
        if isinstance(error, NotServed) or "serves no" in str(error):
            return []
        raise


def _bare(obj: Object) -> Object:
    left_out = ("resourceVersion", "generation", "managedFields")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in left_out}
    told = obj["kind"] in (*CORE, "CustomResourceDefinition")
    return {**obj, "metadata": metadata, **({"status": None} if told else {})}


def difference(before: dict[Name, Object], after: dict[Name, Object]) -> set[Effect]:
    found = set()
    for name in before.keys() | after.keys():
        one, two = before.get(name), after.get(name)
        side, kind, where = name
        if one is not None and (two is None or _uid(one) != _uid(two) or _newly_going(one, two)):
            found.add((side, "delete", kind, where))
        if two is not None and (one is None or _uid(one) != _uid(two)):
            found.add((side, "create", kind, where))
        elif one is not None and two is not None and one != two and not _newly_going(one, two):
            found.add((side, "change", kind, where))
    return found


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _newly_going(one: Object, two: Object) -> bool:
    return "deletionTimestamp" in two["metadata"] and "deletionTimestamp" not in one["metadata"]


def effects(found: Foreseen) -> set[Effect]:
    """As ``difference`` has them: a refusal marks the instance."""
    return {
        (c.side, "change" if c.act is Act.REFUSE else c.act, c.kind, str(c.key))
        for c in found.changes
    }


async def rest(world: World) -> dict[Name, Object]:
    """The snapshot, once it has stayed the same for a while."""
    seen: list[dict[Name, Object]] = []

    async def steady() -> bool:
        await asyncio.sleep(1.5)
        seen.append(await snapshot(world))
        return len(seen) > 1 and seen[-1] == seen[-2]

    await eventually(steady, "everything is at rest", deadline=40)
    return seen[-1]


async def compare(world: World, asked: Deletion | Sequence[Object]) -> Foreseen:
    """Plans, acts, and compares what was said with what happened."""
    before = await rest(world)
    found = await planned(world, asked)
    assert await snapshot(world) == before
    if isinstance(asked, Deletion):
        await world.consumer.delete(_ref(asked))
    else:
        for obj in asked:
            await world.consumer.create(obj)
    assert effects(found) == difference(before, await rest(world))
    return found


def _ref(asked: Deletion) -> Object:
    version = words.API_VERSION if asked.kind in CORE else "example.org/v1"
    metadata = {"name": asked.name} | ({"namespace": asked.namespace} if asked.namespace else {})
    return {"apiVersion": version, "kind": asked.kind, "metadata": metadata}


async def begin(world: World, *bound: Object, **spec: Any) -> None:
    """Widgets are bound and synced."""
    await world.provider.install_crd(crd())
    for namespace in ("team-a", "team-b"):
        await world.consumer.namespace(namespace)
    await add_connection(world.consumer, world.provider.cluster, **spec)
    for each in bound:
        await world.consumer.create(each)
        await synced(world.consumer, each)


async def copied(world: World, *instances: Object) -> list[Object]:
    made = [await world.consumer.create(each) for each in instances]
    for each in made:
        await world.provider.until(each, lambda seen: seen)
    return made


async def mixed(world: World) -> None:
    """Instances with a copy, under Orphan, and one that a foreign object refuses."""
    (kept, *_) = await copied(world, *(widget(n, size=1) for n in ("kept", "one", "two")))
    await world.consumer.merge(kept, ORPHAN)
    await world.provider.create(widget("taken", size=9))
    taken = await world.consumer.create(widget("taken", size=1))
    await reason(world.consumer, taken, "Synced", "ForeignObjectExists")


def acts(found: Foreseen, kind: str, side: str = "consumer") -> dict[str, list[str]]:
    """The names of a kind's objects by what becomes of them."""
    of: dict[str, list[str]] = {}
    for change in found.changes:
        if (change.kind, change.side) == (kind, side):
            of.setdefault(change.act, []).append(change.key.name)
    return of


async def test_the_last_binding_of_a_namespace(world: World, konnector: RunningKonnector) -> None:
    await begin(world, BOUND)
    await mixed(world)
    found = await compare(world, Deletion("Binding", "bound", "team-a"))
    assert acts(found, "Widget", "provider") == {"delete": ["one", "two"]}
    assert acts(found, "Widget") == {"change": ["kept", "one", "taken", "two"]}


async def test_the_last_cluster_binding(world: World, konnector: RunningKonnector) -> None:
    await begin(world, EVERYWHERE)
    await mixed(world)
    found = await compare(world, Deletion("ClusterBinding", "everywhere"))
    assert acts(found, "Widget", "provider") == {"delete": ["one", "two"]}
    assert acts(found, "Widget") == {"delete": ["kept", "one", "taken", "two"]}
    assert acts(found, "CustomResourceDefinition") == {"delete": [WIDGETS]}
