"""Which binding covers an instance."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from kbind import words
from kbind.apis import Key
from kbind.cover import Bound, Coverage, Ending, Ref
from kbind.facts import ConflictPolicy, Cover

WIDGETS, GADGETS = "widgets.example.org", "gadgets.example.org"
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def bound(
    name: str,
    namespace: str = "",
    *,
    created: str = EARLY,
    connection: str = "a",
    apis: tuple[str, ...] = (WIDGETS,),
) -> Bound:
    kind = "Binding" if namespace else "ClusterBinding"
    ref = Ref(kind, Key(namespace, name))
    return Bound(ref, connection, apis, ConflictPolicy.FAIL, created, True)


def first(*bindings: Bound, namespace: str = "team-a", api: str = WIDGETS) -> str | None:
    """The name of the covering binding, which the order of arrival does not change."""
    found = {
        None if (met := Coverage(order).covering(api, namespace)) is None else met.ref.key.name
        for order in permutations(bindings)
    }
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(
    ("bindings", "namespace", "expected"),
    [
        ([], "team-a", None),
        ([bound("one", "team-a")], "team-a", "one"),
        ([bound("one", "team-b")], "team-a", None),
        ([bound("one")], "team-a", "one"),
        ([bound("one")], "", "one"),
        ([bound("one", "team-a")], "", None),
        ([bound("old", "team-a"), bound("new", created=LATE)], "team-a", "new"),
        ([bound("a", created=LATE), bound("b")], "team-a", "b"),
        ([bound("b"), bound("a"), bound("c")], "team-a", "a"),
        ([bound("a", "team-a", created=LATE), bound("b", "team-a")], "team-a", "b"),
        ([bound("b", "team-a"), bound("a", "team-b"), bound("c", "team-a")], "team-a", "b"),
        ([bound("one", apis=(GADGETS,))], "team-a", None),
        ([bound("one", apis=()), bound("two")], "team-a", "two"),
    ],
)
def test_cluster_bindings_first_then_the_oldest_then_the_name(
    bindings: list[Bound], namespace: str, expected: str | None
) -> None:
    assert first(*bindings, namespace=namespace) == expected


def test_the_connection_of_the_first_counts_whether_it_suits_or_not() -> None:
    coverage = Coverage([bound("late", created=LATE), bound("early", connection="b")])
    covering = coverage.covering(WIDGETS, "team-a")
    assert covering is not None
    assert covering.connection == "b"


def test_a_binding_covers_once_it_is_kept() -> None:
    early = replace(bound("early", created=EARLY), kept=False)
    assert first(early) is None
    assert first(early, bound("late", created=LATE)) == "late"
    assert Coverage([early]).listing(WIDGETS) == [early]


def test_what_is_being_undone_covers_where_nothing_else_does() -> None:
    ref = Ref("Binding", Key("team-a", "gone"))
    coverage = Coverage([], [Ending(ref, WIDGETS, Cover.ABANDONED)])
    assert coverage.ending(WIDGETS, "team-a") is Cover.ABANDONED
    assert coverage.ending(WIDGETS, "team-b") is Cover.UNCOVERED
    assert coverage.ending(GADGETS, "team-a") is Cover.UNCOVERED


def test_all_bindings_of_an_api_are_listed_in_order_and_once() -> None:
    coverage = Coverage([bound("b", "x"), bound("a", apis=(WIDGETS, WIDGETS, GADGETS))])
    assert [met.ref.key.name for met in coverage.listing(WIDGETS)] == ["a", "b"]
    assert coverage.listing("nothing") == []


def test_apis_are_told_by_connection() -> None:
    coverage = Coverage([bound("a", apis=(WIDGETS, GADGETS)), bound("b", connection="b")])
    assert coverage.apis("a") == {WIDGETS, GADGETS}
    assert coverage.apis("b") == {WIDGETS}
    assert coverage.apis("c") == set()


def binding(**spec: Any) -> dict[str, Any]:
    metadata = {
        "name": "one",
        "namespace": "team-a",
        "creationTimestamp": EARLY,
        "finalizers": [words.CLEANUP],
    }
    apis = [{"name": WIDGETS}, {"name": GADGETS}]
    return {"metadata": metadata, "spec": {"connectionRef": {"name": "a"}, "apis": apis} | spec}


def test_a_binding_is_read_as_far_as_syncing_needs_it() -> None:
    assert Bound.of("Binding", binding()) == bound("one", "team-a", apis=(WIDGETS, GADGETS))
    adopting = Bound.of("Binding", binding(conflictPolicy="Adopt"))
    assert adopting is not None
    assert adopting.policy is ConflictPolicy.ADOPT


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("True", False), (None, False)])
def test_a_binding_is_paused_by_exactly_true(value: str | None, expected: bool) -> None:
    made = binding()
    made["metadata"]["annotations"] = {words.PAUSED: value}
    read = Bound.of("Binding", made)
    assert read is not None
    assert read.paused is expected


def test_a_binding_that_is_being_deleted_covers_nothing() -> None:
    going = binding()
    going["metadata"]["deletionTimestamp"] = LATE
    assert Bound.of("Binding", going) is None


def test_bindings_are_named_with_their_kind() -> None:
    assert str(Ref("Binding", Key("team-a", "one"))) == "Binding team-a/one"
    assert str(Ref("ClusterBinding", Key("", "one"))) == "ClusterBinding one"
