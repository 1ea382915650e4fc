"""What one pass over one instance knows: frozen, and all that its calls are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kbind import words
from kbind.apis import Api, Key
from kbind.facts import Copy
from kbind.ownership import owner
from kbind.rulebook import Copying
from kbind.steps import Side


@dataclass(frozen=True, slots=True)
class Scope:
    """What all instances of one API through one Connection have in common.

    cluster: the consumer cluster's UID. status_subresource: whether the API has one.
    keeps_synced: whether the consumer's schema keeps a condition in status.conditions.
    fits: whether the provider has it in the same scope, Namespaced or Cluster; where not, no
    object can stand there under a key of this side.
    """

    api: Api
    connection: str
    cluster: str
    copying: Copying
    status_subresource: bool
    keeps_synced: bool
    fits: bool


@dataclass(frozen=True, slots=True)
class Situation:
    """One instance, its copy, and what is remembered of earlier passes.

    copy: None where nothing is there, or where it was not looked at. reason: of the refusal
    that was decided. trouble: what the last pass failed with and nobody was told yet.
    paused: what is paused, as a user knows it.
    homeless: the copy's namespace was found missing. outdated: our entry in the copy's
    managedFields was found to name a version that is gone. now: RFC 3339, for conditions and
    Events.
    """

    scope: Scope
    key: Key
    instance: Mapping[str, Any]
    now: str
    copy: Mapping[str, Any] | None = None
    owner: Copy = Copy.ABSENT
    reason: str | None = None
    trouble: str | None = None
    paused: str | None = None
    homeless: bool = False
    outdated: bool = False

    @property
    def uid(self) -> str:
        """The instance's UID."""
        uid: str = self.instance["metadata"]["uid"]
        return uid

    @property
    def held(self) -> bool:
        """Whether our finalizer is on the instance."""
        return words.SYNCER in (self.instance["metadata"].get("finalizers") or ())

    @property
    def refused(self) -> str | None:
        """The refusal that stands on the instance, as it was written there."""
        value: str | None = (self.instance["metadata"].get("annotations") or {}).get(words.CONFLICT)
        return value

    def object_on(self, side: Side) -> Mapping[str, Any] | None:
        """The instance or its copy."""
        return self.instance if side is Side.CONSUMER else self.copy

    def after(self, side: Side, answer: Mapping[str, Any]) -> Situation:
        """The situation once a call on *side* answered with the object as it stands now."""
        if side is Side.CONSUMER:
            return replace(self, instance=answer)
        return replace(self, copy=answer, owner=owner(answer, self.scope.cluster, self.uid))
