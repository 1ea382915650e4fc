"""Finding plugins by their entry points, and refusing those that break the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from kbind.errors import PluginError
from kbind.facts import Asked
from kbind.hooks import specs

Sources = Mapping[str, specs.SourceFactory]


@dataclass(frozen=True, slots=True)
class Installed:
    """A schema source and where it comes from. plugin, module: as the entry point has them;
    package: what was installed, with its version."""

    source: str
    plugin: str
    module: str
    package: str


def load(extra: Iterable[object] = ()) -> Sources:
    """All schema sources by name: of the installed plugins, and of *extra* modules or objects.

    Raises PluginError for a plugin that cannot be imported, misspells a hook, or brings a name
    that another one brings.
    """
    brought = _collect(_registered(entry_points(group="kbind"), extra))
    return {name: factory for name, (_, factory) in brought.items()}


def installed() -> list[Installed]:
    """The schema sources of the installed plugins, by name. Raises as ``load`` does."""
    points = list(entry_points(group="kbind"))
    brought = _collect(_registered(points))
    by_plugin = {point.name: point for point in points}
    return [_described(name, by_plugin[brought[name][0]]) for name in sorted(brought)]


def _described(source: str, point: EntryPoint) -> Installed:
    package = "" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    return Installed(source, point.name, point.value, package)


def _registered(points: Iterable[EntryPoint], extra: Iterable[object] = ()) -> pluggy.PluginManager:
    manager = pluggy.PluginManager("kbind")
    manager.add_hookspecs(specs)
    for point in points:
        try:
            manager.register(point.load(), name=point.name)
        except Exception as error:
            raise PluginError(
                f"cannot be loaded: {error}",
                plugin=point.name,
                hint=f"repair or uninstall the package behind {point.value}",
            ) from error
    for plugin in extra:
        try:
            manager.register(plugin)
        except (ValueError, pluggy.PluginValidationError) as error:
            name = manager.get_canonical_name(plugin)
            raise PluginError(f"cannot be loaded: {error}", plugin=name) from error
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        name = manager.get_name(error.plugin) or "unknown"
        raise PluginError(str(error), plugin=name, hint="compare with kbind.hooks.specs") from error
    return manager


def _collect(manager: pluggy.PluginManager) -> dict[str, tuple[str, specs.SourceFactory]]:
    """By source: the plugin that brings it, and its factory."""
    sources: dict[str, tuple[str, specs.SourceFactory]] = {}
    for implementation in manager.hook.kbind_schema_sources.get_hookimpls():
        plugin = implementation.plugin_name
        try:
            brought: Any = implementation.function()
            names = list(brought.items())
        except Exception as error:
            raise PluginError(f"kbind_schema_sources failed: {error}", plugin=plugin) from error
        for name, factory in names:
            if name == Asked.AUTO:
                raise PluginError(
                    f"brings a schema source {name!r}, a name that chooses among others",
                    plugin=plugin,
                    hint="give the source another name",
                )
            if name in sources:
                raise PluginError(
                    f"brings the schema source {name!r}, which plugin {sources[name][0]} brings",
                    plugin=plugin,
                    hint="uninstall one of the two",
                )
            sources[name] = (plugin, factory)
    return sources
