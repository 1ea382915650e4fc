"""The contract of schema sources can fail: sources with one fault each, and who finds it."""

from __future__ import annotations

import re
import textwrap

import pytest

pytest_plugins = ["pytester"]

SOUND = """
from dataclasses import replace

from kbind.errors import ClusterError, Forbidden, NotFound
from kbind.hooks import Definition, Exports, Offer, exported, revision
from kbind.testing.handles import new
from kbind.testing.schema_source import SchemaSourceContract

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Sound:
    def __init__(self, provider):
        self.provider = provider
        self.seen = {}

    async def exports(self):
        seen = {}
        async for item in self.provider.items(CRDS, accept=METADATA_ONLY):
            name = item["metadata"]["name"]
            seen[name] = self.seen.get(name)
            if seen[name] is None or seen[name].revision != revision(item["metadata"]):
                seen[name] = exported(await self.provider.get(f"{CRDS}/{name}"))
        self.seen = seen
        return self.turned(Exports(tuple(seen[name] for name in sorted(seen))))

    async def definition(self, name):
        try:
            return Offer(await self.provider.get(f"{CRDS}/{name}"), Definition.ORIGINAL)
        except NotFound:
            return None

    def turned(self, exports):
        return exports


def crd(plural, **spec):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return new(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.example.org",
        spec={
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.title()},
            "versions": [version],
        },
    )


class Contract(SchemaSourceContract):
    async def prepare(self, provider):
        for plural in ("widgets", "gadgets"):
            await provider.install_crd(crd(plural))

    async def change(self, provider):
        spec = crd("widgets", size={"type": "integer"})["spec"]
        await provider.merge(crd("widgets"), {"spec": spec})


class TestSound(Contract):
    factory = Sound
"""

BROKEN = {
    "test_equal_providers_get_equal_answers": """
        class Source(Sound):
            def turned(self, exports):
                return Exports(exports.apis[::-1])
    """,
    "test_a_revision_changes_with_its_definition": """
        class Source(Sound):
            def turned(self, exports):
                return Exports(tuple(replace(api, revision="1") for api in exports.apis))
    """,
    "test_every_export_has_a_definition_that_servers_take": """
        class Source(Sound):
            def turned(self, exports):
                return Exports(tuple(replace(api, scope="Cluster") for api in exports.apis))
    """,
    "test_an_unknown_api_has_no_definition": """
        class Source(Sound):
            async def definition(self, name):
                offer = await super().definition(name)
                if offer is None:
                    raise LookupError(name)
                return offer
    """,
    "test_where_nothing_is_offered_the_answer_is_empty": """
        class Source(Sound):
            def turned(self, exports):
                return exports if exports.apis else Exports(unread={"example.org": "nothing there"})
    """,
    "test_at_rest_little_is_asked_and_no_schema_is_read": """
        class Source(Sound):
            async def exports(self):
                self.seen.clear()
                return await super().exports()
    """,
    "test_nothing_is_written": """
        class Source(Sound):
            async def definition(self, name):
                offer = await super().definition(name)
                if offer is not None:
                    await self.provider._client.merge(f"{CRDS}/{name}", b"{}", manager="me")
                return offer
    """,
    "test_a_failure_takes_nothing_away": """
        class Source(Sound):
            async def exports(self):
                try:
                    return await super().exports()
                except Forbidden:
                    return Exports(tuple(self.seen.values()))
    """,
    "test_a_definition_that_cannot_be_read_is_not_gone": """
        class Source(Sound):
            async def definition(self, name):
                try:
                    return await super().definition(name)
                except ClusterError:
                    return None
    """,
    "test_a_provider_that_never_answers_is_given_up": """
        class Source(Sound):
            async def exports(self):
                while True:
                    try:
                        return await super().exports()
                    except ClusterError as error:
                        if error.status is not None or "10 seconds" not in str(error):
                            raise
    """,
}


# Another way to break some of them.
MORE = {
    "test_equal_providers_get_equal_answers": """
        class Source(Sound):
            def turned(self, exports):
                numbered = (replace(api, revision=hash(api.revision)) for api in exports.apis)
                return Exports(tuple(numbered))
    """,
    "test_every_export_has_a_definition_that_servers_take": """
        class Source(Sound):
            async def definition(self, name):
                offer = await super().definition(name)
                return offer and Offer(offer.crd, "original")
    """,
    "test_a_provider_that_never_answers_is_given_up": """
        class Source(Sound):
            async def definition(self, name):
                while True:
                    try:
                        return await super().definition(name)
                    except ClusterError as error:
                        if error.status is not None or "10 seconds" not in str(error):
                            raise
    """,
}


def test_a_broken_promise_is_named_and_no_other(pytester: pytest.Pytester) -> None:
    parts = [SOUND]
    expected = set()
    for promise, source in [*BROKEN.items(), *MORE.items()]:
        name = f"Test{len(parts)}"
        expected.add((name, promise))
        contract = f"class {name}(Contract):\n    factory = Source\n"
        parts.append(textwrap.dedent(source) + contract)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile("\n".join(parts))
    # "no-answer" is what takes its time: a client tries again, after a pause.
    run = pytester.runpytest_subprocess("-W", "error", "--tb=no", "-k", "not no-answer")
    shown = re.findall(r"^(?:FAILED|ERROR) .*::(Test\w+)::(\w+)", run.stdout.str(), re.MULTILINE)
    assert set(shown) == expected
