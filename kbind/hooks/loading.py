"""Finding plugins by their entry points, and refusing those that break the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

import pluggy

from kbind.errors import PluginError
from kbind.hooks import specs

Sources = Mapping[str, specs.SourceFactory]


def load(extra: Iterable[object] = ()) -> Sources:
    """All schema sources by name: of the installed plugins, and of *extra* modules or objects.

    Raises PluginError for a plugin that cannot be imported, misspells a hook, or brings a name
    that another one brings.
    """
    manager = pluggy.PluginManager("kbind")
    manager.add_hookspecs(specs)
    for point in entry_points(group="kbind"):
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
    return _collect(manager)


def _collect(manager: pluggy.PluginManager) -> Sources:
    sources: dict[str, specs.SourceFactory] = {}
    brought_by: dict[str, str] = {}
    for implementation in manager.hook.kbind_schema_sources.get_hookimpls():
        plugin = implementation.plugin_name
        try:
            brought: Any = implementation.function()
            names = list(brought.items())
        except Exception as error:
            raise PluginError(f"kbind_schema_sources failed: {error}", plugin=plugin) from error
        for name, factory in names:
            if name in sources:
                raise PluginError(
                    f"brings the schema source {name!r}, which plugin {brought_by[name]} brings",
                    plugin=plugin,
                    hint="uninstall one of the two",
                )
            sources[name] = factory
            brought_by[name] = plugin
    return sources
