"""The log that decisions are appended to, with the interface that the runtime uses.

Invariant: an append is written as one batch in the leader epoch that it names, or it is rejected
and leaves nothing in the log. So a decision that is based on one leadership never enters the log of
another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from moldau.records import NO_PRODUCER, Producer

if TYPE_CHECKING:
    from moldau.broker.decision.context import RequestContext

R_co = TypeVar("R_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)


class Append(NamedTuple, Generic[R_co]):
    """The records of a decision, to be appended to the log."""

    records: tuple[R_co, ...]
    leader_epoch: int
    """The epoch in which the decision was made."""
    producer: Producer = NO_PRODUCER
    """The producer whose transaction the records belong to."""
    origin: RequestContext | None = None
    """The request that was decided. None: the records belong to no single request, for example
    after a deadline, or because several requests share the batch."""


class DecisionLog(Protocol[R_contra]):
    """A log that this node leads, or has led."""

    @property
    def leader_epoch(self) -> int | None:
        """The epoch in which this node leads the log now; None if another node leads it."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed."""
        ...

    def is_level(self, leader_epoch: int) -> bool:
        """Whether everything in the log is committed, and this node leads it in this epoch. The
        three properties above imply it, but each decision needs it, so it is one call."""
        ...

    def append(self, append: Append[R_contra]) -> int:
        """Append at least one record, and return the offset of the first one. Raise KafkaError if
        the log rejects them; then it holds none of them."""
        ...
