"""What Spark forks its Python workers from."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

PROGRAM = """
import sys, threading
from importlib import import_module
from pathlib import Path
from moldau.spark.daemon import PRELOADED
for name in PRELOADED:
    import_module(name)
tasks = Path("/proc/self/task")
print(len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count())
"""


def test_what_is_preloaded_starts_no_thread_that_a_fork_would_lose() -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stdout.strip() == "1"
