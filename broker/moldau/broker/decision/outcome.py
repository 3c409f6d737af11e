"""The result of a decision: records to append, and the answers and effects that depend on them.

Invariants: an outcome changes nothing by itself. The runtime appends its records as one batch,
replays them, and gives the answers and releases the effects when this batch and everything appended
before it are committed in the leader epoch of the decision.
A rejected append changes nothing: none of its records was replayed. `on_failure` then decides the
answers of the waiting requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from moldau.errors.codes import KafkaError
from moldau.protocol.declare import Response

Ticket: TypeAlias = object
"""One waiting request, in a form that the runtime defines. A core keeps the ticket and returns it
exactly once."""


class Effect:
    """Something to do outside of the state: send a request, close a connection. A core returns
    effects as values of subclasses, which are frozen dataclasses. A shell carries them out, and
    reports what comes of them as new decisions."""

    __slots__ = ()


Answer: TypeAlias = "tuple[Ticket, Response | KafkaError]"

REQUEST: Final[Ticket] = "request"
"""The ticket of the request that is being decided, for a core that keeps no tickets."""

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Outcome(NamedTuple, Generic[R_co]):
    """What the runtime must do, in this order: append `records`, replay them, and once they are
    committed give `answers` and release `effects`.

    Effects are released once, even if the answers have timed out by then. They are dropped if the
    leadership ends before: the next leader finds what is to be done in the log.

    An answer that is a KafkaError becomes the response with this error. `on_failure` is called when
    the append was rejected; its arguments are the error and the time. The outcome that it returns
    replaces this one and has no records. Without `on_failure` all answers of this outcome become
    that error.

    It is a named tuple, because every request creates one, and a frozen dataclass costs twice as
    much to create.
    """

    records: tuple[R_co, ...] = ()
    answers: tuple[Answer, ...] = ()
    effects: tuple[Effect, ...] = ()
    on_failure: Callable[[KafkaError, int], Outcome[R_co]] | None = None


def give(ticket: Ticket, response: Response | KafkaError) -> None:
    """Answer the request of a ticket. A ticket of a shell is the function that sends the answer."""
    assert callable(ticket)
    ticket(response)


def give_all(answers: tuple[Answer, ...]) -> None:
    """Give the answers in order. If a ticket raises an error, the others still get their answers;
    the error is raised after them."""
    given = 0
    try:
        for ticket, response in answers:
            given += 1
            assert callable(ticket)
            ticket(response)
    finally:
        if given < len(answers):
            give_all(answers[given:])


class ParkedOutcome(Generic[R]):
    """The answers and effects of one outcome, which wait until its records, and all before them,
    are committed.

    Each answer is given once, by `release` or by `refuse`, whichever comes first. An answer is
    released only in the leader epoch in which its records were appended. Otherwise this could
    happen: 1. records are appended, 2. the leadership moves away and their offsets are truncated,
    3. it comes back and other records take the offsets, 4. those are committed, and the first
    request wrongly gets the answer that its own are.

    Effects are released as answers are. A refusal drops them, because then another leadership
    decides; but not the refusal of answers that have waited for too long (`expire`).
    """

    __slots__ = ("answers", "effects", "end_offset", "leader_epoch", "records", "since_ns")

    def __init__(
        self,
        leader_epoch: int,
        end_offset: int,
        records: tuple[R, ...],
        answers: tuple[Answer, ...],
        since_ns: int = 0,
        effects: tuple[Effect, ...] = (),
    ) -> None:
        """`since_ns` is the monotonic time at which the answers began to wait."""
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset
        self.records = records
        self.answers = answers
        self.effects = effects
        self.since_ns = since_ns

    def is_committed(self, leader_epoch: int | None, high_watermark: int) -> bool:
        """Whether the records, and all before them, are committed in their leadership."""
        return leader_epoch == self.leader_epoch and high_watermark >= self.end_offset

    def release(self) -> None:
        """Give the answers: all their records are committed."""
        answers, self.answers = self.answers, ()
        give_all(answers)

    def refuse(self, error: KafkaError) -> None:
        """Give the error instead of every answer."""
        answers, self.answers = self.answers, ()
        give_all(tuple((ticket, error) for ticket, _ in answers))
