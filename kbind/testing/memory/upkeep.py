"""What the controllers of a cluster do by themselves: CRDs come into service, namespaces and
CRDs that are being deleted are emptied and end.

Runs after every write, at once, where a real cluster takes a moment.
"""

from __future__ import annotations

import copy
from typing import Any

from kbind.apis import Key
from kbind.testing.memory import crds, schema
from kbind.testing.memory.catalog import Catalog
from kbind.testing.memory.decoding import Target
from kbind.testing.memory.reads import Reader
from kbind.testing.memory.resources import CRD_RESOURCE
from kbind.testing.memory.status import Refusal
from kbind.testing.memory.store import Store
from kbind.testing.memory.typed import same
from kbind.testing.memory.writes import Writer

Json = dict[str, Any]

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


class Upkeep:
    """Brings what follows from a write about."""

    def __init__(self, store: Store, catalog: Catalog, writer: Writer, reader: Reader) -> None:
        self._store = store
        self._catalog = catalog
        self._writer = writer
        self._reader = reader
        # What each CRD asked for when it was last looked at.
        self._specs: dict[str, Json] = {}
        # The resourceVersions of the CRDs of each group when they were last judged.
        self._judged: dict[str, list[str]] = {}

    def after(self, resource: str) -> None:
        """Call after each write to *resource*."""
        if resource == CRDS:
            self._judge_crds()
        self._end_crds()
        self._end_namespaces()

    def _judge_crds(self) -> None:
        """Accept names and serve what is established, until nothing moves. Names are those of a
        group, so a group of which nothing has changed is left alone."""
        moved = True
        while moved:
            moved = False
            groups: dict[str, list[Json]] = {}
            for crd in self._store.objects(CRDS):
                groups.setdefault(crd["spec"]["group"], []).append(crd)
            for group, members in groups.items():
                versions = [crd["metadata"]["resourceVersion"] for crd in members]
                if self._judged.get(group) != versions:
                    self._judged[group] = versions
                    self._judge(members)
                    moved = True
        present = {key.name for key in self._store.keys(CRDS)}
        for name in set(self._specs) - present:
            del self._specs[name]
            self._catalog.drop(name)
            self._reader.end_watches(name)

    def _judge(self, members: list[Json]) -> None:
        """members: the CRDs of one group; each is replaced by what becomes of it."""
        for at, crd in enumerate(members):
            key = Key("", crd["metadata"]["name"])
            others = [other for other in members if other is not crd]
            judged = crds.judged(crd, others, self._writer.timestamp())
            if not same(judged, crd):
                members[at] = self._writer.control(CRD_RESOURCE, key, judged)
            self._serve(key.name, members[at])

    def _serve(self, name: str, crd: Json) -> None:
        established = crds.is_true(crd, "Established")
        wanted = {"spec": crd["spec"], "names": crd["status"]["acceptedNames"]}
        if not established or self._specs.get(name) == wanted:
            return
        first = name not in self._specs
        self._specs[name] = wanted
        versions = crds.served(crd)
        self._catalog.set(name, versions)
        self._store.begin(name)
        if not first:
            # A server ends the watches of an API that changes; what is stored is read anew.
            self._reader.end_watches(name)
            for key in self._store.keys(name):
                obj = self._store.get(name, key)
                assert obj is not None
                anew = copy.deepcopy(obj)
                schema.prune(anew, versions[0].schema)
                schema.default(anew, versions[0].schema)
                self._store.replace_silently(name, key, anew)

    def _end_crds(self) -> None:
        for crd in self._store.objects(CRDS):
            if not crd["metadata"].get("deletionTimestamp"):
                continue
            key = Key("", crd["metadata"]["name"])
            if crds.CLEANUP not in (crd["metadata"].get("finalizers") or ()):
                continue
            self._delete_all(key.name)
            if not self._store.keys(key.name):
                self._finish_crd(key, crd)

    def _finish_crd(self, key: Key, crd: Json) -> None:
        rest = [name for name in crd["metadata"]["finalizers"] if name != crds.CLEANUP]
        metadata = {**crd["metadata"], "finalizers": rest}
        done = crds.terminating(
            {**crd, "metadata": metadata},
            "InstanceDeletionCompleted",
            "removed all instances",
            self._writer.timestamp(),
            going=False,
        )
        if not rest:
            del metadata["finalizers"]
        self._writer.control(CRD_RESOURCE, key, done)
        if not rest:
            self._store.delete(CRDS, key)
            self._judge_crds()

    def _delete_all(self, name: str, namespace: str = "") -> None:
        versions = self._catalog.versions(name)
        for key in self._store.keys(name, namespace):
            self._delete(versions[0], key)

    def _delete(self, resource: Any, key: Key) -> None:
        obj = self._store.get(resource.name, key)
        if obj is not None and not obj["metadata"].get("deletionTimestamp"):
            try:
                self._writer.delete(Target(resource, key.namespace, key.name), {})
            except Refusal:
                return

    def _end_namespaces(self) -> None:
        for namespace in self._store.objects("namespaces"):
            metadata = namespace["metadata"]
            if not metadata.get("deletionTimestamp"):
                continue
            name = metadata["name"]
            for resource, key in self._store.namespaced(name):
                self._delete(self._catalog.versions(resource)[0], key)
            if not self._store.namespaced(name):
                self._finish_namespace(Key("", name), namespace)

    def _finish_namespace(self, key: Key, namespace: Json) -> None:
        spec = dict(namespace.get("spec") or {})
        if spec.pop("finalizers", None):
            self._store.put("namespaces", key, {**namespace, "spec": spec})
        if not namespace["metadata"].get("finalizers"):
            self._store.delete("namespaces", key)
