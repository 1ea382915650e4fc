"""Manifests: YAML documents as the JSON values that kubectl would send.

kubectl reads plain words by YAML 1.1 (``yes`` and ``on`` are true, ``0777`` is octal), keeps
dates as text, and knows no ``=``. Rule files are not read here: they are YAML 1.2 with positions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kbind import yamls
from kbind.errors import KbindError

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
}
_INT: Final = re.compile(r"[-+]?(0b[01]+|0x[0-9a-fA-F]+|0o?[0-7]*|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DEPTH: Final = 2000  # texts that others wrote may hold many a bracket that nothing closes
_NO_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def documents(text: str, name: str) -> Iterator[Any]:
    """Every document of *text* that is not empty, as a JSON value. name: of the file, for
    messages. Raises KbindError."""
    if yamls.too_deep(text, _DEPTH):
        raise KbindError(f"{name}: {yamls.MESSAGE}")
    try:
        for node in YAML(typ="safe").compose_all(StringIO(text)):
            value = None if node is None else _value(node, name)
            if value is not None:
                yield value
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise KbindError(f"{place}: {error.problem or error.context}") from error
    except RecursionError:
        raise KbindError(f"{name}: {yamls.MESSAGE}") from None
    except (YAMLError, ArithmeticError, LookupError, ValueError) as error:
        raise KbindError(f"{name}: {error}") from error


def _value(node: Node, name: str) -> Any:
    if isinstance(node, MappingNode):
        return _mapping(node, name)
    if isinstance(node, SequenceNode):
        return [_value(item, name) for item in node.value]
    if getattr(node, "style", None) in ("'", '"', "|", ">"):
        return node.value
    return _plain(node, name)


def _mapping(node: MappingNode, name: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise _error(key, name, "a key that is no text cannot be sent")
        if key.value == "<<" and not key.style:
            sources = value.value if isinstance(value, SequenceNode) else [value]
            for source in reversed(sources):
                merged |= _value(source, name)
        elif key.value in own:
            raise _error(key, name, f"the key {key.value!r} stands here twice")
        else:
            own[key.value] = _value(value, name)
    return merged | own


def _plain(node: Node, name: str) -> Any:
    text: str = node.value
    if text in _WORDS:
        return _WORDS[text]
    digits = text.replace("_", "")
    if _INT.fullmatch(digits):
        return _integer(digits)
    if _FLOAT.fullmatch(digits):
        return float(digits)
    if _NO_NUMBER.fullmatch(text):
        raise _error(node, name, f"{text} has no place in JSON")
    return text


def _integer(digits: str) -> int:
    sign = -1 if digits.startswith("-") else 1
    body = digits.lstrip("+-")
    if body.startswith("0") and len(body) > 1 and body[1].isdigit():
        return sign * int(body, 8)
    return sign * int(body, 0)


def _error(node: Node, name: str, message: str) -> KbindError:
    mark = node.start_mark
    return KbindError(f"{name}:{mark.line + 1}:{mark.column + 1}: {message}")
