"""One event on its way through a group: what time it is, what is answered, what is appended.

Invariants: one event appends one record at most, a GroupMetadata with the whole group. What hangs
on that record happens when it is replayed (`on_replayed`) or when its append is refused
(`on_refused`), one of the two and once. Answers that hang on it say what they become if it is
refused; the others are given either way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.coordinator.outcome import NOTHING, Answer, LogRecord, Outcome, Ticket
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import World

Replayed: TypeAlias = "Callable[[], None]"
Refused: TypeAlias = "Callable[[ErrorCode, Step], None]"
IfRefused: TypeAlias = "Callable[[ErrorCode], Response]"


@dataclass(frozen=True, slots=True)
class Pending:
    """A record on its way into the log, and what follows when it is there."""

    record: LogRecord
    on_replayed: Replayed


class Step:
    """Gathers what one event leads to; `outcome` is the end of it."""

    def __init__(self, world: World, now_ms: int) -> None:
        self.world = world
        self.now_ms = now_ms
        self.pending: Pending | None = None
        self._answers: list[tuple[Ticket, Response | KafkaError, IfRefused | None]] = []
        self._on_refused: Refused | None = None

    @property
    def wall_ms(self) -> int:
        return self.world.wall_ms(self.now_ms)

    def answer(
        self,
        ticket: Ticket | None,
        response: Response | KafkaError,
        *,
        if_refused: IfRefused | None = None,
    ) -> None:
        """What that ticket hears; nobody where there is no ticket."""
        if ticket is not None:
            self._answers.append((ticket, response, if_refused))

    def append(self, record: LogRecord, on_replayed: Replayed, on_refused: Refused) -> None:
        """The one record of this event."""
        assert self.pending is None, "one event, one record"
        self.pending = Pending(record, on_replayed)
        self._on_refused = on_refused

    def outcome(self) -> Outcome:
        """What the shell must do."""
        answers = tuple((ticket, response) for ticket, response, _ in self._answers)
        if self.pending is None:
            return Outcome(answers=answers) if answers else NOTHING
        return Outcome((self.pending.record,), answers, self._refused)

    def _refused(self, error: KafkaError, now_ms: int) -> Outcome:
        """The other end of this event: the log did not take its record."""
        code = answered_code(error)
        step = Step(self.world, now_ms)
        for ticket, response, if_refused in self._answers:
            step.answer(ticket, if_refused(code) if if_refused else response)
        assert self._on_refused is not None
        self._on_refused(code, step)
        assert step.pending is None
        answers: tuple[Answer, ...] = step.outcome().answers
        return Outcome(answers=answers)


_UNAVAILABLE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
)
_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)


def answered_code(error: KafkaError) -> ErrorCode:
    """What members hear when the group's record could not be appended for that reason."""
    if error.code in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error.code in _ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    if error.code in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error.code
