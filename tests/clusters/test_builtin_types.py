"""Kubernetes' own types, taken from a real API server's documents as if another server had them:
objects that the original takes are taken by the CRD that is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from kbind_sources.discovery import discover
from kbind_sources.synthesis import synthesize

from kbind.konnector.reader import Reader
from kbind.schema import consumer_crd
from kbind.testing.handles import Object, new
from tests.clusters.world import World

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.parametrize("kind", ["real"], indirect=True, scope="session"),
]

GROUP = "apps.example.org"


def container(**fields: Any) -> Object:
    return {"name": "one", "image": "an/image", **fields}


def deployment(**fields: Any) -> Object:
    """fields: of the Pods' spec."""
    labels = {"app": "one"}
    pods = {"containers": [container()]} | fields
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, "creationTimestamp": None}, "spec": pods},
    }
    return new("apps/v1", "Deployment", "one", "default", spec=spec)


TAKEN: dict[str, Object] = {
    "plain": {},
    "empty words": {
        "containers": [container(imagePullPolicy="")],
        "restartPolicy": "",
        "tolerations": [{"key": "a", "operator": ""}],
    },
    "quantities": {"containers": [container(resources={"limits": {"cpu": 0.5, "memory": "1Gi"}})]},
    "null": {"containers": [container(args=None, env=None)], "volumes": None},
}


async def test_what_a_server_takes_its_copy_takes(world: World) -> None:
    consumer = world.consumer
    reader = Reader(consumer.client)
    (given,) = (await discover(reader, "apps".__eq__)).apis["deployments.apps"]
    document = orjson.dumps(await reader.get("/openapi/v3/apis/apps/v1"))
    renamed = orjson.loads(document.replace(b'"group":"apps"', f'"group":"{GROUP}"'.encode()))
    made = consumer_crd(synthesize([replace(given, group=GROUP)], {"v1": renamed}), "any", None)
    assert made is not None
    await consumer.install_crd(made)

    for what, fields in TAKEN.items():
        original = deployment(**fields)
        copy = original | {"apiVersion": f"{GROUP}/v1"}
        for each in (original, copy):
            stored = await consumer.create(each)
            await consumer.delete(stored)
            assert stored["spec"]["template"]["spec"]["containers"], what
        await consumer.gone(copy)
