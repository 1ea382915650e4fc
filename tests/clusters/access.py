"""What the user ``limited`` may do on a cluster: discovery, and what a test says."""

from __future__ import annotations

from itertools import product

from kbind.errors import Conflict
from kbind.testing.handles import Handle, Object, new
from kbind.testing.memory import MemoryCluster

USER = "limited"
GROUP = "rbac.authorization.k8s.io"

PARTS = ("apiGroups", "resources", "verbs")
EVERYTHING: Object = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def may(verbs: str, group: str, resources: str) -> Object:
    """A rule; verbs and resources: words apart by spaces."""
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


IDENTITY = may("get", "", "namespaces")
CRDS = may("get list watch", "apiextensions.k8s.io", "customresourcedefinitions")


async def limit(cluster: Handle, *rules: Object) -> None:
    """From here on the user may do this and nothing else."""
    if isinstance(cluster.cluster, MemoryCluster):
        cluster.cluster.deny(USER, "*", "*")
        for rule in rules:
            for group, resource, verb in product(*(rule[part] for part in PARTS)):
                name, *below = resource.split("/")
                named = "/".join((f"{name}.{group}" if group.strip("*") else name, *below))
                cluster.cluster.allow(USER, verb, named)
        return
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
