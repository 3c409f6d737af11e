"""An app on Spark while brokers are away: it waits, says so, and runs the batch again.

A batch that fails counts nowhere, so it can be repeated as often as it takes; each task that has
committed it writes nothing then (`delivery`). What does not pass by itself is never repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.children import Mailbox
from moldau.runtime.threads import here
from moldau.streams.changelog.ranges import BrokersAway

LOG: Final = logging.getLogger("moldau.streams")
_RETRY_S: Final = 1.0
_SAY_AGAIN_S: Final = 60.0
_LASTING: Final = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.CORRUPT_MESSAGE)
)
"""Clients try these again for a while, and they stay: a topic was deleted, a record is damaged."""
T = TypeVar("T")


class SlowPython(BrokersAway):
    """Spark has given up on a Python process of its own: it waits 10 s, which no setting changes.
    The same batch may work later, as without brokers."""


def is_passing(error: MoldauError) -> bool:
    """Whether the same work may succeed as soon as brokers answer."""
    if not isinstance(error, KafkaError):
        return isinstance(error, BrokersAway)
    code = error.code  # a transaction's error is not retriable in the transaction, but in the next
    return code is ErrorCode.BROKER_NOT_AVAILABLE or (code.retriable and code not in _LASTING)


class Patience:
    """Repeats work that fails because brokers are away. For one thread."""

    def __init__(self, name: str) -> None:
        """`name` is what waits, for the log."""
        self._name = name
        self._since_s: float | None = None
        self._reported_at_s = 0.0

    def run(self, work: Callable[[], T], is_stopping: Callable[[], bool]) -> T:
        """Return what `work` returns, as soon as brokers answer. Raise an error of it that does not
        pass, or any if the app stops."""
        while True:
            try:
                found = work()
            except MoldauError as error:
                if is_stopping() or not is_passing(error):
                    raise
                self._on_error(error)
                Mailbox[bool]().take(_RETRY_S)
            else:
                self._on_success()
                return found

    def _on_error(self, error: MoldauError) -> None:
        now_s = here().monotonic()
        if self._since_s is None:
            self._since_s, self._reported_at_s = now_s, float("-inf")
        if now_s - self._reported_at_s >= _SAY_AGAIN_S:
            self._reported_at_s = now_s
            what = "tries again" if isinstance(error, SlowPython) else "waits for its brokers"
            LOG.warning("streams: %s: it %s: %s", self._name, what, error)

    def _on_success(self) -> None:
        if self._since_s is not None:
            waited_s = here().monotonic() - self._since_s
            self._since_s = None
            LOG.warning("streams: %s: it goes on after %.0f s", self._name, waited_s)
