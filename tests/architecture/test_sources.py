"""The rules look at what belongs to the repository: all of it, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import Source, product, python, tracked

KEPT = [".ci/run", ".gitignore", "Makefile", "broker/moldau/broker/log.py"]
LEFT_BEHIND = [
    ".venv/lib/x.py",
    "broker/moldau/broker/__pycache__/log.cpython-311.pyc",
    "platform/moldau/records/_speed.so",
    "platform/build/x.py",
    ".mypy_cache/x.json",
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in (*KEPT, *LEFT_BEHIND):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(".venv/\n__pycache__/\n*.so\nbuild/\n.mypy_cache/\n")
    return tmp_path


def test_a_source_archive_is_walked_without_what_builds_leave_behind(checkout: Path) -> None:
    assert list(tracked(checkout)) == sorted(KEPT)


def test_git_is_asked_and_files_that_are_not_added_yet_count(checkout: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=checkout, check=True)  # noqa: S607
    subprocess.run(["git", "add", "Makefile"], cwd=checkout, check=True)  # noqa: S607

    assert list(tracked(checkout)) == sorted(KEPT)


def test_a_file_that_was_removed_but_is_still_in_the_index_does_not_count(checkout: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=checkout, check=True)  # noqa: S607
    subprocess.run(["git", "add", "."], cwd=checkout, check=True)  # noqa: S607
    (checkout / "Makefile").unlink()

    assert "Makefile" not in tracked(checkout)


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("platform/moldau/ids/__init__.py", "moldau.ids"),
        ("broker/moldau/broker/log/segment.py", "moldau.broker.log.segment"),
        ("platform/hatch_build.py", None),
        ("tests/moldau/x.py", None),
    ],
)
def test_a_module_has_its_dotted_name(path: str, module: str | None) -> None:
    assert Source(path, "").module == module


def test_the_rules_look_at_the_real_thing() -> None:
    modules = {source.module for source in product()}

    assert {"moldau.ids", "moldau.errors", "moldau.broker", "moldau.connectors"} <= modules
    assert __name__.replace(".", "/") + ".py" in {source.path for source in python()}
