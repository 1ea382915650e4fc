"""What /openapi/v3 costs and when it changes; what it says is compared by the replay."""

from __future__ import annotations

import json
from typing import Any

from kbind.testing.memory import MemoryCluster, openapi
from tests.memory.conftest import Caller
from tests.memory.replay.player import CRDS, MERGE_PATCH, WIDGET_SCHEMA, crd

PATH = "apis/example.org/v1"
WIDGETS_CRD = f"{CRDS}/widgets.example.org"


async def url(call: Caller, path: str = PATH) -> str | None:
    entry = (await call("GET", openapi.ROOT))["paths"].get(path)
    return entry and str(entry["serverRelativeURL"])


async def patch(call: Caller, **changes: Any) -> None:
    reply = await call.reply("PATCH", WIDGETS_CRD, changes, MERGE_PATCH)
    assert reply.status == 200, reply.body


async def test_the_hash_changes_with_the_document_alone(call: Caller) -> None:
    first = await url(call)
    (version,) = crd("example.org", "widgets", "Widget", WIDGET_SCHEMA)["spec"]["versions"]
    await patch(call, metadata={"labels": {"a": "b"}})
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    await patch(call, spec={"versions": [{**version, "additionalPrinterColumns": columns}]})
    assert await url(call) == first
    schema = {**WIDGET_SCHEMA, "description": "Otherwise."}
    await patch(call, spec={"versions": [{**version, "schema": {"openAPIV3Schema": schema}}]})
    assert await url(call) != first
    await patch(call, spec={"versions": [version]})
    assert await url(call) == first


async def test_a_document_is_made_once(cluster: MemoryCluster, call: Caller) -> None:
    first = openapi.find(cluster.server.catalog, PATH)
    assert first is not None
    await call("POST", CRDS, crd("other.example.org", "others", "Other", WIDGET_SCHEMA))
    assert openapi.find(cluster.server.catalog, PATH) is first
    await call("POST", CRDS, crd("example.org", "gadgets", "Gadget", WIDGET_SCHEMA))
    both = openapi.find(cluster.server.catalog, PATH)
    assert both is not None
    names = json.loads(both.body)["components"]["schemas"]
    assert {"org.example.v1.Gadget", "org.example.v1.Widget"} <= names.keys()


async def test_a_built_in_kind_is_published_as_far_as_it_is_known(call: Caller) -> None:
    document = await call("GET", f"{openapi.ROOT}/api/v1")
    secret = document["components"]["schemas"]["io.k8s.api.core.v1.Secret"]
    assert secret["properties"]["data"]["additionalProperties"]["format"] == "byte"
    assert secret["x-kubernetes-group-version-kind"] == [
        {"group": "", "version": "v1", "kind": "Secret"}
    ]
    assert await url(call, "version") is not None


async def test_what_is_deleted_is_published_no_more(call: Caller) -> None:
    await call("DELETE", WIDGETS_CRD)
    assert await url(call) is None
    assert (await call.reply("GET", f"{openapi.ROOT}/{PATH}")).status == 404
