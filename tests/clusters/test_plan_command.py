"""``kbind plan`` as a command: what it prints, what it refuses, and that it writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from kbind.errors import KbindError
from kbind.planning.action import Deletion
from kbind.testing.running import USER, RunningKonnector, add_connection, binding, connection
from tests.clusters.access import USER as LIMITED
from tests.clusters.access import limit, may
from tests.clusters.foretelling import planned, stream
from tests.clusters.relay import Relay
from tests.clusters.scenes import PROVIDER, synced
from tests.clusters.test_process import KBIND
from tests.clusters.widgets import GROUP, WIDGETS, crd, widget
from tests.clusters.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

BOUND = binding([WIDGETS], "team-a")
EVERYWHERE = binding([WIDGETS], name="everywhere")


async def kbind_plan(
    folder: Path, kubeconfig: Mapping[str, Any], *arguments: str, stdin: str = ""
) -> tuple[int, str, str]:
    """Exit code, output and errors of the command as a process of its own."""
    file = folder / "kubeconfig"
    file.write_bytes(orjson.dumps(kubeconfig))
    running = await asyncio.create_subprocess_exec(
        *KBIND,
        "plan",
        f"--kubeconfig={file}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(running.communicate(stdin.encode()), 60)
    assert running.returncode is not None
    assert "Traceback" not in errors.decode()
    return running.returncode, out.decode(), errors.decode()


async def begin(world: World, count: int = 2) -> None:
    """Widgets are bound everywhere, and have copies."""
    await world.provider.install_crd(crd())
    await world.consumer.namespace("team-a")
    await add_connection(world.consumer, world.provider.cluster)
    await world.consumer.create(EVERYWHERE)
    await synced(world.consumer, EVERYWHERE)
    made = [await world.consumer.create(widget(f"w-{n:02}", size=1)) for n in range(count)]
    for each in made:
        await world.provider.until(each, lambda seen: seen)


def writes(world: World) -> list[str]:
    return [
        f"{handle.cluster.name}: {entry}"
        for handle in (world.consumer, world.provider)
        for user in (USER, LIMITED)
        for entry in handle.cluster.audit(user)
        if entry.writes
    ]


async def test_it_says_all_of_it_and_writes_nothing(
    world: World, konnector: RunningKonnector, tmp_path: Path
) -> None:
    await begin(world, 13)
    await konnector.stop()
    before = writes(world)
    kubeconfig = world.consumer.cluster.kubeconfig(USER)
    delete = ("--delete", "clusterbinding", "everywhere")

    code, out, errors = await kbind_plan(tmp_path, kubeconfig, *delete)
    assert (code, errors) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "you       delete ClusterBinding everywhere"
    assert lines[1] == "consumer  15 deleted"
    assert lines[2] == "provider  13 deleted"
    assert f"consumer: delete 13 {WIDGETS}" in lines
    assert f"provider (provider): delete 13 {WIDGETS}" in lines
    assert "cleanup/remove-definition" in out
    assert "team-a/w-09 and 3 more" in " ".join(out.split())
    assert "w-12" not in out
    _, everything, _ = await kbind_plan(tmp_path, kubeconfig, *delete, "--all")
    assert "team-a/w-12" in everything
    assert "more" not in everything

    code, out, _ = await kbind_plan(tmp_path, kubeconfig, *delete, "-o", "json")
    assert code == 0
    told = orjson.loads(out)
    assert told == (await planned(world, Deletion("ClusterBinding", "everywhere"))).as_json()
    copies = [c["name"] for c in told["changes"] if c["side"] == "provider"]
    assert copies == [f"w-{n:02}" for n in range(13)]
    for change in told["changes"]:
        assert set(change["rules"]) <= told["rules"].keys()

    code, out, errors = await kbind_plan(tmp_path, kubeconfig, "-f", "-", stdin=stream([BOUND]))
    assert (code, errors) == (0, "")
    assert "you       create Binding team-a/bound" in out
    assert writes(world) == before
    secret = world.provider.cluster.kubeconfig(USER)["users"][0]["user"]["token"]
    assert secret not in out + everything


async def test_kinds_are_named_as_for_kubectl(world: World, konnector: RunningKonnector) -> None:
    await begin(world, 1)
    await world.consumer.create(BOUND)
    own = ("Binding", "bindings", "binding.core.kbind.io", "bindings.core.kbind.io", "kbb", "KBB")
    bound = ("Widget", "widgets", WIDGETS, f"widgets.v1.{GROUP}")
    for words, name in (*((each, "bound") for each in own), *((each, "w-00") for each in bound)):
        found = await planned(world, Deletion(words, name, "team-a"))
        assert found.action == f"delete {'Binding' if words in own else 'Widget'} team-a/{name}"


async def test_what_it_cannot_find_it_says(
    world: World, konnector: RunningKonnector, tmp_path: Path
) -> None:
    await begin(world, 0)
    kubeconfig = world.consumer.cluster.kubeconfig(USER)
    for arguments, said in (
        (("Gadget", "one"), 'there is no kind "Gadget" here'),
        (("Gadget", "one"), f"known are: Binding, ClusterBinding, Connection, {WIDGETS}"),
        (("Binding", "bound"), "name it with -n"),
        (("Binding", "", "-n", "team-a"), "Binding: which one?"),
        (("Binding", "bound", "-n", "team-a"), "no Binding team-a/bound on the consumer"),
        (("widgets", "none", "-n", "team-a"), "no Widget team-a/none on the consumer"),
    ):
        code, out, errors = await kbind_plan(tmp_path, kubeconfig, "--delete", *arguments)
        assert (code, out) == (1, "")
        assert said in errors


async def test_a_consumer_that_cannot_be_read_has_no_plan(world: World, tmp_path: Path) -> None:
    kubeconfig = world.consumer.cluster.kubeconfig(LIMITED)
    await limit(world.consumer, may("get", "", "namespaces"))
    code, out, errors = await kbind_plan(tmp_path, kubeconfig, "--delete", "Connection", "x")
    assert (code, out) == (1, "")
    assert "connections.core.kbind.io" in errors
    assert "403" in errors

    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    code, out, errors = await kbind_plan(tmp_path, kubeconfig, "--delete", "Connection", "x")
    assert (code, out) == (1, "")
    assert errors.startswith("error: consumer: get /apis: ")


async def test_a_secret_that_cannot_be_read_is_no_missing_secret(
    world: World, konnector: RunningKonnector, tmp_path: Path
) -> None:
    await begin(world, 1)
    own = may("get list", "core.kbind.io", "connections bindings clusterbindings")
    crds = may("get list", "apiextensions.k8s.io", "customresourcedefinitions")
    await limit(world.consumer, may("get", "", "namespaces"), own, crds)
    kubeconfig = world.consumer.cluster.kubeconfig(LIMITED)
    deletion = ("--delete", "ClusterBinding", "everywhere")
    code, out, errors = await kbind_plan(tmp_path, kubeconfig, *deletion)
    assert (code, out) == (1, "")
    assert "secrets" in errors


async def test_a_provider_that_only_the_konnector_reaches_is_told(
    world: World, konnector: RunningKonnector, tmp_path: Path
) -> None:
    async with Relay(world.provider.cluster) as relay:
        await world.provider.install_crd(crd())
        await world.consumer.namespace("team-a")
        await add_connection(world.consumer, relay)
        await world.consumer.create(EVERYWHERE)
        await synced(world.consumer, EVERYWHERE)
        one = await world.consumer.create(widget("one", size=1))
        await world.provider.until(one, lambda seen: seen)
        await konnector.stop()
        await relay.cut()
        kubeconfig = world.consumer.cluster.kubeconfig(USER)
        deletion = ("--delete", "ClusterBinding", "everywhere")
        code, out, errors = await kbind_plan(tmp_path, kubeconfig, *deletion)
    assert code == 1
    assert "copies of widgets.example.org may remain there: team-a/one" in " ".join(out.split())
    assert "the plan is incomplete: Connection provider is Ready for the konnector" in errors


async def test_without_the_core_crds_it_says_how_to_get_them(world: World) -> None:
    with pytest.raises(KbindError, match="core CRDs are not on the consumer"):
        await planned(World(world.kind, world.consumer, world.provider, world.second), [PROVIDER])


async def test_a_connection_without_its_secret(world: World, konnector: RunningKonnector) -> None:
    found = await planned(world, [connection(autoBind=True)])
    assert [str(change.act) for change in found.changes] == ["create"]
    (note,) = found.notes
    assert "SecretNotFound: Secret kbind/provider-kubeconfig does not exist" in note.text


async def test_what_stays_as_it_is_is_not_shown(world: World, konnector: RunningKonnector) -> None:
    await begin(world)
    found = await planned(world, [EVERYWHERE, connection()])
    assert found.action == "leave ClusterBinding everywhere, leave Connection provider"
    assert not found.changes
    assert not found.notes
