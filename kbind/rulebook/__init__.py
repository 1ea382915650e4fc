"""Rule tables: loading with positions, proof of completeness, decision, explanation. Pure."""

from kbind.rulebook.cases import Case, FlowCase, read_case
from kbind.rulebook.explanation import Change, Explanation, explain
from kbind.rulebook.loader import load
from kbind.rulebook.model import Copying, DeclaredFact, Flow, Rule, Rulebook, Table

__all__ = [
    "Case",
    "Change",
    "Copying",
    "DeclaredFact",
    "Explanation",
    "Flow",
    "FlowCase",
    "Rule",
    "Rulebook",
    "Table",
    "explain",
    "load",
    "read_case",
]
