"""Events about objects on the consumer. Pure: from what is said to the one call that says it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from kbind import words
from kbind.apis import EVENTS, Api


def event(
    api: Api,
    obj: Mapping[str, Any],
    now: str,
    *,
    kind: str,
    reason: str,
    message: str,
    cause: str = "",
) -> tuple[str, dict[str, Any]]:
    """The path and the body of one Event about *obj*, under a name computed from what it says, so
    that saying it again is a conflict of names and not a second Event. kind: Normal or Warning;
    cause: tells apart two occasions of the same words; now: RFC 3339."""
    metadata = obj["metadata"]
    text = f"{metadata['uid']}\n{reason}\n{message}\n{cause}"
    suffix = hashlib.sha256(text.encode()).hexdigest()[:16]
    namespace = metadata.get("namespace", "")
    # Events about cluster-scoped objects live in "default".
    home = namespace or "default"
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name'][:230].rstrip('.-')}.{suffix}",
            "namespace": home,
        },
        "involvedObject": {
            "apiVersion": api.api_version,
            "kind": api.kind,
            "name": metadata["name"],
            "namespace": namespace,
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "type": kind,
        "reason": reason,
        "message": message[:1024],
        "source": {"component": words.MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    return EVENTS.collection(home), body
