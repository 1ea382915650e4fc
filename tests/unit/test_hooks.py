"""Plugins: found by entry point, refused where they break the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kbind import __version__, hooks
from kbind.errors import PluginError
from kbind.hooks import loading


def factory(provider: hooks.ProviderReader) -> hooks.SchemaSource:
    raise NotImplementedError


def plugin(name: str, brings: Any = None, *, hook: str = "kbind_schema_sources") -> ModuleType:
    """A module that implements *hook*, and answers with *brings* or raises it."""
    module = ModuleType(name)

    def implementation() -> Any:
        if isinstance(brings, Exception):
            raise brings
        return {name: factory} if brings is None else brings

    setattr(module, hook, hooks.hookimpl(implementation))
    return module


class Point(SimpleNamespace):
    """An entry point that loads what it is given, or raises it."""

    name: str
    value: str
    brings: Any
    dist: Any = None

    def load(self) -> Any:
        if isinstance(self.brings, Exception):
            raise self.brings
        return self.brings


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def install(**points: Any) -> None:
        found = [Point(name=name, value=f"{name}.module", brings=it) for name, it in points.items()]
        monkeypatch.setattr(
            loading, "entry_points", lambda group: found if group == "kbind" else []
        )

    return install


def refused(*extra: object) -> str:
    with pytest.raises(PluginError) as caught:
        hooks.load(extra)
    return str(caught.value)


def test_bundled_sources_are_found_by_their_entry_points() -> None:
    assert {"CRD", "OpenAPI"} <= hooks.load().keys()


def test_all_plugins_bring_their_sources(installed: Callable[..., None]) -> None:
    installed(one=plugin("One"), two=plugin("Two"))
    found: Mapping[str, Any] = hooks.load([plugin("Three")])
    assert set(found) == {"One", "Two", "Three"}
    assert found["One"] is factory


def test_where_the_bundled_source_comes_from_is_told() -> None:
    found = {each.source: each for each in hooks.installed()}
    assert found["CRD"] == hooks.Installed(
        "CRD", "crd", "kbind_sources.crd", f"kbind {__version__}"
    )


def test_installed_sources_are_told_by_name(installed: Callable[..., None]) -> None:
    installed(one=plugin("a", {"Two": factory, "One": factory}), other=plugin("Another"))
    assert [(each.source, each.plugin, each.module) for each in hooks.installed()] == [
        ("Another", "other", "other.module"),
        ("One", "one", "one.module"),
        ("Two", "one", "one.module"),
    ]


def test_two_packages_with_a_plugin_of_one_name_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = [Point(name="crd", value=f"{it}.module", brings=plugin(it)) for it in ("a", "b")]
    monkeypatch.setattr(loading, "entry_points", lambda group: twice)
    assert "b.module" in refused()


def test_a_plugin_without_hooks_brings_nothing(installed: Callable[..., None]) -> None:
    installed(bare=ModuleType("bare"))
    assert hooks.load() == {}


@pytest.mark.parametrize(
    "trouble", [ImportError("no module named x"), SyntaxError("bad"), RuntimeError("at import")]
)
def test_a_plugin_that_cannot_be_imported_is_named(
    installed: Callable[..., None], trouble: Exception
) -> None:
    installed(fine=plugin("Fine"), broken=trouble)
    said = refused()
    assert said.startswith(f"plugin broken: cannot be loaded: {trouble}")
    assert "broken.module" in said


@pytest.mark.parametrize("outside", [True, False])
def test_a_misspelled_hook_is_told(installed: Callable[..., None], outside: bool) -> None:
    bad = plugin("misspelled", hook="kbind_schema_source")
    installed(**({} if outside else {"misspelled": bad}))
    said = refused(*([bad] if outside else []))
    assert said.startswith("plugin misspelled: ")
    assert "kbind_schema_source" in said


@pytest.mark.parametrize("outside", [True, False])
def test_a_hook_with_other_arguments_is_told(installed: Callable[..., None], outside: bool) -> None:
    def kbind_schema_sources(settings: str) -> Any:
        return {}

    bad = ModuleType("greedy")
    setattr(bad, "kbind_schema_sources", hooks.hookimpl(kbind_schema_sources))  # noqa: B010
    installed(**({} if outside else {"greedy": bad}))
    said = refused(*([bad] if outside else []))
    assert said.startswith("plugin greedy: cannot be loaded")
    assert "settings" in said


def test_the_same_plugin_twice_is_told(installed: Callable[..., None]) -> None:
    one = plugin("one")
    installed(one=one)
    assert "plugin one: " in refused(one)


def test_a_source_may_not_be_called_auto(installed: Callable[..., None]) -> None:
    installed(clever=plugin("Auto"))
    assert refused().startswith("plugin clever: brings a schema source 'Auto'")


def test_two_plugins_with_one_source_are_both_named(installed: Callable[..., None]) -> None:
    installed(first=plugin("a", {"CRD": factory}), second=plugin("b", {"CRD": factory}))
    said = refused()
    assert "'CRD'" in said
    assert "first" in said
    assert "second" in said


@pytest.mark.parametrize("brings", [RuntimeError("no"), KeyError("x"), ["CRD"], "CRD", 5], ids=repr)
def test_a_hook_that_fails_or_answers_otherwise_is_told(
    installed: Callable[..., None], brings: Any
) -> None:
    installed(odd=plugin("odd", brings))
    assert refused().startswith("plugin odd: kbind_schema_sources failed")


def test_a_plugin_may_be_an_object_with_methods(installed: Callable[..., None]) -> None:
    class Sources:
        @hooks.hookimpl
        def kbind_schema_sources(self) -> Mapping[str, hooks.SourceFactory]:
            return {"Mine": factory}

    installed()
    assert set(hooks.load([Sources()])) == {"Mine"}
