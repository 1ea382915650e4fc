"""Breaks every bundled rule, one at a time, and counts which breaks the tests catch.

``make mutants`` runs the cases and golden files against each; ``make mutants MUTANTS=clusters``
runs the cluster suite in memory instead, which knows nothing of the golden files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kbind.tables import TABLES
from tests.manifests import ROOT

SUITES = {
    "cases": ["tests/rulebook"],
    "clusters": ["tests/clusters", "tests/stories", "-m", "not real", "-k", "not golden"],
}
COPIED = ("kbind", "plugins", "rules", "deploy", "tests", "golden", "pyproject.toml")


def mutants() -> Iterator[tuple[str, str, Any]]:
    """(file, what was done, the file's whole content) of every break: a step left out, another
    verdict, a reason gone, a flow turned off."""
    yaml = YAML()
    for file in sorted((ROOT / "rules").glob("*.yaml")):
        rows = yaml.load(file)
        for index in range(len(rows.get("rules") or ())):
            for what, change in _breaks(rows["table"], rows["rules"][index]):
                broken = yaml.load(file)
                change(broken["rules"][index]["then"])
                yield file.name, f"{rows['rules'][index]['rule']}: {what}", broken
        for index, flow in enumerate(rows.get("flows") or ()):
            for name, other in (("absent", {"keep": "remove", "remove": "keep"}),):
                broken = yaml.load(file)
                broken["flows"][index][name] = other[flow[name]]
                yield file.name, f"{flow['flow']}: {name} is {other[flow[name]]}", broken


def _breaks(table: str, rule: Any) -> Iterator[tuple[str, Any]]:
    then = rule["then"]
    for step in then.get("steps") or ():
        yield f"without {step}", lambda t, s=step: t["steps"].remove(s)
    if "verdict" in then:
        words = [str(word) for word in TABLES[table].verdicts or ()]
        other = words[(words.index(then["verdict"]) + 1) % len(words)]
        yield f"verdict {other}", lambda t, w=other: t.update(verdict=w)
    if then.get("steps") == []:
        spare = str(min(TABLES[table].steps))
        yield f"with {spare}", lambda t, s=spare: t["steps"].append(s)
    if "reason" in then:
        yield "another reason", lambda t: t.update(reason="Pending")


def main() -> None:
    suite = SUITES[sys.argv[1] if len(sys.argv) > 1 else "cases"]
    tried: list[str] = []
    survived: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(
                    source, scratch / name, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy(source, scratch / name)
        for name, what, broken in mutants():
            file = scratch / "rules" / name
            whole = file.read_bytes()
            YAML().dump(broken, file)
            caught = _fails(scratch, suite)
            file.write_bytes(whole)
            tried.append(what)
            if not caught:
                survived.append(f"{name}: {what}")
            print("caught  " if caught else "SURVIVED", name, what, flush=True)
    print(f"{len(tried)} breaks tried, {len(tried) - len(survived)} caught")
    sys.exit(bool(survived))


def _fails(scratch: Path, suite: list[str]) -> bool:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *suite],
        cwd=scratch,
        env=os.environ | {"PYTHONPATH": f"{scratch}:{scratch / 'plugins'}"},
        capture_output=True,
        check=False,
    )
    return run.returncode == 1


if __name__ == "__main__":
    main()
