"""`errors.log.enable`: one line for each skipped record; its content only if it is configured."""

from __future__ import annotations

from moldau.client import ConsumerRecord
from moldau.connect.task.tolerance import Failure, told
from moldau.logging import Logger


class FailureLog:
    """Logs the skipped records of one task."""

    def __init__(self, log: Logger, owner: tuple[str, int], *, has_messages: bool) -> None:
        self._log = log
        self._owner = owner
        self._has_messages = has_messages

    def report(self, failure: Failure) -> None:
        """Log one line about a skipped record."""
        record = failure.record
        facts: dict[str, object] = {
            "connector": self._owner[0],
            "task": self._owner[1],
            "stage": failure.stage.value,
            "plugin": failure.plugin,
            "error": told(failure.error),
        }
        if isinstance(record, ConsumerRecord):
            facts |= {"topic": record.topic, "partition": record.partition}
            facts |= {"offset": record.offset, "timestamp": record.timestamp}
            if self._has_messages:
                facts |= {"key": repr(record.key), "value": repr(record.value)}
        self._log.error("a record was given up", **facts)
