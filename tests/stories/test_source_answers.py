"""What the konnector makes of a schema source's answers, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from kbind import words
from kbind.apis import CRDS
from kbind.errors import ClusterError, Gone, SchemaSourceError, Unauthorized, Unreachable
from kbind.hooks import (
    Definition,
    Exports,
    Offer,
    ProviderReader,
    SourceFactory,
    exported,
    hookimpl,
)
from kbind.testing.handles import Object, condition, find_condition
from kbind.testing.running import USER, add_connection, binding
from tests.clusters.scenes import OWN, PROVIDER, bound, crd_ref, exports, message
from tests.clusters.widgets import GADGETS, ROCKETS, WIDGETS, crd, rockets, widget
from tests.stories.telling import Story, tell


class Scripted:
    """A plugin whose source offers what a test says: definitions by name, an answer that it gives
    instead, and what is unread. slow: names whose definition takes very long; wrong: what is given
    for one, or raised, instead of it; unmade: what the factory raises."""

    def __init__(self, *offered: Object) -> None:
        self.offered: dict[str, Any] = {}
        self.instead: Any = None
        self.unread: dict[str, str] = {}
        self.slow: set[str] = set()
        self.wrong: dict[str, Any] = {}
        self.note = ""
        self.unmade: BaseException | None = None
        self.offer(*offered)

    def offer(self, *offered: Object) -> None:
        for number, definition in enumerate(offered):
            version = {"uid": f"uid-{number}", "resourceVersion": str(number)}
            metadata = definition["metadata"] | version
            self.offered[metadata["name"]] = definition | {"metadata": metadata}

    async def exports(self) -> Exports:
        if isinstance(self.instead, BaseException):
            raise self.instead
        if self.instead is not None:
            answer: Exports = self.instead
            return answer
        apis = [exported(it) for name, it in self.offered.items() if name not in self.unread]
        return Exports(tuple(apis), self.unread)

    async def definition(self, name: str) -> Offer | None:
        if name in self.slow:
            await asyncio.sleep(3600)
        if name not in self.offered:
            return None
        wrong = self.wrong.get(name)
        if isinstance(wrong, BaseException):
            raise wrong
        if wrong is not None:
            offer: Offer = wrong
            return offer
        return Offer(self.offered[name], Definition.SYNTHESIZED, self.note)

    @hookimpl
    def kbind_schema_sources(self) -> Mapping[str, SourceFactory]:
        def factory(provider: ProviderReader) -> Scripted:
            if self.unmade is not None:
                raise self.unmade
            return self

        return {"Scripted": factory}


def told(plugin: Scripted, **spec: Any) -> Callable[[Callable[[Story], Awaitable[None]]], None]:
    """Tells a story with a Connection that asks *plugin*. spec: further fields of its spec."""

    def tells(main: Callable[[Story], Awaitable[None]]) -> None:
        async def begun(story: Story) -> None:
            schema = {"source": "Scripted"} | spec.pop("schema", {})
            await add_connection(story.consumer, story.clusters[1], schema=schema, **spec)
            await story.consumer.until(
                PROVIDER, lambda seen: (find_condition(seen, "Ready") or {}).get("reason")
            )
            await main(story)

        tell(begun, [plugin])

    return tells


async def connection_after(story: Story, seconds: float) -> Object:
    await story.wait(seconds)
    seen: Object = await story.consumer.get(PROVIDER)
    return seen


def test_what_is_unread_stands_and_the_rest_is_followed() -> None:
    plugin = Scripted(crd(), crd("gadgets", "Gadget"), rockets())

    async def main(story: Story) -> None:
        await story.consumer.until(OWN, lambda seen: len(seen["spec"]["apis"]) == 3)
        await story.consumer.established(ROCKETS)
        plugin.unread = {"space.org": "its server is down"}
        for name in (GADGETS, ROCKETS):
            del plugin.offered[name]
        plugin.offer(crd("signals", "Signal"))
        seen = await connection_after(story, 65)
        assert exports(seen) == [ROCKETS, "signals.example.org", WIDGETS]
        assert condition(seen, "Ready")
        assert "space.org (its server is down)" in message(seen, "Ready")
        # Rockets are bound, so whether they are in sync is not known.
        assert condition(seen, "SchemaInSync", "Unknown")
        assert f"{ROCKETS}: its server is down" in message(seen, "SchemaInSync")
        assert bound(await story.consumer.get(OWN)) == [GADGETS, ROCKETS, WIDGETS]

        plugin.unread = {}
        seen = await connection_after(story, 65)
        assert exports(seen) == ["signals.example.org", WIDGETS]
        assert message(seen, "Ready") == ""
        assert condition(seen, "SchemaInSync")
        assert bound(await story.consumer.get(OWN)) == ["signals.example.org", WIDGETS]
        assert await story.consumer.get(crd_ref(ROCKETS))

    told(plugin, autoBind=True)(main)


def test_what_nobody_wants_may_be_unread() -> None:
    plugin = Scripted(crd(), rockets())

    async def main(story: Story) -> None:
        plugin.unread = {ROCKETS: "two resources claim its plural"}
        seen = await connection_after(story, 65)
        assert ROCKETS in message(seen, "Ready")
        assert condition(seen, "SchemaInSync")

    told(plugin)(main)


EXPIRED = Gone("the list expired", side="provider", verb="list", path="/things", status=410)


@pytest.mark.parametrize(
    "answer",
    [
        SchemaSourceError("the registry is down"),
        ValueError("a bug"),
        SystemExit(1),
        asyncio.CancelledError(),  # of a task that the plugin waited for
        ["widgets"],
        Exports(iter(())),  # type: ignore[arg-type]
        SchemaSourceError("the file bad\udcff.yaml is no YAML"),  # so Python reads odd names
        EXPIRED,
    ],
    ids=["refusal", "bug", "exit", "cancelled", "list", "iterator", "odd text", "expired"],
)
def test_an_answer_that_is_none_changes_nothing(answer: Any) -> None:
    plugin = Scripted(crd())

    async def main(story: Story) -> None:
        await story.consumer.until(OWN, lambda seen: bound(seen) == [WIDGETS])
        plugin.instead = answer
        seen = await connection_after(story, 120)
        assert condition(seen, "Ready")
        assert "what was known stands" in message(seen, "Ready")
        assert condition(seen, "SchemaInSync", "Unknown")
        assert exports(seen) == [WIDGETS]
        assert bound(await story.consumer.get(OWN)) == [WIDGETS]

        plugin.instead = None
        seen = await connection_after(story, 35)
        assert message(seen, "Ready") == ""
        assert condition(seen, "SchemaInSync")

    told(plugin, autoBind=True)(main)


@pytest.mark.parametrize("answer", [SchemaSourceError("the registry is down"), ["widgets"]])
def test_a_source_that_never_answered_is_reported(answer: Any) -> None:
    plugin = Scripted(crd())
    plugin.instead = answer

    async def main(story: Story) -> None:
        seen = await connection_after(story, 65)
        assert condition(seen, "Ready", "False")
        assert (find_condition(seen, "Ready") or {})["reason"] == "SchemaSourceFailed"
        assert message(seen, "Ready").startswith("schema source Scripted: ")
        assert await story.consumer.find(OWN) is None

    told(plugin, autoBind=True)(main)


def test_our_own_kinds_are_never_offered() -> None:
    own = crd("connections", "Connection", scope="Cluster")
    own["metadata"]["name"] = f"connections.{words.GROUP}"
    own["spec"]["group"] = words.GROUP
    plugin = Scripted(own, crd())

    async def main(story: Story) -> None:
        seen = await connection_after(story, 35)
        assert exports(seen) == [WIDGETS]
        assert bound(await story.consumer.get(OWN)) == [WIDGETS]
        assert words.MANAGED not in (
            await story.consumer.get(crd_ref(f"connections.{words.GROUP}"))
        )["metadata"].get("labels", {})

    told(plugin, autoBind=True, schema={"pullPolicy": "None"})(main)


@pytest.mark.parametrize(
    "broken",
    [
        {"versions": None},
        {"versions": (1,)},
        {"versions": "v1"},
        {"versions": ("v1", "v1")},
        {"scope": "Weird"},
        {"name": "widgets"},
        {"revision": None},
    ],
    ids=str,
)
def test_malformed_exports_are_told_and_the_connection_lives_on(broken: dict[str, Any]) -> None:
    plugin = Scripted(crd())

    async def main(story: Story) -> None:
        plugin.instead = Exports((replace(exported(plugin.offered[WIDGETS]), **broken),))
        seen = await connection_after(story, 65)
        assert condition(seen, "Ready")
        assert "exports are malformed" in message(seen, "Ready")
        assert exports(seen) == [WIDGETS]
        plugin.instead = None
        assert message(await connection_after(story, 35), "Ready") == ""

    told(plugin)(main)


def test_what_is_unread_from_the_start_is_not_told_to_be_gone() -> None:
    plugin = Scripted(crd(), rockets())
    plugin.unread = {ROCKETS: "its server is down"}

    async def main(story: Story) -> None:
        made = await story.consumer.create(binding([ROCKETS]))
        await story.wait(35)
        seen = await story.consumer.get(made)
        assert (find_condition(seen, "Ready") or {})["reason"] == "SchemaSourceFailed"
        assert "its server is down" in message(seen, "Ready")

    told(plugin)(main)


def test_slow_definitions_do_not_hold_up_what_the_connection_says() -> None:
    many = [crd(f"kind{number}s", f"Kind{number}") for number in range(20)]
    plugin = Scripted(*many, crd())
    plugin.slow = {definition["metadata"]["name"] for definition in many}

    async def main(story: Story) -> None:
        await story.consumer.create(binding(sorted(plugin.offered)))
        await story.consumer.established(WIDGETS, 30 * 60)
        plugin.unread = {"space.org": "its server is down"}
        seen = await connection_after(story, 150)
        assert "space.org" in message(seen, "Ready")

    told(plugin)(main)


@pytest.mark.parametrize("error", [ValueError("no settings"), SystemExit("no settings")], ids=repr)
def test_a_source_that_cannot_be_made_is_reported(error: BaseException) -> None:
    plugin = Scripted(crd())
    plugin.unmade = error

    async def main(story: Story) -> None:
        seen = await connection_after(story, 5)
        assert (find_condition(seen, "Ready") or {})["reason"] == "SchemaSourceFailed"
        assert f"the plugin broke: {type(error).__name__}: no settings" in message(seen, "Ready")
        plugin.unmade = None
        assert condition(await connection_after(story, 40), "Ready")

    told(plugin)(main)


def test_nothing_exported_counts_after_two_discoveries_30_s_apart() -> None:
    plugin = Scripted(crd())

    async def main(story: Story) -> None:
        await story.consumer.until(OWN, lambda seen: bound(seen) == [WIDGETS])
        kept = plugin.offered.copy()
        plugin.offered.clear()
        seen = await story.consumer.until(PROVIDER, lambda seen: exports(seen) == [], 40)
        first = story.time.seconds
        plugin.instead = SchemaSourceError("down for a moment")
        await story.wait(45)
        plugin.instead = None
        await story.consumer.gone(OWN, 60)
        assert story.time.seconds - first >= 55  # the failed one between did not count

        plugin.offered |= kept
        await story.consumer.until(OWN, lambda seen: bound(seen) == [WIDGETS], 40)
        plugin.offered.clear()
        await story.consumer.until(PROVIDER, lambda seen: exports(seen) == [], 40)
        plugin.offered |= kept
        seen = await connection_after(story, 120)
        assert exports(seen) == [WIDGETS]
        assert bound(await story.consumer.get(OWN)) == [WIDGETS]

    told(plugin, autoBind=True)(main)


def test_of_several_definitions_that_failed_each_has_its_turn() -> None:
    plugin = Scripted(crd(), crd("gadgets", "Gadget"), rockets())
    plugin.slow = {GADGETS, ROCKETS, WIDGETS}

    async def main(story: Story) -> None:
        await story.consumer.create(binding([GADGETS, ROCKETS, WIDGETS]))
        await story.wait(300)
        plugin.slow = {GADGETS}
        for name in (ROCKETS, WIDGETS):
            await story.consumer.established(name, 300)
        seen = await connection_after(story, 120)
        assert f"{GADGETS}: no answer within 60 s" in message(seen, "SchemaInSync")
        assert WIDGETS not in message(seen, "SchemaInSync")

    told(plugin)(main)


def test_one_definition_that_is_slow_or_broken_holds_up_no_other() -> None:
    plugin = Scripted(crd("gadgets", "Gadget"), rockets(), crd())
    plugin.slow = {GADGETS}
    plugin.wrong = {ROCKETS: Offer({"metadata": {"name": ROCKETS}}, Definition.ORIGINAL)}

    async def main(story: Story) -> None:
        made = await story.consumer.create(binding([GADGETS, ROCKETS, WIDGETS]))
        await story.consumer.established(WIDGETS, 90)
        seen = await connection_after(story, 90)
        assert condition(seen, "Ready")
        text = message(seen, "SchemaInSync")
        assert f"{GADGETS}: no answer within 60 s" in text
        assert f"{ROCKETS}: the plugin's definition is no CRD" in text
        assert WIDGETS not in text
        seen = await story.consumer.get(made)
        assert (find_condition(seen, "Ready") or {})["reason"] == "SchemaSourceFailed"

    told(plugin)(main)


def with_schema(**extra: Any) -> Offer:
    """Widgets with something that is no schema. extra: of the schema's fields."""
    definition = crd()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] |= extra
    return Offer(definition, Definition.SYNTHESIZED)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ValueError("a bug"), "the plugin broke: ValueError: a bug"),
        (SystemExit(1), "the plugin broke: SystemExit: 1"),
        (asyncio.CancelledError(), "the plugin broke: CancelledError"),
        (crd(), "the plugin answered with dict, not with Offer"),
        (Offer(crd("gadgets", "Gadget"), Definition.ORIGINAL), f"of another API: {GADGETS}"),
        (Offer(crd(), "original"), "'original' is no Definition"),  # type: ignore[arg-type]
        (with_schema(title={1, 2}), "Type is not JSON serializable: set"),
        (with_schema(properties={True: {}}), "a field is named True"),  # what YAML makes of "on"
    ],
    ids=["bug", "exit", "cancelled", "CRD", "another", "word", "set", "key"],
)
def test_a_definition_that_is_none_of_its_api_is_told_and_harms_no_other(
    wrong: Any, said: str
) -> None:
    plugin = Scripted(crd(), rockets())
    plugin.wrong = {WIDGETS: wrong}

    async def main(story: Story) -> None:
        made = await story.consumer.create(binding([ROCKETS, WIDGETS]))
        await story.consumer.established(ROCKETS)
        seen = await connection_after(story, 65)
        assert condition(seen, "Ready")
        assert said in message(seen, "SchemaInSync")
        assert said in message(await story.consumer.get(made), "Ready")
        for name in (GADGETS, WIDGETS):
            assert await story.consumer.find(crd_ref(name)) is None
        plugin.wrong = {}
        await story.consumer.established(WIDGETS, 65)

    told(plugin)(main)


@pytest.mark.parametrize("kind", [Unreachable, Unauthorized])
def test_a_definition_that_never_comes_over_is_asked_for_no_faster(
    kind: type[ClusterError],
) -> None:
    """Such as one that a proxy cuts off, while the provider answers everything else."""
    plugin = Scripted(crd(), rockets())
    plugin.wrong = {ROCKETS: kind("cut off", side="provider", verb="get", path="/openapi/v3")}

    async def main(story: Story) -> None:
        await story.consumer.create(binding([ROCKETS, WIDGETS]))
        await story.consumer.established(WIDGETS)
        provider = story.clusters[1]
        await story.wait(60)
        before = len(provider.audit(USER))
        seen = await connection_after(story, 300)
        assert condition(seen, "Ready")
        assert f"{ROCKETS}: cut off" in message(seen, "SchemaInSync")
        # Each discovery reads two identities; watches and the heartbeat are there as well.
        assert len(provider.audit(USER)) - before < 10 * 12

    told(plugin)(main)


def test_while_discovery_fails_nothing_is_said_of_what_is_in_sync() -> None:
    plugin = Scripted(crd())

    async def main(story: Story) -> None:
        await story.consumer.create(binding([WIDGETS]))
        await story.consumer.established(WIDGETS)
        changed = crd()
        changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "changed"
        changed["metadata"]["name"] = WIDGETS
        plugin.offer(changed)
        plugin.offered[WIDGETS]["metadata"]["resourceVersion"] = "2"
        seen = await connection_after(story, 65)
        assert (find_condition(seen, "SchemaInSync") or {})["reason"] == "Pinned"
        plugin.instead = SchemaSourceError("the registry is down")
        seen = await connection_after(story, 65)
        found = find_condition(seen, "SchemaInSync") or {}
        assert (found["status"], found["reason"]) == ("Unknown", "SchemaSourceFailed")

    told(plugin, schema={"updatePolicy": "Once"})(main)


def test_what_could_not_be_kept_of_a_definition_is_said() -> None:
    plugin = Scripted(crd())
    plugin.note = "3 parts of spec made permissive"

    async def main(story: Story) -> None:
        made = await story.consumer.create(binding([WIDGETS]))
        await story.consumer.until(made, lambda seen: condition(seen, "Ready"))
        seen = await connection_after(story, 65)
        for obj, type_ in ((seen, "SchemaInSync"), (await story.consumer.get(made), "Ready")):
            assert message(obj, type_) == f"{WIDGETS}: 3 parts of spec made permissive"

    told(plugin)(main)


def test_an_index_that_never_comes_changes_nothing() -> None:
    async def main(story: Story) -> None:
        path = "/openapi/v3"
        there = story.clusters[1]
        await story.provider.install_crd(crd(exported=False))
        await story.consumer.namespace("team-a")
        schema = {"source": "OpenAPI"}
        await add_connection(story.consumer, there, autoBind=True, schema=schema)
        await story.consumer.established(WIDGETS)
        one = await story.consumer.create(widget("one"))
        await story.provider.until(one, bool)
        hung = there.faults.hang(lambda request: request.path == path)
        seen = await connection_after(story, 120)
        assert f"what was known stands: schema source OpenAPI: provider: get {path}" in message(
            seen, "Ready"
        )
        for number in range(10):
            await story.consumer.merge(one, {"spec": {"size": number}})
            await story.wait(15)
            assert (await story.provider.get(one))["spec"]["size"] == number
            assert condition(await story.consumer.get(PROVIDER), "Ready")
        assert bound(await story.consumer.get(OWN)) == [WIDGETS]

        there.faults.remove(hung)
        assert message(await connection_after(story, 60), "Ready") == ""
        there.down = True
        seen = await connection_after(story, 60)
        assert (find_condition(seen, "Ready") or {})["reason"] == "Unreachable"

    tell(main)


def test_a_definition_that_is_refused_is_tried_again_now_and_then() -> None:
    plugin = Scripted(crd())

    async def main(story: Story) -> None:
        here = story.clusters[0]
        here.deny(USER, "create", CRDS.name)
        made = await story.consumer.create(binding([WIDGETS]))
        await story.wait(1000)
        seen = await story.consumer.get(made)
        assert (find_condition(seen, "Ready") or {})["reason"] == "SchemaRefused"
        assert "cannot create" in message(seen, "Ready")
        seen = await story.consumer.get(PROVIDER)
        assert (find_condition(seen, "SchemaInSync") or {})["reason"] == "SchemaRefused"
        tries = [e for e in here.audit(USER) if e.resource == CRDS.plural and e.writes]
        assert 3 <= len(tries) <= 4  # in half a minute each it would be 33

        here.allow(USER, "create", CRDS.name)
        await story.consumer.established(WIDGETS, 340)
        seen = await connection_after(story, 35)
        assert condition(seen, "SchemaInSync")

    told(plugin)(main)
