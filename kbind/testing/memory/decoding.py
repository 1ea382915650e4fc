"""From a request's body to an object that the server would hold: the steps before any rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from kbind.apis import Key
from kbind.jsons import encode
from kbind.testing.memory import crds, objects, schema, validation
from kbind.testing.memory.resources import CRD_RESOURCE, Resource
from kbind.testing.memory.status import bad_request

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a write goes. name: "" for a create that generates one."""

    resource: Resource
    namespace: str
    name: str
    subresource: str = ""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def storage_key(self) -> str:
        """As some of the server's messages name the place."""
        group = f"{self.resource.group}/" if self.resource.group else ""
        return f"/registry/{group}{self.resource.plural}/{self.key}"


def decoded(resource: Resource, body: Any, *, keep: bool = False) -> Json:
    """A copy of *body* as far as the schema knows it. keep: the body is the server's own."""
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type object)")
    obj: Json = orjson.loads(encode(body))
    if not keep:
        _check_type(resource, obj)
    metadata = obj.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    obj["metadata"] = schema.clean_metadata(metadata or {})
    if resource.custom and not obj["metadata"].get("managedFields"):
        # Only the server's own types tell an empty list, which resets, from none.
        obj["metadata"].pop("managedFields", None)
    schema.prune(obj, resource.schema)
    schema.default(obj, resource.schema)
    if not (keep and resource.custom):
        # After an apply a custom resource keeps them, and may be refused for it.
        schema.drop_nulls(obj, resource.schema)
    if resource.custom:
        return obj
    _check_types(resource, obj)
    if resource is CRD_RESOURCE:
        return crds.decode(obj)
    return objects.decode_builtin(resource, obj)


def _check_type(resource: Resource, obj: Json) -> None:
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if version is None and kind is None and not resource.custom:
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        return
    if version != resource.api_version and kind == resource.kind:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    if kind != resource.kind or version != resource.api_version:
        raise bad_request(
            f'{kind} in version "{(version or "").rpartition("/")[2]}" cannot be handled as '
            f"a {resource.kind}: no kind {kind!r} is registered".replace("'", '"')
        )


def _check_types(resource: Resource, obj: Json) -> None:
    """What the server's own types cannot hold is not even decoded."""
    for cause in validation.validate(resource.schema, obj):
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {cause}"
        )


def check_namespace(target: Target, metadata: Json) -> None:
    """Put the namespace of the URL in. Raises Refusal where another one stands there."""
    if not target.resource.namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.setdefault("namespace", target.namespace)
    if given != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(target: Target, metadata: Json) -> None:
    """Put the name of the URL in. Raises Refusal where another one stands there."""
    given = metadata.setdefault("name", target.name)
    if given != target.name:
        raise bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({target.name})"
        )


def wipe(metadata: Json) -> None:
    """Take off what only the server may say of a new object."""
    for name in (
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ):
        metadata.pop(name, None)
