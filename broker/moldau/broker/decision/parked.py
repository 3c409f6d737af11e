"""Answers and effects that wait until all below an offset is committed in its leadership.

Invariant: each answer is given once, by `release` or by `refuse`, whichever comes first. An answer
is released only in the leader epoch in which its records were appended. Otherwise this could
happen: 1. records are appended, 2. the leadership moves away and their offsets are truncated,
3. it comes back and other records take the offsets, 4. those are committed, and the first request
wrongly gets the answer that its own are.

Effects are released as answers are. A refusal drops them, because then another leadership decides;
but not the refusal of answers that have waited for too long (`expire`).
"""

from __future__ import annotations

from typing import Generic, TypeVar

from moldau.broker.decision.outcome import Answer, Effect, give_all
from moldau.errors.codes import KafkaError

R = TypeVar("R")


class Parked(Generic[R]):
    """The answers and effects of one outcome, and its records."""

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
