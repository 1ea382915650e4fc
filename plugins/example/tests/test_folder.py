"""The schema source Folder, as kbind uses it: on files, and between two clusters."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

import kbind_folder
import pytest
from kbind_folder import VARIABLE, Folder
from ruamel.yaml import YAML

from kbind.errors import SchemaSourceError
from kbind.hooks import Exports, ProviderReader
from kbind.testing.handles import Handle, condition, find_condition, new
from kbind.testing.running import RunningKonnector, add_connection, binding
from kbind.testing.schema_source import SchemaSourceContract

Object = dict[str, Any]

WIDGETS, GADGETS = "widgets.example.org", "gadgets.example.org"


def crd(plural: str, size: str = "integer") -> Object:
    spec = {"type": "object", "properties": {"size": {"type": size}}}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version: Object = {"name": "v1", "served": True, "storage": True}
    return new(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.example.org",
        spec={
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.removesuffix("s").title()},
            "versions": [
                version | {"schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
            ],
        },
    )


def write(file: Path, *documents: Object) -> None:
    YAML(typ="safe").dump_all(documents, file)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for CRDs, empty, and named to the plugin."""
    found = tmp_path / "crds"
    found.mkdir()
    monkeypatch.setenv(VARIABLE, str(found))
    return found


@pytest.fixture
def source() -> Folder:
    return Folder(cast(ProviderReader, None))


@pytest.fixture
def kbind_plugins() -> Sequence[object]:
    """None where the package is installed: kbind then finds it by its entry point."""
    return [] if entry_points(group="kbind", name="folder") else [kbind_folder]


class TestContract(SchemaSourceContract):
    factory = Folder
    reads_provider = False

    @pytest.fixture(autouse=True)
    def of_this_test(self, folder: Path) -> None:
        self.folder = folder

    async def prepare(self, provider: Handle) -> None:
        write(self.folder / "both.yaml", crd("widgets"), crd("gadgets"))

    async def change(self, provider: Handle) -> None:
        write(self.folder / "both.yaml", crd("widgets", "number"), crd("gadgets"))


# --- files ---------------------------------------------------------------------------------


def names(exports: Exports) -> list[str]:
    return [api.name for api in exports.apis]


async def test_only_yaml_files_are_read(folder: Path, source: Folder) -> None:
    write(folder / "widgets.yaml", crd("widgets"))
    write(folder / "gadgets.yml", crd("gadgets"))
    (folder / "README.md").write_text("# no CRD")
    (folder / ".hidden.yaml").write_text("no CRD")
    (folder / "empty.yaml").write_text("# nothing yet\n---\n")
    exports = await source.exports()
    assert names(exports) == [GADGETS, WIDGETS]
    assert exports.unread == {}


async def test_a_file_is_opened_again_only_when_it_has_changed(
    folder: Path, source: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    read_text = Path.read_text

    def watched(path: Path, *given: Any) -> str:
        opened.append(path.name)
        return read_text(path, *given)

    monkeypatch.setattr(Path, "read_text", watched)
    write(folder / "widgets.yaml", crd("widgets"))
    write(folder / "gadgets.yaml", crd("gadgets"))
    await source.exports()
    await source.exports()
    assert opened == ["gadgets.yaml", "widgets.yaml"]
    write(folder / "widgets.yaml", crd("widgets", "number"))
    await source.exports()
    assert opened[2:] == ["widgets.yaml"]


async def test_layout_and_comments_do_not_change_the_revision(folder: Path, source: Folder) -> None:
    write(folder / "widgets.yaml", crd("widgets"))
    before = await source.exports()
    turned = json.dumps(dict(reversed(crd("widgets").items())))
    (folder / "widgets.yaml").write_text(f"# JSON is YAML too.\n---\n{turned}\n")
    assert await source.exports() == before


async def test_a_mounted_configmap_is_followed(folder: Path, source: Folder) -> None:
    """As kubelet lays it out: links into ``..data``, which is one itself and turned at once."""

    def fill(time: str, size: str) -> None:
        (folder / time).mkdir()
        write(folder / time / "widgets.yaml", crd("widgets", size))
        os.utime(folder / time / "widgets.yaml", (1, 1))
        (folder / "..new").symlink_to(time)
        (folder / "..new").rename(folder / "..data")

    fill("..2024_01_01", "number")
    (folder / "widgets.yaml").symlink_to("..data/widgets.yaml")
    before = await source.exports()
    assert names(before) == [WIDGETS]
    fill("..2024_01_02", "string")  # as old and as long as the one before
    after = await source.exports()
    assert names(after) == [WIDGETS]
    assert after != before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: b: c\n", "bad.yaml:1:5: "),
        ("kind: A\nkind: B\n", 'bad.yaml:2:1: found duplicate key "kind"'),
        ("# A comment.\n- 1\n", "bad.yaml:2: not a Kubernetes object"),
        ("apiVersion: v1\nkind: Pod\n", "bad.yaml:1: kind Pod of v1, where only "),
        ("[" * 500, "bad.yaml: nested too deep"),
        ("\0", "bad.yaml: "),
    ],
)
async def test_what_is_no_crd_is_named_with_its_line(
    folder: Path, source: Folder, text: str, said: str
) -> None:
    write(folder / "widgets.yaml", crd("widgets"))
    (folder / "bad.yaml").write_text(text)
    exports = await source.exports()
    assert names(exports) == [WIDGETS]
    assert list(exports.unread) == ["bad.yaml"]
    assert exports.unread["bad.yaml"].startswith(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spec": None}, "is not put together as one is"),
        ({"spec": {}}, "has no group"),
        ({"metadata": {"name": "gadgets"}}, "has to be named after its plural and group"),
        (
            {"metadata": {"name": GADGETS, "created": float("inf")}},
            "write dates and such in quotes",
        ),
    ],
)
async def test_a_crd_that_is_not_whole_is_named_with_its_line(
    folder: Path, source: Folder, change: Object, said: str
) -> None:
    write(folder / "both.yaml", crd("widgets"), crd("gadgets") | change)
    lines = (folder / "both.yaml").read_text().splitlines()
    exports = await source.exports()
    assert names(exports) == []
    assert exports.unread["both.yaml"].startswith(f"both.yaml:{lines.index('---') + 2}: ")
    assert said in exports.unread["both.yaml"]


async def test_what_was_known_of_a_bad_file_is_not_gone(folder: Path, source: Folder) -> None:
    write(folder / "widgets.yaml", crd("widgets"))
    write(folder / "gadgets.yaml", crd("gadgets"))
    whole = await source.exports()
    for bad in (b"a: b: c", b"\xff\xfe\xfd"):
        (folder / "widgets.yaml").write_bytes(bad)
        for _ in range(2):
            exports = await source.exports()
            assert names(exports) == [GADGETS]
            assert exports.unread[WIDGETS] == "may be in widgets.yaml"
            assert exports.unread["widgets.yaml"].startswith("widgets.yaml:")
            with pytest.raises(SchemaSourceError, match=r"widgets\.yaml: "):
                await source.definition(WIDGETS)
    write(folder / "widgets.yaml", crd("widgets"))
    assert await source.exports() == whole
    (folder / "widgets.yaml").unlink()
    assert await source.exports() == Exports(whole.apis[:1])
    assert await source.definition(WIDGETS) is None


async def test_a_file_that_cannot_be_opened_is_tried_again(folder: Path, source: Folder) -> None:
    (folder / "widgets.yaml").symlink_to("elsewhere.yaml.not-there")
    exports = await source.exports()
    assert exports == Exports(unread={"widgets.yaml": "widgets.yaml: No such file or directory"})
    write(folder / "elsewhere.yaml.not-there", crd("widgets"))
    assert names(await source.exports()) == [WIDGETS]


async def test_a_crd_in_two_files_is_named(folder: Path, source: Folder) -> None:
    write(folder / "a.yaml", crd("widgets"), crd("gadgets"))
    write(folder / "b.yaml", crd("widgets", "number"))
    exports = await source.exports()
    assert names(exports) == [GADGETS]
    assert exports.unread == {
        WIDGETS: "defined more than once, in a.yaml and b.yaml; keep one of them"
    }
    (folder / "b.yaml").unlink()
    assert await source.exports() == Exports(
        (exports.apis[0], (await Folder(cast(ProviderReader, None)).exports()).apis[1])
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "is not set; set it on"), ("", "is not set; set it on"), ("{folder}/none", "No such")],
)
async def test_without_a_folder_it_is_told_what_to_do(
    folder: Path, source: Folder, monkeypatch: pytest.MonkeyPatch, value: str | None, said: str
) -> None:
    if value is None:
        monkeypatch.delenv(VARIABLE)
    else:
        monkeypatch.setenv(VARIABLE, value.format(folder=folder))
    with pytest.raises(SchemaSourceError, match=said):
        await source.exports()


async def test_a_folder_that_goes_takes_nothing_with_it(
    folder: Path, source: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "widgets.yaml", crd("widgets"))
    whole = await source.exports()
    monkeypatch.setenv(VARIABLE, str(folder / "away"))
    with pytest.raises(SchemaSourceError, match="mount a volume there"):
        await source.exports()
    assert await source.definition(WIDGETS) is not None
    monkeypatch.setenv(VARIABLE, str(folder))
    assert await source.exports() == whole


# --- clusters ------------------------------------------------------------------------------


async def test_an_instance_of_an_api_from_the_folder_is_synced(
    folder: Path, consumer: Handle, provider: Handle, konnector: RunningKonnector
) -> None:
    write(folder / "widgets.yaml", crd("widgets"))
    await provider.install_crd(crd("widgets"))
    await consumer.namespace("team-a")
    made = await add_connection(consumer, provider.cluster, schema={"source": "Folder"})
    bound = await consumer.create(binding([WIDGETS], "team-a"))
    await consumer.until(bound, lambda seen: condition(seen, "Synced"))
    seen = await consumer.get(made)
    assert seen["status"]["activeSchemaSource"] == "Folder"

    one = new("example.org/v1", "Widget", "one", "team-a", spec={"size": 3})
    await consumer.create(one)
    copy = await provider.until(one, lambda seen: seen)
    assert copy["spec"] == {"size": 3}
    await provider.set_status(one, {"phase": "Ready"})
    seen = await consumer.until(one, lambda seen: seen["status"]["phase"])
    assert seen["status"]["phase"] == "Ready"


async def test_a_folder_that_is_not_there_is_told_on_the_connection(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    consumer: Handle,
    provider: Handle,
    konnector: RunningKonnector,
) -> None:
    monkeypatch.setenv(VARIABLE, str(folder / "away"))
    made = await add_connection(consumer, provider.cluster, schema={"source": "Folder"})
    seen = await consumer.until(made, lambda seen: condition(seen, "Ready", "False"))
    ready = find_condition(seen, "Ready")
    assert ready is not None
    assert ready["reason"] == "SchemaSourceFailed"
    assert f"{VARIABLE} is {folder}/away: No such file or directory" in ready["message"]
