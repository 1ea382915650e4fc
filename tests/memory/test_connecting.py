"""Clusters in this process, reached by the kubeconfigs that they give out."""

from __future__ import annotations

import orjson
import pytest

from kbind.cluster.kubeconfig import Credentials, parse
from kbind.errors import Unauthorized, Unreachable
from kbind.testing.handles import Handle, new
from kbind.testing.memory import Connector, MemoryCluster

SYSTEM = new("v1", "Namespace", "kube-system")


def credentials(cluster: MemoryCluster, user: str = "admin") -> Credentials:
    return parse(orjson.dumps(cluster.kubeconfig(user)))


async def test_each_kubeconfig_leads_to_its_cluster_as_its_user() -> None:
    here, there = MemoryCluster("consumer"), MemoryCluster("provider")
    connect = Connector(here, there)
    handles = [
        await Handle.open(here, connect=connect),
        await Handle.open(there, "konnector", connect=connect),
    ]
    uids = {(await handle.get(SYSTEM))["metadata"]["uid"] for handle in handles}
    assert len(uids) == 2
    assert here.audit("admin")
    assert not here.audit("konnector")
    assert there.audit("konnector")
    assert not there.audit("admin")


async def test_a_revoked_token_is_refused_at_once() -> None:
    cluster = MemoryCluster("provider")
    handle = await Handle.open(cluster, connect=Connector(cluster))
    await handle.get(SYSTEM)
    cluster.revoke("admin")
    with pytest.raises(Unauthorized):
        await handle.get(SYSTEM)
    again = await Handle.open(cluster, connect=Connector(cluster))
    await again.get(SYSTEM)


async def test_a_cluster_that_is_not_among_them_is_not_there() -> None:
    stranger = MemoryCluster("stranger")
    handle = await Handle.open(stranger, connect=Connector(MemoryCluster("provider")))
    with pytest.raises(Unreachable, match=r"no such host: stranger\.memory"):
        await handle.get(SYSTEM)
