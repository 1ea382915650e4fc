"""The heartbeat of a Connection: a Lease on the provider, and what is told of two clocks.

Pure. The Lease says that this consumer's konnector still uses the provider; kbind draws no
conclusion from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from kbind import words
from kbind.apis import LEASES, Key

NAME_LIMIT: Final = 253
"""Characters of an object's name."""

SKEW: Final = 5.0
"""Seconds that two clocks may differ by without a word."""

_MICRO_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


def key(connection: str, cluster: str, namespace: str | None) -> Key:
    """Where the Lease stands. cluster: the consumer's UID; namespace: of the kubeconfig's context.

    A name that would be too long is cut, and a hash of all that it stands for put in.
    """
    end = f"-{cluster[:10]}"
    name = f"{connection}{end}"
    if len(name) > NAME_LIMIT:
        end = f"-{hashlib.sha256(f'{connection} {cluster}'.encode()).hexdigest()[:16]}{end}"
        name = connection[: NAME_LIMIT - len(end)].rstrip("-.") + end
    return Key(namespace or words.HEARTBEAT_NAMESPACE, name)


def lease(at: Key, connection: str, cluster: str, now: datetime) -> dict[str, Any]:
    """A new Lease. now: in UTC."""
    time = now.strftime(_MICRO_TIME)
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {
            "name": at.name,
            "namespace": at.namespace,
            "labels": {words.MANAGED: words.TRUE},
            "annotations": {words.CLUSTER_UID: cluster, words.CONNECTION: connection},
        },
        "spec": {
            "holderIdentity": cluster,
            "leaseDurationSeconds": words.LEASE_DURATION,
            "acquireTime": time,
            "renewTime": time,
        },
    }


def renewed(standing: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """*standing* with everything that *wanted*, a new Lease, has, but for when it was acquired.
    What others added stays, and so does the version that it was read at."""
    metadata = dict(standing["metadata"])
    for part in ("labels", "annotations"):
        metadata[part] = (metadata.get(part) or {}) | wanted["metadata"][part]
    before = standing.get("spec") or {}
    spec = wanted["spec"] | {
        "acquireTime": before.get("acquireTime") or wanted["spec"]["renewTime"]
    }
    return {**standing, "metadata": metadata, "spec": before | spec}


def is_ours(standing: Mapping[str, Any], connection: str, cluster: str) -> bool:
    """Whether a Lease is the one that this Connection of this consumer keeps."""
    annotations = (standing.get("metadata") or {}).get("annotations") or {}
    return (
        (standing.get("spec") or {}).get("holderIdentity") == cluster
        and annotations.get(words.CLUSTER_UID) == cluster
        and annotations.get(words.CONNECTION) == connection
    )


def rest(standing: Mapping[str, Any], interval: float, now: datetime) -> float:
    """Seconds until a Lease is to be renewed, *interval* after it was last; 0 where nobody can
    say, or where it was renewed in what is the future here."""
    try:
        age = (now - _time(datetime.fromisoformat(standing["spec"]["renewTime"]))).total_seconds()
    except (KeyError, TypeError, ValueError):
        return 0.0
    return interval - age if 0 <= age < interval else 0.0


def skew(date: str, sent: datetime, received: datetime) -> float | None:
    """Seconds that a server's clock is ahead of ours (negative: behind) at the least.

    date: of its answer, by the second; sent, received: when that was asked for and came, by our
    clock. Where the time on the way may explain all of it, 0; None where *date* is no date.
    """
    try:
        begin = _time(parsedate_to_datetime(date))
    except (TypeError, ValueError):
        return None
    if begin > received:
        return (begin - received).total_seconds()
    return min((begin + timedelta(seconds=1) - sent).total_seconds(), 0.0)


def told_skew(told: int, measured: float) -> int:
    """The seconds to tell, after *told* (0: nothing). What was told stands until it is clearly
    wrong, so that the fractions that every measurement is off by change nothing."""
    if abs(measured) <= SKEW / 2:
        return 0
    if told and abs(measured - told) <= SKEW:
        return told
    return round(measured) if abs(measured) > SKEW else 0


def skew_note(told: int) -> str:
    """What a Connection says of it; "" for 0."""
    if not told:
        return ""
    where = "ahead of" if told > 0 else "behind"
    return f"the provider's clock is about {abs(told)} s {where} the konnector's"


def _time(time: datetime) -> datetime:
    """With its time zone, which is UTC where it names none."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)
