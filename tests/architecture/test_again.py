"""Tests that pass only alone are counted over a whole run, and named last."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import again
from tests.again import Count, faults
from tests.architecture.sources import ROOT

FOUR = [f"tests/a.py::test_{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("needed", "change", "number_of_faults"),
    [
        ([], frozenset(), 0),
        ([], None, 0),
        (FOUR[:3], frozenset(), 0),
        (FOUR, frozenset(), 1),
        (FOUR[:1], {"tests/a.py"}, 1),
        (FOUR, {"tests/a.py"}, 2),
        (FOUR[:1], {"tests/b.py", "tests/a.py::test_0"}, 0),
        (FOUR[:1], None, 0),
        (FOUR, None, 1),
    ],
)
def test_more_than_three_or_one_of_the_change_is_too_much(
    needed: list[str], change: frozenset[str] | None, number_of_faults: int
) -> None:
    assert len(faults(needed, change)) == number_of_faults


def test_parts_are_added_up(tmp_path: Path) -> None:
    path = tmp_path / "build" / "again.json"
    before = again.read(path)
    again.write(path, before.after(passed=10, needed=()))
    again.write(path, again.read(path).after(passed=2, needed=["a", "b"]))

    assert again.read(path).after(passed=1, needed=["b"]) == Count(13, ("a", "b", "b"))


PROJECT = {
    "pytest.ini": "[pytest]\n",
    "conftest.py": """
from tests import again

def pytest_addoption(parser):
    again.add_option(parser)

def pytest_configure(config):
    again.configure(config)
""",
    "test_a.py": """
import os
import pytest

def test_passes():
    pass

@pytest.mark.parametrize("case", range(int(os.environ["FAILING"])))
def test_passes_alone(case):
    assert os.environ.get("IS_ALONE")
""",
}


class Project:
    """A few tests, some of which pass only alone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in PROJECT.items():
            (root / name).write_text(text)

    def commit(self) -> None:
        """Make a repository, in which nothing has changed since its only commit."""
        identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "all"]):
            command = ["git", *arguments]
            subprocess.run(command, cwd=self.root, env=_environ({}), check=True)  # noqa: S603

    def run(self, *arguments: str, **environ: str) -> tuple[int, list[str]]:
        """Return the exit code, and the lines that are not empty."""
        command = [sys.executable, "-m", "pytest", *arguments, "test_a.py"]
        answer = subprocess.run(  # noqa: S603
            command, cwd=self.root, env=_environ(environ), capture_output=True, text=True
        )
        return answer.returncode, [each for each in answer.stdout.splitlines() if each]

    def run_twice(self, *arguments: str, **environ: str) -> tuple[int, list[str]]:
        """What the Makefile does with AGAIN=yes."""
        code, _ = self.run(**environ)
        assert code == pytest.ExitCode.TESTS_FAILED
        return self.run("--last-failed", "--again", *arguments, **environ, IS_ALONE="yes")


def _environ(more: Mapping[str, str]) -> dict[str, str]:
    """Without what this run was started with, and without plugins that cost a second."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AGAIN", "CHANGED_SINCE", "PYTEST_", "GIT_"))
    }
    fixed = {
        "GIT_CEILING_DIRECTORIES": "/",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "yes",
        "PYTHONPATH": str(ROOT),
    }
    return {**own, **fixed, **more}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_three_are_named_last_and_one_more_in_a_later_part_fails_the_run(project: Project) -> None:
    project.commit()
    environ = {"AGAIN_COUNT": "again.json", "CHANGED_SINCE": "HEAD"}
    workers = ("-p", "xdist.plugin", "-n", "1")

    code, lines = project.run_twice(*workers, FAILING="3", **environ)

    assert code == 0
    assert lines[-5:-1] == [
        "3 of 4 that passed in this run so far",
        *(f"AGAIN test_a.py::test_passes_alone[{number}]" for number in range(3)),
    ]
    assert "3 passed" in lines[-1]

    code, lines = project.run_twice(FAILING="1", **environ)

    assert code == pytest.ExitCode.TESTS_FAILED
    assert lines[-7] == "4 of 6 that passed in this run so far"
    assert lines[-2] == "FAILED: more than 3 tests needed it"


def test_one_in_a_file_that_the_change_touches_fails_the_run(project: Project) -> None:
    project.commit()
    (project.root / "test_a.py").write_text(PROJECT["test_a.py"] + "\n")
    code, lines = project.run_twice(FAILING="1", CHANGED_SINCE="HEAD")

    assert code == pytest.ExitCode.TESTS_FAILED
    assert lines[-2] == "FAILED: the change touches test_a.py"


def test_what_fails_alone_too_is_not_named(project: Project) -> None:
    project.run(FAILING="1")
    code, lines = project.run("--last-failed", "--again", FAILING="1")

    assert code == pytest.ExitCode.TESTS_FAILED
    assert not any(each.startswith("AGAIN") for each in lines)
