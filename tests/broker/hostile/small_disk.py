"""A disk that can be filled or made read-only under a real process: a small tmpfs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """Mounted at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def remount(self, options: str) -> None:
        """`ro`, `rw` or `size=8m`."""
        _run("mount", "-o", f"remount,{options}", str(self.path))


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[SmallDisk]:
    """For the time of a test; skips it where nothing may be mounted."""
    path.mkdir()
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("only root may mount a small disk")
    refused = _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    if refused:
        pytest.skip(f"cannot mount a small disk: {refused}")
    try:
        yield SmallDisk(path)
    finally:
        _run("umount", "-l", str(path))


def _run(*words: str) -> str:
    """What the command complained of."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stderr if done.returncode else ""
