"""The Lease of a heartbeat, and what is told of two clocks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from kbind import words
from kbind.apis import Key
from kbind.heartbeat import (
    NAME_LIMIT,
    is_ours,
    key,
    lease,
    renewed,
    rest,
    skew,
    skew_note,
    told_skew,
)

UID = "0d0cbb1e-9a3c-4f0e-8f2a-6f1f3f1f3f1f"
NOW = datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
AT = Key("kbind", "provider-0d0cbb1e-9")

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def test_a_lease_has_what_the_contract_says() -> None:
    assert key("provider", UID, None) == AT
    assert lease(AT, "provider", UID, NOW) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "provider-0d0cbb1e-9",
            "namespace": "kbind",
            "labels": {"core.kbind.io/managed": "true"},
            "annotations": {
                "core.kbind.io/consumer-cluster-uid": UID,
                "core.kbind.io/connection": "provider",
            },
        },
        "spec": {
            "holderIdentity": UID,
            "leaseDurationSeconds": 60,
            "acquireTime": "2024-05-01T12:00:00.250000Z",
            "renewTime": "2024-05-01T12:00:00.250000Z",
        },
    }


@pytest.mark.parametrize(("given", "expected"), [(None, "kbind"), ("", "kbind"), ("mine", "mine")])
def test_the_namespace_is_the_contexts(given: str | None, expected: str) -> None:
    assert key("provider", UID, given).namespace == expected


@pytest.mark.parametrize("length", [1, 241, 242, 243, 252, 253])
@pytest.mark.parametrize("unit", ["a", "a.", "a-"])
def test_names_are_valid_and_told_apart_however_long_a_connections_is(
    length: int, unit: str
) -> None:
    one = (unit * length)[: length - 1] + "x"
    other = one[:-1] + "y"
    names = [key(connection, UID, None).name for connection in (one, other)]
    for name in names:
        assert len(name) <= NAME_LIMIT
        assert SUBDOMAIN.fullmatch(name)
        assert name.endswith("-0d0cbb1e-9")
    assert names[0] != names[1]
    assert names == [key(connection, UID, None).name for connection in (one, other)]
    if length <= 242:
        assert names[0] == f"{one}-0d0cbb1e-9"
    else:
        assert key(one, UID[:10] + "-another", None).name != names[0]


def test_a_renewal_keeps_what_others_added_and_when_it_was_acquired() -> None:
    standing = lease(AT, "provider", UID, NOW)
    standing["metadata"] |= {"resourceVersion": "7", "labels": {"team": "a"}}
    standing["metadata"]["annotations"]["note"] = "kept"
    standing["spec"] |= {"leaseDurationSeconds": 5, "leaseTransitions": 3}
    later = lease(AT, "provider", UID, NOW + timedelta(seconds=30))
    again = renewed(standing, later)
    assert again["metadata"]["resourceVersion"] == "7"
    assert again["metadata"]["labels"] == {"team": "a", words.MANAGED: "true"}
    assert again["metadata"]["annotations"]["note"] == "kept"
    assert again["spec"] == {
        "holderIdentity": UID,
        "leaseDurationSeconds": 60,
        "leaseTransitions": 3,
        "acquireTime": "2024-05-01T12:00:00.250000Z",
        "renewTime": "2024-05-01T12:00:30.250000Z",
    }
    del standing["spec"]["acquireTime"], standing["metadata"]["labels"]
    again = renewed(standing, later)
    assert again["spec"]["acquireTime"] == "2024-05-01T12:00:30.250000Z"
    assert again["metadata"]["labels"] == {words.MANAGED: "true"}


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"holderIdentity": "someone"}},
        {"spec": None},
        {"metadata": {"annotations": {words.CLUSTER_UID: UID, words.CONNECTION: "other"}}},
        {"metadata": {"annotations": {words.CLUSTER_UID: "x", words.CONNECTION: "provider"}}},
        {"metadata": {"annotations": None}},
    ],
)
def test_a_lease_that_says_anything_else_is_somebody_elses(change: dict[str, Any]) -> None:
    standing = lease(AT, "provider", UID, NOW)
    assert is_ours(standing, "provider", UID)
    assert not is_ours(standing | change, "provider", UID)


@pytest.mark.parametrize(
    ("renew", "left"),
    [
        ("2024-05-01T11:59:55.250000Z", 25),
        ("2024-05-01T12:00:00.250000Z", 30),
        ("2024-05-01T11:59:30.250000Z", 0),
        ("2024-05-01T12:00:01.000000Z", 0),  # of a clock that was set back
        ("2024-05-01T11:59:55", 24.75),
        ("yesterday", 0),
        (None, 0),
    ],
)
def test_how_long_a_lease_rests(renew: str | None, left: float) -> None:
    assert rest({"spec": {"renewTime": renew}}, 30, NOW) == left
    assert rest({}, 30, NOW) == 0


def measured(ahead: float, way: float = 0.1) -> float:
    """What is measured of a server that is so far ahead, whose answer takes *way* seconds."""
    date = format_datetime((NOW + timedelta(seconds=ahead + way / 2)).replace(microsecond=0))
    found = skew(date, NOW, NOW + timedelta(seconds=way))
    assert found is not None
    return found


def test_a_difference_is_measured_at_the_least() -> None:
    assert [measured(at) for at in (0, 0.5, -0.1)] == [0, 0, 0]
    for ahead in (3.0, 7.5, 60.25, 86400.0):
        assert ahead - 1.2 <= measured(ahead) <= ahead
        assert -ahead <= measured(-ahead) <= -ahead + 1.2
    # A slow answer proves nothing: the server may have written its date at any time meanwhile.
    assert measured(-8, way=20) == 0
    assert measured(8, way=20) == 0


@pytest.mark.parametrize("date", ["", "soon", "Wed, 99 May 2024 12:00:00 GMT"])
def test_what_is_no_date_tells_nothing(date: str) -> None:
    assert skew(date, NOW, NOW) is None


def test_a_date_without_a_zone_is_utc() -> None:
    assert skew("Wed, 01 May 2024 12:00:10 -0000", NOW, NOW) == 9.75


def test_what_is_told_of_the_clocks_does_not_flap() -> None:
    told, seen = 0, []
    for value in (0, 5.0, 5.1, 4.9, 5.9, 6.1, 4.2, 3.0, 2.5, 3.0, 5.0, -5.0, -5.1, -4.0, 0, 90, 4):
        told = told_skew(told, value)
        seen.append(told)
    assert seen == [0, 0, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, -5, -5, 0, 90, 0]
    # A server's date is by the second, so that what is measured differs from time to time.
    for ahead in (6.5, -6.5, 42.0, -42.0):
        told, changes = 0, 0
        for number in range(200):
            before, told = told, told_skew(told, measured(ahead + number % 7 / 7 - 0.4, 0.3))
            changes += told != before
        assert changes == 1


def test_what_is_said_of_the_clocks() -> None:
    assert skew_note(0) == ""
    assert skew_note(7) == "the provider's clock is about 7 s ahead of the konnector's"
    assert skew_note(-90) == "the provider's clock is about 90 s behind the konnector's"
