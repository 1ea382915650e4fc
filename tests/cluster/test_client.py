from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from kbind import __version__
from kbind.cluster.backoff import delay
from kbind.cluster.client import Client, Dated
from kbind.cluster.identity import identity
from kbind.cluster.transport import Reply, TransportError
from kbind.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotServed,
    ServerFailed,
    Throttled,
    Unauthorized,
    Unreachable,
)
from tests.cluster.scripted import Scripted, refusal, reply

PATH = "/apis/example.org/v1/namespaces/team-a/widgets/a"
BROKEN = TransportError("the connection broke")
OK = reply(200, {"kind": "Widget"})

Call = Callable[[Client], Awaitable[bytes]]
CALLS: dict[str, Call] = {
    "get": lambda client: client.get(PATH),
    "create": lambda client: client.create(PATH, b"{}"),
    "replace": lambda client: client.replace(PATH, b"{}"),
    "apply": lambda client: client.apply(PATH, b"{}", manager="m", force=True),
    "merge": lambda client: client.merge(PATH, b"{}", manager="m"),
    "patch": lambda client: client.patch(PATH, b"[]", manager="m"),
    "delete": lambda client: client.delete(PATH, uid="u"),
    "delete any": lambda client: client.delete(PATH, uid=None),
}
REPEATED = {"get", "apply", "merge", "delete"}


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are taken down instead of slept."""
    taken: list[float] = []

    async def sleep(seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr("kbind.cluster.client.asyncio.sleep", sleep)
    return taken


def client(*answers: Reply | Exception, **options: Any) -> tuple[Client, Scripted]:
    transport = Scripted(*answers)
    return Client(transport, side="provider", **options), transport


@pytest.mark.parametrize(
    ("call", "method", "content", "query"),
    [
        ("get", "GET", None, {}),
        ("create", "POST", "application/json", {}),
        ("replace", "PUT", "application/json", {}),
        ("apply", "PATCH", "application/apply-patch+yaml", {"fieldManager": "m", "force": "true"}),
        ("merge", "PATCH", "application/merge-patch+json", {"fieldManager": "m"}),
        ("patch", "PATCH", "application/json-patch+json", {"fieldManager": "m"}),
        ("delete", "DELETE", "application/json", {}),
    ],
)
async def test_what_is_sent(
    call: str, method: str, content: str | None, query: dict[str, str]
) -> None:
    caller, transport = client(OK)
    assert await CALLS[call](caller) == OK.body
    (request,) = transport.requests
    assert (request.method, request.path, request.query) == (method, PATH, query)
    assert request.headers["User-Agent"] == f"kbind-konnector/{__version__}"
    assert request.headers["Accept"] == "application/json"
    assert request.headers.get("Content-Type") == content


async def test_a_delete_names_the_object_it_means() -> None:
    caller, transport = client(OK)
    await caller.delete(PATH, uid="u-1")
    body = transport.requests[0].body
    assert body is not None
    assert orjson.loads(body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u-1"},
    }


@pytest.mark.parametrize("call", CALLS)
async def test_only_what_may_happen_twice_is_sent_again_when_the_connection_breaks(
    call: str, naps: list[float]
) -> None:
    caller, transport = client(BROKEN, OK)
    if call in REPEATED:
        await CALLS[call](caller)
        assert len(transport.requests) == 2
        assert transport.requests[0] == transport.requests[1]
        assert 0 < naps[0] <= 0.1
    else:
        with pytest.raises(Unreachable, match="the connection broke"):
            await CALLS[call](caller)
        assert len(transport.requests) == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", [429, 503])
async def test_every_call_waits_out_a_short_retry_after(
    call: str, code: int, naps: list[float]
) -> None:
    caller, transport = client(reply(code, {}, retry_after="2"), OK)
    await CALLS[call](caller)
    assert len(transport.requests) == 2
    assert 2 <= naps[0] <= 3


async def test_the_servers_time_is_kept_of_whatever_it_answers() -> None:
    early, late = "Wed, 01 May 2024 12:00:00 GMT", "Wed, 01 May 2024 12:00:07 GMT"
    caller, _ = client(reply(200, {}, date=early), reply(200, {}), refused(late), BROKEN, BROKEN)
    assert caller.dated is None
    begin = asyncio.get_running_loop().time()
    for _ in range(2):  # the second answer does not tell
        await caller.get(PATH)
        assert dated(caller).date == early
        assert begin <= dated(caller).sent <= dated(caller).received
    with pytest.raises(Forbidden):
        await caller.get(PATH)
    assert dated(caller).date == late
    with pytest.raises(Unreachable):
        await caller.create(PATH, b"{}")
    assert dated(caller).date == late


def dated(caller: Client) -> Dated:
    assert caller.dated is not None
    return caller.dated


def refused(date: str) -> Reply:
    answer = refusal(403, "Forbidden")
    return Reply(answer.status, {"date": date}, answer.body)


async def test_a_long_retry_after_is_the_callers(naps: list[float]) -> None:
    caller, _ = client(reply(429, {}, retry_after="60"))
    with pytest.raises(Throttled) as caught:
        await caller.get(PATH)
    assert caught.value.retry_after == 60
    assert naps == []


async def test_the_seconds_may_stand_in_the_status(naps: list[float]) -> None:
    caller, _ = client(refusal(429, "TooManyRequests", retryAfterSeconds=1), OK)
    await caller.get(PATH)
    assert 1 <= naps[0] <= 2


async def test_a_failing_server_is_not_asked_again_unless_it_says_when(naps: list[float]) -> None:
    for code in (500, 503, 504):
        caller, transport = client(refusal(code, "Failed"))
        with pytest.raises(ServerFailed):
            await caller.get(PATH)
        assert len(transport.requests) == 1
    assert naps == []


async def test_attempts_are_few(naps: list[float]) -> None:
    caller, transport = client(*[BROKEN] * 9)
    with pytest.raises(Unreachable):
        await caller.get(PATH)
    assert len(transport.requests) == 3


async def test_a_call_ends_in_time_whatever_it_repeats(naps: list[float]) -> None:
    caller, transport = client(reply(429, {}, retry_after="4"), timeout=3.0)
    with pytest.raises(Throttled):
        await caller.get(PATH)
    assert len(transport.requests) == 1
    assert naps == []


NO_PAGE = Reply(404, {"content-type": "text/plain"}, b"404 page not found\n")
NAMED = {"name": "a", "group": "example.org", "kind": "widgets"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal(400, "BadRequest"), Invalid),
        (refusal(401, "Unauthorized"), Unauthorized),
        (refusal(403, "Forbidden"), Forbidden),
        (refusal(404, "NotFound", 'widgets "a" not found', **NAMED), NotFound),
        (refusal(404, "NotFound", "", name="team-a", kind="namespaces"), NotFound),
        (refusal(404, "NotFound", "", name="other", kind="widgets"), NotServed),
        (refusal(404, "NotFound", "could not find the requested resource"), NotServed),
        (NO_PAGE, NotServed),
        (Reply(404, {}, b'{"name": "a", "reason": "NotFound"}'), NotServed),
        (refusal(405, "MethodNotAllowed"), Invalid),
        (refusal(409, "Conflict"), Conflict),
        (refusal(409, "AlreadyExists"), Conflict),
        (refusal(410, "Expired"), Gone),
        (refusal(413, "RequestEntityTooLarge"), Invalid),
        (refusal(422, "Invalid", "spec.size: Invalid value", **NAMED), Invalid),
        (refusal(422, "Invalid", "...", causes=[{"field": "metadata.uid"}]), Conflict),
        (
            refusal(422, "Invalid", "metadata.uid: Invalid value: x: field is immutable", **NAMED),
            Conflict,
        ),
        (
            refusal(422, "Invalid", "UID in precondition: x, UID in object meta: y", **NAMED),
            Conflict,
        ),
        (
            refusal(
                422,
                "Invalid",
                'spec.path: Invalid value: "metadata.uid: Invalid"',
                causes=[{"field": "spec.path", "message": "metadata.uid: Invalid"}],
            ),
            Invalid,
        ),
        # What a real server says when a test does not hold, or a path is not there.
        (refusal(422, "Invalid", "the server rejected our request due to an error"), Conflict),
        (refusal(500, "InternalError"), ServerFailed),
        (Reply(302, {"location": "https://elsewhere"}, b""), ServerFailed),
        (Reply(502, {}, b"<html>bad gateway</html>"), ServerFailed),
    ],
)
async def test_refusals_are_told_apart(answer: Reply, kind: type[ClusterError]) -> None:
    caller, _ = client(answer)
    with pytest.raises(ClusterError) as caught:
        await caller.patch(PATH, b"[]", manager="m")
    error = caught.value
    assert type(error) is kind
    assert (error.side, error.verb, error.path) == ("provider", "patch", PATH)
    assert error.status == answer.status
    said = error.body.get("message")
    assert said is None or str(said) in str(error)
    assert str(error).startswith(f"provider: patch {PATH}: {answer.status}")


async def test_a_type_that_the_schema_does_not_have_is_invalid_though_the_server_says_500() -> None:
    said = "failed to create typed patch object (/a; v1, Kind=Widget): .spec: expected map"
    caller, _ = client(refusal(500, "", said))
    with pytest.raises(Invalid, match="expected map"):
        await caller.apply(PATH, b"{}", manager="m", force=True)


async def test_plain_words_are_repeated_too() -> None:
    caller, _ = client(NO_PAGE)
    with pytest.raises(NotServed, match=r"404: 404 page not found$"):
        await caller.get(PATH)


async def test_what_a_server_finds_wrong_with_a_secret_is_not_repeated() -> None:
    causes = [{"field": "data[x]", "message": "hunter2"}]
    caller, _ = client(refusal(422, "Invalid", "hunter2 is invalid", causes=causes))
    with pytest.raises(Invalid) as caught:
        await caller.apply("/api/v1/namespaces/n/secrets/s", b"{}", manager="m", force=True)
    assert "hunter2" not in str(caught.value)
    assert "data[x]" in str(caught.value)


async def test_a_refused_stream_is_told_like_a_call() -> None:
    caller, transport = client()
    transport.refused.append(refusal(403, "Forbidden", "may not watch"))
    with pytest.raises(Forbidden, match="provider: watch /x: 403 Forbidden: may not watch"):
        async with caller.stream("/x", query={}, silence=1.0):
            pytest.fail("opened")


async def test_an_error_of_the_reader_passes_through_a_stream() -> None:
    caller, _ = client()
    with pytest.raises(KeyError):
        async with caller.stream("/x", query={}, silence=1.0):
            raise KeyError


def test_delays_grow_up_to_the_cap_and_are_never_nothing() -> None:
    for attempt in (1, 2, 5, 12, 100_000):
        draws = [delay(attempt) for _ in range(200)]
        assert min(draws) >= 0.1
        assert max(draws) <= min(300.0, 0.2 * 2 ** min(attempt - 1, 20))
    assert max(delay(50, cap=3.0) for _ in range(200)) <= 3.0


def _cluster(**documents: Reply) -> Client:
    transport = Scripted()
    transport.otherwise = lambda request: documents[request.path.rsplit("/", 1)[-1]]
    return Client(transport, side="consumer")


def _groups(*names: str) -> Reply:
    return reply(200, {"kind": "APIGroupList", "groups": [{"name": name} for name in names]})


def _uid(uid: str) -> Reply:
    return reply(200, {"metadata": {"uid": uid}})


async def test_a_plain_cluster_is_its_kube_system_and_kcp_is_not_asked_for() -> None:  # T16
    plain = _cluster(**{"apis": _groups("apps"), "kube-system": _uid("u-1")})
    assert await identity(plain) == "u-1"


async def test_a_kcp_workspace_is_its_logical_cluster() -> None:
    kcp = _cluster(
        **{"apis": _groups("core.kcp.io"), "cluster": _uid("u-2"), "kube-system": _uid("u-1")}
    )
    assert await identity(kcp) == "u-2"


@pytest.mark.parametrize(
    ("documents", "kind"),
    [
        ({"apis": refusal(403, "Forbidden")}, Forbidden),
        ({"apis": _groups("core.kcp.io"), "cluster": refusal(403, "Forbidden")}, Forbidden),
        ({"apis": _groups(), "kube-system": _uid("")}, ServerFailed),
        ({"apis": reply(200, b"<html>")}, ServerFailed),
        ({"apis": reply(200, [])}, ServerFailed),
    ],
)
async def test_an_identity_is_never_guessed(
    documents: dict[str, Reply], kind: type[ClusterError]
) -> None:
    with pytest.raises(kind):
        await identity(_cluster(**documents))


async def test_cancelling_a_call_ends_it() -> None:
    caller, _ = client(reply(429, {}, retry_after="4"))
    task = asyncio.create_task(caller.get(PATH))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
