"""Handles a record that cannot be converted, transformed or written.

The caller makes the first attempt itself, which costs nothing here. If it fails, `Tolerance.settle`
repeats what can pass by itself within `errors.retry.timeout`. Then the record is skipped, logged
and sent to the dead letter queue if the connector tolerates errors; if not, the task fails.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol, TypeVar, cast

from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.task.settings import ErrorSettings
from moldau.deferred import dataclass
from moldau.runtime.backoff import Backoff

T = TypeVar("T")

FIRST_DELAY_MS: Final = 300
FOREVER: Final = -1


class Stage(Enum):
    """The step in which an error happened, by Kafka Connect's names."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


TOLERABLE: Final = frozenset(
    {
        Stage.TRANSFORMATION,
        Stage.KEY_CONVERTER,
        Stage.VALUE_CONVERTER,
        Stage.HEADER_CONVERTER,
        Stage.TASK_PUT,
        Stage.KAFKA_PRODUCE,
    }
)


class Skipped(Exception):
    """The record was reported as the config says; the task continues after it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error and its record: the consumed record for a sink, the source record for a source."""

    stage: Stage
    plugin: str
    error: Exception
    record: Any


class Reporter(Protocol):
    """A log or queue for tolerated failures."""

    def report(self, failure: Failure) -> None:
        """Log the failure, or send its record to the dead letter queue."""
        ...


class TaskPauses(Protocol):
    """Lets the task wait between attempts."""

    def now_ms(self) -> int: ...

    def wait_ms(self, ms: int) -> bool:
        """Wait. Return False if a stop command ends the wait early."""
        ...


@dataclass(slots=True)
class ErrorCounts:
    """Kafka Connect's task-error-metrics."""

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    logged: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0
    last_error_ms: int = 0


class Tolerance:
    """Retries, skips and reports the failures of one task."""

    def __init__(
        self, settings: ErrorSettings, waits: TaskPauses, reporters: list[Reporter]
    ) -> None:
        self.settings = settings
        self.counts = ErrorCounts()
        self._waits = waits
        self._reporters = reporters

    def settle(
        self, failure: Failure, again: Callable[[], T], *, is_tolerable: bool | None = None
    ) -> T:
        """Return what `again` returns once it works; else raise Skipped or the task's failure."""
        last: Exception | None = failure.error
        self.counts.failures += 1
        if isinstance(last, RetriableError):
            value, last = self._retried(last, again)
            if last is None:
                return cast(T, value)
        assert last is not None
        self.counts.errors += 1
        self.counts.last_error_ms = self._waits.now_ms()
        if is_tolerable is None:
            is_tolerable = failure.stage in TOLERABLE
        final = Failure(failure.stage, failure.plugin, last, failure.record)
        if not (is_tolerable and self.settings.tolerates):
            raise as_task_failure(final) from last
        self.report(final)
        raise Skipped

    def report(self, failure: Failure) -> None:
        """Count a record as skipped and report it."""
        self.counts.skipped += 1
        for each in self._reporters:
            each.report(failure)

    def _retried(
        self, first: Exception, again: Callable[[], T]
    ) -> tuple[T | None, Exception | None]:
        """Return the result of `again` and None, or None and the last error."""
        settings, waits = self.settings, self._waits
        error, begun_ms, failures = first, waits.now_ms(), 0
        longest_ms = settings.retry_delay_max_ms
        backoff = Backoff(min(FIRST_DELAY_MS, longest_ms), longest_ms)
        while isinstance(error, RetriableError):
            left_ms = begun_ms + settings.retry_timeout_ms - waits.now_ms()
            is_bounded = settings.retry_timeout_ms != FOREVER
            if is_bounded and left_ms <= 0:
                break
            failures += 1
            wait_ms = backoff.plain_ms(failures)
            if not waits.wait_ms(min(wait_ms, left_ms) if is_bounded else wait_ms):
                break
            self.counts.retries += 1
            try:
                return again(), None
            except Exception as next_error:
                error = next_error
        return None, error


def as_task_failure(failure: Failure) -> ConnectError:
    """Return the error that fails the task: the original message, with stage and place."""
    record = failure.record
    facts: dict[str, object] = {"stage": failure.stage.value, "plugin": failure.plugin}
    topic = getattr(record, "topic", None)
    if topic is not None:
        facts["topic"] = topic
    if getattr(record, "offset", None) is not None:
        facts["partition"], facts["offset"] = record.partition, record.offset
    return ConnectError(told(failure.error), **facts)


def told(error: BaseException) -> str:
    """Return an error in one line: the message of a ConnectError, type and message of any other."""
    if isinstance(error, ConnectError):
        return str(error)
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
