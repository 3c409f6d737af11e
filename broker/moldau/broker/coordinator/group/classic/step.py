"""One event on its way through a group: what time it is, what is answered, what is appended.

Invariants: one event appends one record at most, a GroupMetadata with the whole group. What hangs
on that record happens when it is replayed (`on_replayed`) or when its append is refused
(`on_refused`), one of the two and once. Answers that hang on it say what they become if it is
refused; the others are given either way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.coordinator.outcome import NOTHING, Answer, LogRecord, Outcome, Ticket
from moldau.broker.coordinator.parked import as_answer
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
        code = as_answer(error).code
        step = Step(self.world, now_ms)
        for ticket, response, if_refused in self._answers:
            step.answer(ticket, if_refused(code) if if_refused else response)
        assert self._on_refused is not None
        self._on_refused(code, step)
        assert step.pending is None
        answers: tuple[Answer, ...] = step.outcome().answers
        return Outcome(answers=answers)
