"""``kbind demo`` as people run it: a process with an exit code; and ``kbind crds``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from kbind.cli import main
from kbind.cluster.client import Client
from kbind.cluster.connect import connect
from kbind.cluster.kubeconfig import parse
from kbind.demo.operator import DATABASES
from kbind.demo.story import chapters, database_crd, promised
from kbind.manifests import documents
from tests.manifests import ROOT

KBIND = [sys.executable, "-W", "error", "-c", "from kbind.cli import main; main()"]
OUTCOMES = [promise.text for chapter in chapters() for promise in chapter.promises]

# The rules that the story is about; each has to be seen with its why.
RULES = (
    "source/auto-exports",
    "delivery/install-bound",
    "duty/serve",
    "ownership/create",
    "instance/serve-create",
    "instance/serve-maintain",
    "ownership/refuse-markerless",
    "instance/serve-refuse",
    "duty/drain",
    "instance/drain-maintain",
    "instance/drain-absent",
)


def run(*arguments: str, code: int = 0, deadline: float = 60.0) -> tuple[str, str]:
    """The output of ``kbind demo``, which has to end with *code*; and the same in one line."""
    done = subprocess.run(
        [*KBIND, "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=deadline,
        env={**os.environ, "COLUMNS": "100"},  # readline, as pytest loads it, sets another
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout, " ".join(done.stdout.split())


def adopting(folder: Path) -> Path:
    """An overlay under which what the story promises of foreign objects is not so."""
    (folder / "ownership.yaml").write_text(
        "table: ownership\n"
        "replace:\n"
        "  refuse-markerless:\n"
        "    - rule: take-markerless\n"
        "      why: Whatever stands there is taken over.\n"
        "      when: {copy: markerless, conflictPolicy: [Fail, unset]}\n"
        "      then: {verdict: adopt}\n"
    )
    return folder


def excerpt() -> list[str]:
    """The lines of the demo that the README shows, without their times."""
    (block,) = re.findall(r"^```\n( 7  .*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    return [re.sub(r"^ +\d+\.\d\d ", "", line) for line in block.splitlines()]


def test_the_story_in_memory() -> None:
    begin = time.monotonic()
    shown, words = run()
    assert time.monotonic() - begin < 20
    assert f"{promised(chapters())} of {len(OUTCOMES)} outcomes came" in words
    for chapter in chapters():
        assert chapter.title in shown
    for outcome in OUTCOMES:
        assert outcome in words
    for rule in RULES:
        assert rule in words
    assert "failed" not in words
    assert "\x1b" not in shown
    for line in excerpt():
        assert line in shown
    for side in ("consumer", "provider"):
        assert re.search(rf"{side} +\d+ requests: +\d+ writes, +\d+ reads", shown)


def test_an_outcome_that_does_not_come_is_an_error(tmp_path: Path) -> None:
    _, words = run("--rules", str(adopting(tmp_path)), "--deadline", "1s", code=1)
    assert "ownership/take-markerless Whatever stands there is taken over." in words
    kept = len(OUTCOMES[: next(i for i, text in enumerate(OUTCOMES) if "annotation" in text)])
    assert f"{kept} of {len(OUTCOMES)} outcomes came" in words
    assert f"This did not come: consumer: {OUTCOMES[kept]}: not so after 1 s." in words


@pytest.mark.parametrize("overlay", ["broken", "missing"])
def test_rules_that_do_not_load_stop_it_before_it_begins(tmp_path: Path, overlay: str) -> None:
    (tmp_path / "broken").mkdir()
    broken = "table: ownership\nreplace: {nothing: []}\n"
    (tmp_path / "broken" / "ownership.yaml").write_text(broken)
    done = subprocess.run(
        [*KBIND, "demo", "--rules", str(tmp_path / overlay)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr


def test_without_the_packages_of_the_extra() -> None:
    code = "import sys; sys.modules['trustme'] = None; from kbind.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "demo"], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: the demo needs the package trustme, which is not installed\n"
        "  hint: pip install 'kbind[testing]'\n"
    )


def test_ctrl_c_ends_it_cleanly() -> None:
    with started() as process:
        wait_for(process, "The consumer connects")
        process.send_signal(signal.SIGINT)
        rest, trouble = process.communicate(timeout=20)
    assert process.returncode == 130
    assert rest.endswith("Interrupted; everything is down.\n")
    assert trouble == ""


async def test_kept_clusters_answer_until_sigterm() -> None:
    with started("--keep") as process:
        said = wait_for(process, "delete database reports")
        paths = [
            Path(re.findall(rf"--kubeconfig (\S+/{name}\.kubeconfig)", said)[0])
            for name in ("consumer", "provider")
        ]
        for path in paths:
            assert path.stat().st_mode & 0o777 == 0o600
            client = Client(await connect(parse(path.read_bytes())), side="test")
            listed = orjson.loads(await client.get(DATABASES.path()))["items"]
            await client.close()
            assert [item["metadata"]["name"] for item in listed] == ["reports"]
        process.terminate()
        _, trouble = process.communicate(timeout=20)
    assert (process.returncode, trouble) == (0, "")
    assert not any(path.exists() for path in paths)


@pytest.mark.real
@pytest.mark.usefixtures("binaries")
def test_the_story_on_real_servers() -> None:
    _, words = run("--real", "--deadline", "30s", deadline=110)
    assert f"{len(OUTCOMES)} of {len(OUTCOMES)} outcomes came" in words


def test_the_api_is_labelled_for_export() -> None:
    crd = database_crd()
    assert crd["metadata"] == {
        "name": DATABASES.name,
        "labels": {"core.kbind.io/exported": "true"},
    }


def test_crds_prints_the_core_crds() -> None:
    result = CliRunner().invoke(main, ["crds"])
    files = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
    assert result.exit_code == 0
    assert result.stdout == "---\n".join(file.read_text() for file in files)
    assert list(documents(result.stdout, "crds")) == [
        crd for file in files for crd in documents(file.read_text(), file.name)
    ]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``kbind demo`` as a process, killed if the block does not end it."""
    with subprocess.Popen(
        [*KBIND, "demo", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """What *process* prints up to the line with *text*."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if text in line:
            return said
    raise AssertionError(f"{text!r} is not in {said}")
