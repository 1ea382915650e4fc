"""The contract of schema sources can fail: sources with one fault each, and who finds it."""

from __future__ import annotations

import re
import textwrap

import pytest

pytest_plugins = ["pytester"]

SOUND = """
from dataclasses import replace

from kbind_sources.crd import CRDS, CrdSource

from kbind.errors import ClusterError, Forbidden
from kbind.hooks import Exports
from kbind.testing.handles import new
from kbind.testing.schema_source import SchemaSourceContract


def crd(plural, exported="true", **spec):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    made = new(
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
    made["metadata"]["labels"] = {"core.kbind.io/exported": exported}
    return made


class Contract(SchemaSourceContract):
    async def prepare(self, provider):
        for plural in ("widgets", "gadgets"):
            await provider.install_crd(crd(plural))

    async def change(self, provider):
        spec = crd("widgets", size={"type": "integer"})["spec"]
        await provider.merge(crd("widgets"), {"spec": spec})


class Broken(CrdSource):
    async def exports(self):
        return self.turned(await super().exports())

    def turned(self, exports):
        return exports
"""

BROKEN = {
    "test_equal_providers_get_equal_answers": """
        class Source(Broken):
            def turned(self, exports):
                return Exports(exports.apis[::-1])
    """,
    "test_a_revision_changes_with_its_definition": """
        class Source(Broken):
            def turned(self, exports):
                return Exports(tuple(replace(api, revision="1") for api in exports.apis))
    """,
    "test_every_export_has_a_definition_that_servers_take": """
        class Source(Broken):
            def turned(self, exports):
                return Exports(tuple(replace(api, scope="Cluster") for api in exports.apis))
    """,
    "test_an_unknown_api_has_no_definition": """
        class Source(CrdSource):
            async def definition(self, name):
                offer = await super().definition(name)
                if offer is None:
                    raise LookupError(name)
                return offer
    """,
    "test_where_nothing_is_offered_the_answer_is_empty": """
        class Source(Broken):
            def turned(self, exports):
                return exports if exports.apis else Exports(unread={"example.org": "nothing there"})
    """,
    "test_at_rest_little_is_asked_and_no_schema_is_read": """
        class Source(CrdSource):
            async def exports(self):
                self._seen.clear()
                return await super().exports()
    """,
    "test_nothing_is_written": """
        class Source(CrdSource):
            async def definition(self, name):
                offer = await super().definition(name)
                if offer is not None:
                    await self._provider._client.merge(f"{CRDS}/{name}", b"{}", manager="me")
                return offer
    """,
    "test_a_failure_takes_nothing_away": """
        class Source(CrdSource):
            async def exports(self):
                try:
                    return await super().exports()
                except Forbidden:
                    return Exports(tuple(self._seen.values()))
    """,
    "test_a_definition_that_cannot_be_read_is_not_gone": """
        class Source(CrdSource):
            async def definition(self, name):
                try:
                    return await super().definition(name)
                except ClusterError:
                    return None
    """,
    "test_a_provider_that_never_answers_is_given_up": """
        class Source(CrdSource):
            async def exports(self):
                for turn in range(20):
                    try:
                        return await super().exports()
                    except ClusterError as error:
                        if error.status is not None or "10 seconds" not in str(error):
                            raise
                raise error
    """,
}


def test_a_broken_promise_is_named_and_no_other(pytester: pytest.Pytester) -> None:
    parts = [SOUND]
    for promise, source in BROKEN.items():
        contract = f"class Test_{promise}(Contract):\n    factory = Source\n"
        parts += [textwrap.dedent(source), contract]
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile("\n".join(parts))
    # "no-answer" is what takes its time: a client tries again, after a pause.
    run = pytester.runpytest_subprocess("-W", "error", "--tb=no", "-k", "not no-answer")
    failed = re.findall(r"^(?:FAILED|ERROR) .*::Test_(\w+)::(\w+)", run.stdout.str(), re.MULTILINE)
    assert {promise: {by for of, by in failed if of == promise} for promise in BROKEN} == {
        promise: {promise} for promise in BROKEN
    }
