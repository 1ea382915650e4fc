"""YAML that holds nothing but JSON values, read as kubectl reads it."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import YAMLError


class _Constructor(SafeConstructor):
    """Times stay text, and a plain ``=`` is the text that it looks like."""


for _tag in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"):
    _Constructor.add_constructor(_tag, SafeConstructor.construct_yaml_str)


def load_yaml_all(text: str) -> list[Any]:
    """The documents of *text*. Raises ValueError for what is no YAML."""
    loader = YAML(typ="safe", pure=True)
    loader.Constructor = _Constructor
    try:
        return list(loader.load_all(text))
    except YAMLError as error:
        raise ValueError(str(error)) from None


def load_yaml(text: str) -> Any:
    """The one document of *text*."""
    documents = load_yaml_all(text)
    return documents[0] if documents else None
