"""The APIs that the server serves: names, schemas and what each endpoint may write."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kbind.apis import qualified
from kbind.testing.memory.atoms import Atom, compile_root
from kbind.testing.memory.fields import FieldSet
from kbind.testing.memory.managers import RESET_ALL_BUT_STATUS, RESET_STATUS
from kbind.testing.memory.validation import schemas_with_lists

Schema = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource in one version.

    custom: defined by a CRD; status, scale: has that subresource; selectable: the paths of the
    fields that a CRD lets select by; generations: counts changes in metadata.generation;
    unconditional: may be replaced without a resourceVersion; empty: the fields that an object
    without content has, as the server's own types do.
    """

    group: str
    version: str
    plural: str
    kind: str
    list_kind: str
    singular: str
    namespaced: bool
    schema: Schema
    custom: bool = False
    status: bool = False
    scale: bool = False
    selectable: tuple[str, ...] = ()
    generations: bool = False
    unconditional: bool = True
    empty: Schema = field(default_factory=dict)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    served: bool = True
    verbs: tuple[str, ...] = field(
        default=(
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
        )
    )  # fmt: skip

    @property
    def name(self) -> str:
        """As the store and CRDs know it."""
        return qualified(self.group, self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def atom(self) -> Atom:
        return compile_root(self.schema)

    @cached_property
    def lists(self) -> frozenset[int]:
        """The parts of the schema that hold lists of type set or map."""
        return schemas_with_lists(self.schema)

    def reset(self, subresource: str) -> FieldSet:
        """Fields that an endpoint takes from what is stored, whatever is sent."""
        if subresource == "status":
            return RESET_ALL_BUT_STATUS
        return RESET_STATUS if self.status else {}


_S: Schema = {"type": "string"}
_I: Schema = {"type": "integer"}
_B: Schema = {"type": "boolean"}
_ANY: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_MAP: Schema = {"type": "object", "additionalProperties": _S}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _list(items: Schema, *keys: str) -> Schema:
    schema: Schema = {"type": "array", "items": items}
    if keys:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return schema


_CONDITION = _object(
    type=_S, status=_S, reason=_S, message=_S, lastTransitionTime=_S, observedGeneration=_I
)
_REFERENCE = {
    **_object(
        apiVersion=_S, kind=_S, namespace=_S, name=_S, uid=_S, resourceVersion=_S, fieldPath=_S
    ),
    "x-kubernetes-map-type": "atomic",
}
_CRD_NAMES = _object(
    plural=_S,
    singular=_S,
    shortNames=_list(_S),
    kind=_S,
    listKind=_S,
    categories=_list(_S),
)

_CRD_VERSION = _object(
    name=_S,
    served=_B,
    storage=_B,
    deprecated=_B,
    deprecationWarning=_S,
    schema=_object(openAPIV3Schema=_ANY),
    subresources=_object(
        status=_ANY,
        scale=_object(specReplicasPath=_S, statusReplicasPath=_S, labelSelectorPath=_S),
    ),
    additionalPrinterColumns=_list(
        _object(name=_S, type=_S, format=_S, description=_S, priority=_I, jsonPath=_S)
    ),
    selectableFields=_list(_object(jsonPath=_S)),
)


def _builtin(
    group: str,
    version: str,
    plural: str,
    kind: str,
    schema: Schema,
    *short_names: str,
    namespaced: bool = True,
    **more: Any,
) -> Resource:
    return Resource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        list_kind=f"{kind}List",
        singular=kind.lower(),
        namespaced=namespaced,
        schema=schema,
        short_names=short_names,
        **more,
    )


CRD_RESOURCE = _builtin(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    _object(
        spec=_object(
            group=_S,
            names=_CRD_NAMES,
            scope=_S,
            versions=_list(_CRD_VERSION),
            conversion=_object(strategy=_S, webhook=_ANY),
            preserveUnknownFields=_B,
        ),
        status=_object(
            conditions=_list(_CONDITION, "type"),
            acceptedNames=_CRD_NAMES,
            storedVersions=_list(_S),
            observedGeneration=_I,
        ),
    ),
    "crd",
    "crds",
    namespaced=False,
    status=True,
    generations=True,
    unconditional=False,
    categories=("api-extensions",),
    empty={
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
        "status": {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        },
    },
)

NAMESPACE_RESOURCE = _builtin(
    "",
    "v1",
    "namespaces",
    "Namespace",
    _object(
        spec=_object(finalizers=_list(_S)),
        status=_object(phase=_S, conditions=_list(_CONDITION, "type")),
    ),
    "ns",
    namespaced=False,
    status=True,
    empty={"spec": {}, "status": {}},
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)

BUILTINS: tuple[Resource, ...] = (
    NAMESPACE_RESOURCE,
    _builtin(
        "",
        "v1",
        "secrets",
        "Secret",
        _object(
            data={"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
            stringData=_MAP,
            type=_S,
            immutable=_B,
        ),
    ),
    _builtin(
        "",
        "v1",
        "configmaps",
        "ConfigMap",
        _object(
            data=_MAP,
            binaryData={
                "type": "object",
                "additionalProperties": {"type": "string", "format": "byte"},
            },
            immutable=_B,
        ),
        "cm",
    ),
    _builtin(
        "",
        "v1",
        "events",
        "Event",
        _object(
            involvedObject=_REFERENCE,
            reason=_S,
            message=_S,
            source=_object(component=_S, host=_S),
            firstTimestamp=_S,
            lastTimestamp=_S,
            count=_I,
            type=_S,
            eventTime=_S,
            series=_object(count=_I, lastObservedTime=_S),
            action=_S,
            related=_REFERENCE,
            reportingComponent=_S,
            reportingInstance=_S,
        ),
        "ev",
        empty={
            "involvedObject": {},
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": None,
            "reportingComponent": "",
            "reportingInstance": "",
        },
    ),
    _builtin(
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        _object(
            secrets=_list(_REFERENCE, "name"),
            imagePullSecrets=_list({**_object(name=_S), "x-kubernetes-map-type": "atomic"}, "name"),
            automountServiceAccountToken=_B,
        ),
        "sa",
    ),
    CRD_RESOURCE,
    _builtin(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        _object(
            spec=_object(
                holderIdentity=_S,
                leaseDurationSeconds=_I,
                acquireTime=_S,
                renewTime=_S,
                leaseTransitions=_I,
                strategy=_S,
                preferredHolder=_S,
            )
        ),
        unconditional=False,
        empty={"spec": {}},
    ),
)
