"""The API groups that come with Kubernetes, and kbind's own: nobody's exports."""

from __future__ import annotations

from typing import Final

from kbind import words

# Of k8s.io/kubernetes 1.37: the storage providers of pkg/controlplane/instance.go, the groups of
# kube-aggregator and apiextensions-apiserver, and those of k8s.io/metrics, which metrics servers
# are registered for. The group without a name is not below /apis. Names, not a suffix:
# gateway.networking.k8s.io and its like are CRDs of the community.
RESERVED: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "custom.metrics.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",  # served until 1.21, and part of k8s.io/api to this day
        "external.metrics.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "lifecycle.k8s.io",
        "metrics.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
        words.GROUP,
        "catalog.kbind.io",  # what a provider describes its offers with
        "iam.kbind.io",  # and the credentials that it gives out
    }
)
