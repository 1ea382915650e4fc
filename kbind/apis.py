"""An API of a server, by the names its URLs are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote


class Key(NamedTuple):
    """Where an object stands within its API. namespace: "" for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> Key:
        """Of an object as servers give it."""
        metadata = obj["metadata"]
        return cls(metadata.get("namespace", ""), metadata["name"])


def qualified(group: str, plural: str) -> str:
    """``<plural>.<group>``, the plural alone in the core group ("")."""
    return f"{plural}.{group}" if group else plural


@dataclass(frozen=True, slots=True)
class Api:
    """One resource of one group and version. group: "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def name(self) -> str:
        """As CRDs are called, and as bindings list it."""
        return qualified(self.group, self.plural)

    @property
    def api_version(self) -> str:
        """As objects carry it in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, key: Key | None = None, subresource: str | None = None) -> str:
        """The object's URL path, or that of the whole collection across namespaces."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        if key is None:
            return f"{root}/{self.plural}"
        path = f"{self.collection(key.namespace)}/{quote(key.name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def collection(self, namespace: str) -> str:
        """The URL path to list in, or create in, one namespace ("" for cluster scope)."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{root}{middle}/{self.plural}"


NAMESPACES = Api("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = Api("", "v1", "secrets", "Secret", namespaced=True)
EVENTS = Api("", "v1", "events", "Event", namespaced=True)
LEASES = Api("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
CRDS = Api(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
CONNECTIONS = Api("core.kbind.io", "v1alpha1", "connections", "Connection", namespaced=False)
CLUSTER_BINDINGS = Api(
    "core.kbind.io", "v1alpha1", "clusterbindings", "ClusterBinding", namespaced=False
)
BINDINGS = Api("core.kbind.io", "v1alpha1", "bindings", "Binding", namespaced=True)
