"""`moldau pipeline` on the example, with real processes: plan, run, status, down."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.running import Folder

pytestmark = [pytest.mark.real, pytest.mark.deep]


def test_it_runs_shows_its_state_and_is_taken_down(tmp_path: Path) -> None:
    folder = Folder.of_example(tmp_path)
    folder.write("to", "be", "or")
    assert "4 to create" not in folder.moldau("pipeline", "plan")
    with folder.running() as run:
        folder.await_all()
        rows = json.loads(folder.moldau("pipeline", "status", "--json"))
        assert {each["part"]: each["state"] for each in rows} == dict.fromkeys(
            (
                "broker",
                "worker",
                "read-lines",
                "count-words",
                "counts-to-file",
                "counts-to-database",
            ),
            "RUNNING",
        )
        assert next(each["lag"] for each in rows if each["part"] == "count-words") == 0
        plan = json.loads(folder.moldau("pipeline", "plan", "--json"))
        counts = {"create": 0, "update": 0, "keep": 5, "start": 1, "remove": 0, "refuse": 0}
        assert plan["counts"] == counts
        assert "runs already" in refused(folder)
        assert "stopped" in folder.moldau("pipeline", "down")
        assert run.process.wait(timeout=30) == 0
    folder.write("not")
    with folder.running() as run:
        folder.await_all()
        run.stop(signal.SIGINT)

    assert folder.counts() == {"to": 1, "be": 1, "or": 1, "not": 1}
    assert "nothing was deleted: type yes" in folder.moldau("pipeline", "down", "--delete", code=1)
    assert (folder.path / ".moldau" / "words").is_dir()
    folder.moldau("pipeline", "down", "--delete", source="yes\n")
    assert not (folder.path / ".moldau" / "words").exists()


def test_an_external_topic_and_a_reference_of_the_worker_can_be_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUSH_MS", "1000")
    folder = Folder.of_example(tmp_path)
    file = folder.path / "pipeline.yaml"
    text = file.read_text().replace("lines: {partitions: 2}", "lines: {external: true}")
    reference = "  settings:\n    offset.flush.interval.ms: ${env:FLUSH_MS}\n"
    file.write_text(text.replace("  settings:\n", reference, 1))
    folder.write("to", "be")

    with folder.running() as run:
        folder.await_all()
        run.stop()

    assert "topic      lines (external: made here only to try the pipeline)" in run.said


def refused(folder: Folder) -> str:
    """What a second `run` says."""
    done = subprocess.run(
        [sys.executable, "-m", "moldau.cli", "pipeline", "run"],
        cwd=folder.path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr
