"""What the user ``limited`` may do on a cluster: discovery, and what a test says."""

from __future__ import annotations

from kbind.errors import Conflict
from kbind.testing.handles import Handle, Object, new

USER = "limited"
GROUP = "rbac.authorization.k8s.io"

EVERYTHING: Object = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def may(verbs: str, group: str, resources: str) -> Object:
    """A rule; verbs and resources: words apart by spaces."""
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


IDENTITY = may("get", "", "namespaces")
CRDS = may("get list watch", "apiextensions.k8s.io", "customresourcedefinitions")


async def limit(cluster: Handle, *rules: Object) -> None:
    """From here on the user may do this and nothing else."""
    role = new(f"{GROUP}/v1", "ClusterRole", USER, rules=list(rules))
    binding = new(
        f"{GROUP}/v1",
        "ClusterRoleBinding",
        USER,
        roleRef={"apiGroup": GROUP, "kind": "ClusterRole", "name": USER},
        subjects=[{"apiGroup": GROUP, "kind": "User", "name": USER}],
    )
    for obj in (role, binding):
        try:
            await cluster.create(obj)
        except Conflict:
            await cluster.merge(obj, obj)
