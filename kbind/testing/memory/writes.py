"""Creating, changing and deleting objects: what happens between a body and the store."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any

from kbind.apis import Key
from kbind.jsons import encode
from kbind.testing.memory import crds, managers, objects, typed
from kbind.testing.memory.catalog import Catalog
from kbind.testing.memory.checks import check, same_but_times, same_content
from kbind.testing.memory.decoding import Target, check_name, check_namespace, decoded, wipe
from kbind.testing.memory.resources import CRD_RESOURCE, NAMESPACE_RESOURCE, Resource
from kbind.testing.memory.status import (
    STALE,
    Refusal,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    internal,
    invalid,
    invalid_value,
    not_found,
)
from kbind.testing.memory.store import Store

Json = dict[str, Any]

# Letters of generated names; those that could form words are left out.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


Change = Callable[[Json], Json]


class Writer:
    """The one place that writes objects for requests."""

    def __init__(
        self, store: Store, catalog: Catalog, now: Callable[[], datetime], uid: Callable[[], str]
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._now = now
        self._uid = uid

    def timestamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")

    # Create

    def create(self, target: Target, body: Json, manager: str, *, dry: bool = False) -> Json:
        resource = target.resource
        obj = decoded(resource, body)
        metadata = obj["metadata"]
        check_namespace(target, metadata)
        if metadata.get("resourceVersion"):
            raise internal("resourceVersion should not be set on objects to be created")
        name = metadata.get("name", "")
        if not name and metadata.get("generateName"):
            suffix = "".join(secrets.choice(_ALPHABET) for _ in range(5))
            metadata["name"] = name = f"{metadata['generateName'][:58]}{suffix}"
        target = Target(resource, target.namespace, name, target.subresource)
        wipe(metadata)
        obj = managers.update(resource.empty, obj, manager, self._context(target))
        return self._insert(target, obj, dry=dry)

    def _insert(self, target: Target, obj: Json, *, dry: bool) -> Json:
        """The last steps of a create, whether by POST or by apply."""
        resource = target.resource
        self._admit(target)
        obj = objects.prepare_new(resource, obj)
        if resource is CRD_RESOURCE:
            obj = crds.prepare(obj, None)
        metadata = obj["metadata"]
        metadata["uid"] = self._uid()
        metadata["creationTimestamp"] = self.timestamp()
        if resource.namespaced:
            metadata["namespace"] = target.namespace
        if resource.generations:
            metadata["generation"] = 1
        if resource.status and resource.custom:
            obj.pop("status", None)
        check(target, obj, None)
        if self._store.get(resource.name, target.key) is not None:
            raise already_exists(resource.group, resource.plural, target.name)
        if dry:
            return obj
        return self._store.put(resource.name, target.key, obj)

    def _admit(self, target: Target) -> None:
        resource = target.resource
        if resource.custom:
            crd = self._store.get(CRD_RESOURCE.name, Key("", resource.name))
            if crd is not None and crd["metadata"].get("deletionTimestamp"):
                raise forbidden(
                    resource.group,
                    resource.plural,
                    target.name,
                    "create not allowed while custom resource definition is terminating",
                )
        if not resource.namespaced:
            return
        namespace = self._store.get("namespaces", Key("", target.namespace))
        if namespace is None:
            raise not_found("", "namespaces", target.namespace)
        if namespace["metadata"].get("deletionTimestamp"):
            refusal = forbidden(
                resource.group,
                resource.plural,
                target.name,
                f"unable to create new content in namespace {target.namespace} because it is "
                "being terminated",
            )
            refusal.status["details"]["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {target.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise refusal

    # Update and patch

    def replace(self, target: Target, body: Json, manager: str, *, dry: bool = False) -> Json:
        """PUT. Raises Refusal, 404 where there is nothing to replace."""
        obj = decoded(target.resource, body)
        check_namespace(target, obj["metadata"])
        check_name(target, obj["metadata"])
        live = self._live(target)
        uid = obj["metadata"].get("uid")
        if uid and uid != live["metadata"]["uid"]:
            raise conflict(
                target.resource.group,
                target.resource.plural,
                target.name,
                f"StorageError: invalid object, Code: 4, Key: {target.storage_key}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
                f"precondition: {uid}, UID in object meta: {live['metadata']['uid']}",
            )
        obj = managers.update(live, obj, manager, self._context(target))
        return self._update(target, live, obj, dry=dry)

    def patch(self, target: Target, change: Change, manager: str, *, dry: bool = False) -> Json:
        """A JSON or merge patch, as the function that makes the new object of the old."""
        live = self._live(target)
        patched = change(self.seen(target.resource, live))
        if not isinstance(patched, dict):
            raise bad_request("the patched object is not an object")
        try:
            obj = decoded(target.resource, patched)
        except Refusal as refusal:
            if target.resource.custom:
                raise
            cause = invalid_value("patch", encode(patched).decode(), str(refusal))
            raise invalid("", "", "", [cause]) from None
        obj = managers.update(live, obj, manager, self._context(target))
        check_namespace(target, obj["metadata"])
        check_name(target, obj["metadata"])
        return self._update(target, live, obj, dry=dry)

    def apply(
        self, target: Target, body: Json, manager: str, *, force: bool, dry: bool = False
    ) -> tuple[Json, bool]:
        """Server-side apply. Returns the object and whether it is new."""
        resource = target.resource
        live = self._store.get(resource.name, target.key)
        if live is None and target.subresource:
            raise not_found(resource.group, resource.plural, target.name)
        self._check_applied(target, body)
        start: Json = {"apiVersion": resource.api_version, "kind": resource.kind}
        start |= resource.empty
        start = start if live is None else self.seen(resource, live)
        applied = managers.apply(start, body, manager, self._context(target), force=force)
        obj = decoded(resource, applied, keep=True)
        uid = obj["metadata"].get("uid")
        if live is None and uid:
            raise conflict(
                resource.group,
                resource.plural,
                target.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object "
                "was found",
            )
        check_namespace(target, obj["metadata"])
        obj["metadata"].setdefault("name", target.name)
        check_name(target, obj["metadata"])
        if live is None:
            wipe(obj["metadata"])
            return self._insert(target, obj, dry=dry), True
        return self._update(target, live, obj, dry=dry), False

    def _check_applied(self, target: Target, body: Json) -> None:
        resource = target.resource
        given = (body.get("apiVersion"), body.get("kind"))
        if given != (resource.api_version, resource.kind):
            raise bad_request(f"invalid object type: {given[0]}, Kind={given[1]}")
        metadata = body.get("metadata") or {}
        if metadata.get("managedFields") is not None:
            raise bad_request("metadata.managedFields must be nil")

    def _update(self, target: Target, live: Json, obj: Json, *, dry: bool) -> Json:
        """The steps that every change of an object goes through."""
        resource, metadata, old = target.resource, obj["metadata"], live["metadata"]
        version = metadata.get("resourceVersion")
        if not version and not resource.unconditional:
            cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource.group, resource.plural, target.name, [cause])
        if version and version != old["resourceVersion"]:
            raise conflict(resource.group, resource.plural, target.name, STALE)
        obj = self._limited(target, live, obj)
        metadata = obj["metadata"]
        metadata["resourceVersion"] = old["resourceVersion"]
        metadata.setdefault("uid", old["uid"])
        metadata["creationTimestamp"] = old["creationTimestamp"]
        for name in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
            if old.get(name) is not None:
                metadata[name] = old[name]
        if resource.namespaced:
            metadata["namespace"] = target.namespace
        if resource.generations and not target.subresource and self._moved(resource, live, obj):
            metadata["generation"] = old.get("generation", 0) + 1
        check(target, obj, live)
        if dry:
            return obj
        if same_but_times(obj, live):
            return live
        # A namespace stays until what ends namespaces has emptied it.
        held = metadata.get("finalizers") or (
            resource is NAMESPACE_RESOURCE and obj["spec"].get("finalizers")
        )
        if old.get("deletionTimestamp") and not held:
            # One write: watches see the object as it was, the answer shows what it would be.
            self._store.delete(resource.name, target.key)
            return obj
        return self._store.put(resource.name, target.key, obj)

    def control(self, resource: Resource, key: Key, obj: Json) -> Json:
        """A write of *obj* as the server's own controllers make it, to the status."""
        live = self._store.get(resource.name, key)
        assert live is not None
        context = self._context(Target(resource, key.namespace, key.name, "status"))
        return self._store.put(
            resource.name, key, managers.update(live, obj, "kube-apiserver", context)
        )

    def _limited(self, target: Target, live: Json, obj: Json) -> Json:
        """Only what this endpoint may write; the rest as it is stored."""
        seen = self.seen(target.resource, live)
        if target.subresource == "status":
            metadata = dict(seen["metadata"])
            metadata["managedFields"] = obj["metadata"].get("managedFields", [])
            limited = {**seen, "metadata": metadata}
            limited.pop("status", None)
            return {**limited, "status": obj["status"]} if "status" in obj else limited
        if target.resource.status:
            obj.pop("status", None)
            if "status" in seen:
                obj["status"] = seen["status"]
            if target.resource is CRD_RESOURCE:
                return crds.prepare(obj, live)
        return obj

    def _moved(self, resource: Resource, live: Json, obj: Json) -> bool:
        """Does a change count for the generation?"""
        if resource.custom:
            return not same_content(obj, live)
        return not typed.same(live.get("spec"), obj.get("spec"))

    # Delete

    def delete(self, target: Target, options: Json, *, dry: bool = False) -> Json:
        """Returns a Status where the object is gone, else the object that waits."""
        resource = target.resource
        live = self._live(target)
        metadata = live["metadata"]
        wanted = options.get("preconditions") or {}
        for field, title, held in (
            ("uid", "UID", "The object might have been deleted and then recreated"),
            ("resourceVersion", "ResourceVersion", "The object might have been modified"),
        ):
            if wanted.get(field) and wanted[field] != metadata[field]:
                raise conflict(
                    resource.group,
                    resource.kind if resource.custom else resource.plural,
                    target.name,
                    f"the {title} in the precondition ({wanted[field]}) does not match the "
                    f"{title} in record ({metadata[field]}). {held}",
                )
        if dry:
            return live
        finalizers = self._finalizers(resource, live)
        lingers = finalizers or resource is NAMESPACE_RESOURCE
        if lingers:
            return self._going(target, live, finalizers)
        self._store.delete(resource.name, target.key)
        details: Json = {"name": target.name}
        if resource.group:
            details["group"] = resource.group
        details |= {"kind": resource.plural, "uid": metadata["uid"]}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }

    def _finalizers(self, resource: Resource, live: Json) -> list[str]:
        finalizers = list(live["metadata"].get("finalizers") or ())
        crd = resource is CRD_RESOURCE
        if crd and crds.CLEANUP not in finalizers and not live["metadata"].get("deletionTimestamp"):
            finalizers.append(crds.CLEANUP)
        return finalizers

    def _going(self, target: Target, live: Json, finalizers: list[str]) -> Json:
        resource = target.resource
        metadata = dict(live["metadata"])
        if metadata.get("deletionTimestamp"):
            return live
        metadata["deletionTimestamp"] = self.timestamp()
        if finalizers:
            metadata["finalizers"] = finalizers
        if resource not in (NAMESPACE_RESOURCE, CRD_RESOURCE):
            metadata["deletionGracePeriodSeconds"] = 0
        if resource.custom:
            metadata["generation"] = metadata.get("generation", 0) + 1
        obj = {**live, "metadata": metadata}
        if resource is NAMESPACE_RESOURCE:
            obj["status"] = {**(live.get("status") or {}), "phase": "Terminating"}
        if resource is CRD_RESOURCE:
            obj = crds.terminating(
                obj,
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will "
                "begin soon",
                self.timestamp(),
                going=True,
            )
        return self._store.put(resource.name, target.key, obj)

    # Shared steps

    def seen(self, resource: Resource, obj: Json) -> Json:
        """A stored object in the version of *resource*."""
        if obj.get("apiVersion") == resource.api_version:
            return obj
        return {**obj, "apiVersion": resource.api_version}

    def _live(self, target: Target) -> Json:
        live = self._store.get(target.resource.name, target.key)
        if live is None:
            resource = target.resource
            raise not_found(resource.group, resource.plural, target.name)
        return live

    def _context(self, target: Target) -> managers.Context:
        resource = target.resource
        return managers.Context(
            kind=resource.kind,
            group=resource.group,
            version=resource.api_version,
            subresource=target.subresource,
            atom_of=lambda version: self._catalog.atom(resource, version),
            empty=resource.empty,
            reset=resource.reset(target.subresource),
            custom=resource.custom,
            now=self.timestamp(),
        )
