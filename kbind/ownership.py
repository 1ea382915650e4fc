"""Whose is a copy: the two markers, written and read.

Ownership is decided by both UID annotations together, never by a label or a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbind import words
from kbind.facts import Copy


def markers(cluster: str, instance: str) -> dict[str, dict[str, str]]:
    """The ``labels`` and ``annotations`` of a copy. cluster: the consumer cluster's UID;
    instance: the consumer instance's UID."""
    return {
        "labels": {words.MANAGED: words.TRUE, words.CONSUMER: cluster},
        "annotations": {words.CLUSTER_UID: cluster, words.OBJECT_UID: instance},
    }


def owner(copy: Mapping[str, Any] | None, cluster: str, instance: str) -> Copy:
    """Who the object under the copy's key belongs to; None means that nothing is there."""
    if copy is None:
        return Copy.ABSENT
    metadata = copy.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    of_cluster = annotations.get(words.CLUSTER_UID)
    of_instance = annotations.get(words.OBJECT_UID)
    if of_cluster is None and of_instance is None:
        return Copy.MARKERLESS
    if of_cluster is None or of_instance is None:
        return Copy.PARTIAL
    if of_cluster != cluster:
        return Copy.ANOTHER_CLUSTER
    if of_instance != instance:
        return Copy.ANOTHER_OBJECT
    return Copy.GOING if metadata.get("deletionTimestamp") else Copy.OURS


_REFUSALS = {
    Copy.MARKERLESS: "an object of that name exists on the provider and nobody marked it as a "
    "copy; delete it there, or set conflictPolicy: Adopt on the binding to take it over",
    Copy.PARTIAL: "the object of that name on the provider carries one of the two ownership "
    "markers only, so somebody else's tool may own it",
    Copy.ANOTHER_OBJECT: "the object of that name on the provider is the copy of another object "
    "of this same cluster (other UID): one restored from a backup, or the predecessor of "
    "this instance that was deleted with deletion-policy Orphan",
    Copy.ANOTHER_CLUSTER: "the object of that name on the provider belongs to another consumer "
    "cluster",
}


def refusal(copy: Copy) -> str:
    """What a user is told about a copy that is not ours to write. Words that no bundled rule
    refuses are told as they are: an overlay may refuse more."""
    return _REFUSALS.get(copy) or f"the rules of this konnector refuse a copy that is {copy}"
