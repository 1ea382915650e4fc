"""Copies that rules would delete although nobody on the consumer asked for that.

They are spared until every instance that was due has been looked at. Then they go, unless together
they are too many for the brake: then they stay until somebody confirms it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from kbind.apis import Key
from kbind.brake import Brake, question
from kbind.konnector.passes import Report
from kbind.steps import Step
from kbind.words import PERIOD


class Sparing:
    """The brake of one API. question: what it asks for while it holds something; holds: whether it
    did so before the konnector started anew."""

    def __init__(
        self, api: str, brake: Brake, confirmed: Callable[[], bool], *, holds: bool
    ) -> None:
        self.question: str | None = None
        self._holds = holds
        self._api = api
        self._brake = brake
        self._confirmed = confirmed
        self._spared: dict[Key, str] = {}  # and the rule
        self._granted: set[Key] = set()
        self._gone: deque[float] = deque()  # when others went, as far as they count

    def spares(self, key: Key) -> bool:
        """Whether a copy is not to be deleted yet unless somebody asked for that."""
        return key not in self._granted

    def note(self, key: Key, report: Report, now: float) -> None:
        """What a pass came to. now: the loop's time."""
        if report.spared:
            self._spared[key] = report.plan.rules[0]
            return
        self._spared.pop(key, None)
        deleted = any(call.step is Step.DELETE for call in report.batch.calls)
        if deleted and key in self._granted:
            self._gone.append(now)
        if deleted or Step.DELETE not in report.plan.steps:
            self._granted.discard(key)

    def forget(self, key: Key) -> None:
        """An instance that is there no longer."""
        self._spared.pop(key, None)
        self._granted.discard(key)

    def weigh(self, copies: int, now: float) -> Collection[Key]:
        """The spared instances whose copies may go now. copies: how many there are."""
        while self._gone and self._gone[0] <= now - PERIOD:
            self._gone.popleft()
        before = len(self._gone)
        stops = self._brake.stops(len(self._spared) + before, copies + before)
        # Once it holds, a smaller number is no answer.
        holds = stops or (self._holds and self._brake.on)
        self._holds = bool(self._spared) and holds and not self._confirmed()
        if self._holds:
            rules = ", ".join(sorted(set(self._spared.values())))
            some = f"{len(self._spared)} of {copies} copies"
            self.question = question(
                f"{self._api}: {some} would be deleted by {rules}, though nobody deleted their "
                "instances or bindings"
            )
            return ()
        self.question = None
        self._granted.update(self._spared)
        granted, self._spared = self._spared, {}
        return granted
