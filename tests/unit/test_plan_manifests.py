"""What a plan takes for a manifest, and what it says of everything else."""

from __future__ import annotations

import base64

import pytest

from kbind.errors import KbindError
from kbind.planning.manifests import manifests

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
        (
            CONNECTION.replace("{name: provider}", "{}", 1),
            "Connection: metadata: 'name' is a required property",
        ),
        (
            CONNECTION.replace("metadata: {name: provider}", "metadata: x"),
            "metadata: 'x' is not of type 'object'",
        ),
        (
            CONNECTION.replace(", name: provider-kubeconfig", ""),
            "provider: spec.kubeconfigSecretRef: 'name' is a required property",
        ),
        (
            CONNECTION.replace("kubeconfigSecretRef", "x"),
            "spec: 'kubeconfigSecretRef' is a required property",
        ),
        (
            CONNECTION.replace("provider-kubeconfig}", "p}, autoBind: true, schema: 3"),
            "spec.schema: 3",
        ),
        (
            CONNECTION.replace("provider-kubeconfig}", "p}, schema: {pullPolicy: Some}"),
            "spec.schema.pullPolicy: 'Some' is not one of",
        ),
        (BINDING, "Binding bound is in no namespace\n  hint: set metadata.namespace"),
        (
            BINDING.replace("Binding", "ClusterBinding").replace("spec:", "x:"),
            "ClusterBinding bound: 'spec' is a required property",
        ),
        (
            BINDING.replace("Binding", "ClusterBinding").replace("apis: [", "apis: 3, x: ["),
            "spec.apis: 3",
        ),
        (
            BINDING.replace("Binding", "ClusterBinding").replace(
                "[{name: widgets.example.org}]", "[]"
            ),
            "ClusterBinding bound: spec.apis: [] should be non-empty",
        ),
        (
            BINDING.replace("Binding", "ClusterBinding").replace(
                "spec: {", "spec: {conflictPolicy: X, "
            ),
            "spec.conflictPolicy: 'X' is not one of",
        ),
        (SECRET.replace('{kubeconfig: "{}"}', "3"), "form"),
        (SECRET.replace("YQ==", "5"), "form"),
        (SECRET.replace('"{}"', "{a: 1}"), "form"),
        (SECRET.replace("namespace: kbind", "namespace: kbind, finalizers: 5"), "metadata.finali"),
        (CONNECTION.replace("{name: provider}", "{name: x, annotations: 5}"), "metadata.annota"),
        (CONNECTION.replace("{name: provider}", "{name: x, labels: {a: 5}}"), "metadata.labels"),
        (
            CONNECTION.replace("provider-kubeconfig}", "p}, autoBind: maybe"),
            "spec.autoBind: 'maybe'",
        ),
        (
            CONNECTION.replace("name: provider-kubeconfig", "name: ''"),
            "spec.kubeconfigSecretRef.name: '' should be non-empty",
        ),
        (
            BINDING.replace("Binding", "ClusterBinding").replace("widgets.example.org", "''"),
            "spec.apis[0].name: '' should be non-empty",
        ),
    ],
)
def test_what_cannot_be_planned_is_named(text: str, said: str) -> None:
    with pytest.raises(KbindError) as raised:
        manifests([("m.yaml", text)], None)
    assert said in str(raised.value)


def test_no_value_of_a_secret_is_repeated() -> None:
    text = SECRET.replace('"{}"', "{users: [{token: hush}]}")
    with pytest.raises(KbindError) as raised:
        manifests([("m.yaml", text)], None)
    assert "Secret provider-kubeconfig: stringData.kubeconfig" in str(raised.value)
    assert "hush" not in str(raised.value)


def test_a_list_holds_manifests() -> None:
    item = BINDING.strip().replace("\n", "\n  ")
    (found,) = manifests([("m.yaml", f"apiVersion: v1\nkind: List\nitems:\n- {item}\n")], "a")
    assert (found.place, found.api.kind) == ("m.yaml, document 1, item 1", "Binding")


def test_what_only_servers_write_is_passed_over() -> None:
    written = CONNECTION.replace("{name: provider}", "{name: x, deletionTimestamp: 2026-01-01}")
    (found,) = manifests([("m.yaml", f"{written}status: {{conditions: 5}}\n")], None)
    assert found.obj["metadata"] == {"name": "x"}
    assert "status" not in found.obj
