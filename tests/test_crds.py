"""The core CRDs and the modules of words say the same; the server's answers are in clusters/."""

from __future__ import annotations

import re
from enum import StrEnum

import pytest

from kbind import facts, words
from tests.manifests import CRDS, Object, core_crds, documents, field, fields, schema

KINDS = {"Connection": "Cluster", "ClusterBinding": "Cluster", "Binding": "Namespaced"}
BINDINGS = ("ClusterBinding", "Binding")

each_kind = pytest.mark.parametrize("kind", KINDS)
each_binding = pytest.mark.parametrize("kind", BINDINGS)


def test_there_are_three_kinds() -> None:
    assert {kind: crd["spec"]["scope"] for kind, crd in core_crds().items()} == KINDS


@each_kind
def test_names(kind: str) -> None:
    crd = core_crds()[kind]
    names = crd["spec"]["names"]
    assert crd["apiVersion"] == "apiextensions.k8s.io/v1"
    assert crd["spec"]["group"] == words.GROUP
    assert [version["name"] for version in crd["spec"]["versions"]] == [words.VERSION]
    assert names["listKind"] == f"{kind}List"
    assert names["singular"] == kind.lower()
    assert names["plural"] == f"{kind.lower()}s"
    assert names["categories"] == ["kbind"]
    assert crd["metadata"]["name"] == f"{names['plural']}.{words.GROUP}"
    assert crd["spec"]["versions"][0]["subresources"] == {"status": {}}


@each_kind
def test_a_file_is_named_after_its_kind(kind: str) -> None:
    names = core_crds()[kind]["spec"]["names"]
    (crd,) = documents(CRDS / f"{words.GROUP}_{names['plural']}.yaml")
    assert crd["spec"]["names"]["kind"] == kind


def test_both_bindings_are_alike() -> None:
    one, other = (core_crds()[kind]["spec"] for kind in BINDINGS)
    assert one["versions"] == other["versions"]


@pytest.mark.parametrize(
    ("kind", "path", "closed", "default"),
    [
        ("Connection", "spec.schema.pullPolicy", facts.PullPolicy, facts.PullPolicy.BOUND),
        ("Connection", "spec.schema.updatePolicy", facts.UpdatePolicy, facts.UpdatePolicy.ALWAYS),
        ("Binding", "spec.conflictPolicy", facts.ConflictPolicy, facts.ConflictPolicy.FAIL),
    ],
)
def test_closed_words(kind: str, path: str, closed: type[StrEnum], default: StrEnum) -> None:
    found = field(kind, path)
    said_by_the_world = [word.value for word in closed if word.name != "UNSET"]
    assert found["enum"] == said_by_the_world
    assert found["default"] == default
    for word in said_by_the_world:
        assert f"{word}:" in found["description"]


def test_schema_sources_are_open() -> None:
    found = field("Connection", "spec.schema.source")
    assert "enum" not in found
    assert found["default"] == facts.Asked.AUTO
    for word in facts.Asked:
        assert re.search(found["pattern"], word)
        assert word is facts.Asked.OTHER or f"{word}:" in found["description"]
    assert f"{words.EXPORTED}={words.TRUE}" in found["description"]
    assert not any(
        re.search(found["pattern"], name) for name in ("", "-a", "a-", "a b", "1", "a_b")
    )


def test_defaults_of_a_connection() -> None:
    assert field("Connection", "spec.schema")["default"] == {}
    assert field("Connection", "spec.autoBind")["default"] is False
    assert field("Connection", "spec.kubeconfigSecretRef.key")["default"] == words.DEFAULT_KEY


@each_kind
def test_the_words_of_conditions_fit_their_schema(kind: str) -> None:
    condition = field(kind, "status.conditions")["properties"]
    for limits, closed in (
        (condition["type"], words.Condition),
        (condition["reason"], words.Reason),
    ):
        for word in closed:
            assert re.fullmatch(limits["pattern"], word)
            assert len(word) <= limits["maxLength"]


def test_every_condition_type_is_explained() -> None:
    told = " ".join(
        schema(kind)["properties"]["status"]["properties"]["conditions"]["description"]
        for kind in KINDS
    )
    assert {word.value for word in words.Condition} <= set(re.findall(r"\w+", told))


@each_kind
def test_every_field_is_explained(kind: str) -> None:
    silent = [path for path, node in fields(schema(kind)) if not node.get("description")]
    # The list tells what its strings are, and metadata is the server's.
    silent = [path for path in silent if not path.endswith("[]") or path[:-2] in silent]
    assert silent == ["metadata"]


@each_kind
def test_every_list_says_how_it_merges(kind: str) -> None:
    lists: dict[str, Object] = {
        path: node for path, node in fields(schema(kind)) if node.get("type") == "array"
    }
    assert lists
    for path, node in lists.items():
        assert node["x-kubernetes-list-type"] in ("atomic", "set", "map"), path
    assert lists["status.conditions"]["x-kubernetes-list-map-keys"] == ["type"]


@each_binding
def test_related_resources(kind: str) -> None:
    entry = field(kind, "spec.relatedResources")
    assert entry["required"] == ["resource", "direction"]
    assert entry["properties"]["group"] == entry["properties"]["group"] | {
        "enum": [""],
        "default": "",
    }
    assert entry["properties"]["resource"]["enum"] == ["secrets", "configmaps"]
    assert entry["properties"]["direction"]["enum"] == ["FromProvider", "FromConsumer"]
