"""The samples are what the core CRDs accept, with every field known and no default repeated."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from kbind import words
from tests.manifests import SAMPLES, Object, core_crds, documents, schema

FILES = sorted(SAMPLES.glob("*.yaml"))
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def closed(node: Object) -> Object:
    """The same schema, but refusing what a server would prune."""
    strict = dict(node)
    if "properties" in node:
        strict["properties"] = {name: closed(of) for name, of in node["properties"].items()}
        strict["additionalProperties"] = False
    if "items" in node:
        strict["items"] = closed(node["items"])
    return strict


def given(node: Object, value: object) -> list[str]:
    """The fields at which a value repeats its schema's default."""
    if isinstance(value, list):
        return [path for each in value for path in given(node.get("items", {}), each)]
    if not isinstance(value, dict):
        return []
    found: list[str] = []
    for name, of in node.get("properties", {}).items():
        if name in value:
            found += [name] if value[name] == of.get("default", ...) else given(of, value[name])
    return found


def ours(file: Path) -> list[Object]:
    """The objects of our own kinds in a file."""
    return [each for each in documents(file) if each["apiVersion"] == words.API_VERSION]


def test_each_kind_has_a_sample() -> None:
    assert {each["kind"] for file in FILES for each in ours(file)} == set(core_crds())


@each_file
def test_a_sample_fits_its_schema(file: Path) -> None:
    assert ours(file)
    for each in ours(file):
        root = schema(each["kind"])
        validator = jsonschema.Draft202012Validator(closed(root["properties"]["spec"]))
        assert [error.message for error in validator.iter_errors(each["spec"])] == []
        assert given(root["properties"]["spec"], each["spec"]) == []
        namespaced = core_crds()[each["kind"]]["spec"]["scope"] == "Namespaced"
        assert ("namespace" in each["metadata"]) is namespaced


def test_the_check_finds_a_misspelled_field() -> None:
    (sample,) = ours(SAMPLES / "clusterbinding.yaml")
    root = closed(schema("ClusterBinding")["properties"]["spec"])
    sample["spec"]["relatedResources"][0]["selecter"] = {}
    assert not jsonschema.Draft202012Validator(root).is_valid(sample["spec"])


def test_the_samples_belong_together() -> None:
    found = {each["kind"]: each for each in documents(SAMPLES / "connection.yaml")}
    reference = found["Connection"]["spec"]["kubeconfigSecretRef"]
    secret = found["Secret"]
    assert (reference["namespace"], reference["name"]) == (
        secret["metadata"]["namespace"],
        secret["metadata"]["name"],
    )
    kubeconfig = YAML(typ="safe").load(secret["stringData"][words.DEFAULT_KEY])
    assert kubeconfig["kind"] == "Config"
    assert found["Binding"]["metadata"]["namespace"] == found["Namespace"]["metadata"]["name"]
    bindings = [each for file in FILES for each in ours(file) if each["kind"] != "Connection"]
    assert {each["spec"]["connectionRef"]["name"] for each in bindings} == {
        found["Connection"]["metadata"]["name"]
    }
