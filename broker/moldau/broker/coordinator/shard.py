"""The interface of the runtime to the business logic of one partition of a coordinator's log.

A shard is a pure core: no clock, no tasks, no files. A decision is a function of the shard that is
passed to the runtime (`Decide`). Durable state changes only through `replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol, TypeAlias, TypeVar

from moldau.broker.coordinator.outcome import Outcome, Ticket
from moldau.protocol.declare import LogKey, LogValue

NO_PRODUCER: int = -1


class Shard(Protocol):
    """The state of one partition, and its business logic."""

    def replay(
        self, offset: int, producer_id: int, key: LogKey, value: LogValue | None, now_ms: int
    ) -> None:
        """Apply the record at `offset`. `producer_id` is its transaction's, or NO_PRODUCER."""
        ...

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the end of that producer's transaction in this partition."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether `settle` has nothing to do, and no deadline moved nearer since its last call."""
        ...

    def settle(self, now_ms: int) -> Outcome | None:
        """Tidy up and return the next outcome to carry out. Called after loading and after each
        outcome unless `is_settled`, until it returns None."""
        ...

    def next_deadline_ms(self) -> int | None:
        """Return when `on_tick` is due, or None. It may be earlier than needed, never later."""
        ...

    def on_tick(self, now_ms: int) -> Outcome:
        """Handle a part of the overdue deadlines."""
        ...

    def on_topics_changed(
        self, changed: Collection[str], deleted: Collection[str], now_ms: int
    ) -> Iterable[Outcome]:
        """React to topics of the cluster that were created, deleted or extended. Each outcome is
        carried out before the next is requested. `deleted` are among `changed`."""
        ...

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """Return the tickets of all parked requests, because the partition moves to another broker.
        They are answered with NOT_COORDINATOR."""
        ...


S = TypeVar("S", bound=Shard)

Decide: TypeAlias = "Callable[[S, int], Outcome]"
"""A decision about the shard at `now_ms` (monotonic). If it raises a KafkaError, nothing has
changed."""
