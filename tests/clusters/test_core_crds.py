"""The core CRDs on a real API server: defaults, refusals, what is pinned, and what is printed.

The double's idea of validation proves nothing about them; CEL and its cost limits are the
server's own.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from ruamel.yaml import YAML

from kbind import words
from kbind.testing.real import RealCluster

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROOT = f"/apis/{words.API_VERSION}"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

Object = dict[str, Any]
numbers = count()


class Answer(NamedTuple):
    status: int
    body: Object

    @property
    def message(self) -> str:
        return str(self.body.get("message", self.body))


class Server:
    """One API server, by its base URL, its CA as PEM and a bearer token."""

    def __init__(self, base: str, ca: str, token: str) -> None:
        self._base = base
        self._trust = ssl.create_default_context(cadata=ca)
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"})

    async def close(self) -> None:
        await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        headers = {"Content-Type": kind, "Accept": accept}
        async with self._session.request(
            method,
            self._base + path,
            json=body,
            headers=headers,
            params=query,
            ssl=self._trust,
        ) as reply:
            return Answer(reply.status, await reply.json())


def definitions() -> dict[str, Object]:
    """The core CRDs by plural name."""
    loaded = [YAML(typ="safe").load(file) for file in sorted(CRDS.glob("*.yaml"))]
    return {crd["spec"]["names"]["plural"]: crd for crd in loaded}


def established(crd: Object) -> bool:
    conditions = {each["type"]: each["status"] for each in crd["status"].get("conditions", [])}
    return conditions.get("Established") == "True" and conditions.get("NamesAccepted") == "True"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A cluster with the core CRDs installed."""
    directory = tmp_path_factory.mktemp("core-crds")
    cluster = await RealCluster.start(
        "provider", binaries=binaries, directory=directory, controllers=False, audit=False
    )
    server = Server(cluster.server, cluster.ca_pem, cluster.token)
    try:
        for crd in definitions().values():
            made = await server.ask("POST", DEFINITIONS, crd)
            assert made.status == 201, made.message
        for crd in definitions().values():
            for _ in range(100):
                found = await server.ask("GET", f"{DEFINITIONS}/{crd['metadata']['name']}")
                served = await server.ask("GET", f"{ROOT}/{crd['spec']['names']['plural']}")
                if established(found.body) and served.status == 200:
                    break
            else:
                pytest.fail(f"not established: {found.body['status']}")
        yield server
    finally:
        await server.close()
        await cluster.stop()


# Objects.


def connection(**spec: Any) -> Object:
    reference = {"namespace": "kbind", "name": "provider-kubeconfig"}
    return {
        "apiVersion": words.API_VERSION,
        "kind": "Connection",
        "metadata": {"name": f"c{next(numbers)}"},
        "spec": {"kubeconfigSecretRef": reference} | spec,
    }


def binding(kind: str = "ClusterBinding", **spec: Any) -> Object:
    given = {"connectionRef": {"name": "provider"}, "apis": [{"name": "widgets.example.org"}]}
    return {
        "apiVersion": words.API_VERSION,
        "kind": kind,
        "metadata": {"name": f"b{next(numbers)}"},
        "spec": given | spec,
    }


def related(**entry: Any) -> Object:
    return binding(relatedResources=[{"resource": "secrets", "direction": "FromProvider"} | entry])


def without(thing: Object, *path: str) -> Object:
    """A copy without the field at *path*."""
    changed = deepcopy(thing)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return changed


def collection(thing: Object) -> str:
    if thing["kind"] == "Binding":
        return f"{ROOT}/namespaces/default/bindings"
    return f"{ROOT}/{thing['kind'].lower()}s"


def path(thing: Object, *, status: bool = False) -> str:
    return f"{collection(thing)}/{thing['metadata']['name']}" + ("/status" if status else "")


async def create(server: Server, thing: Object) -> Object:
    made = await server.ask("POST", collection(thing), thing)
    assert made.status == 201, made.message
    return made.body


def condition(**fields: Any) -> Object:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "AsExpected",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    } | fields


# Defaults.


async def test_a_connection_is_completed(server: Server) -> None:
    made = await create(server, connection())
    assert made["spec"] == {
        "kubeconfigSecretRef": {
            "namespace": "kbind",
            "name": "provider-kubeconfig",
            "key": "kubeconfig",
        },
        "schema": {"source": "Auto", "pullPolicy": "Bound", "updatePolicy": "Always"},
        "autoBind": False,
    }


async def test_a_given_part_of_the_schema_keeps_the_other_defaults(server: Server) -> None:
    made = await create(server, connection(schema={"source": "my-Plugin2"}))
    assert made["spec"]["schema"] == {
        "source": "my-Plugin2",
        "pullPolicy": "Bound",
        "updatePolicy": "Always",
    }


@pytest.mark.parametrize("kind", ["ClusterBinding", "Binding"])
async def test_a_binding_is_completed(server: Server, kind: str) -> None:
    entries: list[Object] = [
        {"resource": "secrets", "direction": "FromProvider"},
        {
            "resource": "configmaps",
            "direction": "FromConsumer",
            "selector": {
                "names": ["settings"],
                "labelSelector": {
                    "matchLabels": {"example.org/related": "true"},
                    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}],
                },
            },
        },
    ]
    made = await create(server, binding(kind, relatedResources=entries))
    assert made["spec"]["conflictPolicy"] == "Fail"
    assert made["spec"]["relatedResources"] == [{"group": ""} | entry for entry in entries]


# Refusals: the object, and what the answer must name.

REFUSED: dict[str, tuple[Object, str]] = {
    "connection-without-spec": (without(connection(), "spec"), "spec: Required value"),
    "connection-without-secret": (
        without(connection(), "spec", "kubeconfigSecretRef"),
        "spec.kubeconfigSecretRef: Required value",
    ),
    "secret-without-name": (
        connection(kubeconfigSecretRef={"namespace": "kbind"}),
        "spec.kubeconfigSecretRef.name: Required value",
    ),
    "secret-without-namespace": (
        connection(kubeconfigSecretRef={"name": "s"}),
        "spec.kubeconfigSecretRef.namespace: Required value",
    ),
    "secret-name-empty": (
        connection(kubeconfigSecretRef={"namespace": "kbind", "name": ""}),
        "spec.kubeconfigSecretRef.name",
    ),
    "secret-namespace-empty": (
        connection(kubeconfigSecretRef={"namespace": "", "name": "s"}),
        "spec.kubeconfigSecretRef.namespace",
    ),
    "secret-key-no-key": (
        connection(kubeconfigSecretRef={"namespace": "kbind", "name": "s", "key": "a/b"}),
        "spec.kubeconfigSecretRef.key",
    ),
    "source-with-space": (connection(schema={"source": "a b"}), "spec.schema.source"),
    "source-ends-in-dash": (connection(schema={"source": "a-"}), "spec.schema.source"),
    "source-empty": (connection(schema={"source": ""}), "spec.schema.source"),
    "pull-policy": (connection(schema={"pullPolicy": "bound"}), 'supported values: "Bound", "All"'),
    "update-policy": (connection(schema={"updatePolicy": "Never"}), "spec.schema.updatePolicy"),
    "auto-bind-text": (connection(autoBind="true"), "spec.autoBind"),
    "binding-without-connection": (
        without(binding(), "spec", "connectionRef"),
        "spec.connectionRef: Required value",
    ),
    "connection-name-empty": (binding(connectionRef={"name": ""}), "spec.connectionRef.name"),
    "binding-without-apis": (without(binding(), "spec", "apis"), "spec.apis: Required value"),
    "apis-empty": (binding(apis=[]), "spec.apis"),
    "api-without-name": (binding(apis=[{}]), "spec.apis[0].name: Required value"),
    "conflict-policy": (binding(conflictPolicy="Force"), 'supported values: "Fail", "Adopt"'),
    "related-group": (related(group="apps"), "spec.relatedResources[0].group"),
    "related-resource": (related(resource="pods"), "spec.relatedResources[0].resource"),
    "related-direction": (related(direction="Both"), "spec.relatedResources[0].direction"),
    "related-without-direction": (
        binding(relatedResources=[{"resource": "secrets"}]),
        "spec.relatedResources[0].direction: Required value",
    ),
    "related-names-twice": (
        related(selector={"names": ["a", "a"]}),
        "spec.relatedResources[0].selector.names[1]: Duplicate value",
    ),
    "related-expression": (
        related(selector={"labelSelector": {"matchExpressions": [{"key": "a"}]}}),
        "matchExpressions[0].operator: Required value",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_wrong_object_is_refused_by_name(server: Server, case: str) -> None:
    thing, named = REFUSED[case]
    answer = await server.ask("POST", collection(thing), thing)
    assert answer.status == 422
    assert named in answer.message


# Status that is refused, and what the answer must name.

EXPORTED = {
    "name": "widgets.example.org",
    "group": "example.org",
    "resource": "widgets",
    "scope": "Namespaced",
    "versions": ["v1", "v1beta1"],
}
BAD_STATUS: dict[str, tuple[Object, Object, str]] = {
    "uid-empty": (connection(), {"remoteClusterUID": ""}, "status.remoteClusterUID"),
    "versions-twice": (
        connection(),
        {"exportedAPIs": [EXPORTED | {"versions": ["v1", "v1"]}]},
        "status.exportedAPIs[0].versions[1]: Duplicate value",
    ),
    "scope": (
        connection(),
        {"exportedAPIs": [EXPORTED | {"scope": "Global"}]},
        "status.exportedAPIs[0].scope",
    ),
    **{
        f"export-without-{field}": (
            connection(),
            {"exportedAPIs": [without(EXPORTED, field)]},
            f"status.exportedAPIs[0].{field}: Required value",
        )
        for field in EXPORTED
    },
    **{
        f"condition-without-{field}": (
            thing,
            {"conditions": [without(condition(), field)]},
            f"status.conditions[0].{field}: Required value",
        )
        for thing in (connection(), binding())
        for field in condition()
    },
    "condition-twice": (
        connection(),
        {"conditions": [condition(), condition()]},
        "status.conditions[1]: Duplicate value",
    ),
    "condition-status": (
        binding(),
        {"conditions": [condition(status="true")]},
        "status.conditions[0].status",
    ),
    "condition-reason": (
        binding(),
        {"conditions": [condition(reason="not a word")]},
        "status.conditions[0].reason",
    ),
    "condition-reason-empty": (
        binding(),
        {"conditions": [condition(reason="")]},
        "status.conditions[0].reason",
    ),
    "bound-without-name": (
        binding(),
        {"boundAPIs": [{"crdHash": "0123456789abcdef"}]},
        "status.boundAPIs[0].name: Required value",
    ),
    "conflicts-below-zero": (
        binding(),
        {"boundAPIs": [{"name": "widgets.example.org", "conflictCount": -1}]},
        "status.boundAPIs[0].conflictCount",
    ),
}


@pytest.mark.parametrize("case", BAD_STATUS)
async def test_a_wrong_status_is_refused_by_name(server: Server, case: str) -> None:
    thing, status, named = BAD_STATUS[case]
    thing = deepcopy(thing)
    thing["metadata"] = {"name": f"s{next(numbers)}"}
    await create(server, thing)
    answer = await server.ask("PATCH", path(thing, status=True), {"status": status}, kind=MERGE)
    assert answer.status == 422
    assert named in answer.message


async def test_every_reason_and_condition_type_is_accepted(server: Server) -> None:
    made = await create(server, connection())
    for reason in words.Reason:
        conditions = [condition(type=type_, reason=reason) for type_ in words.Condition]
        status = {"conditions": conditions, "observedGeneration": 1, "exportedAPIs": [EXPORTED]}
        answer = await server.ask("PATCH", path(made, status=True), {"status": status}, kind=MERGE)
        assert answer.status == 200, answer.message
        assert answer.body["status"] == status


# The reference to the Secret is immutable.

MOVED = {
    "name": {"name": "another"},
    "namespace": {"namespace": "another"},
    "key": {"key": "another"},
    "name-gone": {"name": None},
    "all-gone": None,
}


@pytest.mark.parametrize("case", MOVED)
async def test_the_secret_reference_stays(server: Server, case: str) -> None:
    made = await create(server, connection())
    patch = {"spec": {"kubeconfigSecretRef": MOVED[case]}}
    answer = await server.ask("PATCH", path(made), patch, kind=MERGE)
    assert answer.status == 422
    assert "spec.kubeconfigSecretRef" in answer.message
    if case in ("name", "namespace", "key"):
        assert "kubeconfigSecretRef is immutable" in answer.message


async def test_the_secret_reference_may_be_repeated(server: Server) -> None:
    """With and without the default key, which is the same; and the rest of the spec is free."""
    given = connection()
    await create(server, given)
    keys: list[Object] = [{}, {"key": "kubeconfig"}]
    for key in keys:
        patch = {
            "spec": {
                "kubeconfigSecretRef": given["spec"]["kubeconfigSecretRef"] | key,
                "schema": {"source": "CRD", "pullPolicy": "None", "updatePolicy": "Once"},
                "autoBind": True,
            }
        }
        answer = await server.ask("PATCH", path(given), patch, kind=MERGE)
        assert answer.status == 200, answer.message
        assert answer.body["spec"]["schema"]["source"] == "CRD"


# The identities are pinned: every way of losing one is refused.

PINNED = {"remoteClusterUID": "provider-1", "localClusterUID": "consumer-1"}


class Loss(NamedTuple):
    """A request to status after which one identity, or both, would differ."""

    method: str
    kind: str
    body: Any  # of PATCH; of PUT: what stands for status, where there is one


LOSSES: dict[str, Loss] = {
    "remote-changed": Loss("PATCH", MERGE, {"status": {"remoteClusterUID": "provider-2"}}),
    "local-changed": Loss("PATCH", MERGE, {"status": {"localClusterUID": "consumer-2"}}),
    "remote-emptied": Loss("PATCH", MERGE, {"status": {"remoteClusterUID": ""}}),
    "remote-removed": Loss("PATCH", MERGE, {"status": {"remoteClusterUID": None}}),
    "local-removed": Loss("PATCH", MERGE, {"status": {"localClusterUID": None}}),
    "status-removed": Loss("PATCH", MERGE, {"status": None}),
    "remote-removed-json": Loss(
        "PATCH", JSON, [{"op": "remove", "path": "/status/remoteClusterUID"}]
    ),
    "remote-null-json": Loss(
        "PATCH", JSON, [{"op": "replace", "path": "/status/remoteClusterUID", "value": None}]
    ),
    "status-removed-json": Loss("PATCH", JSON, [{"op": "remove", "path": "/status"}]),
    "status-null-json": Loss("PATCH", JSON, [{"op": "replace", "path": "/status", "value": None}]),
    "put-remote-changed": Loss("PUT", "", [PINNED | {"remoteClusterUID": "provider-2"}]),
    "put-remote-null": Loss("PUT", "", [PINNED | {"remoteClusterUID": None}]),
    "put-without-remote": Loss("PUT", "", [without(PINNED, "remoteClusterUID")]),
    "put-without-local": Loss("PUT", "", [without(PINNED, "localClusterUID")]),
    "put-empty-status": Loss("PUT", "", [{}]),
    "put-null-status": Loss("PUT", "", [None]),
    "put-without-status": Loss("PUT", "", []),
    "put-status-no-object": Loss("PUT", "", ["gone"]),
}


async def pinned(server: Server) -> Object:
    """A Connection with both identities recorded."""
    made = await create(server, connection())
    answer = await server.ask("PATCH", path(made, status=True), {"status": PINNED}, kind=MERGE)
    assert answer.status == 200, answer.message
    return answer.body


async def identities(server: Server, thing: Object) -> Object:
    found = await server.ask("GET", path(thing))
    status = found.body.get("status", {})
    return {field: status[field] for field in PINNED if field in status}


@pytest.mark.parametrize("case", LOSSES)
async def test_an_identity_stays(server: Server, case: str) -> None:
    loss = LOSSES[case]
    made = await pinned(server)
    if loss.method == "PUT":
        body = without(made, "status")
        if loss.body:
            body["status"] = loss.body[0]
        answer = await server.ask("PUT", path(made, status=True), body)
    else:
        answer = await server.ask("PATCH", path(made, status=True), loss.body, kind=loss.kind)
    assert answer.status == 422, answer
    assert "status" in answer.message
    assert await identities(server, made) == PINNED


async def test_an_identity_stays_when_its_manager_applies_without_it(server: Server) -> None:
    made = await create(server, connection())

    async def apply(status: Object) -> Answer:
        body = {key: made[key] for key in ("apiVersion", "kind")}
        body |= {"metadata": {"name": made["metadata"]["name"]}, "status": status}
        return await server.ask(
            "PATCH",
            path(made, status=True),
            body,
            kind=APPLY,
            query={"fieldManager": "test", "force": "true"},
        )

    first = await apply(PINNED)
    assert first.status == 200, first.message
    for rest in ({"activeSchemaSource": "CRD"}, {}, without(PINNED, "localClusterUID")):
        answer = await apply(rest)
        # Where nothing is left to the manager, the server makes status null, which no object is.
        assert answer.status == 422, answer
        assert "status" in answer.message
    assert await identities(server, made) == PINNED


async def test_the_two_identities_are_pinned_one_by_one(server: Server) -> None:
    made = await create(server, connection())
    statuses: list[Object] = [
        {"activeSchemaSource": "CRD"},
        {"remoteClusterUID": "provider-1"},
        {"conditions": [condition()]},
        {"localClusterUID": "consumer-1"},
        PINNED,
        {"conditions": [], "activeSchemaSource": None},
    ]
    for status in statuses:
        answer = await server.ask("PATCH", path(made, status=True), {"status": status}, kind=MERGE)
        assert answer.status == 200, answer.message
    assert await identities(server, made) == PINNED


async def test_the_other_ways_of_writing_leave_the_identities_alone(server: Server) -> None:
    made = await pinned(server)
    for body in (
        made | {"status": {"remoteClusterUID": "provider-2"}},
        without(made, "status"),
    ):
        body["metadata"].pop("resourceVersion", None)
        found = await server.ask("GET", path(made))
        body["metadata"]["resourceVersion"] = found.body["metadata"]["resourceVersion"]
        answer = await server.ask("PUT", path(made), body)
        assert answer.status == 200, answer.message
        assert await identities(server, made) == PINNED


async def test_a_status_can_be_removed_while_nothing_is_pinned(server: Server) -> None:
    made = await create(server, connection())
    status = {"status": {"activeSchemaSource": "CRD"}}
    for body in (status, {"status": None}):
        answer = await server.ask("PATCH", path(made, status=True), body, kind=MERGE)
        assert answer.status == 200, answer.message


async def test_a_status_given_at_creation_is_not_taken(server: Server) -> None:
    made = await create(server, connection() | {"status": PINNED})
    assert "status" not in made


async def test_a_pinned_connection_can_be_finalized_and_deleted(server: Server) -> None:
    made = await pinned(server)
    hold = {"metadata": {"finalizers": [f"{words.GROUP}/cleanup"]}}
    assert (await server.ask("PATCH", path(made), hold, kind=MERGE)).status == 200
    assert (await server.ask("DELETE", path(made))).status == 200
    status = {"status": {"conditions": [condition(status="False")]}}
    assert (await server.ask("PATCH", path(made, status=True), status, kind=MERGE)).status == 200
    release = {"metadata": {"finalizers": None}}
    assert (await server.ask("PATCH", path(made), release, kind=MERGE)).status == 200
    assert (await server.ask("GET", path(made))).status == 404


# What people see.


async def test_discovery_names_the_category_and_the_short_names(server: Server) -> None:
    answer = await server.ask("GET", ROOT)
    found = {each["name"]: each for each in answer.body["resources"]}
    assert set(found) == {name + part for name in definitions() for part in ("", "/status")}
    for name, crd in definitions().items():
        assert found[name]["categories"] == ["kbind"]
        assert found[name]["shortNames"] == crd["spec"]["names"]["shortNames"]
        assert found[name]["namespaced"] is (name == "bindings")


async def columns(server: Server, thing: Object) -> dict[str, tuple[int, Any]]:
    """The priority and the cell of each printed column."""
    answer = await server.ask("GET", path(thing), accept=TABLE)
    heads, cells = answer.body["columnDefinitions"], answer.body["rows"][0]["cells"]
    return {head["name"]: (head["priority"], cell) for head, cell in zip(heads, cells, strict=True)}


async def test_a_connection_prints_its_state(server: Server) -> None:
    made = await pinned(server)
    other = condition(type="Connected", status="Unknown", reason="Pending")
    ready = condition(status="False", reason="SecretNotFound")
    status = {"status": {"conditions": [other, ready], "activeSchemaSource": "CRD"}}
    await server.ask("PATCH", path(made, status=True), status, kind=MERGE)
    printed = await columns(server, made)
    assert list(printed) == ["Name", "Ready", "Secret", "Reason", "Source", "Provider", "Age"]
    assert printed["Ready"] == (0, "False")
    assert printed["Secret"] == (0, "provider-kubeconfig")
    assert printed["Reason"] == (1, "SecretNotFound")
    assert printed["Source"] == (1, "CRD")
    assert printed["Provider"] == (1, "provider-1")
    assert printed["Age"][0] == 0


@pytest.mark.parametrize("kind", ["ClusterBinding", "Binding"])
async def test_a_binding_prints_its_state(server: Server, kind: str) -> None:
    made = await create(server, binding(kind))
    conditions = [condition(), condition(type="Conflicts", status="False")]
    status = {"status": {"conditions": conditions}}
    await server.ask("PATCH", path(made, status=True), status, kind=MERGE)
    printed = await columns(server, made)
    assert list(printed) == ["Name", "Connection", "Ready", "Reason", "Conflicts", "Policy", "Age"]
    assert printed["Connection"] == (0, "provider")
    assert printed["Ready"] == (0, "True")
    assert printed["Reason"] == (1, "AsExpected")
    assert printed["Conflicts"] == (1, "False")
    assert printed["Policy"] == (1, "Fail")
    assert printed["Age"][0] == 0
