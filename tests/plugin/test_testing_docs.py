"""The pytest plugin in a project outside of this repository: the one that docs/testing.md shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILE = re.compile(r"```(?:python|yaml|ini)\n# (\S+)\n(.*?)```", flags=re.DOTALL)
PROMISES = 16  # tests of the contract, which the page inherits
SOURCE = re.compile(r"```python\n(\"\"\"The schema source.*?)```", flags=re.DOTALL)


def page(name: str) -> str:
    return (DOCS / name).read_text()


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Every file that docs/testing.md shows, and the plugin of docs/plugins.md."""
    (plugin,) = SOURCE.findall(page("plugins.md"))
    for name, text in [*FILE.findall(page("testing.md")), ("listed.py", plugin)]:
        file = pytester.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """With our plugin loaded as every project has it, by its entry point."""
    return project.runpytest_subprocess("-W", "error", *arguments)


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_the_page_is_a_project_that_works(project: pytest.Pytester, mode: str) -> None:
    run(project, f"--asyncio-mode={mode}").assert_outcomes(passed=5 + PROMISES)


def test_the_tests_of_the_page_can_fail(project: pytest.Pytester) -> None:
    """Without the overlay and with another plugin the same tests say so."""
    (project.path / "overlay" / "ownership.yaml").unlink()
    listed = project.path / "listed.py"
    listed.write_text(listed.read_text().replace('{"Listed": Listed}', '{"Other": Listed}'))
    run(project, "test_decision.py", "test_plugin.py").assert_outcomes(failed=2)


def test_projects_may_have_fixtures_of_these_names(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n"
        "@pytest.fixture\n"
        "def konnector(provider): return ('mine', provider)\n"
        "@pytest.fixture\n"
        "def provider(): return 'mine too'\n"
    )
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile("def test_it(konnector): assert konnector == ('mine', 'mine too')\n")
    run(pytester).assert_outcomes(passed=1)


def test_the_plugin_costs_nothing_until_it_is_used() -> None:
    code = (
        "import sys, pytest, pytest_asyncio; before = set(sys.modules); "
        "import kbind.testing.pytest_plugin; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kbind", "kbind.testing", "kbind.testing.pytest_plugin"]
