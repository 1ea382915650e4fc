"""Rule tables: loading with positions, proof of completeness, decision, explanation. Pure."""

from kbind.rulebook.loader import load
from kbind.rulebook.model import Copying, DeclaredFact, Flow, Rule, Rulebook, Table

__all__ = ["Copying", "DeclaredFact", "Flow", "Rule", "Rulebook", "Table", "load"]
