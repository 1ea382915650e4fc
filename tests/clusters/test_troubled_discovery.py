"""A provider whose discovery, documents or lists go wrong: what is wrong is named, everything else
goes on, and nothing is taken away."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from kbind_sources.crd import CRDS
from kbind_sources.discovery import APIS
from kbind_sources.openapi import INDEX

from kbind.testing.handles import Object, condition
from kbind.testing.running import RunningKonnector, add_connection, binding
from tests.clusters.front import Front, Wrong
from tests.clusters.scenes import (
    OWN,
    PROVIDER,
    bound,
    crd_ref,
    eventually,
    exchange,
    exports,
    message,
    ready,
    reason,
    synced,
)
from tests.clusters.widgets import (
    GADGETS,
    ROCKETS,
    WIDGETS,
    crd,
    fields,
    gadget,
    rocket,
    rockets,
    widget,
    with_field,
)
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

LIMIT = 16 << 20
MANY = 15_000  # APIs of more than 1.5 MiB in a status
SPACE = "/apis/space.org/v1"

WHOLE: dict[str, Wrong] = {
    "503": 503,
    "broken": lambda body: body[: len(body) // 2],
    "huge": lambda body: body + b" " * LIMIT,
    "nested": lambda body: b'{"kind":"APIGroupDiscoveryList","items":' + b"[" * 5000,
}


@pytest_asyncio.fixture(loop_scope="session")
async def front(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Front]:
    monkeypatch.setattr("kbind.cluster.aio.ANSWER_LIMIT", LIMIT)
    async with Front(world.provider.cluster) as front:
        yield front


async def begin(world: World, front: Front) -> tuple[Object, Object]:
    """Widgets and rockets of a provider without labels are bound by autoBind, and one of each has
    its copy."""
    for definition in (crd(exported=False), rockets(exported=False)):
        await world.provider.install_crd(definition)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, front, autoBind=True, schema={"source": "OpenAPI"})
    await world.consumer.until(OWN, lambda seen: bound(seen) == [ROCKETS, WIDGETS])
    await synced(world.consumer, OWN)
    await reason(world.consumer, PROVIDER, "SchemaInSync", "AsExpected", "True")
    made = [await world.consumer.create(each) for each in (widget("one"), rocket("two"))]
    for each in made:
        await world.provider.until(each, bool)
    return made[0], made[1]


def unsure_of(text: str) -> Callable[[Any], bool]:
    return lambda seen: (
        condition(seen, "SchemaInSync", "Unknown") and text in message(seen, "SchemaInSync")
    )


def has(field: str) -> Callable[[Any], bool]:
    return lambda seen: field in fields(seen)


def says(text: str) -> Callable[[Any], bool]:
    return lambda seen: condition(seen, "Ready") and text in message(seen, "Ready")


# --- all of it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [APIS, INDEX])
async def test_discovery_that_is_no_answer_changes_nothing(
    world: World, konnector: RunningKonnector, front: Front, path: str
) -> None:
    made = await begin(world, front)
    told = f"what was known stands: schema source OpenAPI: provider: get {path}: "
    for number, trouble in enumerate(WHOLE.values()):
        front.wrong[path] = trouble
        seen = await world.consumer.until(PROVIDER, says(told))
        assert condition(seen, "SchemaInSync", "Unknown")
        assert exports(seen) == [ROCKETS, WIDGETS]
        for each in made:
            await exchange(world, each, number)
        await synced(world.consumer, OWN)
        assert bound(await world.consumer.get(OWN)) == [ROCKETS, WIDGETS]

        front.wrong.clear()
        await world.consumer.until(PROVIDER, lambda seen: message(seen, "Ready") == "")
        await reason(world.consumer, PROVIDER, "SchemaInSync", "AsExpected", "True")


async def test_more_apis_than_a_status_can_hold_are_bound_like_any(
    world: World, konnector: RunningKonnector, front: Front
) -> None:
    def crowd(version: Object) -> None:
        (entry,) = version["resources"]
        version["resources"] += [entry | {"resource": f"crowd{n}s"} for n in range(MANY)]

    front.wrong[APIS] = in_group(crowd)
    for definition in (crd(exported=False), rockets(exported=False)):
        await world.provider.install_crd(definition)
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, front, schema={"source": "OpenAPI"})
    told = f" of {MANY + 2}"
    seen = await world.consumer.until(PROVIDER, says(told), deadline=60)
    names = exports(seen)
    assert message(seen, "Ready") == f"exportedAPIs shows the first {len(names)} of {MANY + 2}"
    assert names == sorted(names)
    assert ROCKETS not in names
    both = await world.consumer.create(binding([ROCKETS, WIDGETS], "team-a"))
    await synced(world.consumer, both)
    two = await world.consumer.create(rocket("two"))
    await exchange(world, two, 7)

    front.wrong.clear()
    await world.consumer.until(
        PROVIDER, lambda seen: exports(seen) == [ROCKETS, WIDGETS], deadline=60
    )
    await ready(world.consumer, PROVIDER)


# --- one part of it ------------------------------------------------------------------------------


def in_group(change: Callable[[Object], None]) -> Wrong:
    """A change of the only version of the group space.org in aggregated discovery."""

    def changed(body: bytes) -> bytes:
        answer = json.loads(body)
        for item in answer.get("items", ()):
            if item["metadata"]["name"] == "space.org":
                change(item["versions"][0])
        return json.dumps(answer).encode()

    return changed


def plain(body: bytes) -> bytes:
    """As a server answers that has no aggregated discovery."""
    answer = json.loads(body)
    if answer["kind"] == "APIGroupList":
        return body
    groups = []
    for item in answer["items"]:
        versions = [{"version": each["version"]} for each in item["versions"]]
        name = item["metadata"]["name"]
        groups.append({"name": name, "versions": versions, "preferredVersion": versions[0]})
    return json.dumps({"kind": "APIGroupList", "groups": groups}).encode()


PARTS: dict[str, tuple[dict[str, Wrong], str]] = {
    "503": ({APIS: plain, SPACE: 503}, f"space.org (provider: get {SPACE}: 503"),
    "broken": ({APIS: plain, SPACE: WHOLE["broken"]}, f"space.org (provider: get {SPACE}: "),
    "huge": ({APIS: plain, SPACE: WHOLE["huge"]}, f"space.org (provider: get {SPACE}: "),
    "stale": (
        {APIS: in_group(lambda it: it.update(freshness="Stale", resources=[]))},
        "space.org (version v1: the server behind it does not answer)",
    ),
    "twice": (
        {APIS: in_group(lambda it: it["resources"].append(it["resources"][0]))},
        f"{ROCKETS} (version v1: two resources have this name)",
    ),
    "malformed": (
        {APIS: in_group(lambda it: it["resources"][0].update(scope="Everywhere"))},
        f"{ROCKETS} (version v1: scope is 'Everywhere')",
    ),
}


async def test_one_part_of_discovery_is_named_and_the_rest_is_followed(
    world: World, konnector: RunningKonnector, front: Front
) -> None:
    made = await begin(world, front)
    for number, (trouble, (wrong, told)) in enumerate(PARTS.items()):
        front.wrong |= wrong
        await world.consumer.until(PROVIDER, says(told))
        await world.provider.merge(crd_ref(), {"spec": with_field(crd(), f"of{number}")["spec"]})
        await world.consumer.until(crd_ref(), has(f"of{number}"))
        seen = await world.consumer.until(PROVIDER, unsure_of(ROCKETS))
        assert exports(seen) == [ROCKETS, WIDGETS], trouble
        assert "autoBind waits" in message(seen, "Ready")
        for each in made:
            await exchange(world, each, number)
        assert bound(await world.consumer.get(OWN)) == [ROCKETS, WIDGETS]

        front.wrong.clear()
        await world.consumer.until(PROVIDER, lambda seen: message(seen, "Ready") == "")
        await synced(world.consumer, OWN)


async def test_what_is_new_beside_a_part_that_is_unread_is_exported_and_bound_later(
    world: World, konnector: RunningKonnector, front: Front
) -> None:
    await begin(world, front)
    front.wrong |= PARTS["503"][0]
    await world.consumer.until(PROVIDER, says(PARTS["503"][1]))
    await world.provider.install_crd(crd("gadgets", "Gadget", exported=False))
    await world.consumer.until(PROVIDER, lambda seen: exports(seen) == [GADGETS, ROCKETS, WIDGETS])
    assert bound(await world.consumer.get(OWN)) == [ROCKETS, WIDGETS]
    front.wrong.clear()
    await world.consumer.until(OWN, lambda seen: bound(seen) == [GADGETS, ROCKETS, WIDGETS])
    await synced(world.consumer, OWN)


# --- one document --------------------------------------------------------------------------------


async def test_a_document_that_is_none_holds_up_no_other(
    world: World, konnector: RunningKonnector, front: Front
) -> None:
    made = await begin(world, front)
    document = f"{INDEX}{SPACE}"
    for number, trouble in enumerate(("503", "broken", "huge")):
        front.wrong[document] = WHOLE[trouble]
        for ref, definition in ((crd_ref(ROCKETS), rockets()), (crd_ref(), crd())):
            changed = with_field(definition, f"of{number}")
            await world.provider.merge(ref, {"spec": changed["spec"]})
        await world.consumer.until(crd_ref(), has(f"of{number}"))
        told = f"{ROCKETS}: provider: get {document}: "
        seen = await world.consumer.until(PROVIDER, unsure_of(told))
        assert WIDGETS not in message(seen, "SchemaInSync")
        await reason(world.consumer, OWN, "Ready", "SchemaSourceFailed")
        await reason(world.consumer, OWN, "Synced", "AsExpected", "True")
        for each in made:
            await exchange(world, each, number)
        assert f"of{number}" not in fields(await world.consumer.get(crd_ref(ROCKETS)))
        await ready(world.consumer, PROVIDER)

        front.wrong.clear()
        await world.consumer.until(crd_ref(ROCKETS), has(f"of{number}"))
        await synced(world.consumer, OWN)


def looped(body: bytes) -> bytes:
    """Rockets with a spec that has itself within it."""
    answer = json.loads(body)
    schemas = answer["components"]["schemas"]
    again = {"$ref": "#/components/schemas/Loop"}
    schemas["Loop"] = {
        "type": "object",
        "properties": {"size": {"type": "integer"}, "again": again},
    }
    for name, schema in schemas.items():
        if name.endswith(".Rocket"):
            schema["properties"]["spec"] = again
    return json.dumps(answer).encode()


async def test_a_schema_within_itself_is_cut_and_counted(
    world: World, konnector: RunningKonnector, front: Front
) -> None:
    _, two = await begin(world, front)
    front.wrong[f"{INDEX}{SPACE}"] = looped
    await world.provider.merge(crd_ref(ROCKETS), {"spec": with_field(rockets())["spec"]})
    await world.consumer.until(crd_ref(ROCKETS), lambda seen: "again" in fields(seen))
    told = f"{ROCKETS}: 1 part of spec made permissive"
    await world.consumer.until(PROVIDER, lambda seen: message(seen, "SchemaInSync") == told)
    assert condition(await world.consumer.get(PROVIDER), "SchemaInSync")
    await world.consumer.until(OWN, says(told))
    deep = {"size": 1, "again": {"size": 2, "again": {"beyond": {"the": ["cut"]}}}}

    async def kept() -> bool:
        seen = await world.consumer.merge(two, {"spec": deep})
        return bool(seen["spec"].get("again") == deep["again"])

    await eventually(kept, "the consumer keeps what is beyond the cut")


# --- lists ---------------------------------------------------------------------------------------


async def test_auto_takes_a_list_that_fails_for_no_answer(
    world: World, konnector: RunningKonnector, front: Front
) -> None:
    await world.provider.install_crd(crd(exported=False))
    front.wrong[CRDS] = 503
    await add_connection(world.consumer, front)
    seen = await reason(world.consumer, PROVIDER, "Ready", "SchemaSourceFailed")
    assert f"schema source CRD: provider: get {CRDS}: 503" in message(seen, "Ready")
    assert condition(seen, "SchemaInSync", "Unknown")
    assert not {"exportedAPIs", "activeSchemaSource"} & seen["status"].keys()

    front.wrong.clear()
    seen = await world.consumer.until(PROVIDER, lambda seen: exports(seen) == [WIDGETS])
    assert seen["status"]["activeSchemaSource"] == "OpenAPI"
    front.wrong[CRDS] = 503
    seen = await world.consumer.until(PROVIDER, says("what was known stands"))
    assert seen["status"]["activeSchemaSource"] == "OpenAPI"
    assert exports(seen) == [WIDGETS]


async def test_an_api_whose_lists_fail_holds_up_no_other(
    world: World, konnector: RunningKonnector, front: Front
) -> None:
    """As where its conversion webhook is down."""
    for definition in (crd(), crd("gadgets", "Gadget")):
        await world.provider.install_crd(definition)
    front.wrong["/apis/example.org/v1/gadgets"] = 500
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, front)
    both = await world.consumer.create(binding([GADGETS, WIDGETS], "team-a"))
    for name in (GADGETS, WIDGETS):
        await world.consumer.established(name)
    one, two = [await world.consumer.create(each) for each in (widget("one"), gadget("two"))]
    await world.provider.until(one, bool)
    await exchange(world, one, 7)
    seen = await reason(world.consumer, both, "Synced", "SyncFailed")
    assert "/gadgets: 500" in message(seen, "Synced")
    assert WIDGETS not in message(seen, "Synced")
    await ready(world.consumer, PROVIDER)

    front.wrong.clear()
    await world.provider.until(two, bool, deadline=40)
    await synced(world.consumer, both)
