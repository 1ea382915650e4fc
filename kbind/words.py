"""Every name that kbind shares with clusters and people, each spelled once.

Labels, annotations, finalizers, field managers, condition types, reasons and periods of the
API contract. Code, core CRDs, tests and docs take them from here; nothing is decided here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

GROUP: Final = "core.kbind.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

# Labels.
EXPORTED: Final = f"{GROUP}/exported"  # "true" on a provider's CRD: offered
MANAGED: Final = f"{GROUP}/managed"  # "true" on copies, pulled CRDs, Leases
CONSUMER: Final = (
    f"{GROUP}/consumer"  # on copies: the consumer's cluster UID, what our watch asks for
)
TRUE: Final = "true"

# Annotations.
CONNECTION: Final = f"{GROUP}/connection"  # on pulled CRDs, Leases: the Connection they are of
CLUSTER_UID: Final = f"{GROUP}/consumer-cluster-uid"  # on copies: marker one; on Leases
OBJECT_UID: Final = f"{GROUP}/consumer-object-uid"  # on copies: marker two
CONFLICT: Final = f"{GROUP}/conflict"  # on instances: a standing refusal
DELETION_POLICY: Final = f"{GROUP}/deletion-policy"  # on instances: "Orphan" keeps the copy
ORPHAN: Final = "Orphan"
CONFIRM: Final = f"{GROUP}/confirm-deletion"  # on Connections: "true" lets a brake go
PAUSED: Final = f"{GROUP}/paused"  # "true" on Connections, bindings, instances: no writes
API_APPROVED: Final = "api-approved.kubernetes.io"  # Kubernetes demands it of protected groups

# Finalizers.
SYNCER: Final = f"{GROUP}/syncer"  # on instances
CLEANUP: Final = f"{GROUP}/cleanup"  # on bindings, Connections, and their Secrets

# Field managers.
MANAGER: Final = "kbind-konnector"

# The heartbeat's Lease: where it stands when the kubeconfig's context names no namespace, and for
# how many seconds it counts.
HEARTBEAT_NAMESPACE: Final = "kbind"
LEASE_DURATION: Final = 60

# Where a kubeconfig stands in its Secret when the Connection names no key.
DEFAULT_KEY: Final = "kubeconfig"


class Condition(StrEnum):
    """Types of conditions on kbind's own kinds, and ``Synced`` on instances."""

    SECRET_VALID = "SecretValid"
    CONNECTED = "Connected"
    PERMISSION_DENIED = "PermissionDenied"
    SCHEMA_IN_SYNC = "SchemaInSync"
    READY = "Ready"
    SYNCED = "Synced"
    CONFLICTS = "Conflicts"


class Reason(StrEnum):
    """Reasons of conditions and Events."""

    AS_EXPECTED = "AsExpected"
    PENDING = "Pending"
    SECRET_NOT_FOUND = "SecretNotFound"
    SECRET_INVALID = "SecretInvalid"
    UNREACHABLE = "Unreachable"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    SAME_CLUSTER = "SameCluster"
    CLUSTER_IDENTITY_CHANGED = "ClusterIdentityChanged"
    CONNECTION_NOT_FOUND = "ConnectionNotFound"
    CONNECTION_NOT_READY = "ConnectionNotReady"
    UNKNOWN_SCHEMA_SOURCE = "UnknownSchemaSource"
    SCHEMA_SOURCE_FAILED = "SchemaSourceFailed"
    API_NOT_EXPORTED = "APINotExported"
    CLUSTER_SCOPED = "ClusterScoped"
    SCHEMA_MISSING = "SchemaMissing"
    SCHEMA_REFUSED = "SchemaRefused"
    SCHEMA_NOT_ESTABLISHED = "SchemaNotEstablished"
    PINNED = "Pinned"
    UNMANAGED = "Unmanaged"
    MANAGED_ELSEWHERE = "ManagedElsewhere"
    SCHEMA_TERMINATING = "SchemaTerminating"
    FOREIGN_BINDING = "ForeignBinding"
    BINDING_RETAINED = "BindingRetained"
    AUTO_BIND_FAILED = "AutoBindFailed"
    SPEC_INVALID = "SpecInvalid"
    INTERNAL_ERROR = "InternalError"
    SYNC_FAILED = "SyncFailed"
    FOREIGN_OBJECT_EXISTS = "ForeignObjectExists"
    OWNED_BY_ANOTHER = "OwnedByAnother"
    CONFLICT_RESOLVED = "ConflictResolved"
    AWAITING_FINALIZERS = "AwaitingFinalizers"
    UNBINDING = "Unbinding"
    DRAINING_BINDINGS = "DrainingBindings"
    COPIES_LEFT = "CopiesLeft"
    BRAKED = "Braked"
    PAUSED = "Paused"


# Periods, in seconds.
PERIOD: Final = 30.0  # discovery, binding reconciliation, recheck of refusals, heartbeat
BACKSTOP: Final = 600.0  # a pass over the caches, without one request
