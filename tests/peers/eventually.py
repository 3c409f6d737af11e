"""Waiting for what a real process does in its own time; for tests marked `real` only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_POLL_S = 0.05


def eventually(reached: Callable[[], object], *, within_s: float = 60.0) -> None:
    """Returns as soon as `reached()` is true; AssertionError when the time is over."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while not reached():
        assert time.monotonic() < deadline, f"not reached within {within_s} s"
        pause.wait(_POLL_S)
