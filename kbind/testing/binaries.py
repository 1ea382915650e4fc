"""Where the programs of a real control plane come from: given, cached, or built once.

The Go modules beside this file pin their versions. This module builds programs, it runs none.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbind.testing.errors import ControlPlaneError

SOURCES = Path(__file__).parent / "controlplane"
OUTPUT_LINES = 20


@dataclass(frozen=True)
class Program:
    """One program: its name, the folder of its Go module, and its package therein."""

    name: str
    module: str
    package: str


PROGRAMS = (
    Program("etcd", "etcd", "."),
    Program("kube-apiserver", "kubernetes", "./cmd/kube-apiserver"),
    Program("kube-controller-manager", "kubernetes", "./cmd/kube-controller-manager"),
    Program("sample-apiserver", "kubernetes", "./cmd/sample-apiserver"),
)

# What the archives of envtest lack, and the clusters that need it.
OPTIONAL = {
    "kube-controller-manager": "clusters with controllers",
    "sample-apiserver": "aggregated clusters",
}


def find_or_build(report: Callable[[str], None] = print) -> Path:
    """Return the folder that holds all PROGRAMS.

    KUBEBUILDER_ASSETS wins where it is set; what is OPTIONAL may be missing there. Else the
    cache, where whatever is missing is built first: minutes and network the first time, nothing
    afterwards.

    report: called with one line for each step that takes time.
    Raises: ControlPlaneError.
    """
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return _given(Path(assets), report)
    root = _cache() / "control-plane" / version_key(SOURCES)
    folder = root / "bin"
    if _missing(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(root / "lock", report):
                # Asked again: another process may have built them while this one waited.
                for program in _missing(folder):
                    _build(program, folder, report)
        except OSError as error:
            raise ControlPlaneError(
                f"cannot write to the cache of control planes: {error}",
                hint="Point KBIND_CACHE at a folder that can be written.",
            ) from error
    return folder


def version_key(sources: Path) -> str:
    """Return 16 hex digits that change with every go.mod, go.sum and main.go under *sources*."""
    digest = hashlib.sha256()
    for file in sorted(sources.rglob("*")):
        if file.name in {"go.mod", "go.sum", "main.go"}:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(sources).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def _given(folder: Path, report: Callable[[str], None]) -> Path:
    missing = {program.name for program in _missing(folder)}
    if needed := missing - OPTIONAL.keys():
        raise ControlPlaneError(
            f"KUBEBUILDER_ASSETS={folder} has no {' and no '.join(sorted(needed))}",
            hint="Point it at a folder that holds them, or unset it to have them built.",
        )
    for name in sorted(missing):
        report(f"{folder} has no {name}: {OPTIONAL[name]} will not start")
    return folder


def _cache() -> Path:
    """The cache folder of kbind, absolute, because go builds in a working directory of its own."""
    if own := os.environ.get("KBIND_CACHE"):
        return Path(own).absolute()
    if common := os.environ.get("XDG_CACHE_HOME"):
        return Path(common).absolute() / "kbind"
    return Path.home() / ".cache" / "kbind"


def _missing(folder: Path) -> list[Program]:
    return [program for program in PROGRAMS if not os.access(folder / program.name, os.X_OK)]


@contextmanager
def _locked(file: Path, report: Callable[[str], None]) -> Iterator[None]:
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that builds the control plane")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(program: Program, folder: Path, report: Callable[[str], None]) -> None:
    """Build *program* into *folder*, where it appears whole or not at all."""
    go = shutil.which("go")
    if go is None:
        raise ControlPlaneError(
            f"{program.name} is not in the cache, and there is no go command to build it with",
            hint="Install Go, or point KUBEBUILDER_ASSETS at a folder of ready binaries.",
        )
    report(f"building {program.name}, which takes up to several minutes")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="build-") as scratch:
        output = Path(scratch) / program.name
        command = [go, "build", "-mod=readonly", "-buildvcs=false", "-trimpath"]
        command += ["-ldflags", _linker_flags(program), "-o", str(output), program.package]
        ended = subprocess.run(
            command,
            cwd=SOURCES / program.module,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if ended.returncode != 0:
            last = "\n".join(ended.stdout.splitlines()[-OUTPUT_LINES:])
            raise ControlPlaneError(f"go could not build {program.name}", output=last)
        output.replace(folder / program.name)
    report(f"built {program.name} in {time.monotonic() - begin:.0f} s")


def _linker_flags(program: Program) -> str:
    if program.module != "kubernetes":
        return "-s -w"
    # Without these stamps the servers' /version says v0.0.0-master.
    pinned = (SOURCES / program.module / "go.mod").read_text()
    found = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", pinned)
    if found is None:
        raise ControlPlaneError("the go.mod of kubernetes pins no version of k8s.io/kubernetes")
    version, major, minor = found.groups()
    package = "k8s.io/component-base/version"
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {package}.{key}={text}" for key, text in stamps.items())])


def main() -> int:
    """Print the folder of the binaries as the last line of stdout; progress goes to stderr."""
    try:
        folder = find_or_build(report=lambda line: print(line, file=sys.stderr, flush=True))
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
