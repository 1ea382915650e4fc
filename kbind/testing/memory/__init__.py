"""A Kubernetes API server in memory: a test double, and it says so.

It serves discovery, OpenAPI, a few built-in kinds and whatever CRDs define, with defaulting,
pruning, validation, the status subresource, server-side apply, preconditions, finalizers, paging
and watches, in the words of the real server; the replay test holds it to that. ``CANNOT`` lists
what it does not do. What a cluster's controllers do for namespaces and CRDs that go happens at once
after the request that asks for it.
"""

from __future__ import annotations

from typing import Final

from kbind.testing.audit import Entry
from kbind.testing.memory.cluster import MemoryCluster
from kbind.testing.memory.connecting import Connector
from kbind.testing.memory.faults import Fault, Faults
from kbind.testing.memory.server import failure

CANNOT: Final[dict[str, str]] = {
    "cel": "x-kubernetes-validations are kept but never evaluated",
    "conversion-webhooks": "between versions nothing changes but apiVersion",
    "garbage-collection": "owner references are kept but nothing follows from them",
    "admission": "no webhooks, policies, quotas or service account token Secrets",
    "strategic-merge-patch": "answered with 415, for built-in kinds too",
    "openapi": "no /openapi/v2, and no paths in /openapi/v3; kubectl apply needs --validate=false",
    "openapi-builtin": "documents of built-in kinds hold what is served, without descriptions",
    "protobuf": "JSON and YAML are read, JSON is answered; kubectl create sends protobuf",
    "scale": "the scale subresource is listed, not served",
    "tables": "lists are never rendered as tables; kubectl prints names and ages by itself",
    "field-validation": "unknown fields are dropped, whatever fieldValidation asks for",
    "warnings": "no Warning headers",
    "selectable-fields": "custom resources are selected by name, namespace and labels only",
    "initial-events": "watches know no sendInitialEvents",
    "patterns": "of patterns that Go does not know only look-around is refused",
    "crd-words": "where the server shows structs of its own in refusing a CRD, JSON is shown",
    "crd-defaults": "refused where an integer or string is a fraction, or metadata has odd fields",
    "publication": "what follows from a CRD is published at once, and index and document agree",
    "rbac-objects": "Roles and bindings are not served; deny() and allow() stand for them",
}

__all__ = ["CANNOT", "Connector", "Entry", "Fault", "Faults", "MemoryCluster", "failure"]
