"""The pages say what is so: commands run, links lead somewhere, names and figures are the code's.

A fenced block ``console`` is run here, line by line after ``$ ``, and what is shown under a command
is what it prints; ``...`` stands for anything. A block ``sh`` is for the reader's own clusters: its
commands are not run, but have to exist with the flags they are given.
"""

from __future__ import annotations

import re
import shlex
import sys
import types
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kbind.cli import main
from kbind.demo.story import chapters, promised
from kbind.manifests import documents
from kbind.testing.handles import Handle
from kbind.testing.memory import MemoryCluster
from kbind.testing.running import RunningKonnector
from tests.clusters.test_costs import Meter, bind, marker
from tests.clusters.widgets import widget
from tests.clusters.world import World
from tests.manifests import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "golden" / "README.md"])
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. number: where among its page's blocks."""

    page: str
    number: int
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = FENCE.findall(page.read_text())
    return [Block(page.name, n, language, text) for n, (language, text) in enumerate(found)]


def those(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language == language]


def commands(block: Block) -> Iterator[list[str]]:
    """Each simple command of a ``sh`` or ``console`` block, as words; pipelines are taken apart."""
    prompt = "$ " if block.language == "console" else ""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith(prompt):
            lexer = shlex.shlex(line.removeprefix(prompt), posix=True, punctuation_chars="|;&")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, "|"]:
                if set(word) <= set("|;&"):
                    if words:
                        yield words
                    words = []
                else:
                    words.append(word)


# --- commands ------------------------------------------------------------------------------


@pytest.mark.parametrize("block", those("console"), ids=lambda b: f"{b.page}-{b.number}")
def test_shown_commands_print_what_is_shown(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert block.text.startswith("$ kbind ")
    for part in block.text.split("$ kbind ")[1:]:
        command, _, shown = part.partition("\n")
        result = CliRunner().invoke(main, shlex.split(command), prog_name="kbind")
        assert result.exit_code == 0, result.output
        if shown:
            expected = re.escape(shown.rstrip("\n")).replace(r"\.\.\.", ".*?")
            assert re.fullmatch(expected, result.stdout.rstrip("\n"), flags=re.DOTALL), (
                result.stdout
            )


@pytest.mark.parametrize(
    "block", [*those("sh"), *those("console")], ids=lambda b: f"{b.page}-{b.number}"
)
def test_commands_exist(block: Block) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for program, *words in commands(block):
        if program == "make":
            assert words[0] in targets
        elif program == "kbind":
            check(words)
        elif program == "kubectl":
            # Kubernetes has a resource of that name, and kubectl takes that one.
            assert not {"binding", "bindings"} & set(re.split(r"[ ,]", " ".join(words)))
        else:
            assert program == "pip", f"{program} is not known here"


def check(words: list[str]) -> None:
    """Whether the command line has these subcommands and flags."""
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, words
        command = command.commands[rest.pop(0)]
    known = {flag for param in command.params for flag in param.opts} | {"-h", "--help"}
    given = {word.partition("=")[0] for word in rest if word.startswith("-")}
    assert given <= known, words


@each_page
def test_commands_in_the_text_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    for shown in re.findall(r"`kbind ([^`\n]+)`", text):
        check([word for word in shlex.split(shown.partition("|")[0]) if word.isascii()])


# --- links and names -----------------------------------------------------------------------


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


@each_page
def test_paths_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    rooms = r"kbind|rules|plugins|tests|docs|deploy|golden|requirements"
    for path in re.findall(rf"`((?:{rooms})/[\w./-]*)`", text):
        assert (ROOT / path).exists(), path


def test_names_in_the_architecture_are_in_the_code() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "kbind").rglob("*.py"))
    for name in re.findall(r"`([A-Z][a-z]\w+(?:\.\w+)?)`", FENCE.sub("", ARCHITECTURE)):
        class_, _, member = name.partition(".")
        assert re.search(rf"\bclass {class_}\b", source) or class_ == "Auto", name
        assert not member or re.search(rf"\bdef {member}\b|\b{member}:", source), name


def test_the_demo_has_as_many_outcomes_as_is_said() -> None:
    assert f"{promised(chapters())} outcomes" in ARCHITECTURE


# --- manifests and plugins -----------------------------------------------------------------


@asynccontextmanager
async def memory_world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        handles = []
        for name in ("provider", "consumer", "second"):
            cluster = await stack.enter_async_context(MemoryCluster(name).serve())
            handles.append(await Handle.open(cluster))
            stack.push_async_callback(handles[-1].close)
        await handles[1].install_core()
        yield World("memory", *handles)


async def test_manifests_are_accepted() -> None:
    shown = [block for block in those("yaml") if "core.kbind.io/" in block.text]
    assert {block.page for block in shown} >= {"README.md", "plugins.md"}
    async with memory_world() as world:
        await world.consumer.namespace("team-a")
        for block in shown:
            made = [await world.consumer.create(obj) for obj in documents(block.text, block.page)]
            for obj in made:
                await world.consumer.delete(obj)


async def test_the_plugin_of_the_page_works(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin, test = (b.text for b in blocks(ROOT / "docs" / "plugins.md") if b.language == "python")
    module = types.ModuleType("listed")
    exec(compile(plugin, "docs/plugins.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "listed", module)
    names: dict[str, object] = {}
    exec(compile(test, "docs/plugins.md", "exec"), names)
    (run,) = (value for name, value in names.items() if name.startswith("test_"))
    assert callable(run)
    await run()


# --- figures -------------------------------------------------------------------------------


async def test_the_costs_are_those_that_are_measured() -> None:
    async with memory_world() as world:
        konnector = RunningKonnector(world.consumer.cluster)
        await konnector.start()
        try:
            measured = await costs(world)
        finally:
            await konnector.stop()
    table = re.search(r"<!-- costs: .*? -->\n(.*?)<!-- /costs -->", ARCHITECTURE, re.DOTALL)
    assert table is not None
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()[2:]
    ]
    assert rows[:-1] == [
        [what, *(str(len(counts[side])) for side in ("consumer", "provider"))]
        for what, counts in measured.items()
    ]


async def costs(world: World) -> dict[str, dict[str, list[str]]]:
    """The konnector's writes by what happens and by side."""
    await bind(world, [("widgets", "Widget")])
    await marker(world)
    meter, measured = Meter(world), {}

    one = await world.consumer.create(widget("one", size=1))
    await world.provider.until(one, lambda seen: seen)
    await world.provider.set_status(one, {"phase": "Ready"})
    await world.consumer.until(one, lambda seen: seen["status"])
    measured["an instance is created, and gets a status"] = meter.writes()

    await world.consumer.merge(one, {"spec": {"size": 2}})
    await world.provider.until(one, lambda seen: seen["spec"]["size"] == 2)
    measured["its spec changes"] = meter.writes()

    await world.provider.set_status(one, {"phase": "Busy"})
    await world.consumer.until(one, lambda seen: seen["status"]["phase"] == "Busy")
    measured["its status changes"] = meter.writes()

    await world.consumer.delete(one)
    await world.consumer.gone(one)
    measured["it is deleted"] = meter.writes()
    return measured
