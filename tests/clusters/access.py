"""What the user ``limited`` may do on a cluster: discovery, and what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
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
            _allow(cluster.cluster, rule)
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


@asynccontextmanager
async def granted(cluster: Handle, manifests: Sequence[Object]) -> AsyncIterator[None]:
    """Within the block the user may do what *manifests* (roles and their bindings) grant to whom
    they name, and nothing else. In memory names of objects count for nothing."""
    await limit(cluster)
    if isinstance(cluster.cluster, MemoryCluster):
        for obj in manifests:
            for rule in obj.get("rules", ()):
                _allow(cluster.cluster, rule, obj["metadata"].get("namespace", "*"))
        yield
        return
    subjects = [{"apiGroup": GROUP, "kind": "User", "name": USER}]
    made = [
        await cluster.create(obj | ({"subjects": subjects} if "subjects" in obj else {}))
        for obj in manifests
    ]
    try:
        yield
    finally:
        for obj in made:
            await cluster.delete(obj)


def _allow(cluster: MemoryCluster, rule: Object, namespace: str = "*") -> None:
    for group, resource, verb in product(*(rule[part] for part in PARTS)):
        name, *below = resource.split("/")
        named = "/".join((f"{name}.{group}" if group.strip("*") else name, *below))
        cluster.allow(USER, verb, named, namespace)
