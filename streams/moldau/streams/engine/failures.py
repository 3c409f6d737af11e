"""Records that fail: the policy of the operator decides what happens to them.

An operator with a policy of its own leaves out what it would have passed on; the other steps keep
the record. The app's policy leaves out the record as a whole. Before another attempt all is undone
that the last one did (see state.journal), what operators have left out included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from traceback import format_exception
from typing import Any, Final, Protocol

from moldau.deferred import dataclass
from moldau.streams.engine.batches import Chunk, Headers
from moldau.streams.engine.operators.deferred import DeferredOperator, WaitingRecord
from moldau.streams.engine.sinks import Outlets
from moldau.streams.engine.writer import operator_of
from moldau.streams.plan.operations import Step
from moldau.streams.plan.plan import Program
from moldau.streams.plan.policies import Policy
from moldau.streams.plan.replies import ERROR
from moldau.streams.problems import (
    BufferFull,
    OperatorFailed,
    RecordFailed,
    RecordPlace,
    StateError,
    StreamsError,
)
from moldau.streams.serdes.types import codec_for
from moldau.streams.state.journal import Journal

ENDS: Final = (StateError, OperatorFailed, BufferFull)
"""After these no policy goes on."""


@dataclass(slots=True)
class Emission:
    """A call that no single record caused. `step` emits the row; it is None for a call by the
    clock, which has no row."""

    operator: str
    call: Callable[..., None]
    arguments: tuple[Any, ...]
    step: Step | None
    attempts: dict[str, int] = field(default_factory=dict)
    """How often it was tried again, by the operator that failed."""
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

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.offset


class Failures:
    """Counts attempts and carries out policies. Only one record at a time can wait to be taken from
    its source again, because the task stops at it."""

    def __init__(
        self,
        program: Program,
        partition: int,
        outlets: Outlets,
        positions: Callable[[], Mapping[str, int]],
        journal: Journal,
    ) -> None:
        """`positions` returns the offsets of the next records, by topic."""
        self._positions = positions
        self.skipped = 0
        self.dead_lettered = 0
        self._program = program
        self._policies = {step.name: step.on_error for step in program.steps}
        self._partition = partition
        self._outlets = outlets
        self._journal = journal
        self._attempts: dict[str, int] = {}
        self._attempted: tuple[str, int] | None = None
        self._buried: set[tuple[str, int, str]] = set()
        """The place and operator of the dead letters of the record that failed last."""
        self._buried_row: tuple[Any, ...] = ()
        self._buried_by: set[str] = set()
        """The operators that have sent the row of an emit, the one that failed last."""
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
        attempts = self.attempts(cause)
        self._retry_at_ms = self.retry_or_settle(cause.topic, cause, attempts, error, now_ms)
        return self._retry_at_ms is None

    def attempts(self, cause: Cause) -> dict[str, int]:
        """Return how often a record was taken from its source again, by operator that failed."""
        record = cause.topic, cause.offset
        if record != self._attempted:
            self._attempted, self._attempts = record, {}
        return self._attempts

    def has_attempts(self, operator: str, attempts: Mapping[str, int]) -> bool:
        """Whether what an operator has failed on is to be tried again."""
        return attempts.get(operator, 0) < self._policy(operator).retries

    def _policy(self, operator: str) -> Policy:
        return self._policies.get(operator) or self._program.on_error

    def retry_or_settle(
        self, operator: str, cause: Cause, attempts: dict[str, int], error: Exception, now_ms: int
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
        policy = self._policy(failed)
        if self.has_attempts(failed, attempts):
            return now_ms + _pause_ms(policy, failed, attempts)
        self._give_up(policy, place, cause, error)
        return None

    def settle(self, operator: str, cause: Cause, error: Exception) -> None:
        """Carry out the policy of a record without attempts left. Raise if it is to fail."""
        place = RecordPlace(cause.topic, self._partition, cause.offset, operator)
        self._give_up(self._policy(operator), place, cause, error)

    def _give_up(self, policy: Policy, place: RecordPlace, cause: Cause, error: Exception) -> None:
        chunk, index = cause.chunk, cause.index
        record = chunk.keys[index], chunk.timestamps[index]
        headers = () if chunk.headers is None else chunk.headers[index]
        is_answered = self._replies(policy, place.operator, headers, record, error)
        if policy.dead_letter is not None:
            self._bury(policy, place, cause, error)
        elif policy.then == "skip" or is_answered:
            self._count("skipped")
        else:
            raise RecordFailed(place, error) from error

    def _replies(
        self,
        policy: Policy,
        operator: str,
        request: Headers | None,
        record: tuple[bytes | None, int],
        error: Exception,
    ) -> bool:
        """Reply with an error to a request with these headers, if that is the policy. Return
        whether. `record` has the key and the time."""
        if policy.then != "reply":
            return False
        reasons = {
            "app": self._program.app, "operator": operator, "exception": type(error).__name__,
            "message": str(error),
        }  # fmt: skip
        return self._outlets.reply(request, record[0], None, record[1], _reasons(reasons))

    def outside(self, emission: Emission, error: Exception) -> None:
        """Handle a failure at a commit or a timer, which no single record caused."""
        if isinstance(error, BufferFull):
            raise self._operator_failed(emission, error) from error
        if isinstance(error, StreamsError):
            raise error
        policy = self._policy(emission.operator)
        if self.has_attempts(emission.operator, emission.attempts):
            pause_ms = _pause_ms(policy, emission.operator, emission.attempts)
            emission.due_ms = self.now_ms + pause_ms
            self.pending.append(emission)
            self._journal.log(self._withdraw)
        else:
            self.settle_emission(emission, error)

    def _withdraw(self) -> None:
        del self.pending[-1]

    def settle_emission(self, emission: Emission, error: Exception) -> None:
        """Carry out the policy of an emit without attempts left. Raise if it is to fail."""
        policy, step = self._policy(emission.operator), emission.step
        is_answered = False
        if policy.then == "reply" and step is not None:
            key, *_, time, headers = emission.arguments
            name = None if key is None else codec_for(step.key_type).encode(key)
            is_answered = self._replies(policy, emission.operator, headers, (name, time), error)
        if policy.dead_letter is not None and step is not None:
            self._bury_row(policy, emission, step, error)
        elif policy.then == "skip" or is_answered:
            self._count("skipped")
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

    def _bury_row(self, policy: Policy, emission: Emission, step: Step, error: Exception) -> None:
        """Send the row of a failed emit to a dead-letter topic, with the reason in its headers. It
        is sent once for an operator, as a record is."""
        if emission.arguments is not self._buried_row:
            self._buried_row, self._buried_by = emission.arguments, set()
        if emission.operator in self._buried_by:
            return
        self._buried_by.add(emission.operator)
        self._journal.log(self._buried_by.discard, emission.operator)
        key, value, *_, time, headers = emission.arguments
        encoded = (
            None if key is None else codec_for(step.key_type).encode(key),
            None if value is None else codec_for(step.value_type).encode(value),
        )
        reasons = {
            "app": self._program.app, "partition": str(self._partition),
            "operator": emission.operator, "exception": type(error).__name__, "message": str(error),
        }  # fmt: skip
        reason = (*_reasons(reasons), *_kafka_reasons(policy, error, None))
        assert policy.dead_letter is not None
        self._outlets.add(policy.dead_letter, *encoded, time, (*(headers or ()), *reason))
        self._count("dead_lettered")

    def _bury(self, policy: Policy, place: RecordPlace, cause: Cause, error: Exception) -> None:
        """Send the record, unchanged, to a dead-letter topic, with the reason in its headers. It is
        sent once for an operator, whatever number of its parts have failed there."""
        letter = place.topic, place.offset, place.operator
        if letter in self._buried:
            return
        if any(each[:2] != letter[:2] for each in self._buried):
            self._buried.clear()
        self._buried.add(letter)
        self._journal.log(self._buried.discard, letter)
        chunk, index = cause.chunk, cause.index
        reasons = {
            "app": self._program.app, "topic": place.topic, "partition": str(place.partition),
            "offset": str(place.offset), "operator": place.operator,
            "exception": type(error).__name__, "message": str(error),
        }  # fmt: skip
        own = () if chunk.headers is None else tuple(chunk.headers[index])
        reason = (*_reasons(reasons), *_kafka_reasons(policy, error, place))
        record = chunk.keys[index], chunk.values[index], chunk.timestamps[index]
        assert policy.dead_letter is not None
        self._outlets.add(policy.dead_letter, *record, (*own, *reason))
        self._count("dead_lettered")

    def _count(self, counter: str) -> None:
        before: int = getattr(self, counter)
        self._journal.log(setattr, self, counter, before)
        setattr(self, counter, before + 1)


class Unit(Protocol):
    """What runs now and is tried again as a whole: a record, or an emit, or what waited for a
    deferred operator."""

    undoes_updates: bool
    """Whether tables are as before if it is left out as a whole. A table whose row is emitted has
    it already."""

    def is_settled(self, operator: str, error: Exception) -> bool:
        """Whether an error ends the attempts of an operator with a policy of its own, which goes on
        then."""

    def leave_out(self, operator: str, error: Exception) -> None:
        """Carry out the policy of such an operator."""


class RecordUnit:
    """The record that a task runs. `cause` returns it."""

    undoes_updates = True

    def __init__(self, failures: Failures, cause: Callable[[], Cause]) -> None:
        self._failures = failures
        self._cause = cause

    def is_settled(self, operator: str, error: Exception) -> bool:
        if isinstance(error, ENDS):
            return False
        return not self._failures.has_attempts(operator, self._failures.attempts(self._cause()))

    def leave_out(self, operator: str, error: Exception) -> None:
        self._failures.settle(operator, self._cause(), error)


class EmissionUnit:
    """An emit, or one row of many. `emission` returns it."""

    undoes_updates = False

    def __init__(self, failures: Failures, emission: Callable[[], Emission]) -> None:
        self._failures = failures
        self._emission = emission

    def is_settled(self, operator: str, error: Exception) -> bool:
        if isinstance(error, StreamsError):
            return False
        return not self._failures.has_attempts(operator, self._emission().attempts)

    def leave_out(self, operator: str, error: Exception) -> None:
        emission = replace(self._emission(), operator=operator)
        self._failures.settle_emission(emission, error)


class BatchFailures:
    """The failures of records that wait for a deferred operator, and are passed on: its `OnError`,
    and the unit that runs."""

    undoes_updates = True

    def __init__(
        self, failures: Failures, operator: DeferredOperator, topic: str, chunk: Chunk, now_ms: int
    ) -> None:
        self._failures = failures
        self._operator = operator
        self._topic = topic
        self._chunk = chunk
        self._now_ms = now_ms

    def is_settled(self, operator: str, error: Exception) -> bool:
        row = self._operator.passing
        assert row is not None
        if isinstance(error, ENDS):
            return False
        return not self._failures.has_attempts(operator, row.attempts_behind)

    def leave_out(self, operator: str, error: Exception) -> None:
        self.settle(operator, self._operator.passing_index(), error)

    def settle(self, operator: str, index: int, error: Exception) -> None:
        self._failures.settle(operator, Cause(self._topic, self._chunk, index), error)

    def retry_or_settle(self, operator: str, row: WaitingRecord, error: Exception) -> int | None:
        cause = Cause(self._topic, self._chunk, row.index)
        return self._failures.retry_or_settle(
            operator, cause, row.attempts_behind, error, self._now_ms
        )


def _pause_ms(policy: Policy, operator: str, attempts: dict[str, int]) -> int:
    """Return the pause before the next attempt, and count that attempt."""
    done = attempts.get(operator, 0)
    attempts[operator] = done + 1
    pause_ms: int = policy.backoff_ms * 2**done
    return pause_ms


def _reasons(facts: dict[str, str]) -> tuple[tuple[str, bytes], ...]:
    """Return the facts of a failure as headers."""
    return tuple((f"{ERROR}{name}", text.encode()) for name, text in facts.items())


def _kafka_reasons(policy: Policy, error: Exception, place: RecordPlace | None) -> Headers:
    """Return the headers of a dead letter of Kafka Streams, in its order, if the policy has them.
    What no single record has caused has no topic."""
    if not policy.has_kafka_headers:
        return ()
    topic, partition, offset = (
        (None, -1, -1) if place is None else (place.topic, place.partition, place.offset)
    )
    kind = type(error)
    is_builtin = kind.__module__ == "builtins"
    name = kind.__qualname__ if is_builtin else f"{kind.__module__}.{kind.__qualname__}"
    facts = {
        "exception": name, "message": str(error), "stacktrace": "".join(format_exception(error)),
        "topic": topic, "partition": str(partition), "offset": str(offset),
    }  # fmt: skip
    return tuple(
        (f"__streams.errors.{name}", None if text is None else text.encode())
        for name, text in facts.items()
    )
