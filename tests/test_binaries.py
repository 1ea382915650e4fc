"""Where the control plane's programs are found, and what is said when they cannot be."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbind.testing import binaries
from kbind.testing.errors import ControlPlaneError

NAMES = ["etcd", "kube-apiserver", "kube-controller-manager", "sample-apiserver"]


def quiet(line: str) -> None:
    pass


def executable(file: Path, script: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the programs are cached in, empty; no go command is in the PATH."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("KBIND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    key = binaries.version_key(binaries.SOURCES)
    return tmp_path / "cache" / "control-plane" / key / "bin"


@pytest.fixture
def go(tmp_path: Path, cache: Path) -> Path:
    """A go command that writes its arguments into the file that it should build."""
    command = tmp_path / "path" / "go"
    script = 'a="$*"; while [ "$1" != -o ]; do shift; done; echo "$a" > "$2"; /bin/chmod +x "$2"'
    executable(command, script)
    return command


def test_given_assets_are_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        executable(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert binaries.find_or_build(quiet) == tmp_path / "assets"


@pytest.mark.parametrize("absent", ["etcd", "kube-apiserver"])
def test_what_given_assets_lack_is_named(
    absent: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {*NAMES} - {absent}:
        executable(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    with pytest.raises(ControlPlaneError, match=f"has no {absent}\n"):
        binaries.find_or_build(quiet)


def test_given_assets_may_lack_what_envtest_lacks(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ["etcd", "kube-apiserver"]:
        executable(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    said: list[str] = []
    assert binaries.find_or_build(said.append) == tmp_path / "assets"
    assert [line.partition(" has no ")[2] for line in said] == [
        "kube-controller-manager: clusters with controllers will not start",
        "sample-apiserver: aggregated clusters will not start",
    ]


def test_a_full_cache_needs_no_go(cache: Path) -> None:
    for name in NAMES:
        executable(cache / name)
    said: list[str] = []
    assert binaries.find_or_build(said.append) == cache
    assert said == []


def test_only_what_is_missing_is_built(cache: Path, go: Path) -> None:
    executable(cache / "etcd", "# ready")
    said: list[str] = []
    assert binaries.find_or_build(said.append) == cache
    assert "# ready" in (cache / "etcd").read_text()
    built = (cache / "kube-apiserver").read_text()
    assert "gitVersion=v1.37.2" in built
    assert built.endswith("./cmd/kube-apiserver\n")
    assert not any("etcd" in line for line in said)
    assert sorted(path.name for path in cache.parent.iterdir()) == ["bin", "lock"]


def test_a_relative_cache_is_taken_from_here(
    cache: Path, go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBIND_CACHE", "cache")
    assert binaries.find_or_build(quiet) == cache
    assert (cache / "etcd").exists()


def test_without_go_the_missing_program_is_named(cache: Path) -> None:
    with pytest.raises(ControlPlaneError, match="etcd is not in the cache") as raised:
        binaries.find_or_build(quiet)
    assert "Go" in str(raised.value)


def test_a_failed_build_says_how_it_ended_and_leaves_nothing(cache: Path, go: Path) -> None:
    executable(go, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo a; echo b; done; echo why; exit 1")
    with pytest.raises(ControlPlaneError, match="could not build etcd") as raised:
        binaries.find_or_build(quiet)
    lines = raised.value.output.splitlines()
    assert len(lines) == binaries.OUTPUT_LINES
    assert lines[-1] == "why"
    assert list(cache.iterdir()) == []


def test_an_unwritable_cache_is_said_plainly(cache: Path, go: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ControlPlaneError, match="cannot write to the cache"):
        binaries.find_or_build(quiet)


@pytest.mark.parametrize("changed", ["etcd/go.mod", "kubernetes/cmd/kube-apiserver/main.go"])
def test_the_key_changes_with_what_is_built(changed: str, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(binaries.SOURCES, sources)
    before = binaries.version_key(sources)
    assert before == binaries.version_key(binaries.SOURCES)
    with (sources / changed).open("a") as file:
        file.write("\n")
    assert binaries.version_key(sources) != before


def test_two_processes_build_once(cache: Path, go: Path, tmp_path: Path) -> None:
    executable(go, go.read_text() + f"echo built >> {tmp_path}/count; /bin/sleep 0.2")
    command = [sys.executable, "-m", "kbind.testing.binaries"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate()[0] for process in both]
    assert outputs == [f"{cache}\n"] * 2
    assert (tmp_path / "count").read_text() == "built\n" * len(NAMES)


def test_main_answers_a_failure_without_a_traceback(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert binaries.main() == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "etcd is not in the cache" in captured.err
