"""A pipeline loses nothing, whatever part of it, or the whole of it, is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.pipeline.running import Folder, Run, wait_until

pytestmark = pytest.mark.real

CYCLES = int(os.environ.get("MOLDAU_PIPELINE_CYCLES", "1"))
PARTS = ("app count-words", "worker", "broker")


def kill_part(folder: Folder, run: Run, part: str) -> None:
    """kill -9; returns when another process has its place."""
    before = folder.pid_of(part)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    run.read_until(f"{part} has ended (signal 9)")
    wait_until(lambda: folder.pid_of(part) not in (None, before), f"{part} runs again")


def test_what_is_killed_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    folder = Folder.of_example(tmp_path)
    for cycle in range(CYCLES):
        with folder.running() as run:
            folder.write(*(f"first-{cycle}-{n}" for n in range(50)))
            folder.await_all()
            for part in PARTS:
                folder.write(*(f"{part.split()[0]}-{cycle}-{n}" for n in range(50)))
                kill_part(folder, run, part)
            run.kill()
        folder.write(*(f"down-{cycle}-{n}" for n in range(50)))
    with folder.running() as run:
        folder.await_all()
        said = run.stop()

    order = [line for line in said if line.startswith("stopping ")]
    assert order == [
        "stopping the sources",
        "stopping app count-words",
        "stopping the sinks",
        "stopping worker",
        "stopping broker",
    ]
    assert folder.counts().keys() == folder.words
    assert {each["word"] for each in folder.lines()} == folder.words
