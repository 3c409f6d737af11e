"""What one thread logs is handled by another, in order.

A program's log handlers may wait: for a lock of theirs, which a thread has that waits for the loop
meanwhile (it logs by a handler that sends to Kafka, say), or for a slow disk. The thread that has
the loop must not: 1. a thread logs, has the handler's lock, and its `send` waits for the loop, 2.
the loop logs, and waits for the lock. So it hands its records over.

Invariants: records are handled in the order in which they were logged, by all filters and handlers
that the program has put anywhere; what any other thread logs is not touched.
"""

from __future__ import annotations

import logging
import sys
import threading
from queue import SimpleQueue
from typing import Final

LOGGERS: Final = ("moldau.client", "asyncio")
"""Those that are used on a loop."""
_PATIENCE_S: Final = 1.0


class LogThread(logging.Filter):
    """Of one thread; begun when it logs for the first time."""

    def __init__(self, ident: int | None) -> None:
        super().__init__()
        self._of = ident
        self._logged: SimpleQueue[logging.LogRecord | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        for name in LOGGERS:
            logging.getLogger(name).filters.insert(0, self)  # others may wait too

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is handled where it was logged."""
        if threading.get_ident() != self._of or not self._has_begun():
            return True
        self._logged.put(record)
        return False

    def _has_begun(self) -> bool:
        """Whether another thread handles. Where none may begin any more, as at the end of a program
        (Python 3.12.1), this one does it: it may have to wait, but nothing is lost."""
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
        """Returns when what was logged until now is handled, or that takes long."""
        if self._other is not None:
            all_handled = threading.Event()
            self._logged.put(all_handled)
            all_handled.wait(_PATIENCE_S)

    def stop(self) -> None:
        """The thread that logged is no more."""
        self.forget()
        self._logged.put(None)
        other = self._other
        if other is not None:
            other.join(_PATIENCE_S)

    def forget(self) -> None:
        """It is not here: after a fork another one may have its number."""
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)

    @property
    def _other(self) -> threading.Thread | None:
        """The thread that handles, if there is one and it is not the one that asks."""
        return None if self._thread is threading.current_thread() else self._thread
