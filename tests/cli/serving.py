"""A command of `moldau` that serves until it is told to end, as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

END_S = 120.0


@contextmanager
def serving(*words: str, told: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address in its first line, which has this text. At the end it gets
    SIGTERM."""
    started = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "moldau", *words], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    try:
        line = started.stdout.readline()
        assert told in line
        yield started, next(word for word in line.split() if "://" in word)
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
        try:
            started.wait(END_S)
        finally:
            started.kill()
            started.wait()
            started.stdout.close()
