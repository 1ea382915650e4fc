"""One pass over one instance: observe, decide, perform. Reads in this order, top to bottom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kbind.apis import Key
from kbind.cluster.client import Client
from kbind.cover import Bound
from kbind.errors import ClusterError, Disengaged, Forbidden, Invalid, NotServed, ServerFailed
from kbind.facts import Copy, Cover, Duty, Life
from kbind.managed import Outdated, outdated
from kbind.observe import instance as observe
from kbind.perform import Batch, perform
from kbind.plan import Decision, Plan
from kbind.rulebook import Rulebook
from kbind.situation import Scope, Situation
from kbind.steps import Side, Step


@dataclass(slots=True)
class Memory:
    """What is remembered of an instance between passes; lost at a restart without harm.

    failures: passes that failed in a row. doubt: the provider's watch may not tell the truth
    about the copy. gone: a deletion was answered with the proof that the copy is no more.
    homeless: its namespace was found missing. outdated: our entry in its managedFields was found
    to name a version that is gone. trouble: what failed last, told: what was said of it.
    settled: see ``kbind.perform``. retry_at: loop time at which a refused spec is sent
    again though nothing changed, 0 for none.
    """

    uid: str
    failures: int = 0
    doubt: bool = False
    gone: bool = False
    homeless: bool = False
    outdated: bool = False
    trouble: str | None = None
    told: str | None = None
    settled: dict[Step, bytes] = field(default_factory=dict)
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What one pass saw, decided and did. sight: the copy, where it was looked at. spared: whether
    the copy would have been deleted although nobody asked for that."""

    scope: Scope
    key: Key
    plan: Plan
    batch: Batch
    sight: observe.Sight | None
    spared: bool = False


@dataclass(frozen=True, slots=True)
class Passes:
    """What every pass over one API needs."""

    scope: Scope
    book: Rulebook
    clients: Mapping[Side, Client]

    async def run(
        self,
        key: Key,
        instance: Mapping[str, Any],
        copy: bytes | None,
        bound: Bound | None,
        memory: Memory,
        now: str,
        *,
        unserved: ClusterError | None = None,
        ending: Cover = Cover.UNCOVERED,
        paused: bool = False,
        sparing: bool = False,
    ) -> Report:
        """One pass. copy: as the provider's watch told it; bound: the covering binding; unserved:
        why there is no use in asking the provider for a copy; ending: the cover where no live
        binding covers it; paused: that the Connection is; sparing: whether a copy stays that nobody
        asked to delete."""
        situation = Situation(
            self.scope,
            key,
            instance,
            now,
            homeless=memory.homeless,
            outdated=memory.outdated,
        )
        asked = observe.duty_facts(instance, bound, self.scope.connection, ending, paused=paused)
        by = observe.paused_by(asked["pause"], bound, self.scope.connection)
        duty = self._decide("duty", asked, situation)
        situation = replace(situation, reason=duty.reason, paused=by)
        if duty.steps is not None:
            return await self._carry_out((duty,), duty, situation, memory, None)

        owed = Duty(duty.verdict or "")
        sight = await self._look(situation, owed, copy, memory, unserved)
        if sight.trouble is not None:
            memory.trouble = says(sight.trouble, draining=owed is not Duty.SERVE)
        situation = replace(situation, copy=sight.copy, owner=sight.owner)
        ownership = self._decide(
            "ownership", observe.ownership_facts(sight.owner, bound), situation
        )
        situation = replace(situation, reason=ownership.reason, trouble=untold(memory))
        facts = {"duty": duty.verdict or "", "verdict": ownership.verdict or ""}
        writes = self._decide("instance", facts, situation)
        decisions = (duty, ownership, writes)
        if sparing and Step.DELETE in (writes.steps or ()) and not _is_asked_for(asked):
            return Report(self.scope, key, Plan(decisions), Batch(situation), sight, spared=True)
        return await self._carry_out(decisions, writes, situation, memory, sight)

    def _decide(self, table: str, facts: dict[str, str], situation: Situation) -> Decision:
        return decide(self.book, table, facts, situation)

    async def _look(
        self,
        situation: Situation,
        duty: Duty,
        raw: bytes | None,
        memory: Memory,
        unserved: ClusterError | None,
    ) -> observe.Sight:
        """The copy from the cache, or from the provider where a decision needs to be sure."""
        leaving = duty is not Duty.SERVE
        never = leaving and not self.scope.fits
        if raw is None and (memory.gone or never):
            return observe.Sight(None, Copy.ABSENT)
        if raw is None and unserved is not None:
            away = isinstance(unserved, Disengaged)
            word = Copy.OUT_OF_REACH if away else Copy.UNREADABLE
            return observe.Sight(None, word, trouble=unserved)
        # The watch shows copies with our label only. To one that was held or refused before,
        # or that is to be let go, absence there is no proof.
        unsure = raw is None and (leaving or situation.held or situation.refused)
        if memory.doubt or unsure:
            path = self.scope.api.path(situation.key)
            provider = self.clients[Side.PROVIDER]
            return await observe.fresh(provider, path, self.scope.cluster, situation.uid)
        return observe.cached(raw, self.scope.cluster, situation.uid)

    async def _carry_out(
        self,
        decisions: tuple[Decision, ...],
        last: Decision,
        situation: Situation,
        memory: Memory,
        sight: observe.Sight | None,
    ) -> Report:
        plan = Plan(decisions, last.steps or (), situation.reason, last.recheck)
        batch = await perform(plan.steps, situation, self.clients, memory.settled)
        return Report(self.scope, situation.key, plan, batch, sight)


def _is_asked_for(duty: Mapping[str, str]) -> bool:
    """Whether somebody on the consumer deleted the instance or its binding."""
    going = duty["life"] == Life.DELETING
    return going or duty["cover"] in (Cover.UNBINDING, Cover.ABANDONED)


def decide(book: Rulebook, table: str, facts: dict[str, str], situation: Situation) -> Decision:
    """The decision of one of the tables that look at an instance: overlays may declare facts."""
    for fact in book.declared(table):
        document = {"instance": situation.instance, "copy": situation.copy}
        facts[fact.name] = fact.word(document)
    return book.decide(table, facts)


def untold(memory: Memory) -> str | None:
    """The trouble that nobody was told yet."""
    return None if memory.trouble == memory.told else memory.trouble


def in_the_way(situation: Situation, error: ClusterError) -> Outdated | None:
    """The entries in the copy's managedFields that an apply failed over."""
    if situation.copy is None or not isinstance(error, ServerFailed):
        return None
    manager = situation.scope.copying.flows["instance-up"].manager
    message = str(error.body.get("message", ""))
    return outdated(situation.copy, manager, situation.scope.api.api_version, message)


def says(
    error: ClusterError, entries: Outdated | None = None, *, draining: bool = False
) -> str | None:
    """What a user is told about a failed call; None for what Connection and binding report
    instead (no answer, credentials, an API that is not served) or what heals by itself
    (conflicts, throttling). entries: what an apply failed over. draining: whether a deletion
    waits for it, whose user looks nowhere else."""
    if not isinstance(error, Forbidden | Invalid | ServerFailed) and not (
        draining and isinstance(error, NotServed | Disengaged)
    ):
        return None
    if entries is None or not entries.others:
        return str(error)
    return (
        f"{error}: managedFields of the copy still name that version, for the manager "
        f"{', '.join(entries.others)}. The provider's CRD has to list {entries.version} again "
        "(unserved will do), or somebody there has to have all entries that name it name a "
        "version that is served, in one write"
    )
