"""CRDs and objects from the field are accepted whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbind.cluster.transport import Request
from kbind.testing.memory import MemoryCluster
from kbind.testing.memory.yaml import load_yaml_all

SHARED = Path(__file__).resolve().parents[3] / "shared"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

pytestmark = pytest.mark.skipif(
    not (SHARED / "crds").is_dir(), reason="the collection of CRDs from the field is not here"
)


def documents(folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in sorted((SHARED / folder).glob("*.yaml")) if SHARED.is_dir() else ():
        found += [document for document in load_yaml_all(file.read_text()) if document]
    return found


async def post(cluster: MemoryCluster, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    request = Request("POST", path, {}, {"user-agent": "field"}, json.dumps(body).encode())
    reply = await cluster.transport().send(request, timeout=5)
    return reply.status, json.loads(reply.body)


async def test_crds_and_samples_are_accepted() -> None:
    cluster = MemoryCluster("field")
    paths: dict[tuple[str, str], tuple[str, str]] = {}
    for crd in documents("crds"):
        status, answer = await post(cluster, CRDS, crd)
        assert status == 201, answer["message"]
        spec = crd["spec"]
        for version in spec["versions"]:
            served = f"{spec['group']}/{version['name']}"
            paths[served, spec["names"]["kind"]] = (spec["names"]["plural"], spec["scope"])
    accepted = 0
    for sample in documents("samples"):
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
