"""Plans beside what then happens: both as the same kind of difference between two snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from kbind import hooks, words
from kbind.cluster.connect import connect
from kbind.cluster.kubeconfig import parse
from kbind.errors import ClusterError, KbindError
from kbind.jsons import encode
from kbind.planning.action import Deletion
from kbind.planning.foreseen import Act, Foreseen
from kbind.planning.manifests import manifests
from kbind.planning.planner import plan
from kbind.rulebook import load
from kbind.testing.handles import Handle, Object, find_condition, key, new
from kbind.testing.running import USER
from tests.clusters.scenes import eventually
from tests.clusters.widgets import GROUP
from tests.clusters.world import World

STEADY = 1.3  # seconds without a change: a konnector looks at what it undoes once a second

CORE = ("Connection", "ClusterBinding", "Binding")
KINDS = (
    *((words.API_VERSION, kind) for kind in CORE),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("v1", "Secret"),
    ("v1", "Namespace"),
    (f"{GROUP}/v1", "Widget"),
    (f"{GROUP}/v1", "Gadget"),
)
Snapshot = dict[tuple[str, str, str], Object]
Effects = set[tuple[str, str, str, str]]  # side, action, kind, key
Asked = Deletion | Sequence[Object]


async def planned(world: World, asked: Asked, *overlays: Path) -> Foreseen:
    """What is planned, as the konnector's user. asked: a deletion, or objects to apply."""
    credentials = parse(orjson.dumps(world.consumer.cluster.kubeconfig(USER)))
    wanted: Any = asked
    if not isinstance(asked, Deletion):
        wanted = manifests([("manifest", stream(asked))], None)
    return await plan(await connect(credentials), wanted, book=load(overlays), sources=hooks.load())


def stream(objects: Sequence[Object]) -> str:
    """As a manifest."""
    return "\n---\n".join(encode(each).decode() for each in objects)


async def compare(world: World, asked: Asked, *overlays: Path) -> Foreseen:
    """Plans, acts, and compares what was said with what then happens."""
    before = await settled(world)
    found = await planned(world, asked, *overlays)
    if isinstance(asked, Deletion):
        version = words.API_VERSION if asked.kind in CORE else f"{GROUP}/v1"
        await world.consumer.delete(new(version, asked.kind, asked.name, asked.namespace))
    else:
        for obj in asked:
            await apply(world.consumer, obj)
    said = effects(found)
    seen: Effects = set()

    async def as_said() -> bool:
        nonlocal seen
        seen = difference(before, await snapshot(world))
        return seen == said

    try:
        await eventually(as_said, "what was planned")
    except AssertionError:
        assert said == seen
    await asyncio.sleep(STEADY)
    assert said == difference(before, await snapshot(world))
    await marked(world, found)
    return found


async def apply(consumer: Handle, obj: Object) -> None:
    if await consumer.find(obj) is None:
        await consumer.create(obj)
    else:
        await consumer.merge(obj, obj)


async def marked(world: World, found: Foreseen) -> None:
    """What was said to be refused is."""
    for change in found.changes:
        if change.act is Act.REFUSE:
            ref = new(f"{GROUP}/v1", change.kind, change.key.name, change.key.namespace)
            seen = await world.consumer.get(ref)
            assert words.CONFLICT in seen["metadata"]["annotations"]
            assert find_condition(seen, "Synced")


def effects(found: Foreseen) -> Effects:
    """As ``difference`` has them: a refusal marks the instance."""
    return {
        (str(c.side), "change" if c.act is Act.REFUSE else str(c.act), c.kind, str(c.key))
        for c in found.changes
    }


def acts(found: Foreseen, kind: str, side: str = "consumer") -> dict[str, list[str]]:
    """The names of a kind's objects by what becomes of them."""
    of: dict[str, list[str]] = {}
    for change in found.changes:
        if (change.kind, change.side) == (kind, side):
            of.setdefault(str(change.act), []).append(change.key.name)
    return of


# --- snapshots -------------------------------------------------------------------------------


async def settled(world: World) -> Snapshot:
    """The snapshot, once it stays the same."""
    seen = [await snapshot(world)]

    async def steady() -> bool:
        await asyncio.sleep(0.5)
        seen.append(await snapshot(world))
        return seen[-1] == seen[-2]

    await eventually(steady, "everything is at rest")
    return seen[-1]


async def snapshot(world: World) -> Snapshot:
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
    try:
        return await handle.list(api_version, kind)
    except ClusterError as error:
        if error.status == 404:
            return []
        raise
    except KbindError:  # not served
        return []


def _bare(obj: Object) -> Object:
    left_out = ("resourceVersion", "generation", "managedFields")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in left_out}
    told = obj["kind"] in (*CORE, "CustomResourceDefinition", "Namespace")
    return {**obj, "metadata": metadata, **({"status": None} if told else {})}


def difference(before: Snapshot, after: Snapshot) -> Effects:
    found = set()
    for name in before.keys() | after.keys():
        one, two = before.get(name), after.get(name)
        if one is not None and (two is None or _uid(one) != _uid(two) or _parts(one, two)):
            found.add((name[0], "delete", *name[1:]))
        if two is not None and (one is None or _uid(one) != _uid(two)):
            found.add((name[0], "create", *name[1:]))
        elif one is not None and two is not None and one != two and not _parts(one, two):
            found.add((name[0], "change", *name[1:]))
    return found


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _parts(one: Object, two: Object) -> bool:
    """Whether it is being deleted now."""
    return "deletionTimestamp" in two["metadata"] and "deletionTimestamp" not in one["metadata"]
