"""From a provider's CRD to the consumer's, and what that says about syncing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kbind import words
from kbind.facts import Definition, Local
from kbind.schema import (
    ExportedApi,
    Offer,
    connection_of,
    consumer_crd,
    crd_hash,
    exported,
    is_established,
    is_managed,
    kept_version,
    local_word,
    objection,
    served,
    version_order,
)

Object = dict[str, Any]


def version(name: str, *, served: bool = True, storage: bool = False, **fields: Any) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "description": name}}
    return {"name": name, "served": served, "storage": storage, "schema": schema} | fields


def crd(*versions: Object, scope: str = "Namespaced", **fields: Any) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "widgets.example.org",
            "uid": "u",
            "resourceVersion": "5",
            "labels": {words.EXPORTED: "true", "theirs": "x"},
            "annotations": {"theirs": "x"},
        },
        "spec": {
            "group": "example.org",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "scope": scope,
            "versions": list(versions or [version("v1", storage=True)]),
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {}}},
        },
    } | fields


def offer(crd: Object, definition: Definition = Definition.ORIGINAL) -> Offer:
    return Offer(crd, definition)


def wanted(crd: Object, local: Object | None = None, **how: Any) -> Object:
    made = consumer_crd(offer(crd, **how), "provider-a", local)
    assert made is not None
    return made


def versions(crd: Object) -> list[tuple[str, bool, bool]]:
    return [(v["name"], v["served"], v["storage"]) for v in crd["spec"]["versions"]]


def test_versions_are_ordered_as_kubernetes_does() -> None:
    ordered = [
        "v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2",
        "3", "foo1", "foo10", "v1beta", "v1gamma1", "vx",
    ]  # fmt: skip
    shuffled = list(ordered)
    random.Random(1).shuffle(shuffled)
    assert sorted(shuffled, key=version_order) == ordered


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([version("v1alpha1"), version("v1", storage=True), version("v2beta1")], "v1"),
        ([version("v1alpha1", storage=True), version("v1")], "v1alpha1"),
        ([version("v1", served=False, storage=True), version("v1beta1"), version("v1beta2")],
         "v1beta2"),
        ([version("v1alpha1", served=False, storage=True), version("v2beta1"), version("v1")],
         "v1"),
        ([version("v1", served=False, storage=True), version("v2", served=False),
          version("v1alpha1")], "v1alpha1"),
        ([version("v1", served=False, storage=True)], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_storage_version_is_kept_if_it_is_served(
    given: list[Object], expected: str | None
) -> None:
    kept = kept_version(given)
    assert (kept and kept["name"]) == expected


def test_one_version_is_brought_over_with_all_that_is_its_own() -> None:
    full = version(
        "v1",
        storage=True,
        deprecated=True,
        deprecationWarning="old",
        subresources={"status": {}},
        additionalPrinterColumns=[{"name": "Size"}],
    )
    made = wanted(crd(version("v1alpha1", subresources={}), full))
    assert made["spec"]["versions"] == [full]
    assert made["spec"]["conversion"] == {"strategy": "None"}


def test_a_version_that_is_kept_becomes_the_storage_version() -> None:
    made = wanted(crd(version("v1", served=False, storage=True), version("v1beta1")))
    assert versions(made) == [("v1beta1", True, True)]


def test_only_our_markers_and_the_approval_are_metadata() -> None:
    source = crd()
    source["metadata"]["annotations"][words.API_APPROVED] = "https://example.org/1"
    assert wanted(source)["metadata"] == {
        "name": "widgets.example.org",
        "labels": {words.MANAGED: "true"},
        "annotations": {
            words.CONNECTION: "provider-a",
            words.API_APPROVED: "https://example.org/1",
        },
    }
    assert words.API_APPROVED not in wanted(crd())["metadata"]["annotations"]


def test_nothing_served_is_nothing_to_install() -> None:
    unserved = crd(version("v1", served=False, storage=True))
    assert consumer_crd(offer(unserved), "provider-a", None) is None


def stored(*names: str, crd: Object) -> Object:
    return crd | {"status": {"storedVersions": list(names)}}


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        (stored("v1alpha1", crd=crd(version("v1alpha1", storage=True))),
         [("v1", True, True), ("v1alpha1", False, False)]),
        (stored("v1", crd=crd(version("v1", storage=True))), [("v1", True, True)]),
        (stored("v1alpha1", "v1",
                crd=crd(version("v1alpha1", served=False), version("v1", storage=True))),
         [("v1", True, True), ("v1alpha1", False, False)]),
        (stored("v1beta1", crd=crd(version("v1beta1", storage=True), version("v1alpha1"))),
         [("v1", True, True), ("v1beta1", False, False)]),
        (crd(version("v1alpha1", storage=True)), [("v1", True, True)]),
        (crd() | {"status": {"storedVersions": None}}, [("v1", True, True)]),
    ],
)  # fmt: skip
def test_versions_that_were_stored_stay_listed_unserved(
    local: Object, expected: list[tuple[str, bool, bool]]
) -> None:
    before = repr(local)
    made = wanted(crd(version("v1alpha1", served=False), version("v1", storage=True)), local)
    assert versions(made) == expected
    assert repr(local) == before


def test_a_version_that_stays_listed_has_its_own_schema() -> None:
    local = stored("v1alpha1", crd=crd(version("v1alpha1", storage=True)))
    made = wanted(crd(version("v1", storage=True)), local)
    kept = made["spec"]["versions"][1]
    assert kept["schema"]["openAPIV3Schema"]["description"] == "v1alpha1"


def test_an_update_that_kept_a_stored_version_is_in_sync_afterwards() -> None:
    old = stored("v1alpha1", crd=crd(version("v1alpha1", storage=True)))
    offered = crd(version("v1", storage=True))
    updated = stored("v1alpha1", "v1", crd=wanted(offered, old))
    assert local_word(updated, wanted(offered, updated), "provider-a") is Local.HERE_SAME
    migrated = stored("v1", crd=updated)
    assert local_word(migrated, wanted(offered, migrated), "provider-a") is Local.HERE_DIFFERS


def test_synthesized_definitions_are_taken_as_they_are() -> None:
    given = crd(version("v1", storage=True), version("v1beta1"))
    local = stored("v1alpha1", crd=crd(version("v1alpha1", storage=True)))
    made = wanted(given, local, definition=Definition.SYNTHESIZED)
    assert versions(made) == [
        ("v1", True, True),
        ("v1beta1", True, False),
        ("v1alpha1", False, False),
    ]


def test_what_a_crd_from_before_v1_does_not_prune_is_kept() -> None:
    """A server of today takes preserveUnknownFields from nobody, and keeps it where it stands."""
    free = {"x-kubernetes-preserve-unknown-fields": True}
    text = {"type": "string"}
    inner = {"type": "object", "properties": {"a": text}}
    schema = {
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "properties": {
                    "list": {"type": "array", "items": inner},
                    "map": {"type": "object", "additionalProperties": inner},
                },
            },
        },
    }
    old = crd(version("v1", storage=True, schema={"openAPIV3Schema": schema}))
    old["spec"]["preserveUnknownFields"] = True
    spec = wanted(old)["spec"]
    assert "preserveUnknownFields" not in spec
    made = spec["versions"][0]["schema"]["openAPIV3Schema"]
    fields = {
        "list": {"type": "array", "items": inner | free},
        "map": {"type": "object", "additionalProperties": inner | free} | free,
    }
    assert made == free | {
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": fields} | free,
        },
    }
    old["spec"]["versions"] = [version("v1", storage=True) | {"schema": None}]
    (only,) = wanted(old)["spec"]["versions"]
    assert only["schema"] == {"openAPIV3Schema": {"type": "object"} | free}


def test_what_is_offered_is_not_changed() -> None:
    given = crd(version("v1", served=False, storage=True), version("v1beta1"))
    before = repr(given)
    wanted(given)
    assert repr(given) == before


# --- what stands on the consumer -------------------------------------------------------------


def local(connection: str | None = "provider-a", managed: str | None = "true") -> Object:
    made = wanted(crd())
    made["metadata"] |= {
        "labels": {} if managed is None else {words.MANAGED: managed},
        "annotations": {} if connection is None else {words.CONNECTION: connection},
    }
    return made


def changed(**spec: Any) -> Object:
    made = local()
    made["spec"] |= spec
    return made


def going(made: Object) -> Object:
    made["metadata"]["deletionTimestamp"] = "now"
    return made


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (None, Local.ABSENT),
        (local(), Local.HERE_SAME),
        (changed(scope="Cluster"), Local.HERE_DIFFERS),
        (changed(names={"plural": "widgets", "kind": "Widget"}), Local.HERE_DIFFERS),
        (changed(conversion={"strategy": "Webhook"}), Local.HERE_DIFFERS),
        (local("provider-b"), Local.ELSEWHERE),
        (local(None), Local.UNMANAGED),
        (local(""), Local.UNMANAGED),
        (local(managed=None), Local.UNMANAGED),
        (local(managed="yes"), Local.UNMANAGED),
        (local("provider-b", managed=None), Local.UNMANAGED),
        (going(local()), Local.GOING),
        (going(local("provider-b")), Local.GOING),
        (going(local(None)), Local.GOING),
    ],
)
def test_what_stands_under_the_name(standing: Object | None, expected: Local) -> None:
    assert local_word(standing, wanted(crd()), "provider-a") is expected


def test_a_stamp_of_one_marker_is_not_enough() -> None:
    bare: Object = {"metadata": {"name": "x", "labels": None, "annotations": None}}
    assert not is_managed(bare)
    assert connection_of(bare) is None
    assert is_managed(local())


# --- the hash, and the server's word ---------------------------------------------------------


def test_the_hash_is_of_the_spec_whatever_the_order_of_its_keys() -> None:
    one = crd()
    other = crd(metadata={"name": "x"}, status={"a": 1})
    other["spec"] = dict(reversed(other["spec"].items()))
    assert crd_hash(one) == crd_hash(other)
    assert len(crd_hash(one)) == 16
    assert crd_hash(one) != crd_hash(crd(scope="Cluster"))
    assert crd_hash(crd(version("v1"), version("v2"))) != crd_hash(
        crd(version("v2"), version("v1"))
    )


def told(**conditions: str) -> Object:
    found = [
        {"type": name, "status": status, "reason": "Why", "message": f"about {name}"}
        for name, status in conditions.items()
    ]
    return crd(status={"conditions": found})


@pytest.mark.parametrize(
    ("standing", "established", "objects"),
    [
        (crd(), False, None),
        (crd(status={"conditions": None}), False, None),
        (told(Established="True", NamesAccepted="True"), True, None),
        (told(Established="False", NamesAccepted="True"), False, None),
        (told(Established="False", NamesAccepted="False"), False, "Why: about NamesAccepted"),
        (told(Established="True", NamesAccepted="False"), True, "Why: about NamesAccepted"),
        (told(NonStructuralSchema="True"), False, "Why: about NonStructuralSchema"),
        (told(NonStructuralSchema="False"), False, None),
        (told(Established="True", KubernetesAPIApprovalPolicyConformant="False"), True, None),
        (
            told(KubernetesAPIApprovalPolicyConformant="False"),
            False,
            "Why: about KubernetesAPIApprovalPolicyConformant",
        ),
    ],
)
def test_what_the_server_says_of_a_definition(
    standing: Object, established: bool, objects: str | None
) -> None:
    assert is_established(standing) is established
    assert objection(standing) == objects


# --- what is exported, and how it is synced --------------------------------------------------


def test_an_export_lists_what_is_served() -> None:
    given = crd(version("v1alpha1", served=False), version("v1", storage=True), version("v2beta1"))
    api = exported(given)
    assert api == ExportedApi(
        "widgets.example.org", "example.org", "widgets", "Namespaced", ("v1", "v2beta1"), "u/5"
    )
    assert api.as_json() == {
        "name": "widgets.example.org",
        "group": "example.org",
        "resource": "widgets",
        "scope": "Namespaced",
        "versions": ["v1", "v2beta1"],
    }


def test_an_api_is_synced_at_the_kept_version() -> None:
    how = served(crd(version("v1alpha1"), version("v1", storage=True, subresources={"status": {}})))
    assert how is not None
    assert how.api.path() == "/apis/example.org/v1/widgets"
    assert (how.api.kind, how.api.namespaced, how.status_subresource) == ("Widget", True, True)
    assert served(crd(version("v1", served=False))) is None


@pytest.mark.parametrize(
    ("subresources", "expected"),
    [({"status": {}}, True), ({"scale": {}}, False), ({}, False), (None, False)],
)
def test_a_status_subresource_is_told_from_its_version(
    subresources: Object | None, expected: bool
) -> None:
    other = version("v1alpha1", subresources={"status": {}})
    kept = version("v1", storage=True, subresources=subresources)
    how = served(crd(other, kept, scope="Cluster"))
    assert how is not None
    assert how.status_subresource is expected
    assert not how.api.namespaced


PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def has(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (has(status=has(conditions={"type": "array", "items": {"type": "object"}})), True),
        (has(status=has(conditions=PRESERVE)), True),
        (has(status=has(conditions={"type": "object"})), False),
        (has(status=has(conditions={"type": "string"})), False),
        (has(status=has(phase={"type": "string"})), False),
        (has(status=has(phase={"type": "string"}) | PRESERVE), True),
        (has(status={"type": "object"} | PRESERVE), True),
        (has(status=PRESERVE), True),
        (has(status={"type": "object"}), False),
        (has(status={"type": "string"}), False),
        (has(spec={"type": "object"}), False),
        (has(spec={"type": "object"}) | PRESERVE, True),
        (has(status=has(phase={"type": "string"})) | PRESERVE, False),
        ({"type": "object"}, False),
        ({"type": "object"} | PRESERVE, True),
        ({}, False),
    ],
)
def test_whether_a_schema_keeps_conditions(schema: Object, expected: bool) -> None:
    how = served(crd(version("v1", storage=True, schema={"openAPIV3Schema": schema})))
    assert how is not None
    assert how.keeps_synced is expected
