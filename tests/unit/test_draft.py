"""A draft of a cluster: it answers the konnector's requests as a server does, and keeps them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import orjson
import pytest

from kbind.apis import CRDS, Key
from kbind.cluster.client import Client
from kbind.cluster.kubeconfig import parse
from kbind.errors import ClusterError, NotFound
from kbind.jsons import encode
from kbind.planning.draft import Draft
from kbind.planning.journal import Journal
from kbind.planning.served import target
from kbind.steps import Side
from kbind.testing.handles import Handle, Object
from kbind.testing.memory import Connector, MemoryCluster
from tests.clusters.widgets import WIDGETS, crd, widget

HERE = "/apis/example.org/v1/namespaces/team-a/widgets"
ONE, HELD, NEW = (f"{HERE}/{name}" for name in ("one", "held", "new"))
CRD = CRDS.path(Key("", WIDGETS))
FINALIZERS = ["example.org/holds"]

Ask = Callable[[Client], Awaitable[bytes]]


class Pair(NamedTuple):
    """A server, and a draft of another one that was the same in the beginning."""

    server: Client
    draft: Client
    below: MemoryCluster
    journal: Journal


async def cluster(name: str) -> tuple[MemoryCluster, Connector]:
    made = MemoryCluster(name)
    connector = Connector(made)
    handle = await Handle.open(made, connect=connector)
    await handle.install_crd(crd())
    await handle.namespace("team-a")
    await handle.create(widget("one", size=1))
    held = widget("held", size=1)
    held["metadata"]["finalizers"] = FINALIZERS
    await handle.create(held)
    await handle.close()
    return made, connector


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    one, to_one = await cluster("one")
    two, to_two = await cluster("two")
    transport = await to_one(parse(orjson.dumps(one.kubeconfig("konnector"))))
    below = await to_two(parse(orjson.dumps(two.kubeconfig("konnector"))))
    draft = Draft(below, Side.PROVIDER, "", lambda: "2026-01-01T00:00:00Z", lambda *_: None)
    made = Pair(Client(transport, side="provider"), Client(draft, side="provider"), two, Journal())
    yield made
    await made.server.close()
    await made.draft.close()


def seen(obj: Object) -> Any:
    """What of an object two servers must agree about."""
    metadata = obj["metadata"]
    kept = {n: metadata.get(n) or None for n in ("name", "namespace", "labels", "annotations")}
    going = "deletionTimestamp" in metadata
    held = metadata.get("finalizers") or []
    return kept, held, going, obj.get("spec"), obj.get("status")


async def answer(client: Client, ask: Ask) -> Any:
    try:
        obj = orjson.loads(await ask(client))
    except ClusterError as error:
        return type(error).__name__
    return "gone" if obj.get("kind") == "Status" else seen(obj)


async def standing(client: Client) -> Any:
    """All widgets, by name, as a list shows them."""
    try:
        page = await client.read(HERE)
    except ClusterError as error:
        return type(error).__name__
    return {item["metadata"]["name"]: seen(item) for item in page["items"]}


def applying(name: str = "new", **fields: Any) -> Ask:
    body = widget(name, size=2, color="blue")
    body["metadata"] |= fields
    return lambda c: c.apply(f"{HERE}/{name}", encode(body), manager="m", force=True)


def merging(path: str, **metadata: Any) -> Ask:
    return lambda c: c.merge(path, encode({"metadata": metadata}), manager="m")


def patching(path: str, *operations: Object) -> Ask:
    return lambda c: c.patch(path, encode(list(operations)), manager="m")


STATUS = {"op": "add", "path": "/status", "value": {"phase": "New"}}
BARE = {"op": "remove", "path": "/status"}
NEW_ONE = encode(widget("new", size=2, color="blue"))


@pytest.mark.parametrize(
    "asked",
    [
        [lambda c: c.get(NEW), applying(resourceVersion="1"), lambda c: c.get(NEW)],
        [applying("one", resourceVersion="1")],
        [applying("one"), applying("one", labels={"a": "b"}), lambda c: c.get(ONE)],
        [applying("one", uid="another")],
        [lambda c: c.create(HERE, NEW_ONE), lambda c: c.create(HERE, NEW_ONE)],
        [lambda c: c.create(HERE.replace("team-a", "team-x"), NEW_ONE.replace(b"-a", b"-x"))],
        [merging(ONE, finalizers=FINALIZERS), merging(ONE, annotations={"a": "b"})],
        [merging(ONE, annotations={"a": "b"}), merging(ONE, annotations={"a": None})],
        [merging(ONE, resourceVersion="7", finalizers=[]), merging(ONE, uid="x")],
        [merging(NEW, annotations={"a": "b"})],
        [patching(f"{ONE}/status", STATUS), patching(f"{ONE}/status", BARE)],
        [patching(ONE, {"op": "test", "path": "/metadata/uid", "value": "x"}, STATUS)],
        [lambda c: c.delete(ONE, uid=None), lambda c: c.delete(ONE, uid=None)],
        [lambda c: c.delete(ONE, uid="another")],
        [lambda c: c.delete(HELD, uid=None), lambda c: c.delete(HELD, uid=None)],
        [lambda c: c.delete(HELD, uid=None), merging(HELD, finalizers=[])],
        [lambda c: c.delete(ONE, uid=None), applying("one", resourceVersion="1")],
    ],
)
async def test_it_answers_as_a_server(pair: Pair, asked: list[Ask]) -> None:
    for ask in asked:
        with pair.journal.turn():
            assert await answer(pair.draft, ask) == await answer(pair.server, ask)
            assert await standing(pair.draft) == await standing(pair.server)
    assert [entry for entry in pair.below.audit("konnector") if entry.writes] == []


async def test_a_crd_takes_its_instances_along_and_waits_for_those_that_are_held(
    pair: Pair,
) -> None:
    for client in (pair.draft, pair.server):
        with pair.journal.turn():
            await client.read(HERE)
            await client.delete(CRD, uid=None)
    assert await standing(pair.draft) == await standing(pair.server)
    assert list(await standing(pair.draft)) == ["held"]
    for client in (pair.draft, pair.server):
        with pair.journal.turn():
            await client.merge(HELD, encode({"metadata": {"finalizers": []}}), manager="m")
            with pytest.raises(NotFound):
                await client.get(CRD)


async def test_a_crd_that_is_new_is_served(pair: Pair) -> None:
    with pair.journal.turn():
        await pair.draft.create(CRDS.path(), encode(crd("gadgets", "Gadget")))
    page = await pair.draft.read("/apis/example.org/v1/gadgets")
    assert page["items"] == []
    found = await pair.draft.read(CRDS.path(Key("", "gadgets.example.org")))
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Established"] == "True"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/apis", None),
        ("/api/v1", None),
        ("/apis/example.org/v1", None),
        ("/openapi/v3/apis/example.org/v1", None),
        ("/api/v1/namespaces", ("", "namespaces", "", "", "")),
        ("/api/v1/namespaces/x", ("", "namespaces", "", "x", "")),
        ("/api/v1/namespaces/x/secrets", ("", "secrets", "x", "", "")),
        (f"{ONE}/status", ("example.org", "widgets", "team-a", "one", "status")),
        ("/apis/example.org/v1/widgets", ("example.org", "widgets", "", "", "")),
        ("/apis/g.h/v1/things/a%2Fb", ("g.h", "things", "", "a/b", "")),
    ],
)
def test_what_a_path_names(path: str, named: tuple[str, ...] | None) -> None:
    found = target(path)
    told = found and (found.group, found.plural, found.namespace, found.name, found.subresource)
    assert told == named
