from __future__ import annotations

import orjson
import pytest

from kbind.apis import Key
from kbind.cluster.cache import Cache, Entry
from tests.cluster.scripted import status, widget

A = Key("team-a", "a")


def raw(version: int, uid: str = "one", **spec: object) -> bytes:
    return orjson.dumps(widget("a", version, uid=uid, **spec))


def entry(version: int, uid: str = "one") -> Entry:
    return Entry(raw(version, uid), uid, version)


def version(cache: Cache) -> int | None:
    known = cache.get(A)
    return known.version if known else None


def test_an_answer_is_taken_if_it_is_newer_than_the_entry() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.learn(raw(8))
    assert version(cache) == 8
    cache.learn(raw(7))
    assert version(cache) == 8
    assert not cache.observe(A, entry(7))
    assert not cache.observe(A, entry(8))
    assert version(cache) == 8
    assert cache.observe(A, entry(9))


def test_a_change_that_an_answer_held_as_well_is_told_when_its_event_comes() -> None:
    """Somebody writes, then we do, and our answer comes before either event."""
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.learn(raw(9))  # ours, and in it somebody's of version 8
    assert cache.observe(A, entry(8))
    assert not cache.observe(A, entry(8))
    assert not cache.observe(A, entry(9))
    assert version(cache) == 9
    assert cache.observe(A, entry(10))


def test_a_list_that_comes_instead_of_events_tells_what_answers_held() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.learn(raw(9))
    assert cache.replace({A: entry(9)}, 9) == [A]
    assert cache.replace({A: entry(9)}, 10) == []


def test_a_list_tells_what_an_answer_that_is_newer_held_as_well() -> None:
    """Somebody writes, a list is made, and we write: our answer comes before the list."""
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.learn(raw(12))  # ours, and in it somebody's of version 10
    assert cache.replace({A: entry(10)}, 11) == [A]
    assert version(cache) == 12
    assert not cache.observe(A, entry(12))


def test_what_a_bookmark_has_passed_is_learned_no_longer() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.learn(raw(9))
    cache.observe_progress(9)
    assert cache.replace({A: entry(9)}, 10) == []


def test_a_deletion_that_was_told_is_not_undone_by_an_older_answer() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    assert cache.observe_deleted(A, "one", 9)
    cache.learn(raw(8))
    assert version(cache) is None
    cache.learn(raw(12, "two"))
    assert version(cache) == 12


def test_a_bookmark_counts_as_told() -> None:
    cache = Cache()
    cache.observe_progress(20)
    cache.learn(raw(15))
    assert version(cache) is None


def test_a_deletion_of_the_predecessor_leaves_what_was_learned_since() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.learn(raw(12, "two"))
    assert not cache.observe_deleted(A, "one", 9)
    assert version(cache) == 12


def test_events_of_a_forgotten_object_are_passed_over_until_its_deletion() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.forget(A, "one")
    assert version(cache) is None
    assert not cache.observe(A, entry(8))
    cache.learn(raw(9))
    assert version(cache) is None
    assert not cache.observe_deleted(A, "one", 10)
    assert cache.observe(A, entry(11, "two"))
    assert version(cache) == 11


def test_a_successor_ends_the_forgetting() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.forget(A, "one")
    assert cache.observe(A, entry(11, "two"))
    assert cache.observe_deleted(A, "two", 12)


def test_forgetting_means_one_object() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.forget(A, "another")
    assert version(cache) == 5
    cache.forget(A, "one", 4)
    assert version(cache) == 5
    cache.forget(A, "one", 7)
    assert version(cache) is None
    cache.forget(A, "one")


def test_a_list_from_before_the_deletion_does_not_bring_the_object_back() -> None:
    cache = Cache()
    cache.replace({A: entry(5)}, 6)
    cache.forget(A, "one")
    assert cache.replace({A: entry(5)}, 8) == []
    assert version(cache) is None
    assert cache.replace({}, 9) == []
    assert cache.observe(A, entry(10))  # an event that no longer is one of the past


def test_a_list_keeps_what_was_learned_since_it_was_made() -> None:
    cache = Cache()
    cache.replace({}, 6)
    cache.learn(raw(9))
    assert cache.replace({}, 8) == []
    assert version(cache) == 9
    assert cache.replace({}, 9) == [A]
    assert version(cache) is None


def test_a_list_tells_what_is_new_changed_or_gone() -> None:
    cache = Cache()
    b, c, d = (Key("", name) for name in "bcd")
    assert cache.replace({A: entry(1), b: entry(2), c: entry(3)}, 3) == [A, b, c]
    assert cache.replace({A: entry(1), b: entry(5), d: entry(6)}, 7) == [b, d, c]


def test_a_list_older_than_what_was_told_replaces_everything() -> None:
    cache = Cache()
    cache.replace({A: entry(50)}, 60)
    cache.learn(raw(70))
    assert cache.replace({A: entry(20)}, 30) == [A]
    assert version(cache) == 20
    assert cache.observe(A, entry(31))


def test_a_status_is_no_object_and_an_answer_without_one_is_an_error() -> None:
    cache = Cache()
    cache.learn(orjson.dumps(status(200, "")))
    assert len(cache) == 0
    for answer in (b"<html>", b"[]", b"{}", b'{"metadata":{"name":"a"}}'):
        with pytest.raises(ValueError, match=r".+"):
            cache.learn(answer)


def test_entries_own_their_bytes() -> None:
    cache = Cache()
    buffer = bytearray(raw(8) + b"\n")
    cache.learn(memoryview(buffer))  # type: ignore[arg-type]
    buffer[:] = b" " * len(buffer)
    known = cache.get(A)
    assert known is not None
    assert known.raw == raw(8)


def test_iteration_survives_changes() -> None:
    cache = Cache()
    cache.replace({A: entry(1), Key("", "b"): entry(2)}, 2)
    for key in cache:
        cache.forget(key, "one")
    assert len(cache) == 0
    assert A not in cache
    assert cache.keys() == ()
    assert cache.items() == ()
