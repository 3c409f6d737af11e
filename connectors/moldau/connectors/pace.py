"""A task's clock, a wait that `stop` ends, and a thread that calls a function at intervals.

Connect's tasks are synchronous and own their thread, so they wait here and not on an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from moldau.runtime.real import RealClock


class Pace:
    """The clock of one task. `stop` may be called from another thread and ends every wait."""

    def __init__(self) -> None:
        self._clock = RealClock()
        self._stopped = threading.Event()

    def monotonic(self) -> float:
        """Return the seconds since a fixed point."""
        return self._clock.monotonic()

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return self._clock.wall_ms()

    def wait(self, seconds: float) -> bool:
        """Wait. Return True if the task is to stop."""
        return self._stopped.wait(max(0.0, seconds))

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()


class Patrol:
    """Calls `look` every `interval` seconds in a thread of its own, until stopped."""

    def __init__(self, look: Callable[[], None], interval: float, pace: Pace) -> None:
        self._look = look
        self._interval = interval
        self._pace = pace
        self._thread = threading.Thread(target=self._run, name="patrol", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the thread. Return when the current call of `look` has ended, or after `timeout`."""
        self._pace.stop()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._pace.wait(self._interval):
            self._look()
