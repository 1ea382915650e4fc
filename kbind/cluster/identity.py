"""Which cluster a client talks to."""

from __future__ import annotations

from typing import Final

from kbind.cluster.client import Client
from kbind.errors import ServerFailed

KCP_GROUP: Final = "core.kcp.io"

_GROUPS: Final = "/apis"
_LOGICAL_CLUSTER: Final = f"/apis/{KCP_GROUP}/v1alpha1/logicalclusters/cluster"
_KUBE_SYSTEM: Final = "/api/v1/namespaces/kube-system"


async def identity(client: Client) -> str:
    """The cluster's UID. Raises what the reads raise; a Forbidden is not a sign of either kind of
    cluster."""
    return await uid_of(client, await identifier(client))


async def identifier(client: Client) -> str:
    """The path of what identifies the cluster: namespace ``kube-system``, or the LogicalCluster
    where discovery lists kcp's group (asking for it untold is answered 403 or 404 as RBAC will
    have it)."""
    groups = await client.read(_GROUPS)
    kcp = any(
        isinstance(group, dict) and group.get("name") == KCP_GROUP
        for group in groups.get("groups") or ()
    )
    return _LOGICAL_CLUSTER if kcp else _KUBE_SYSTEM


async def uid_of(client: Client, path: str) -> str:
    """Of what stands there."""
    metadata = (await client.read(path)).get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if not isinstance(uid, str) or not uid:
        raise ServerFailed(
            f"{client.side}: get {path}: answered with an object without a uid; "
            "is this a Kubernetes API server?",
            side=client.side,
            verb="get",
            path=path,
        )
    return uid
