"""CRDs and objects from the field are accepted whole."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kbind.cluster.transport import Request, Transport
from kbind.testing.memory import MemoryCluster
from tests.memory.over_http import HttpTransport
from tests.memory.test_replay import real_kubeconfig
from tests.public_apis import needs_shared, shared

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

pytestmark = needs_shared


async def post(cluster: MemoryCluster, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    request = Request("POST", path, {}, {"user-agent": "field"}, json.dumps(body).encode())
    reply = await cluster.transport().send(request, timeout=5)
    return reply.status, json.loads(reply.body)


async def test_crds_and_samples_are_accepted() -> None:
    cluster = MemoryCluster("field")
    paths: dict[tuple[str, str], tuple[str, str]] = {}
    for crd in shared("crds"):
        status, answer = await post(cluster, CRDS, crd)
        assert status == 201, answer["message"]
        spec = crd["spec"]
        for version in spec["versions"]:
            served = f"{spec['group']}/{version['name']}"
            paths[served, spec["names"]["kind"]] = (spec["names"]["plural"], spec["scope"])
    accepted = 0
    for sample in shared("samples"):
        known = paths.get((sample["apiVersion"], sample["kind"]))
        if known is None:
            continue
        plural, scope = known
        root = f"/apis/{sample['apiVersion']}"
        sample["metadata"].pop("namespace", None)
        path = (
            f"{root}/namespaces/default/{plural}" if scope == "Namespaced" else f"{root}/{plural}"
        )
        status, answer = await post(cluster, path, sample)
        if status == 409 and "already exists" in answer["message"]:
            continue
        assert status == 201, answer["message"]
        for name in sample.keys() - {"metadata", "status"}:
            assert answer[name] is not None
        accepted += 1
    assert accepted


async def published(transport: Transport) -> dict[str, Any]:
    """The schemas of every group version of the CRDs, once all of them are published."""
    expected = set()
    for crd in shared("crds"):
        body = json.dumps(crd).encode()
        headers = {"content-type": "application/json"}
        reply = await transport.send(Request("POST", CRDS, {}, headers, body), timeout=20)
        assert reply.status == 201, reply.body
        group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
        served = [version for version in crd["spec"]["versions"] if version["served"]]
        expected |= {(f"apis/{group}/{version['name']}", kind) for version in served}
    for _ in range(100):
        schemas = {
            path: await components(transport, path) for path in {path for path, _ in expected}
        }
        if all(any(name.endswith(f".{kind}") for name in schemas[path]) for path, kind in expected):
            return schemas
        await asyncio.sleep(0.1)
    raise AssertionError("not all of the CRDs are published")


async def components(transport: Transport, path: str) -> dict[str, Any]:
    reply = await transport.send(Request("GET", f"/openapi/v3/{path}"), timeout=20)
    found: dict[str, Any] = {}
    if reply.status == 200:
        found = json.loads(reply.body)["components"]["schemas"]
    return found


def references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*(references(item) for item in schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*(references(item) for item in schema.values()))


async def test_what_is_published_of_them_refers_to_nothing_else() -> None:
    for schemas in (await published(MemoryCluster("field").transport())).values():
        known = {f"#/components/schemas/{name}" for name in schemas}
        assert references(schemas) <= known


@pytest.mark.real
async def test_they_are_published_as_a_real_server_publishes_them(
    binaries: Path, tmp_path: Path
) -> None:
    async with real_kubeconfig(binaries, tmp_path) as kubeconfig:
        transport = HttpTransport(kubeconfig)
        try:
            expected = await published(transport)
        finally:
            await transport.close()
    assert await published(MemoryCluster("field").transport()) == expected
