"""Golden files: what tests write under golden/, one YAML file a test."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import LiteralScalarString
from syrupy.data import Snapshot, SnapshotCollection
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation

ROOT: Final = Path(__file__).resolve().parents[1]
GOLDEN: Final = ROOT / "golden"


class Line(dict[str, Any]):
    """A mapping that golden files show on one line."""


class Block(dict[str, Any]):
    """A mapping that golden files show with a line for each key."""


class GoldenFile(SingleFileSnapshotExtension):
    """``<test>[<path>]`` is ``golden/<path>.yaml``, as stable YAML.

    test: the function whose parameters name the files; owned: the directories of golden/ that
    it writes, and where an update removes what is left over.
    """

    test: ClassVar[str]
    owned: ClassVar[tuple[str, ...]]

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"

    def serialize(self, data: Any, **_: Any) -> str:
        yaml = YAML()
        yaml.default_flow_style = None  # innermost mappings and lists on one line
        yaml.width = 10_000
        stream = StringIO()
        yaml.dump(_plain(data), stream)
        return stream.getvalue()

    @classmethod
    def get_location(cls, *, test_location: PyTestLocation, index: object) -> str:
        name = test_location.snapshot_name
        return str(GOLDEN / f"{name.removeprefix(f'{cls.test}[').removesuffix(']')}.yaml")

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: object = 0) -> str:
        return test_location.snapshot_name

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(Path(cls.get_location(test_location=test_location, index=0)).parent)

    @classmethod
    def discovery_dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(GOLDEN)

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        return cls.get_location(test_location=test_location, index=0) == snapshot_location

    def owns_snapshot_collection(self, *, filepath: str, test_location: PyTestLocation) -> bool:
        path = Path(filepath).relative_to(GOLDEN)
        return path.parts[0] in self.owned and path.suffix == ".yaml"

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        path = Path(snapshot_location).relative_to(GOLDEN).with_suffix("")
        collection = SnapshotCollection(location=snapshot_location)
        collection.add(Snapshot(name=f"{self.test}[{path.as_posix()}]"))
        return collection


def files(*directories: str) -> set[str]:
    """What stands in these directories of golden/: paths below it, without ``.yaml``."""
    return {
        path.relative_to(GOLDEN).with_suffix("").as_posix()
        for directory in directories
        for path in (GOLDEN / directory).rglob("*")
        if path.is_file()
    }


def _plain(value: Any) -> Any:
    """As YAML shows it best: words as text, text of several lines as a block."""
    if isinstance(value, Line | Block):
        mapping = CommentedMap({key: _plain(item) for key, item in value.items()})
        if isinstance(value, Line):
            mapping.fa.set_flow_style()
        else:
            mapping.fa.set_block_style()
        return mapping
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return LiteralScalarString(value) if "\n" in value else str(value)
    return value
