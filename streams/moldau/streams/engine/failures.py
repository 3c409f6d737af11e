"""Records that fail: the policy of the operator decides what happens to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.sinks import Outlets
from moldau.streams.engine.writer import operator_of
from moldau.streams.plan.plan import Program
from moldau.streams.plan.policies import Policy
from moldau.streams.plan.steps import Step
from moldau.streams.problems import (
    BufferFull,
    OperatorFailed,
    RecordFailed,
    RecordPlace,
    StateError,
    StreamsError,
)
from moldau.streams.serdes.types import codec_for


@dataclass(slots=True)
class Emission:
    """A call that no single record caused. `step` emits the row; it is None for a call by the
    clock, which has no row."""

    operator: str
    call: Callable[..., None]
    arguments: tuple[Any, ...]
    step: Step | None
    attempts: int = 0
    due_ms: int = 0


@dataclass(frozen=True, slots=True)
class Cause:
    """The input record that has failed, or of which something has failed that was made from it."""

    topic: str
    chunk: Chunk
    index: int

    @property
    def offset(self) -> int:
        return self.chunk.offsets[self.index]


class Failures:
    """Counts attempts and carries out policies. Only one record at a time can wait to be taken from
    its source again, because the task stops at it."""

    def __init__(
        self,
        program: Program,
        partition: int,
        outlets: Outlets,
        positions: Callable[[], Mapping[str, int]],
    ) -> None:
        """`positions` returns the offsets of the next records, by topic."""
        self._positions = positions
        self.skipped = 0
        self.dead_lettered = 0
        self._program = program
        self._policies = {step.name: step.on_error for step in program.steps}
        self._partition = partition
        self._outlets = outlets
        self._attempts = 0
        self._attempted: tuple[str, int] | None = None
        self._retry_at_ms: int | None = None
        self.now_ms = 0
        """The wall clock at the last `take_due`."""
        self.pending: list[Emission] = []
        """The emissions to try again, in order."""

    def is_waiting(self, now_ms: int) -> bool:
        """Whether the pause before the next attempt still lasts."""
        if self._retry_at_ms is None:
            return False
        if now_ms < self._retry_at_ms:
            return True
        self._retry_at_ms = None
        return False

    def due_ms(self) -> int | None:
        """Return when the next attempt is due; None if nothing waits for one."""
        dues = [] if self._retry_at_ms is None else [self._retry_at_ms]
        return min((*dues, *(each.due_ms for each in self.pending)), default=None)

    def decide(self, cause: Cause, error: Exception, now_ms: int) -> bool:
        """Return True to continue after the failed record, False to try it again later. Raise if
        its policy is to fail."""
        record = cause.topic, cause.offset
        if record != self._attempted:
            self._attempted, self._attempts = record, 0
        self._retry_at_ms = self.retry_or_settle(cause.topic, cause, self._attempts, error, now_ms)
        self._attempts += 1
        return self._retry_at_ms is None

    def retry_or_settle(
        self, operator: str, cause: Cause, attempts: int, error: Exception, now_ms: int
    ) -> int | None:
        """Return when to try again what was tried again `attempts` times; None after its record
        was left out. Raise if the policy is to fail. The operator that failed is in the traceback;
        otherwise it is `operator`."""
        if isinstance(error, StateError | OperatorFailed):
            raise error
        failed = operator_of(error.__traceback__) or operator
        place = RecordPlace(cause.topic, self._partition, cause.offset, failed)
        if isinstance(error, BufferFull):
            raise RecordFailed(place, error, BufferFull.ADVICE) from error
        policy = self._policies.get(failed) or self._program.on_error
        if attempts < policy.retries:
            pause_ms: int = policy.backoff_ms * 2**attempts
            return now_ms + pause_ms
        self._give_up(policy, place, cause, error)
        return None

    def settle(self, operator: str, cause: Cause, error: Exception) -> None:
        """Carry out the policy of a record without attempts left. Raise if it is to fail."""
        place = RecordPlace(cause.topic, self._partition, cause.offset, operator)
        policy = self._policies.get(operator) or self._program.on_error
        self._give_up(policy, place, cause, error)

    def _give_up(self, policy: Policy, place: RecordPlace, cause: Cause, error: Exception) -> None:
        if policy.then == "skip":
            self.skipped += 1
        elif policy.dead_letter is not None:
            self._bury(policy.dead_letter, place, cause, error)
        else:
            raise RecordFailed(place, error) from error

    def outside(self, emission: Emission, error: Exception) -> None:
        """Handle a failure at a commit or a timer, which no single record caused."""
        if isinstance(error, BufferFull):
            raise self._operator_failed(emission, error) from error
        if isinstance(error, StreamsError):
            raise error
        policy = self._policies.get(emission.operator) or self._program.on_error
        if emission.attempts < policy.retries:
            emission.due_ms = self.now_ms + policy.backoff_ms * 2**emission.attempts
            emission.attempts += 1
            self.pending.append(emission)
        elif policy.then == "skip":
            self.skipped += 1
        elif policy.dead_letter is not None and emission.step is not None:
            self._bury_row(policy.dead_letter, emission, emission.step, error)
        else:
            raise self._operator_failed(emission, error) from error

    def _operator_failed(self, emission: Emission, error: Exception) -> OperatorFailed:
        app, after = self._program.app, self._positions().items()
        last = {topic: position - 1 for topic, position in after if position > 0}
        return OperatorFailed(app, self._partition, emission.operator, error, last)

    def take_due(self, now_ms: int) -> list[Emission]:
        """Return the emissions to try again now, and remove them from `pending`."""
        self.now_ms = now_ms
        due = [each for each in self.pending if each.due_ms <= now_ms]
        self.pending = [each for each in self.pending if each.due_ms > now_ms]
        return due

    def _bury_row(self, dead_letter: str, emission: Emission, step: Step, error: Exception) -> None:
        """Send the row of a failed emit to a dead-letter topic, with the reason in its headers."""
        key, value, *_, time, headers = emission.arguments
        columns = self._outlets.columns(dead_letter)
        columns.keys.append(None if key is None else codec_for(step.key_type).encode(key))
        columns.values.append(None if value is None else codec_for(step.value_type).encode(value))
        columns.timestamps.append(time)
        reasons = {
            "app": self._program.app,
            "partition": str(self._partition),
            "operator": emission.operator,
            "exception": type(error).__name__,
            "message": str(error),
        }
        columns.add_headers((*(headers or ()), *_reasons(reasons)))
        self.dead_lettered += 1

    def _bury(self, dead_letter: str, place: RecordPlace, cause: Cause, error: Exception) -> None:
        """Send the record, unchanged, to a dead-letter topic, with the reason in its headers."""
        self.dead_lettered += 1
        chunk, index = cause.chunk, cause.index
        columns = self._outlets.columns(dead_letter)
        columns.keys.append(chunk.keys[index])
        columns.values.append(chunk.values[index])
        columns.timestamps.append(chunk.timestamps[index])
        reasons = {
            "app": self._program.app,
            "topic": place.topic,
            "partition": str(place.partition),
            "offset": str(place.offset),
            "operator": place.operator,
            "exception": type(error).__name__,
            "message": str(error),
        }
        own = () if chunk.headers is None else tuple(chunk.headers[index])
        columns.add_headers(own + _reasons(reasons))


class BatchFailures:
    """The failures of a batch with waiting records: an `OnError` of its deferred operators."""

    def __init__(self, failures: Failures, topic: str, chunk: Chunk, now_ms: int) -> None:
        self._failures = failures
        self._topic = topic
        self._chunk = chunk
        self._now_ms = now_ms

    def settle(self, operator: str, index: int, error: Exception) -> None:
        self._failures.settle(operator, Cause(self._topic, self._chunk, index), error)

    def retry_or_settle(
        self, operator: str, index: int, attempts: int, error: Exception
    ) -> int | None:
        cause = Cause(self._topic, self._chunk, index)
        return self._failures.retry_or_settle(operator, cause, attempts, error, self._now_ms)


def _reasons(facts: dict[str, str]) -> tuple[tuple[str, bytes], ...]:
    """Return the facts of a failure as headers."""
    return tuple((f"moldau.error.{name}", text.encode()) for name, text in facts.items())
