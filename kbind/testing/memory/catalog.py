"""Which resources are served right now, and under which names."""

from __future__ import annotations

from collections.abc import Iterable

from kbind.apis import qualified
from kbind.testing.memory.atoms import Atom
from kbind.testing.memory.resources import BUILTINS, Resource


class Catalog:
    """The built-in resources and those of established CRDs."""

    def __init__(self) -> None:
        self._versions: dict[str, list[Resource]] = {
            resource.name: [resource] for resource in BUILTINS
        }
        self._published: dict[str, dict[str, Resource]] = {
            resource.name: {resource.version: resource} for resource in BUILTINS
        }

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        name = qualified(group, plural)
        for resource in self._versions.get(name, ()):
            if resource.version == version and resource.served:
                return resource
        return None

    def versions(self, name: str) -> list[Resource]:
        """All of one resource, unserved ones too; the storage version comes first."""
        return self._versions.get(name, [])

    def set(self, name: str, versions: Iterable[Resource]) -> None:
        self._versions[name] = list(versions)
        served = {one.version: one for one in self._versions[name] if one.served}
        self._published[name] = self._published.get(name, {}) | served

    def drop(self, name: str) -> None:
        self._versions.pop(name, None)
        self._published.pop(name, None)

    def atom(self, resource: Resource, api_version: str) -> Atom | None:
        """The type of *resource* in a version, None for one that its CRD does not name."""
        for other in self._versions.get(resource.name, ()):
            if other.api_version == api_version:
                return other.atom
        return None

    def served(self) -> dict[tuple[str, str], list[Resource]]:
        """By group and version, in the order in which they came."""
        found: dict[tuple[str, str], list[Resource]] = {}
        for versions in self._versions.values():
            for resource in versions:
                if resource.served:
                    found.setdefault((resource.group, resource.version), []).append(resource)
        return found

    def published(self) -> dict[tuple[str, str], list[Resource]]:
        """Like served(), with each version that was served once, as it was then: what the server
        has published of a CRD stays for as long as the CRD."""
        found: dict[tuple[str, str], list[Resource]] = {}
        for versions in self._published.values():
            for resource in versions.values():
                found.setdefault((resource.group, resource.version), []).append(resource)
        return found
