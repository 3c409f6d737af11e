"""docs/testing.md: every block runs as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.guides import programs

GUIDE = "testing.md"
TITLES = (
    "EmbeddedBroker",
    "SyncEmbeddedBroker",
    "def test_",
    "Cluster(",
    "Simulation(",
    "app.test()",
    "ShelfTask()",
    "transformation_stages(",
)
"""A word of each block."""


def block(word: str) -> str:
    return next(each for each in programs(GUIDE) if word in each)


def test_the_guide_has_the_blocks_that_are_run() -> None:
    assert len(programs(GUIDE)) == len(TITLES)
    assert {block(title) for title in TITLES} == set(programs(GUIDE))


@pytest.mark.parametrize("title", ["Simulation(", "app.test()", "ShelfTask()", "transformation"])
def test_a_block_without_processes_runs(title: str) -> None:
    exec(compile(block(title), GUIDE, "exec"), {})  # noqa: S102


@pytest.mark.real
@pytest.mark.parametrize("title", ["EmbeddedBroker()", "SyncEmbeddedBroker", "Cluster("])
def test_a_block_with_a_broker_runs(title: str) -> None:
    exec(compile(block(title), GUIDE, "exec"), {})  # noqa: S102


@pytest.mark.real
def test_the_block_for_pytest_passes(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(block("def test_"))
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(tmp_path)]
    done = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
