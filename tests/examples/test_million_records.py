"""`make demo`: a broker starts, records are sent and read, nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.real
def test_the_demo_sends_and_reads_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.million_records", "--count", "20000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout + done.stderr
    assert "sent 20,000 records" in told
    assert "read 20,000 records" in told
    assert list(tmp_path.iterdir()) == []
