"""What a cluster offers to tests: faults, access, the audit, stable times and names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import pytest

from kbind.cluster.transport import Reply, Request, TransportError
from kbind.testing.memory import CANNOT, MemoryCluster, failure
from tests.memory.conftest import WIDGETS, Caller, widget


def is_list(request: Request) -> bool:
    return request.method == "GET" and request.path == WIDGETS


async def test_faults_strike_as_often_as_they_are_told(
    cluster: MemoryCluster, call: Caller
) -> None:
    fault = cluster.faults.fail(is_list, 503, "ServiceUnavailable", "later", times=2)
    assert [(await call.reply("GET", WIDGETS)).status for _ in range(3)] == [503, 503, 200]
    assert fault.struck == 2
    assert [entry.status for entry in cluster.audit("admin")] == [503, 503, 200]


async def test_faults_delay_hang_and_disconnect(cluster: MemoryCluster, call: Caller) -> None:
    cluster.faults.delay(is_list, 0.01, times=1)
    assert (await call.reply("GET", WIDGETS)).status == 200
    cluster.faults.disconnect(is_list, times=1)
    with pytest.raises(TransportError, match="reset"):
        await call.reply("GET", WIDGETS)
    hanging = cluster.faults.hang(is_list)
    with pytest.raises(TransportError, match="no answer"):
        await cluster.transport().send(Request("GET", WIDGETS), timeout=0.02)
    cluster.faults.remove(hanging)
    assert (await call.reply("GET", WIDGETS)).status == 200


async def test_a_fault_may_look_and_let_pass(cluster: MemoryCluster, call: Caller) -> None:
    seen: list[str] = []

    async def look(request: Request) -> Reply | None:
        seen.append(request.method)
        return failure(500, "InternalError", "broken") if request.method == "POST" else None

    cluster.faults.add(lambda request: request.path == WIDGETS, look)
    assert (await call.reply("GET", WIDGETS)).status == 200
    assert (await call.reply("POST", WIDGETS, widget("a"))).status == 500
    assert seen == ["GET", "POST"]


async def test_what_is_denied_is_refused_in_the_words_of_rbac(cluster: MemoryCluster) -> None:
    limited = Caller(cluster.transport("limited"))
    cluster.deny("limited", "list", "widgets.example.org")
    cluster.deny("limited", "patch", "widgets.example.org/status")
    answer = await limited("GET", WIDGETS)
    assert answer["code"] == 403
    assert answer["message"] == (
        'widgets.example.org is forbidden: User "limited" cannot list resource "widgets" in API '
        'group "example.org" in the namespace "default"'
    )
    across = await limited("GET", "/apis/example.org/v1/widgets")
    assert across["message"].endswith("at the cluster scope")
    patch = await limited("PATCH", f"{WIDGETS}/a/status", {}, "application/merge-patch+json")
    assert 'cannot patch resource "widgets/status"' in patch["message"]
    assert patch["details"] == {"name": "a", "group": "example.org", "kind": "widgets"}
    assert (await limited.reply("GET", f"{WIDGETS}/a")).status == 404
    cluster.allow("limited", "list", "widgets.example.org", "default")
    assert (await limited.reply("GET", WIDGETS)).status == 200


async def test_the_audit_tells_who_asked_for_what(cluster: MemoryCluster, call: Caller) -> None:
    await call("POST", WIDGETS, widget("a"))
    await call("PATCH", f"{WIDGETS}/a/status", {}, "application/merge-patch+json")
    await call("GET", "/version")
    create, patch, version = cluster.audit("admin")
    assert (create.verb, create.resource, create.namespace, create.name) == (
        "create",
        "widgets",
        "default",
        "",
    )
    assert (patch.verb, patch.name, patch.subresource, patch.status) == (
        "patch",
        "a",
        "status",
        200,
    )
    assert (version.verb, version.path, version.agent) == ("", "/version", "tester/1.0")
    assert cluster.audit("nobody") == []


async def test_times_and_uids_come_from_outside() -> None:
    numbers: Iterator[int] = count()
    cluster = MemoryCluster(
        "stable",
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        uid=lambda: f"uid-{next(numbers)}",
    )
    call = Caller(cluster.transport())
    default = await call("GET", "/api/v1/namespaces/default")
    assert default["metadata"]["uid"] == "uid-0"
    assert default["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


async def test_a_kubeconfig_names_the_cluster_before_it_is_served() -> None:
    config = MemoryCluster("hidden").kubeconfig("someone")
    assert config["clusters"][0]["cluster"] == {"server": "https://hidden.memory"}
    assert config["current-context"] == "hidden"
    assert config["users"][0]["name"] == "someone"


def test_what_it_cannot_do_has_a_name_and_a_reason() -> None:
    assert "cel" in CANNOT
    assert all(CANNOT.values())


async def test_an_apply_that_makes_an_object_is_a_creation_as_well() -> None:
    cluster = MemoryCluster("one")
    cluster.deny("limited", "create", "configmaps")
    path = "/api/v1/namespaces/default/configmaps/c"
    body = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}'
    query = {"fieldManager": "test"}
    request = Request("PATCH", path, query, {"content-type": "application/apply-patch+yaml"}, body)
    assert (await cluster.transport("limited").send(request, timeout=5)).status == 403
    assert (await cluster.transport("admin").send(request, timeout=5)).status == 201
    assert (await cluster.transport("limited").send(request, timeout=5)).status == 200
