"""Every step as the one call it means, or as nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kbind import ownership, words
from kbind.apis import Key
from kbind.calls import Call, Verb, call, digest
from kbind.facts import Copy
from kbind.rulebook import Copying
from kbind.rulebook.expressions import Expression
from kbind.situation import Situation
from kbind.steps import BEST_EFFORT, Side, Step
from kbind.tables import DUTY, INSTANCE
from kbind.words import Reason
from tests.unit.build import (
    BOOK,
    CLUSTER,
    NOW,
    PATH,
    PLATFORMS,
    UID,
    Object,
    copy,
    flow,
    instance,
    managed,
    refused,
    scope,
    situation,
)

EARLIER = "example.org/v1alpha1"
MARKERS = ownership.markers(CLUSTER, UID)
STEPS = sorted(DUTY.steps | INSTANCE.steps)
TEXT = f"{Reason.FOREIGN_OBJECT_EXISTS}: {ownership.refusal(Copy.MARKERLESS)}"
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def made(step: Step, state: Situation) -> Call:
    todo = call(step, state)
    assert todo is not None
    assert todo.step is step
    return todo


def body(step: Step, state: Situation) -> Any:
    return made(step, state).body


# --- finalizers and the mark -----------------------------------------------------------------


def test_hold_adds_our_finalizer_at_the_version_that_was_read() -> None:
    todo = made(Step.HOLD, situation(instance(held=False)))
    assert (todo.side, todo.verb, todo.path) == (Side.CONSUMER, Verb.MERGE, PATH)
    assert todo.body == {
        "metadata": {"resourceVersion": "7", "finalizers": ["other/finalizer", words.SYNCER]}
    }
    assert todo.answers_object


def test_hold_of_an_instance_without_finalizers() -> None:
    bare = instance(held=False)
    del bare["metadata"]["finalizers"]
    assert body(Step.HOLD, situation(bare))["metadata"]["finalizers"] == [words.SYNCER]


def test_release_takes_away_our_finalizer_and_no_other() -> None:
    todo = made(Step.RELEASE, situation())
    assert (todo.side, todo.verb, todo.path) == (Side.CONSUMER, Verb.MERGE, PATH)
    assert todo.body == {"metadata": {"resourceVersion": "7", "finalizers": ["other/finalizer"]}}


def test_what_is_so_already_is_not_written() -> None:
    settled = situation(instance(), copy())
    unheld = situation(instance(held=False), copy())
    assert call(Step.HOLD, settled) is None
    assert call(Step.RELEASE, unheld) is None
    for step in (Step.TELL, Step.NAMESPACE, Step.DELIVER, Step.MIRROR, Step.RESOLVED, Step.UNMARK):
        assert call(step, settled) is None, step


def test_mark_writes_the_refusal_on_this_very_object_alone() -> None:
    todo = made(Step.MARK, refused())
    assert (todo.side, todo.verb, todo.path) == (Side.CONSUMER, Verb.MERGE, PATH)
    assert todo.body == {"metadata": {"uid": UID, "annotations": {words.CONFLICT: TEXT}}}


def test_mark_and_warning_are_not_repeated_until_the_refusal_is_another_one() -> None:
    standing = refused(made=instance(refused=TEXT))
    assert call(Step.MARK, standing) is None
    assert call(Step.WARN, standing) is None
    other = refused(Copy.PARTIAL, made=instance(refused=TEXT))
    assert "one of the two" in body(Step.MARK, other)["metadata"]["annotations"][words.CONFLICT]
    assert "one of the two" in body(Step.WARN, other)["message"]


def test_nothing_is_said_of_a_refusal_without_a_reason() -> None:
    for step in (Step.WARN, Step.MARK, Step.UNSYNC):
        assert call(step, refused(reason=None)) is None


def test_unmark_removes_the_annotation_and_leaves_others() -> None:
    marked = situation(instance(refused=TEXT), copy())
    assert body(Step.UNMARK, marked) == {
        "metadata": {"uid": UID, "annotations": {words.CONFLICT: None}}
    }


# --- Events ----------------------------------------------------------------------------------


def events() -> list[tuple[Step, Situation]]:
    going = copy()
    going["metadata"]["finalizers"] = ["z/last", "a/first"]
    return [
        (Step.TELL, situation(trouble="403 Forbidden")),
        (Step.WARN, refused()),
        (Step.RESOLVED, situation(instance(refused=TEXT), copy())),
        (Step.WAITING, situation(leaving(), copy(), paused="Binding team-a/bound")),
        (Step.HELD, situation(there=going)),
    ]


def leaving(*, held: bool = True) -> Object:
    made = instance(held=held)
    made["metadata"]["deletionTimestamp"] = NOW
    return made


@pytest.mark.parametrize(("step", "state"), events())
def test_an_event_is_complete_and_about_the_instance(step: Step, state: Situation) -> None:
    todo = made(step, state)
    assert (todo.side, todo.verb) == (Side.CONSUMER, Verb.CREATE)
    assert todo.path == "/api/v1/namespaces/team-a/events"
    assert not todo.answers_object
    said = dict(todo.body)
    assert said.pop("reason") in set(Reason)
    assert said.pop("message")
    name = said["metadata"].pop("name")
    assert name.startswith("one.")
    assert said == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "team-a"},
        "involvedObject": {
            "apiVersion": "example.org/v1",
            "kind": "Widget",
            "name": "one",
            "namespace": "team-a",
            "uid": UID,
            "resourceVersion": "7",
        },
        "type": "Warning" if step in (Step.TELL, Step.WARN) else "Normal",
        "source": {"component": words.MANAGER},
        "firstTimestamp": NOW,
        "lastTimestamp": NOW,
        "count": 1,
    }


def test_held_names_the_finalizers_that_the_copy_waits_for() -> None:
    step, state = events()[-1]
    assert body(step, state)["message"].endswith(": a/first, z/last")


def test_waiting_names_what_is_paused_and_the_cure() -> None:
    step, state = events()[-2]
    said = body(step, state)
    assert said["reason"] == Reason.PAUSED
    assert "Binding team-a/bound is paused" in said["message"]
    assert words.PAUSED in said["message"]


@pytest.mark.parametrize(
    ("made", "by"),
    [(instance(), "the instance"), (leaving(held=False), "the instance"), (leaving(), None)],
    ids=["not going", "not held", "not paused"],
)
def test_nothing_is_said_of_a_pause_that_holds_up_no_deletion(made: Object, by: str | None) -> None:
    assert call(Step.WAITING, situation(made, copy(), paused=by)) is None


@pytest.mark.parametrize(("step", "state"), events())
def test_the_same_event_has_the_same_name_and_print_at_another_time(
    step: Step, state: Situation
) -> None:
    one, other = made(step, state), made(step, replace(state, now="2027-01-01T00:00:00Z"))
    assert one.body["metadata"] == other.body["metadata"]
    assert digest(one) == digest(other)


def test_events_of_two_occasions_have_two_names() -> None:
    other = copy(markers=False)
    other["metadata"]["uid"] = "another-copy"
    names = [
        body(Step.WARN, refused())["metadata"]["name"],
        body(Step.WARN, replace(refused(), copy=other))["metadata"]["name"],
        body(Step.WARN, refused(Copy.PARTIAL))["metadata"]["name"],
        body(Step.TELL, situation(trouble="a"))["metadata"]["name"],
        body(Step.TELL, situation(trouble="b"))["metadata"]["name"],
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "a.b-c.d",
        "a" * 253,
        "a" * 229 + "." + "b" * 23,
        "a" * 229 + "-" + "b" * 23,
        "a" * 227 + "--x-" + "b" * 22,
        ".".join(["ab"] * 84),
    ],
)
def test_an_event_has_a_valid_name_however_long_the_instances_is(name: str) -> None:
    assert len(name) <= 253
    long = instance()
    long["metadata"]["name"] = name
    said = body(Step.TELL, situation(long, trouble="x"))
    assert SUBDOMAIN.fullmatch(said["metadata"]["name"])
    assert len(said["metadata"]["name"]) <= 253
    assert said["involvedObject"]["name"] == name


def test_a_long_message_is_cut() -> None:
    assert len(body(Step.TELL, situation(trouble="x" * 5000))["message"]) == 1024


def cluster_scoped(**fields: Any) -> Situation:
    whole = instance()
    del whole["metadata"]["namespace"]
    there = copy()
    del there["metadata"]["namespace"]
    return situation(whole, there, within=scope(api=PLATFORMS), key=Key("", "one"), **fields)


def test_events_about_cluster_scoped_instances_live_in_default() -> None:
    todo = made(Step.TELL, cluster_scoped(trouble="x"))
    assert todo.path == "/api/v1/namespaces/default/events"
    assert todo.body["metadata"]["namespace"] == "default"
    assert todo.body["involvedObject"]["namespace"] == ""


# --- the copy --------------------------------------------------------------------------------


def test_a_copy_is_created_where_nothing_stands() -> None:
    todo = made(Step.CREATE, situation())
    assert (todo.side, todo.verb, todo.path) == (Side.PROVIDER, Verb.APPLY, PATH)
    assert (todo.manager, todo.force, todo.answers_object) == (words.MANAGER, True, True)
    assert todo.body == {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": "team-a", "resourceVersion": "1"} | MARKERS,
        "spec": {"size": 1},
    }


def test_a_cluster_scoped_copy_names_no_namespace() -> None:
    state = replace(cluster_scoped(), copy=None)
    todo = made(Step.CREATE, state)
    assert todo.path == "/apis/example.org/v1/platforms/one"
    assert "namespace" not in todo.body["metadata"]
    delete = made(Step.DELETE, cluster_scoped())
    assert delete.path == "/apis/example.org/v1/platforms/one"


@pytest.mark.parametrize("spec", ["text", ["a", 1], 5, 0, False, "", [], {}])
def test_a_spec_of_any_type_is_carried_as_it_is(spec: Any) -> None:
    state = situation(instance(spec=spec))
    assert body(Step.CREATE, state)["spec"] == spec
    update = situation(instance(spec=spec), copy(spec={"size": 1}))
    sent = made(Step.DELIVER, update)
    # What is emptied waits for an apply without it.
    assert sent.unfinished is (spec in ({}, []))
    assert sent.unfinished or sent.body["spec"] == spec


@pytest.mark.parametrize("absent", [{"spec": None}, {}])
def test_an_instance_without_a_spec_still_has_a_copy(absent: Object) -> None:
    bare = instance()
    del bare["spec"]
    sent = body(Step.CREATE, situation(bare | absent))
    assert "spec" not in sent
    assert call(Step.DELIVER, situation(bare | absent, copy(owned={}))) is None


def test_only_the_spec_travels_up() -> None:
    full = instance(status={"phase": "old"}, data={"a": "b"}, rules=[1])
    full["metadata"] |= {"labels": {"app": "x"}, "annotations": {"a": "b"}, "ownerReferences": []}
    sent = body(Step.CREATE, situation(full))
    assert sent.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert sent["metadata"].keys() == {
        "name",
        "namespace",
        "labels",
        "annotations",
        "resourceVersion",
    }
    assert (sent["metadata"]["labels"], sent["metadata"]["annotations"]) == tuple(MARKERS.values())


def test_adopting_names_the_object_and_the_version_that_were_read() -> None:
    todo = made(Step.ADOPT, situation(there=copy(markers=False)))
    assert todo.verb is Verb.APPLY
    assert todo.body["metadata"] == {
        "name": "one",
        "namespace": "team-a",
        "uid": "copy-uid",
        "resourceVersion": "40",
        **MARKERS,
    }


@pytest.mark.parametrize("step", [Step.ADOPT, Step.DELIVER, Step.DELETE])
def test_where_nothing_stands_nothing_is_taken_changed_or_deleted(step: Step) -> None:
    assert call(step, situation()) is None


def test_a_changed_spec_is_applied_to_the_copy_that_was_read() -> None:
    todo = made(Step.DELIVER, situation(instance(spec={"size": 2}), copy()))
    assert (todo.side, todo.verb, todo.path) == (Side.PROVIDER, Verb.APPLY, PATH)
    assert todo.body["metadata"] == {
        "name": "one",
        "namespace": "team-a",
        "uid": "copy-uid",
        **MARKERS,
    }
    assert todo.body["spec"] == {"size": 2}
    assert not todo.unfinished


def without(part: str, name: str) -> Object:
    there = copy()
    del there["metadata"][part][name]
    return there


@pytest.mark.parametrize(
    "there",
    [
        copy(spec={"size": 3}),
        copy(owned={}),
        copy(owned={"f:spec": {"f:size": {}, "f:removed": {}}}, spec={"size": 1, "removed": 1}),
        copy(owned={"f:spec": {"f:size": {}}, "f:data": {}}, spec={"size": True}),
        without("labels", words.MANAGED),
        without("labels", words.CONSUMER),
    ],
    ids=["drift", "taken over", "removed field", "other type", "label gone", "our label gone"],
)
def test_drift_of_the_copy_is_repaired(there: Object) -> None:
    assert made(Step.DELIVER, situation(instance(), there)).body["spec"] == {"size": 1}


@pytest.mark.parametrize(
    "there",
    [
        copy(spec={"size": 1, "preset": 7}),
        copy(status={"phase": "Ready"}),
        copy(data={"theirs": "x"}),
    ],
)
def test_what_others_and_defaults_add_to_the_copy_is_left(there: Object) -> None:
    assert call(Step.DELIVER, situation(instance(), there)) is None


def test_what_was_applied_at_another_version_is_applied_again() -> None:
    before = situation(there=copy(applied=EARLIER))
    assert made(Step.DELIVER, before).body["spec"] == {"size": 1}
    assert call(Step.DELIVER, situation(there=copy(applied="example.org/v1"))) is None


def test_our_entry_is_renewed_in_the_copy_that_was_read() -> None:
    there = copy(applied=EARLIER)
    there["metadata"]["managedFields"].insert(0, managed({}, "flux"))
    todo = made(Step.RENEW, situation(there=there, outdated=True))
    assert (todo.side, todo.verb, todo.path) == (Side.PROVIDER, Verb.PATCH, PATH)
    assert todo.body == [
        {"op": "test", "path": "/metadata/uid", "value": "copy-uid"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "40"},
        {
            "op": "replace",
            "path": "/metadata/managedFields/1/apiVersion",
            "value": "example.org/v1",
        },
    ]


@pytest.mark.parametrize(
    "state",
    [
        situation(there=copy(applied="example.org/v1alpha1")),
        situation(there=copy(), outdated=True),
        situation(there=copy(markers=False), outdated=True),
        situation(outdated=True),
    ],
    ids=["no apply failed", "in use", "not applied", "no copy"],
)
def test_an_entry_that_stands_in_no_way_is_left(state: Situation) -> None:
    assert call(Step.RENEW, state) is None


def test_a_spec_that_is_gone_is_removed_from_the_copy() -> None:
    bare = instance()
    del bare["spec"]
    assert "spec" not in body(Step.DELIVER, situation(bare, copy()))
    assert call(Step.DELIVER, situation(bare, copy(owned={}))) is None


def test_emptied_maps_are_applied_after_an_apply_without_them() -> None:
    there = copy(
        owned={"f:spec": {"f:size": {}, "f:labels": {"f:a": {}}}},
        spec={"size": 1, "labels": {"a": "x"}},
    )
    state = situation(instance(spec={"size": 1, "labels": {}}), there)
    first = made(Step.DELIVER, state)
    assert (first.body["spec"], first.unfinished) == ({"size": 1}, True)
    then = made(Step.DELIVER, replace(state, copy=copy()))
    assert (then.body["spec"], then.unfinished) == ({"size": 1, "labels": {}}, False)


def carrying(*prefixes: str) -> Copying:
    return replace(BOOK.copying, labels=prefixes)


def test_labels_travel_by_prefix_and_go_when_they_are_gone() -> None:
    labelled = instance()
    labelled["metadata"]["labels"] = {"billing/team": "a", "app": "x"}
    within = scope(copying=carrying("billing/"))
    sent = body(Step.CREATE, situation(labelled, within=within))
    assert sent["metadata"]["labels"] == MARKERS["labels"] | {"billing/team": "a"}

    there = copy()
    there["metadata"]["labels"] = MARKERS["labels"] | {"billing/team": "a", "theirs": "x"}
    there["metadata"]["managedFields"] = [
        managed(
            {
                "f:metadata": {
                    "f:labels": {f"f:{name}": {} for name in sent["metadata"]["labels"]}
                },
                "f:spec": {"f:size": {}},
            }
        )
    ]
    assert call(Step.DELIVER, situation(labelled, there, within=within)) is None
    removed = body(Step.DELIVER, situation(instance(), there, within=within))
    assert removed["metadata"]["labels"] == MARKERS["labels"]


def test_our_markers_are_never_carried_from_the_instance() -> None:
    forged = instance()
    forged["metadata"]["labels"] = {words.CONSUMER: "forged"}
    within = scope(copying=carrying(""))
    sent = body(Step.CREATE, situation(forged, within=within))
    assert sent["metadata"]["labels"] == MARKERS["labels"]


def test_a_delete_is_of_the_copy_that_was_read() -> None:
    todo = made(Step.DELETE, situation(instance(), copy()))
    assert (todo.side, todo.verb, todo.path) == (Side.PROVIDER, Verb.DELETE, PATH)
    assert todo.body == "copy-uid"
    assert not todo.answers_object


def test_a_missing_namespace_is_created() -> None:
    todo = made(Step.NAMESPACE, situation(homeless=True))
    assert (todo.side, todo.verb) == (Side.PROVIDER, Verb.CREATE)
    assert todo.path == "/api/v1/namespaces"
    assert todo.body == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    assert not todo.answers_object


# --- status ----------------------------------------------------------------------------------

OURS = {
    "type": "Synced",
    "status": "False",
    "reason": "ForeignObjectExists",
    "message": ownership.refusal(Copy.MARKERLESS),
    "lastTransitionTime": "2025-01-01T00:00:00Z",
}
THEIRS = OURS | {"reason": "Reconciled", "status": "True"}
READY = {"type": "Ready", "status": "True"}


def status_of(todo: Call) -> Any:
    """What is set; checks that it is set whole, on this very object."""
    test, whole = todo.body
    uid = UID if todo.side is Side.CONSUMER else "copy-uid"
    assert test == {"op": "test", "path": "/metadata/uid", "value": uid}
    assert (todo.verb, whole["op"], whole["path"]) == (Verb.PATCH, "add", "/status")
    return whole["value"]


@pytest.mark.parametrize(
    "status", [{"phase": "Ready"}, {}, "text", "", ["a"], [], 5, False, {"conditions": [READY]}]
)
def test_a_status_of_any_type_comes_down_whole(status: Any) -> None:
    state = situation(instance(status={"old": 1}), copy(status=status))
    todo = made(Step.MIRROR, state)
    assert (todo.side, todo.path) == (Side.CONSUMER, f"{PATH}/status")
    assert status_of(todo) == status
    assert call(Step.MIRROR, situation(instance(status=status), copy(status=status))) is None


def test_a_status_goes_through_the_main_resource_where_it_has_no_subresource() -> None:
    within = scope(status_subresource=False)
    todo = made(Step.MIRROR, situation(instance(), copy(status={"a": 1}), within=within))
    assert todo.path == PATH


@pytest.mark.parametrize("absent", [{}, {"status": None}])
def test_a_status_is_kept_while_the_copy_has_none(absent: Object) -> None:
    assert call(Step.MIRROR, situation(instance(status={"a": 1}), copy(**absent))) is None
    assert call(Step.MIRROR, situation(instance(), copy(**absent))) is None


def test_a_status_is_removed_where_the_rules_ask_for_that() -> None:
    within = scope(copying=flow("instance-down", absent="remove"))
    todo = made(Step.MIRROR, situation(instance(status={"a": 1}), copy(), within=within))
    assert todo.body[1] == {"op": "remove", "path": "/status"}
    assert call(Step.MIRROR, situation(instance(), copy(), within=within)) is None


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        ({"a": 1, "conditions": [READY, OURS]}, {"a": 1, "conditions": [READY]}),
        ({"a": 1, "conditions": [OURS]}, {"a": 1}),
        ({"conditions": [OURS]}, {}),
    ],
)
def test_our_condition_goes_with_the_refusal(standing: Object, expected: Object) -> None:
    state = situation(instance(status=standing), copy())
    assert status_of(made(Step.MIRROR, state)) == expected


def test_a_synced_of_somebody_else_stays() -> None:
    status = {"conditions": [THEIRS]}
    assert call(Step.MIRROR, situation(instance(status=status), copy())) is None
    assert call(Step.UNSYNC, refused(made=instance(status=status))) is None


def test_nothing_is_mirrored_from_where_nothing_stands() -> None:
    assert call(Step.MIRROR, situation(instance(status={"a": 1}))) is None


@pytest.mark.parametrize(
    "status", [None, {}, {"a": 1}, {"conditions": [READY]}, {"conditions": None}]
)
def test_a_refusal_is_a_complete_condition_beside_the_others(status: Object | None) -> None:
    todo = made(Step.UNSYNC, refused(made=instance(status=status)))
    assert (todo.side, todo.path) == (Side.CONSUMER, f"{PATH}/status")
    others = (status or {}).get("conditions") or []
    ours = OURS | {"lastTransitionTime": NOW}
    assert status_of(todo) == (status or {}) | {"conditions": [*others, ours]}


def test_a_refusal_for_another_reason_keeps_its_transition_time() -> None:
    state = refused(Copy.PARTIAL, made=instance(status={"conditions": [OURS, READY]}))
    said = status_of(made(Step.UNSYNC, state))["conditions"]
    assert said[0] == READY
    assert said[1]["reason"] == Reason.OWNED_BY_ANOTHER
    assert said[1]["lastTransitionTime"] == OURS["lastTransitionTime"]


def test_a_copy_that_goes_and_is_held_names_its_holders_in_event_and_condition() -> None:
    there = copy()
    there["metadata"] |= {"deletionTimestamp": NOW, "finalizers": ["b/two", "a/one"]}
    state = situation(there=there, reason=Reason.AWAITING_FINALIZERS)
    (said,) = status_of(made(Step.UNSYNC, state))["conditions"]
    assert said["reason"] == body(Step.HELD, state)["reason"] == Reason.AWAITING_FINALIZERS
    assert said["message"] == body(Step.HELD, state)["message"]
    assert said["message"].endswith(": a/one, b/two")
    told = situation(instance(status={"conditions": [said]}), copy())
    assert status_of(made(Step.MIRROR, told)) == {}


def test_trouble_is_told_under_the_reason_that_the_rules_give() -> None:
    assert body(Step.TELL, situation(trouble="x"))["reason"] == Reason.SYNC_FAILED
    away = situation(trouble="x", reason=Reason.CONNECTION_NOT_READY)
    assert body(Step.TELL, away)["reason"] == Reason.CONNECTION_NOT_READY


@pytest.mark.parametrize("status", ["text", ["a"], 5, {"conditions": {"Synced": True}}])
def test_a_status_that_takes_no_conditions_is_left_as_it_is(status: Any) -> None:
    assert call(Step.UNSYNC, refused(made=instance(status=status))) is None


def test_no_condition_where_the_schema_keeps_none_or_it_stands_already() -> None:
    assert call(Step.UNSYNC, refused(within=scope(keeps_synced=False))) is None
    assert call(Step.UNSYNC, refused(made=instance(status={"conditions": [OURS]}))) is None


def test_the_print_of_a_refusal_does_not_change_with_the_time() -> None:
    one = made(Step.UNSYNC, refused())
    assert digest(one) == digest(made(Step.UNSYNC, refused(now="2027-01-01T00:00:00Z")))
    assert digest(one) != digest(made(Step.UNSYNC, refused(Copy.PARTIAL)))


# --- prints, and flows that an overlay changed -----------------------------------------------


def test_a_print_tells_what_is_sent_and_what_stood_there() -> None:
    one = made(Step.DELIVER, situation(instance(spec={"size": 2}), copy()))
    wanted = made(Step.DELIVER, situation(instance(spec={"size": 3}), copy()))
    stood = made(Step.DELIVER, situation(instance(spec={"size": 2}), copy(spec={"size": 5})))
    other = copy(status={"a": 1})
    other["metadata"]["resourceVersion"] = "41"
    assert len({digest(one), digest(wanted), digest(stood)}) == 3
    assert digest(one) == digest(made(Step.DELIVER, situation(instance(spec={"size": 2}), other)))


def test_a_status_that_goes_up_is_written_to_the_provider() -> None:
    up = flow("instance-down", source=Side.CONSUMER, target=Side.PROVIDER)
    state = situation(instance(status={"a": 1}), copy(), within=scope(copying=up))
    todo = made(Step.MIRROR, state)
    assert (todo.side, todo.path) == (Side.PROVIDER, f"{PATH}/status")
    assert status_of(todo) == {"a": 1}
    assert call(Step.MIRROR, replace(state, copy=None)) is None


def test_a_spec_that_comes_down_is_not_sent_up() -> None:
    down = flow("instance-up", source=Side.PROVIDER, target=Side.CONSUMER)
    within = scope(copying=down)
    assert "spec" not in body(Step.CREATE, situation(within=within))
    todo = made(Step.DELIVER, situation(instance(), copy(spec={"size": 9}), within=within))
    assert (todo.side, todo.body["spec"]) == (Side.CONSUMER, {"size": 9})
    assert todo.body["metadata"] == {"name": "one", "namespace": "team-a", "uid": UID}


def test_fields_of_several_names_travel() -> None:
    select = (("data", Expression("data")), ("kindOf", Expression("spec.kind")))
    within = scope(copying=flow("instance-up", select=select))
    state = situation(instance(spec={"kind": "k"}, data={"a": "b"}), within=within)
    sent = body(Step.CREATE, state)
    assert (sent["data"], sent["kindOf"], "spec" in sent) == ({"a": "b"}, "k", False)


# --- for all steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "there", [None, copy(), copy(markers=False)], ids=["none", "ours", "alien"]
)
def test_a_call_changes_no_object_that_it_is_made_from(step: Step, there: Object | None) -> None:
    made_from = instance(status={"conditions": [OURS]}, refused=TEXT)
    before = repr((made_from, there))
    state = situation(
        made_from,
        there,
        owner=Copy.MARKERLESS,
        reason=Reason.FOREIGN_OBJECT_EXISTS,
        trouble="x",
        homeless=True,
        outdated=True,
    )
    call(step, state)
    assert repr((made_from, there)) == before


def test_traces_are_best_effort_and_what_the_next_step_makes_known() -> None:
    traces = {Step.TELL, Step.WARN, Step.UNSYNC, Step.RESOLVED, Step.HELD, Step.WAITING}
    assert traces | {Step.RENEW, Step.CLEAR} == BEST_EFFORT
