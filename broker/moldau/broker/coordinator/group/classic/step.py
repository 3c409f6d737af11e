"""One event of a group, while it is handled: its time, its answers and its record.

Invariants: one event appends at most one record, a GroupMetadata with the whole group. The effects
of the record happen when it is replayed (`on_replayed`) or when its append is rejected
(`on_refused`): exactly one of the two, once. An answer that depends on the record has a replacement
for a rejection; other answers are given in either case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.coordinator.outcome import NOTHING, Answer, LogRecord, Outcome, Ticket
from moldau.broker.coordinator.parked import as_answer
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import GroupServices

Replayed: TypeAlias = "Callable[[], None]"
Refused: TypeAlias = "Callable[[ErrorCode, GroupEvent], None]"
IfRefused: TypeAlias = "Callable[[ErrorCode], Response]"


@dataclass(frozen=True, slots=True)
class Pending:
    """A record that is being appended, and the effect of its replay."""

    record: LogRecord
    on_replayed: Replayed


class GroupEvent:
    """Collects the effects of one event; `outcome` completes it."""

    def __init__(self, services: GroupServices, now_ms: int) -> None:
        self.services = services
        self.now_ms = now_ms
        self.pending: Pending | None = None
        self._answers: list[tuple[Ticket, Response | KafkaError, IfRefused | None]] = []
        self._on_refused: Refused | None = None

    @property
    def wall_ms(self) -> int:
        return self.services.wall_ms(self.now_ms)

    def answer(
        self,
        ticket: Ticket | None,
        response: Response | KafkaError,
        *,
        if_refused: IfRefused | None = None,
    ) -> None:
        """Answer this ticket. `if_refused` makes the answer after a rejected append. Do nothing
        without a ticket."""
        if ticket is not None:
            self._answers.append((ticket, without_frames(response), if_refused))

    def append(self, record: LogRecord, on_replayed: Replayed, on_refused: Refused) -> None:
        """Set the only record of this event."""
        assert self.pending is None, "one event, one record"
        self.pending = Pending(record, on_replayed)
        self._on_refused = on_refused

    def outcome(self) -> Outcome:
        """Return what the shell must do."""
        answers = tuple((ticket, response) for ticket, response, _ in self._answers)
        if self.pending is None:
            return Outcome(answers=answers) if answers else NOTHING
        return Outcome((self.pending.record,), answers, on_failure=self._refused)

    def _refused(self, error: KafkaError, now_ms: int) -> Outcome:
        """Return the outcome of this event after the log rejected its record."""
        code = as_answer(error).code
        step = GroupEvent(self.services, now_ms)
        for ticket, response, if_refused in self._answers:
            step.answer(ticket, if_refused(code) if if_refused else response)
        assert self._on_refused is not None
        self._on_refused(code, step)
        assert step.pending is None
        answers: tuple[Answer, ...] = step.outcome().answers
        return Outcome(answers=answers)
