"""Lets another thread handle, in order, the log records of one thread.

A program's log handlers may wait: for their lock, while the thread that holds it waits for the loop
(it logs with a handler that sends to Kafka, for example), or for a slow disk. The loop's thread
must not wait: 1. a thread logs, holds the handler's lock, and its `send` waits for the loop, 2. the
loop logs, and waits for the lock. So the loop's thread passes its records on.

Invariants: records are handled in the order in which they were logged, by all filters and handlers
of the program; records of other threads are not changed.
"""

from __future__ import annotations

import logging
import sys
import threading
from queue import SimpleQueue
from typing import Final

LOGGERS: Final = ("moldau.client", "asyncio")
"""The loggers that are used on a loop."""
_PATIENCE_S: Final = 1.0


class LogsHere:
    """Passes nothing on: each thread handles its own records."""

    def drain(self) -> None:
        """Do nothing: all is handled."""

    def stop(self) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""


class LogThread(logging.Filter):
    """Passes on the records of one thread; started by the first record."""

    def __init__(self, ident: int | None) -> None:
        super().__init__()
        self._of = ident
        self._logged: SimpleQueue[logging.LogRecord | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        for name in LOGGERS:
            logging.getLogger(name).filters.insert(0, self)  # other filters may wait, too

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is handled in its own thread."""
        if threading.get_ident() != self._of or not self._has_begun():
            return True
        self._logged.put(record)
        return False

    def _has_begun(self) -> bool:
        """Whether the other thread handles records. If none can be started any more, as at the end
        of a program (Python 3.12.1), this one handles them: it may have to wait, but nothing is
        lost."""
        if self._thread is None:
            thread = threading.Thread(target=self._handle, name="moldau-log", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _handle(self) -> None:
        while (logged := self._logged.get()) is not None:
            if isinstance(logged, threading.Event):
                logged.set()
                continue
            try:
                logging.getLogger(logged.name).handle(logged)
            except Exception:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self._thread)))

    def drain(self) -> None:
        """Return when everything logged so far is handled, or after a second."""
        if self._other is not None:
            all_handled = threading.Event()
            self._logged.put(all_handled)
            all_handled.wait(_PATIENCE_S)

    def stop(self) -> None:
        """Stop, since the thread that logged has ended."""
        self.forget()
        self._logged.put(None)
        other = self._other
        if other is not None:
            other.join(_PATIENCE_S)

    def forget(self) -> None:
        """Remove the filter: after a fork another thread may have the same id."""
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)

    @property
    def _other(self) -> threading.Thread | None:
        """The thread that handles records; None if there is none, or if it is the current one."""
        return None if self._thread is threading.current_thread() else self._thread
