"""What a plan takes for a manifest, and what it says of everything else."""

from __future__ import annotations

import base64

import pytest

from kbind.errors import KbindError
from kbind.planning.action import manifests

CONNECTION = """
apiVersion: core.kbind.io/v1alpha1
kind: Connection
metadata: {name: provider}
spec: {kubeconfigSecretRef: {namespace: kbind, name: provider-kubeconfig}}
"""
BINDING = """
apiVersion: core.kbind.io/v1alpha1
kind: Binding
metadata: {name: bound}
spec: {connectionRef: {name: provider}, apis: [{name: widgets.example.org}]}
"""
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: provider-kubeconfig, namespace: kbind}
stringData: {kubeconfig: "{}"}
data: {other: YQ==}
"""


def test_several_documents_of_several_files_come_in_order() -> None:
    found = manifests([("one.yaml", f"---{CONNECTION}---{SECRET}"), ("two", BINDING)], "team-a")
    assert [manifest.place for manifest in found] == [
        "one.yaml, document 1",
        "one.yaml, document 2",
        "two, document 1",
    ]
    assert [manifest.api.kind for manifest in found] == ["Connection", "Secret", "Binding"]
    assert found[2].obj["metadata"]["namespace"] == "team-a"
    encoded = base64.b64encode(b"{}").decode()
    assert found[1].obj["data"] == {"kubeconfig": encoded, "other": "YQ=="}
    assert "stringData" not in found[1].obj


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is nothing to apply"),
        ("[]", "m.yaml, document 1: this is no object"),
        ("a: [", "m.yaml:"),
        ("kind: Pod\napiVersion: v1", "Pod of v1 cannot be planned"),
        (f"{CONNECTION}---\na: b", "m.yaml, document 2: an object without kind of no apiVersion"),
        (CONNECTION.replace("{name: provider}", "{}", 1), "Connection without metadata.name"),
        (CONNECTION.replace("metadata: {name: provider}", "metadata: x"), "without metadata.name"),
        (CONNECTION.replace(", name: provider-kubeconfig", ""), "provider: name is missing"),
        (CONNECTION.replace("kubeconfigSecretRef", "x"), "kubeconfigSecretRef is missing"),
        (CONNECTION.replace("provider-kubeconfig}", "p}, autoBind: true, schema: 3"), "form"),
        (
            CONNECTION.replace("provider-kubeconfig}", "p}, schema: {pullPolicy: Some}"),
            "does not understand the spec",
        ),
        (BINDING, "Binding bound is in no namespace\n  hint: set metadata.namespace"),
        (BINDING.replace("Binding", "ClusterBinding").replace("spec:", "x:"), "spec is missing"),
        (BINDING.replace("Binding", "ClusterBinding").replace("apis: [", "apis: 3, x: ["), "form"),
        (
            BINDING.replace("Binding", "ClusterBinding").replace(
                "[{name: widgets.example.org}]", "[]"
            ),
            "ClusterBinding bound: spec.apis lists nothing",
        ),
        (
            BINDING.replace("Binding", "ClusterBinding").replace(
                "spec: {", "spec: {conflictPolicy: X, "
            ),
            "does not understand it",
        ),
        (SECRET.replace('{kubeconfig: "{}"}', "3"), "form"),
        (SECRET.replace("YQ==", "5"), "form"),
        (SECRET.replace('"{}"', "{a: 1}"), "form"),
        (SECRET.replace("namespace: kbind", "namespace: kbind, finalizers: 5"), "metadata.finali"),
        (CONNECTION.replace("{name: provider}", "{name: x, annotations: 5}"), "metadata.annota"),
        (CONNECTION.replace("{name: provider}", "{name: x, labels: {a: 5}}"), "metadata.labels"),
        (CONNECTION.replace("provider-kubeconfig}", "p}, autoBind: maybe"), "form"),
        (
            CONNECTION.replace("name: provider-kubeconfig", "name: ''"),
            "a name in the spec is empty",
        ),
        (
            BINDING.replace("Binding", "ClusterBinding").replace("widgets.example.org", "''"),
            "a name in the spec is empty",
        ),
    ],
)
def test_what_cannot_be_planned_is_named(text: str, said: str) -> None:
    with pytest.raises(KbindError) as raised:
        manifests([("m.yaml", text)], None)
    assert said in str(raised.value)


def test_what_only_servers_write_is_passed_over() -> None:
    written = CONNECTION.replace("{name: provider}", "{name: x, deletionTimestamp: 2026-01-01}")
    (found,) = manifests([("m.yaml", f"{written}status: {{conditions: 5}}\n")], None)
    assert found.obj["metadata"] == {"name": "x"}
    assert "status" not in found.obj
