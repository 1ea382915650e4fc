"""The steps that rules may name: each is at most one call to one cluster.

A step says *what*; ``kbind.calls`` turns it with a situation into the one call (or into nothing,
where that call would change nothing), and ``kbind.perform`` sends it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Side(StrEnum):
    """Which cluster a call goes to."""

    CONSUMER = "consumer"
    PROVIDER = "provider"


class Step(StrEnum):
    """One word a write; the comment is what ``kbind rules show`` prints about it."""

    # instances
    TELL = "tell"
    HOLD = "hold"
    RELEASE = "release"
    NAMESPACE = "namespace"
    CREATE = "create"
    ADOPT = "adopt"
    RENEW = "renew"
    DELIVER = "deliver"
    MIRROR = "mirror"
    DELETE = "delete"
    WARN = "warn"
    MARK = "mark"
    UNSYNC = "unsync"
    RESOLVED = "resolved"
    UNMARK = "unmark"
    HELD = "held"
    CLEAR = "clear"
    WAITING = "waiting"
    # schemas
    INSTALL = "install"
    UPDATE = "update"
    STAMP = "stamp"
    # what a Connection binds by itself
    BIND = "bind"
    REBIND = "rebind"
    UNBIND = "unbind"
    # unwinding
    LEFT = "left"
    BRAKED = "braked"
    REMOVE = "remove"
    KEEP = "keep"
    KEEP_SECRET = "keep-secret"
    FREE = "free"
    FREE_SECRET = "free-secret"


MEANING: Final[dict[Step, str]] = {
    Step.TELL: "Warning Event on the instance: what the last pass failed with, once",
    Step.HOLD: "patch of the instance's finalizers: add ours",
    Step.RELEASE: "patch of the instance's finalizers: remove ours",
    Step.NAMESPACE: "create the copy's namespace on the provider, where it was found missing",
    Step.CREATE: "apply on the provider, on the condition that nothing is there",
    Step.ADOPT: "apply on the provider, on the object that is taken over (uid and version)",
    Step.RENEW: "patch of our entry in the copy's managedFields, where its version is gone",
    Step.DELIVER: "apply on the provider, on the copy that was read (uid)",
    Step.MIRROR: "patch of the instance's status",
    Step.DELETE: "delete of the copy that was read (uid)",
    Step.WARN: "Warning Event on the instance: the refusal, once",
    Step.MARK: "patch of the instance's conflict annotation: set",
    Step.UNSYNC: "patch of the instance's status: Synced=False and why, where the schema keeps it",
    Step.RESOLVED: "Event on the instance: the refusal is over",
    Step.UNMARK: "patch of the instance's conflict annotation: remove",
    Step.HELD: "Event on the instance: whose finalizers hold the copy",
    Step.CLEAR: "patch of the instance's status: take our Synced=False away",
    Step.WAITING: "Event on the instance, where its deletion waits for us: what is paused, once",
    Step.INSTALL: "create the CRD on the consumer, stamped with our markers",
    Step.UPDATE: "replace the spec of the CRD on the consumer (uid and version)",
    Step.STAMP: "patch of the consumer CRD's markers, nothing else",
    Step.BIND: "create the Connection's ClusterBinding, listing every exported API",
    Step.REBIND: "patch of that ClusterBinding's spec: its Connection and its list of APIs (uid)",
    Step.UNBIND: "delete of that ClusterBinding (uid)",
    Step.LEFT: "Warning Event on the binding: what may remain on the provider",
    Step.BRAKED: "Warning Event on the Connection: what is too much to be deleted unasked",
    Step.REMOVE: "delete of the CRD on the consumer, and so of its instances (uid)",
    Step.KEEP: "patch of the finalizers of the binding or Connection: add ours",
    Step.KEEP_SECRET: "patch of the finalizers of the Connection's Secret: add ours",
    Step.FREE: "patch of the finalizers of the binding or Connection: remove ours",
    Step.FREE_SECRET: "patch of the finalizers of the Connection's Secret: remove ours",
}

BEST_EFFORT: Final = frozenset(
    {
        Step.TELL,
        Step.WARN,
        Step.UNSYNC,
        Step.RESOLVED,
        Step.HELD,
        Step.WAITING,
        Step.RENEW,
        Step.CLEAR,
    }
)
"""Steps whose failure never stops the steps after them: traces, which are not effects; and renew,
without which deliver fails as it did before."""


class Recheck(StrEnum):
    """When a key is looked at again although nothing reported a change."""

    ON_EVENT = "on-event"
    AT_THE_PASS = "at-the-pass"  # after 30 s
