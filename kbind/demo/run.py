"""The demo as one program: clusters up, story told, promises checked, everything down again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from kbind.demo import clusters
from kbind.demo.screen import Screen
from kbind.demo.stage import Broken, Stage
from kbind.demo.story import Chapter, chapters, promised
from kbind.rulebook import Rulebook
from kbind.steps import Side
from kbind.testing.audit import Entry
from kbind.testing.handles import Cluster, Handle
from kbind.testing.running import USER

INTERRUPTED = 130  # the exit code of a command that Ctrl-C ended


@dataclass(frozen=True, slots=True)
class Options:
    """What ``kbind demo`` was told.

    binaries: of the real servers; None for clusters in memory. keep: leave everything up after
    the story. book: the konnector's rules. deadline: seconds for each outcome.
    """

    binaries: Path | None
    keep: bool
    book: Rulebook
    deadline: float


async def run(options: Options) -> int:
    """Tells the story; answers the exit code. Raises KbindError where it cannot begin."""
    screen = Screen()
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        async with _stage(options, screen) as stage:
            code = await _tell(stage, options.deadline)
            if options.keep and code == 0:
                with contextlib.suppress(asyncio.CancelledError):
                    await _stay(stage, options)
                screen.line()
                screen.say("Taking everything down.")
        return code
    except asyncio.CancelledError:
        screen.line()
        screen.say("Interrupted; everything is down.")
        return INTERRUPTED


@asynccontextmanager
async def _stage(options: Options, screen: Screen) -> AsyncIterator[Stage]:
    screen.line(
        "kbind demo: one cluster offers databases, another one uses them as if they were its own"
    )
    screen.line()
    async with AsyncExitStack() as stack:
        if options.binaries is None:
            what = "a test double in this process"
            pair = await stack.enter_async_context(clusters.in_memory())
        else:
            what = "real etcd and kube-apiserver"
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbind-demo-")))
            pair = await stack.enter_async_context(clusters.real(options.binaries, folder))
        handles = {}
        for side, cluster in zip((Side.CONSUMER, Side.PROVIDER), pair, strict=True):
            handles[side] = await Handle.open(cluster)
            stack.push_async_callback(handles[side].close)
            screen.line(f"    {side:<8}  {_server(cluster)}  {what}")
        # What acts on the clusters ends before they do.
        async with AsyncExitStack() as agents:
            yield Stage(handles, screen, agents, options.book)


async def _tell(stage: Stage, deadline: float) -> int:
    story = chapters()
    kept = 0
    broken: Broken | None = None
    for number, chapter in enumerate(story, start=1):
        stage.screen.chapter(number, chapter.title, chapter.about)
        came, broken = await _follow(stage, chapter, deadline)
        kept += came
        if broken is not None:
            break
    _sum_up(stage, kept, promised(story))
    if broken is None:
        return 0
    stage.screen.line()
    stage.screen.say(f"This did not come: {broken}. What was seen last:")
    stage.screen.line()
    for line in broken.seen.splitlines():
        stage.screen.line(f"      {line}")
    return 1


async def _follow(stage: Stage, chapter: Chapter, deadline: float) -> tuple[int, Broken | None]:
    """Does what a chapter does; answers how many of its promises were kept, and the first that
    was not."""
    await chapter.acts(stage)
    kept = 0
    broken: Broken | None = None
    for promise in chapter.promises:
        try:
            await stage.keep(promise, deadline)
        except Broken as error:
            broken = error
            break
        kept += 1
    await stage.quiet()
    stage.screen.line()
    for promise in chapter.promises[: kept + (broken is not None)]:
        stage.screen.outcome(
            broken is None or promise is not broken.promise, promise.side, promise.text
        )
    return kept, broken


def _sum_up(stage: Stage, kept: int, total: int) -> None:
    screen = stage.screen
    screen.line()
    screen.line()
    screen.say(f"{kept} of {total} outcomes came, in {screen.elapsed:.1f} s.", bold=True)
    screen.say("What the konnector asked of each cluster, beside the watches it keeps open:")
    for handle in (stage.consumer, stage.provider):
        screen.line(f"      {handle.cluster.name:<8}  {_counted(handle.cluster.audit(USER))}")


def _counted(entries: Sequence[Entry]) -> str:
    writes = sum(entry.writes for entry in entries)
    reads = sum(entry.verb in ("get", "list", "") for entry in entries)
    return f"{writes + reads:>3} requests: {writes:>2} writes, {reads:>2} reads"


async def _stay(stage: Stage, options: Options) -> None:
    """Prints how to look around, and waits until cancelled."""
    screen = stage.screen
    with tempfile.TemporaryDirectory(prefix="kbind-demo-") as folder:
        paths = {
            handle.cluster.name: _kubeconfig(Path(folder), handle.cluster)
            for handle in (stage.consumer, stage.provider)
        }
        screen.line()
        screen.say("Both clusters, the konnector and the operator stay up until Ctrl-C. Try:")
        screen.line()
        for name, what in (
            ("consumer", "get databases -A"),
            ("provider", "get databases -A"),
            ("consumer", "get kbind -A"),
            ("consumer", "-n team-a get database reports -o yaml"),
            ("consumer", "-n team-a delete database reports"),
        ):
            screen.line(f"      kubectl --kubeconfig {paths[name]} {what}")
        screen.line()
        if options.binaries is None:
            screen.say("In memory OpenAPI is served in part: give kubectl apply --validate=false.")
            screen.line()
        await asyncio.Event().wait()


def _kubeconfig(folder: Path, cluster: Cluster) -> Path:
    """Writes the administrator's kubeconfig; it holds a token, so nobody else may read it."""
    path = folder / f"{cluster.name}.kubeconfig"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(orjson.dumps(cluster.kubeconfig(), option=orjson.OPT_INDENT_2))
    return path


def _server(cluster: Cluster) -> str:
    server: str = cluster.kubeconfig()["clusters"][0]["cluster"]["server"]
    return server
