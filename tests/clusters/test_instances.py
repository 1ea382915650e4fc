"""What travels between an instance and its copy, and what does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kbind import words
from kbind.testing.handles import Object, new
from tests.clusters.scenes import Scene, event, uid_of
from tests.clusters.widgets import GROUP, crd, widget

pytestmark = pytest.mark.asyncio(loop_scope="session")


def has_status(status: Any) -> Any:
    return lambda seen: seen["status"] == status


def has_spec(spec: Any) -> Any:
    """Types count: 1, "1" and true are three things."""
    wanted = json.dumps(spec, sort_keys=True)
    return lambda seen: json.dumps(seen.get("spec"), sort_keys=True) == wanted


def nested(depth: int, value: Any = 1) -> Any:
    for _ in range(depth):
        value = {"a": value}
    return value


# --- spec goes up ---------------------------------------------------------------------------


async def test_a_namespace_is_made_where_it_is_missing(scene: Scene) -> None:
    namespace = new("v1", "Namespace", scene.namespace)
    assert await scene.provider.find(namespace) is None
    await scene.synced("one")
    assert await scene.provider.find(namespace)


async def test_a_copy_carries_markers_and_spec_and_nothing_else(scene: Scene) -> None:
    obj = scene.widget("one", size=3)
    obj["metadata"] |= {"labels": {"app": "mine"}, "annotations": {"note": "mine"}}
    instance = await scene.consumer.create(obj)
    copy = await scene.provider.until(instance, lambda seen: seen)
    cluster = await uid_of(scene.consumer)
    assert copy["metadata"]["labels"] == {words.MANAGED: "true", words.CONSUMER: cluster}
    assert copy["metadata"]["annotations"] == {
        words.CLUSTER_UID: cluster,
        words.OBJECT_UID: instance["metadata"]["uid"],
    }
    assert "finalizers" not in copy["metadata"]
    assert copy["spec"] == instance["spec"]


async def test_what_is_removed_is_removed(scene: Scene) -> None:
    """Also what is removed while the konnector is away, down to the spec itself."""
    instance = await scene.synced("one", size=3, labels={"a": "x", "b": "y"}, list=[1, 2])
    steps: list[tuple[Object, Any]] = [
        (
            {"spec": {"size": None}},
            {"color": "red", "labels": {"a": "x", "b": "y"}, "list": [1, 2]},
        ),
        ({"spec": {"labels": {"b": None}}}, {"color": "red", "labels": {"a": "x"}, "list": [1, 2]}),
        ({"spec": {"list": []}}, {"color": "red", "labels": {"a": "x"}, "list": []}),
        ({"spec": None}, None),
    ]
    for change, spec in steps:
        await scene.konnector.stop()
        changed = await scene.consumer.merge(instance, change)
        await scene.konnector.start()
        await scene.provider.until(instance, has_spec(spec))
        assert (await scene.consumer.get(instance)).get("spec") == changed.get("spec")
    await scene.consumer.merge(instance, {"spec": {"size": 1}})
    await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 1)


async def test_drift_is_repaired(scene: Scene) -> None:
    instance = await scene.synced("one", size=3, labels={"a": "x"})
    await scene.provider.merge(instance, {"spec": {"size": 4, "labels": {"a": "y"}}})
    await scene.provider.until(
        instance, lambda seen: (seen["spec"]["size"], seen["spec"]["labels"]) == (3, {"a": "x"})
    )
    await scene.provider.merge(instance, {"spec": {"size": None}})
    await scene.provider.until(instance, lambda seen: seen["spec"].get("size") == 3)


async def test_what_the_provider_adds_is_left(scene: Scene) -> None:
    instance = await scene.synced("one", size=3)
    await scene.provider.merge(
        instance, {"metadata": {"annotations": {"cost": "7"}}, "spec": {"labels": {"zone": "b"}}}
    )
    await scene.consumer.merge(instance, {"spec": {"size": 4, "labels": {"a": "x"}}})
    copy = await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 4)
    assert copy["spec"]["labels"] == {"a": "x", "zone": "b"}
    assert copy["metadata"]["annotations"]["cost"] == "7"
    assert (await scene.consumer.get(instance))["spec"]["labels"] == {"a": "x"}


@pytest.mark.parametrize("label", [words.MANAGED, words.CONSUMER])
async def test_a_label_taken_off_a_copy_is_put_back(scene: Scene, label: str) -> None:
    instance = await scene.synced("one")
    before = await scene.provider.get(instance)
    await scene.provider.merge(instance, {"metadata": {"labels": {label: None}}})
    after = await scene.provider.until(instance, lambda seen: label in seen["metadata"]["labels"])
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        ((words.OBJECT_UID,), "OwnedByAnother"),
        ((words.CLUSTER_UID, words.OBJECT_UID), "ForeignObjectExists"),
    ],
)
async def test_a_copy_that_lost_its_markers_is_ours_no_longer(
    scene: Scene, marker: tuple[str, ...], reason: str
) -> None:
    instance = await scene.synced("one", size=1)
    lost = {"metadata": {"annotations": dict.fromkeys(marker)}}
    copy = await scene.provider.merge(instance, lost)
    await event(scene.consumer, instance, reason)
    await scene.consumer.merge(instance, {"spec": {"size": 2}})
    await scene.konnector.look_again(instance)
    assert await scene.provider.get(instance) == copy


async def test_json_types_are_kept(scene: Scene) -> None:
    """Where the schema says nothing, only the values themselves tell a change."""
    instance = await scene.synced("one", free={"a": {"b": {"c": "1", "d": True, "e": 1}}})
    for value in (
        {"c": "2"},
        {"c": 2},
        {"d": "true"},
        {"d": 1},
        {"d": None},
        {"e": {"deep": [1, "1", True, 1.5]}},
    ):
        changed = await scene.consumer.merge(instance, {"spec": {"free": {"a": {"b": value}}}})
        await scene.provider.until(instance, has_spec(changed["spec"]))
    await scene.consumer.merge(instance, {"spec": {"free": {"a": {"b": {"e": 1.0}}}}})
    await scene.provider.until(instance, lambda seen: seen["spec"]["free"]["a"]["b"]["e"] == 1)


async def test_empty_maps_and_lists_come_to_rest(scene: Scene) -> None:
    free = {"selector": {}, "tags": [], "nested": {"a": {}}}
    instance = await scene.synced("one", free=free, labels={}, list=[])
    before = await scene.provider.get(instance)
    assert before["spec"] == {"color": "red", "free": free, "labels": {}, "list": []}
    for _ in range(2):
        await scene.wake(instance)
    assert await scene.provider.get(instance) == before


async def test_fields_of_gitops_tools_stay_theirs(scene: Scene) -> None:
    """On the consumer, kbind owns its finalizer, its annotations and the status."""
    applied = scene.widget("one", size=1, note="soon gone")
    await scene.consumer.apply(applied, "flux")
    await scene.provider.until(applied, lambda seen: seen)
    await scene.provider.set_status(applied, {"phase": "Ready"})
    await scene.consumer.until(applied, has_status({"phase": "Ready"}))

    await scene.consumer.apply(scene.widget("one", size=2), "flux")
    await scene.provider.until(applied, lambda seen: seen["spec"] == {"color": "red", "size": 2})
    seen = await scene.consumer.get(applied)
    owned = {
        (entry["operation"], entry.get("subresource")): entry["fieldsV1"]
        for entry in seen["metadata"]["managedFields"]
        if entry["manager"] == words.MANAGER
    }
    assert owned == {
        ("Update", None): {
            "f:metadata": {"f:finalizers": {".": {}, f'v:"{words.SYNCER}"': {}}},
        },
        ("Update", "status"): {"f:status": {".": {}, "f:phase": {}}},
    }


# --- status comes down ----------------------------------------------------------------------


async def test_status_is_replaced_as_a_whole(scene: Scene) -> None:
    condition = {
        "status": "True",
        "reason": "AsExpected",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    instance = await scene.synced("one")
    both = [{"type": "Ready"} | condition, {"type": "Scaled"} | condition]
    for status in (
        {"phase": "Ready", "count": 3, "conditions": both},
        {"phase": "Ready", "conditions": both[1:]},
        {"count": 0},
        {},
    ):
        await scene.provider.set_status(instance, status)
        await scene.consumer.until(instance, has_status(status))


async def test_a_status_stays_while_the_copy_has_none(scene: Scene) -> None:
    instance = await scene.synced("one", size=1)
    await scene.provider.set_status(instance, {"phase": "Ready"})
    await scene.consumer.until(instance, has_status({"phase": "Ready"}))
    first = await scene.provider.get(instance)
    await scene.provider.delete(first)
    second = await scene.provider.until(
        instance, lambda seen: seen["metadata"]["uid"] != first["metadata"]["uid"]
    )
    assert "status" not in second
    await scene.consumer.merge(instance, {"spec": {"size": 2}})
    await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 2)
    assert (await scene.consumer.get(instance))["status"] == {"phase": "Ready"}

    await scene.provider.set_status(instance, {"count": 1})
    await scene.consumer.until(instance, has_status({"count": 1}))


async def test_a_status_written_on_the_consumer_gives_way(scene: Scene) -> None:
    instance = await scene.synced("one")
    await scene.provider.set_status(instance, {"phase": "Ready"})
    await scene.consumer.until(instance, has_status({"phase": "Ready"}))
    await scene.consumer.set_status(instance, {"phase": "Wished", "count": 7})
    await scene.consumer.until(instance, has_status({"phase": "Ready"}))


async def test_without_a_status_subresource_status_comes_down_all_the_same(scene: Scene) -> None:
    await scene.offer(crd("plains", "Plain", status=False))
    instance = await scene.consumer.create(widget("one", scene.namespace, "Plain", size=1))
    await scene.provider.until(instance, lambda seen: seen)
    await scene.provider.merge(instance, {"status": {"phase": "Ready"}})
    await scene.consumer.until(instance, has_status({"phase": "Ready"}))
    await scene.consumer.merge(instance, {"spec": {"size": 2}})
    copy = await scene.provider.until(instance, lambda seen: seen["spec"]["size"] == 2)
    assert copy["status"] == {"phase": "Ready"}
    await scene.provider.merge(instance, {"status": {"phase": None, "count": 2}})
    await scene.consumer.until(instance, has_status({"count": 2}))


@pytest.mark.parametrize(
    ("plural", "status"), [("texts", "all is well"), ("rows", [{"a": 1}, {"a": 2}])]
)
async def test_a_status_of_any_type_is_carried(scene: Scene, plural: str, status: Any) -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    kind = plural.removesuffix("s").title()
    await scene.offer(crd(plural, kind, status=False, schema=schema))
    instance = await scene.consumer.create(widget("one", scene.namespace, kind))
    await scene.provider.until(instance, lambda seen: seen)
    await scene.provider.merge(instance, {"status": status})
    await scene.consumer.until(instance, has_status(status))


# --- other shapes of objects ----------------------------------------------------------------

SPECS: dict[str, Any] = {
    "string": {"type": "string"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "nullable": {"type": "object", "nullable": True},
}


async def test_a_spec_of_any_type_or_none_is_carried(scene: Scene) -> None:
    text = {"type": "object", "properties": {"data": {"type": "string"}}}
    only = {
        "type": "object",
        "properties": {"status": {"type": "object", "properties": {"phase": {"type": "string"}}}},
    }
    shapes = {
        "Specless": text,
        "Statusonly": only,
        **{
            f"{name.title()}spec": {"type": "object", "properties": {"spec": schema}}
            for name, schema in SPECS.items()
        },
    }
    await scene.offer(
        *(
            crd(f"{kind.lower()}s", kind, schema=schema, status="status" in schema["properties"])
            for kind, schema in shapes.items()
        )
    )
    given: dict[str, Object] = {
        "Specless": {"data": "stays here"},
        "Statusonly": {},
        "Stringspec": {"spec": "a word"},
        "Listspec": {"spec": [3, 1, 2]},
        "Nullablespec": {"spec": None},
    }
    made = {
        kind: await scene.consumer.create(
            new(f"{GROUP}/v1", kind, "a.b-c.d", scene.namespace, **fields)
        )
        for kind, fields in given.items()
    }
    for kind, instance in made.items():
        copy = await scene.provider.until(instance, lambda seen: seen)
        assert copy.get("spec") == given[kind].get("spec")
        assert "data" not in copy

    await scene.consumer.merge(made["Stringspec"], {"spec": "another"})
    await scene.provider.until(made["Stringspec"], lambda seen: seen["spec"] == "another")
    await scene.consumer.merge(made["Listspec"], {"spec": [2, 3]})
    await scene.provider.until(made["Listspec"], lambda seen: seen["spec"] == [2, 3])
    await scene.provider.set_status(made["Statusonly"], {"phase": "Ready"})
    await scene.consumer.until(made["Statusonly"], has_status({"phase": "Ready"}))


async def test_an_object_within_a_spec_is_carried_whole(scene: Scene) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    embedded = free | {"x-kubernetes-embedded-resource": True}
    bare = {"type": "object", "properties": {"metadata": {"type": "object"}}}
    offered = []
    for plural, kind, template in (("jars", "Jar", embedded), ("lids", "Lid", bare)):
        spec = {"type": "object", "properties": {"template": template}}
        schema = {"type": "object", "properties": {"spec": spec}}
        offered.append(crd(plural, kind, schema=schema))
    await scene.offer(*offered)
    inner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "inner"},
        "spec": {"status": {"metadata": {"uid": "kept"}}, "metadata": {"resourceVersion": "1"}},
        "status": {"phase": "Ready"},
    }
    for kind in ("Jar", "Lid"):
        made = widget("one", scene.namespace, kind, template=inner)
        instance = await scene.consumer.create(made)
        copy = await scene.provider.until(instance, bool)
        assert copy["spec"] == instance["spec"]
        if kind == "Jar":
            assert instance["spec"]["template"] == inner


async def test_what_is_nested_deep_travels_too(scene: Scene) -> None:
    """orjson encodes 254 levels, servers take thousands."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    await scene.offer(crd("wells", "Well", schema=schema))
    well = widget("deep", scene.namespace, "Well", free=nested(300))
    shallow = widget("shallow", scene.namespace, "Well", size=1)
    instance = await scene.consumer.create(well)
    await scene.provider.until(instance, lambda seen: seen)
    await scene.provider.until(instance, has_spec({"free": nested(300)}))
    await scene.provider.set_status(instance, {"free": nested(300)})
    await scene.consumer.until(instance, has_status({"free": nested(300)}))
    await scene.konnector.stop()
    await scene.consumer.merge(instance, {"spec": {"free": nested(300, 2)}})
    await scene.provider.set_status(instance, {"free": nested(300, 2)})
    other = await scene.consumer.create(shallow)
    await scene.konnector.start()
    await scene.provider.until(instance, has_spec({"free": nested(300, 2)}))
    await scene.consumer.until(instance, has_status({"free": nested(300, 2)}))
    await scene.provider.until(other, lambda seen: seen["spec"] == {"size": 1})
