"""The JSON Schema of the rules language, for editors: built from the same words as the checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kbind.facts import FACTS
from kbind.rulebook import flows
from kbind.steps import Recheck, Side, Step
from kbind.tables import TABLES, TableSpec
from kbind.words import Reason

Schema = dict[str, Any]


def language() -> Schema:
    """A schema that fits bundled files and overlays of every table."""
    tables = [*TABLES, flows.NAME]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A rule table of kbind, or an overlay of one",
        "type": "object",
        "required": ["table"],
        "properties": {"table": {"enum": tables}},
        "allOf": [
            {
                "if": {"properties": {"table": {"const": name}}},
                "then": {"$ref": f"#/definitions/{name}"},
            }
            for name in tables
        ],
        "definitions": {
            "text": {"type": "string", "minLength": 1},
            "texts": {"type": "array", "items": _ref("text"), "uniqueItems": True},
            "declared": _closed(
                {
                    "fact": _ref("text"),
                    "from": _ref("text"),
                    "words": {**_ref("texts"), "minItems": 2},
                    "otherwise": _ref("text"),
                },
                required=("fact", "from", "words", "otherwise"),
            ),
            "reason": _word(Reason),
            "recheck": _word(Recheck),
            "flow": _flow(),
            **{name: _table(spec) for name, spec in TABLES.items()},
            **{f"{fact}-words": _any_of(words) for fact, words in FACTS.items()},
            **{f"{name}-rule": _rule(spec) for name, spec in TABLES.items()},
            flows.NAME: _closed(
                {
                    "table": {"const": flows.NAME},
                    "flows": {"type": "array", "items": _ref("flow")},
                    "metadata": _closed({name: _ref("texts") for name in flows.PREFIXES}),
                }
            ),
        },
    }


def _table(spec: TableSpec) -> Schema:
    rules = {"type": "array", "items": _ref(f"{spec.name}-rule")}
    facts: list[Schema] = [{"const": list(spec.facts)}]
    if spec.documents:
        facts.append({"type": "array", "items": _ref("declared")})
    return {
        "description": spec.about,
        **_closed(
            {
                "table": {"const": spec.name},
                "facts": {"anyOf": facts},
                "rules": rules,
                "replace": {"type": "object", "additionalProperties": rules},
            }
        ),
    }


def _rule(spec: TableSpec) -> Schema:
    when: Schema = {
        "type": "object",
        "properties": {fact: _ref(f"{fact}-words") for fact in spec.facts},
        # Facts that an overlay declares are not known here; only loading can check them.
        "additionalProperties": bool(spec.documents),
    }
    then: Schema = {"reason": _ref("reason"), "recheck": _ref("recheck")}
    answers = []
    if spec.verdicts is not None:
        then["verdict"] = _word(spec.verdicts)
        answers.append({"required": ["verdict"]})
    if spec.steps:
        steps = [step for step in Step if step in spec.steps]
        then["steps"] = {"type": "array", "items": _word(steps), "uniqueItems": True}
        answers.append({"required": ["steps"]})
    return _closed(
        {
            "rule": {"type": "string", "pattern": "^[a-z][a-z0-9]*(-[a-z0-9]+)*$"},
            "why": _ref("text"),
            "when": when,
            "then": {**_closed(then), "oneOf": answers},
        },
        required=("rule", "why", "then"),
    )


def _flow() -> Schema:
    return _closed(
        {
            "flow": _word(flows.FLOWS),
            "why": _ref("text"),
            "from": _word(Side),
            "to": _word(Side),
            "select": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": _ref("text"),
            },
            "through": _word(flows.THROUGH),
            "absent": _word(flows.ABSENT),
            "manager": _word(flows.MANAGERS),
            "force": {"type": "boolean"},
        },
        required=flows.REQUIRED,
    )


def _word(known: Iterable[str]) -> Schema:
    return {"enum": [str(word) for word in known]}


def _any_of(known: Iterable[str]) -> Schema:
    word = _word(known)
    return {"anyOf": [word, {"type": "array", "items": word, "minItems": 1, "uniqueItems": True}]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _closed(properties: Schema, *, required: Iterable[str] = ()) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if listed := list(required):
        schema["required"] = listed
    return schema
