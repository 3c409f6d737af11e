"""What a test takes includes what it leaves running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import cpu

SPIN = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
STARTS_ANOTHER = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SPIN!r}])"


@pytest.mark.parametrize("script", [SPIN, STARTS_ANOTHER], ids=["a child", "a child of a child"])
def test_a_process_counts_while_it_runs(script: str) -> None:
    ended_s, all_s = cpu.of_ended(), cpu.of_all()

    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        running_s = (cpu.of_all() - all_s) - (cpu.of_ended() - ended_s)
        process.communicate(b"\n")

    assert running_s >= 0.25
    assert cpu.of_ended() - ended_s >= running_s - 0.1, "it has ended, and counts as before"


def test_without_proc_only_what_has_ended_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cpu, "PROC", tmp_path)

    assert cpu.of_all() <= cpu.of_ended()
