"""The schema source ``Folder``: the CRDs in the YAML files of a folder.

For definitions that are kept in git, not on the provider: mount them into the konnector's pod,
and name the folder in the environment variable KBIND_SCHEMA_FOLDER. The provider has to serve the
APIs, but is asked nothing about them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from kbind.errors import SchemaSourceError
from kbind.hooks import (
    Definition,
    ExportedApi,
    Exports,
    Offer,
    ProviderReader,
    SourceFactory,
    hookimpl,
)

VARIABLE = "KBIND_SCHEMA_FOLDER"
SUFFIXES = (".yaml", ".yml")
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class FileInvalid(Exception):
    """What is wrong with a file, and where."""


@dataclass(frozen=True, slots=True)
class Crd:
    """A definition and what it exports."""

    api: ExportedApi
    crd: dict[str, Any]


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was read. stamp: changes when the file does; problem: why it is not used."""

    stamp: tuple[int, ...]
    crds: tuple[Crd, ...] = ()
    problem: str = ""


class Folder:
    """Keeps what it has read of each file until that file changes."""

    def __init__(self, provider: ProviderReader) -> None:
        self._files: dict[str, File] = {}
        self._names: set[str] = set()
        self._offered: dict[str, Crd] = {}
        self._unread: dict[str, str] = {}

    async def exports(self) -> Exports:
        # Files may lie on a slow disk: the event loop must not wait for them.
        self._files = await asyncio.to_thread(self._read)
        self._tell()
        offered = self._offered
        return Exports(tuple(offered[name].api for name in sorted(offered)), self._unread)

    async def definition(self, name: str) -> Offer | None:
        if name in self._offered:
            return Offer(self._offered[name].crd, Definition.ORIGINAL)
        if self._unread:  # It may be in there, and None would say that it is gone.
            raise SchemaSourceError("; ".join(f"{at}: {why}" for at, why in self._unread.items()))
        return None

    def _read(self) -> dict[str, File]:
        """Every file by name; those that have not changed are not opened."""
        return {path.name: self._file(path) for path in _paths()}

    def _file(self, path: Path) -> File:
        stamp: tuple[int, ...] = ()
        try:
            seen = path.stat()
            # The inode too: what is put in its place may have the same size and age.
            stamp = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
            known = self._files.get(path.name)
            if known is not None and known.stamp == stamp:
                return known
            return File(stamp, tuple(_crds(path.read_text("utf-8"), path.name)))
        except OSError as error:
            # Without a stamp: it is tried again, whatever it looks like.
            return File((), problem=f"{path.name}: {error.strerror or error}")
        except UnicodeDecodeError:
            return File(stamp, problem=f"{path.name}: not text in UTF-8")
        except FileInvalid as error:
            return File(stamp, problem=str(error))

    def _tell(self) -> None:
        """Sets what is offered, and what cannot be told, by API or by file."""
        places: dict[str, list[str]] = {}
        self._offered = {}
        for name, file in self._files.items():
            for found in file.crds:
                self._offered[found.api.name] = found
                places.setdefault(found.api.name, []).append(name)
        self._unread = {name: file.problem for name, file in self._files.items() if file.problem}
        # What was there before is not gone while it may be in a file that cannot be used.
        lost = self._names - places.keys() if self._unread else set()
        self._unread |= dict.fromkeys(lost, f"may be in {' or '.join(self._unread)}")
        self._names = lost | places.keys()
        for api, files in places.items():
            if len(files) > 1:
                del self._offered[api]
                among = " and ".join(dict.fromkeys(files))
                self._unread[api] = f"defined more than once, in {among}; keep one of them"


def _paths() -> list[Path]:
    """The files of the folder. Raises SchemaSourceError where there is no such folder."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise SchemaSourceError(
            f"the environment variable {VARIABLE} is not set; "
            "set it on the konnector to the folder that holds the CRDs"
        )
    try:
        # A dot at the head: not for us. A mounted ConfigMap keeps its files in such folders, and
        # has a link to each of them beside those.
        found = [path for path in Path(name).iterdir() if not path.name.startswith(".")]
    except OSError as error:
        raise SchemaSourceError(
            f"{VARIABLE} is {name}: {error.strerror}; mount a volume there or name another folder"
        ) from error
    return sorted(path for path in found if path.suffix in SUFFIXES)


def _crds(text: str, file: str) -> Iterator[Crd]:
    """Every CRD of a file. Raises FileInvalid."""
    # The parser in Python: the one in C takes the process with it where brackets never end.
    yaml = YAML(typ="safe", pure=True)
    try:
        for node in yaml.compose_all(text):
            document = None if node is None else yaml.constructor.construct_document(node)
            if document is not None:
                yield _crd(document, f"{file}:{node.start_mark.line + 1}")
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        raise FileInvalid(f"{place}: {error.problem or error.context}") from error
    except (YAMLError, ValueError) as error:
        raise FileInvalid(f"{file}: {error}") from error
    except RecursionError:
        raise FileInvalid(f"{file}: nested too deep") from None


def _crd(document: Any, place: str) -> Crd:
    if not isinstance(document, dict):
        raise FileInvalid(f"{place}: not a Kubernetes object; a CRD is wanted")
    kind = (document.get("apiVersion"), document.get("kind"))
    if kind != CRD:
        raise FileInvalid(
            f"{place}: kind {kind[1]} of {kind[0]}, where only {CRD[1]} of {CRD[0]} may stand"
        )
    try:
        text = json.dumps(document, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FileInvalid(f"{place}: {error}; write dates and such in quotes") from error
    crd: dict[str, Any] = json.loads(text)
    try:
        spec = crd["spec"]
        api = ExportedApi(
            name=crd["metadata"]["name"],
            group=spec["group"],
            resource=spec["names"]["plural"],
            scope=spec["scope"],
            versions=tuple(each["name"] for each in spec["versions"] if each["served"]),
            revision=hashlib.sha256(text.encode()).hexdigest(),
        )
    except KeyError as error:
        raise FileInvalid(f"{place}: the CRD has no {error.args[0]}") from error
    except TypeError as error:
        raise FileInvalid(f"{place}: the CRD is not put together as one is: {error}") from error
    if api.name != f"{api.resource}.{api.group}":
        raise FileInvalid(f"{place}: the CRD {api.name} has to be named after its plural and group")
    return Crd(api, crd)


@hookimpl
def kbind_schema_sources() -> Mapping[str, SourceFactory]:
    return {"Folder": Folder}
