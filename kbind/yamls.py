"""A cheap look at YAML before it is parsed.

On brackets that never close, ruamel.yaml spends time that grows with their square, and then runs
out of stack; its C parser takes the process with it.
"""

from __future__ import annotations

import re
from typing import Final

MESSAGE: Final = "nested too deep"

LIMIT: Final = 100
"""Levels: files for people have a dozen."""

_BRACKET: Final = re.compile(r"[\[\]{}]")


def too_deep(text: str, limit: int = LIMIT) -> bool:
    """Whether more than *limit* brackets are open at one place, or dashes in a row. Those within
    quotes count too: no file for people has so many of them."""
    level = 0
    for bracket in _BRACKET.finditer(text):
        level = level + 1 if bracket[0] in "[{" else max(level - 1, 0)
        if level > limit:
            return True
    return re.search(rf"(?:[-?:][ \t]+){{{limit + 1}}}", text) is not None
