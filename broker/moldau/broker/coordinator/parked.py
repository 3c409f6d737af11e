"""Wake the parked answers of a shard after commits, and map errors of its log to clients' errors.

Invariant: while answers of a shard are parked, one operation waits in the purgatory for its
partition. It is tried after each move of the partition. It ends when no answers are left, when the
first of them have waited for too long (the others get another operation), or with the shard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.broker.replication.purgatory import DelayedOperation
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.decision.runtime import DecisionRuntime
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.purgatory import Purgatory
    from moldau.protocol.declare import Response

OnAnswer: TypeAlias = "Callable[[Response | KafkaError], None]"
"""The type of a ticket in the runtime."""

_BY_APPEND_ERROR: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
_MS: Final = 1_000_000


def as_answer(error: KafkaError) -> KafkaError:
    """Return the error that clients of a coordinator get for an error of its log."""
    code = _BY_APPEND_ERROR.get(error.code)
    return error if code is None else KafkaError(code)


class CommitWatch:
    """Watches the partition of a shard while answers are parked in its runtime."""

    __slots__ = (
        "_is_over",
        "_monotonic_ns",
        "_partition",
        "_purgatory",
        "_timeout_ms",
        "_waiting",
        "decisions",
    )

    decisions: DecisionRuntime[Any, Any]
    """Set after the runtime is made, before any answer is parked."""

    def __init__(
        self,
        purgatory: Purgatory,
        partition: Partition,
        timeout_ms: Callable[[], int],
        monotonic_ns: Callable[[], int],
    ) -> None:
        """`timeout_ms` returns how long an answer may wait."""
        self._purgatory = purgatory
        self._partition = partition
        self._timeout_ms = timeout_ms
        self._monotonic_ns = monotonic_ns
        self._waiting: ParkedAnswers | None = None
        self._is_over = False

    def begin(self) -> None:
        """Watch the partition: answers have just been parked, and none were before."""
        if self._waiting is None and not self._is_over:
            self._watch(self._timeout_ms())

    def end(self) -> None:
        """Stop watching: the shard is closed."""
        self._is_over = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._purgatory.cancel(waiting)

    def on_moved(self) -> bool:
        """Release committed answers after the partition has moved. Return whether none is left."""
        is_fine = False
        try:
            self.decisions.on_commit()
            is_fine = True
        finally:
            if not is_fine:  # the purgatory drops an operation that fails
                self._waiting = None
                self._watch_rest()
        if self.decisions.is_waiting:
            return False
        self._waiting = None
        return True

    def on_timeout(self, since_ns: int) -> None:
        """Refuse the answers that have been parked since this time or longer."""
        self._waiting = None
        try:
            self.decisions.expire(since_ns, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        finally:
            self._watch_rest()

    def _watch_rest(self) -> None:
        if self.decisions.is_waiting and self._waiting is None and not self._is_over:
            waited_ms = (self._monotonic_ns() - self.decisions.waiting_since_ns) // _MS
            self._watch(max(self._timeout_ms() - waited_ms, 0))

    def _watch(self, timeout_ms: int) -> None:
        self._waiting = ParkedAnswers(self, self.decisions.waiting_since_ns)
        self._purgatory.watch(self._waiting, (self._partition,), timeout_ms)


class ParkedAnswers(DelayedOperation):
    """The parked answers of a shard in the purgatory."""

    __slots__ = ("_since_ns", "_watch")

    def __init__(self, watch: CommitWatch, since_ns: int) -> None:
        """`since_ns`: when the first of the answers began to wait. Later ones have more time."""
        self._watch = watch
        self._since_ns = since_ns

    def try_complete(self) -> bool:
        return self._watch.on_moved()

    def on_timeout(self) -> None:
        self._watch.on_timeout(self._since_ns)
