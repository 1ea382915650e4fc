"""What each rule table may look at and answer: the contract between tables and code.

Code computes the facts named here, in this order, before it asks a table; a table answers with
one of its verdicts, or with steps, as said here. ``kbind.rulebook`` checks every loaded file
against this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kbind.facts import Duty, Source, Undoing, Verdict
from kbind.steps import Step


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The frame of one table.

    about: one line for ``kbind rules show``.
    facts: names of ``kbind.facts.FACTS``, all of which the code supplies.
    verdicts: the words of ``then: {verdict: ...}``; None where the table only gives steps.
    steps: the steps that ``then: {steps: [...]}`` may name; empty where it only gives verdicts.
    documents: the objects that facts declared by an overlay may be taken from; empty where a
    table has none to look at.
    reasoned: the verdicts that users are told, and that therefore need a reason.
    """

    name: str
    about: str
    facts: tuple[str, ...]
    verdicts: type[StrEnum] | None
    steps: frozenset[Step]
    documents: tuple[str, ...] = ()
    reasoned: tuple[str, ...] = ()


DUTY: Final = TableSpec(
    "duty",
    "What does this pass owe a consumer instance? Asked before the provider is looked at.",
    ("life", "cover", "hold", "policy", "pause"),
    Duty,
    frozenset({Step.CLEAR, Step.UNMARK, Step.RELEASE, Step.WAITING}),
    documents=("instance",),
)
OWNERSHIP: Final = TableSpec(
    "ownership",
    "Whose is the object under the copy's key, and what may be done with it?",
    ("copy", "conflictPolicy"),
    Verdict,
    frozenset(),
    documents=("instance", "copy"),
    reasoned=(Verdict.REFUSE,),
)
INSTANCE: Final = TableSpec(
    "instance",
    "Which writes follow from duty and verdict?",
    ("duty", "verdict"),
    None,
    frozenset(
        {
            Step.TELL,
            Step.HOLD,
            Step.RELEASE,
            Step.NAMESPACE,
            Step.CREATE,
            Step.ADOPT,
            Step.RENEW,
            Step.DELIVER,
            Step.MIRROR,
            Step.DELETE,
            Step.WARN,
            Step.MARK,
            Step.UNSYNC,
            Step.RESOLVED,
            Step.UNMARK,
            Step.HELD,
            Step.CLEAR,
        }
    ),
    documents=("instance", "copy"),
)
SOURCE: Final = TableSpec(
    "source",
    "Which schema source answers for a Connection?",
    ("asked", "listing"),
    Source,
    frozenset(),
    reasoned=(Source.REPORT,),
)
DELIVERY: Final = TableSpec(
    "delivery",
    "What is done with one API's definition on the consumer?",
    ("definition", "pullPolicy", "wanted", "updatePolicy", "local"),
    None,
    frozenset({Step.INSTALL, Step.UPDATE, Step.STAMP}),
)
AUTOBIND: Final = TableSpec(
    "autobind",
    "What becomes of the ClusterBinding that a Connection keeps for all exported APIs?",
    ("autoBind", "exports", "binding"),
    None,
    frozenset({Step.BIND, Step.REBIND, Step.UNBIND}),
)
CLEANUP: Final = TableSpec(
    "cleanup",
    "What is undone of one API whose binding is being deleted?",
    ("kind", "others", "provider", "standing", "instances"),
    Undoing,
    frozenset({Step.REMOVE}),
)
BINDING: Final = TableSpec(
    "binding",
    "What holds a binding, and when may it go?",
    ("life", "left"),
    None,
    frozenset({Step.KEEP, Step.FREE}),
)
CONNECTION: Final = TableSpec(
    "connection",
    "What holds a Connection and its Secret, and when may they go?",
    ("life", "bindings", "binding", "sharing"),
    None,
    frozenset({Step.KEEP, Step.KEEP_SECRET, Step.UNBIND, Step.FREE_SECRET, Step.FREE}),
)

TABLES: Final[dict[str, TableSpec]] = {
    t.name: t
    for t in (
        DUTY,
        OWNERSHIP,
        INSTANCE,
        SOURCE,
        DELIVERY,
        AUTOBIND,
        BINDING,
        CLEANUP,
        CONNECTION,
    )
}
"""The decision tables by name; ``copying`` is a list of flows and has its own shape."""
