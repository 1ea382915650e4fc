"""JMESPath, checked when rules are loaded: what it selects, never what it decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions

from kbind.errors import ExpressionFailed

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FUNCTIONS: Final = frozenset(Functions.FUNCTION_TABLE)

# Nodes whose first child is applied to the document, and the rest to what that gave.
_CHAINS: Final = frozenset(
    {
        "filter_projection",
        "flatten",
        "index_expression",
        "pipe",
        "projection",
        "subexpression",
        "value_projection",
    }
)


class BadExpression(ValueError):
    """Not a JMESPath expression; ``str()`` says why."""


class Expression:
    """A compiled JMESPath expression. Called with a document, it gives what it selects.

    The result shares structure with the document. None where there is nothing.
    Raises ExpressionFailed where a function does not fit the document.
    """

    __slots__ = ("_pick", "text")

    def __init__(self, text: str) -> None:
        """Raises BadExpression."""
        self.text = text
        self._pick: Callable[[Mapping[str, Any]], Any] | None = None
        try:
            compiled = jmespath.compile(text)
        except JMESPathError as error:
            raise BadExpression(str(error).splitlines()[0]) from None
        for name in _functions(compiled.parsed):
            if name not in _FUNCTIONS:
                raise BadExpression(f"there is no function {name}()")
        if _PLAIN.fullmatch(text) is None:  # a plain field is a dict lookup: the common case
            self._pick = compiled.search

    def __call__(self, document: Mapping[str, Any]) -> Any:
        if self._pick is None:
            return document.get(self.text)
        try:
            return self._pick(document)
        except JMESPathError as error:
            raise ExpressionFailed(f"{self.text}: {error}", expression=self.text) from error

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def roots(self) -> frozenset[str]:
        """The top-level fields of the document that it looks at."""
        return frozenset(_roots(jmespath.compile(self.text).parsed))


def _functions(node: Mapping[str, Any]) -> Iterator[str]:
    if node["type"] == "function_expression":
        yield node["value"]
    for child in _children(node):
        yield from _functions(child)


def _roots(node: Mapping[str, Any]) -> Iterator[str]:
    if node["type"] == "field":
        yield node["value"]
    if node["type"] in {"field", "expref"}:  # an expref is applied to elements, not the document
        return
    children = list(_children(node))
    if node["type"] in _CHAINS:
        children = children[:1]
    for child in children:
        yield from _roots(child)


def _children(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for child in node["children"]:
        if isinstance(child, Mapping):
            yield child
