"""What the runtime asks of the business logic of one partition of a coordinator's log.

A shard is a pure core: no clock, no tasks, no files. Decisions are functions of it that the runtime
is given (`Decide`); everything durable in it comes through `replay`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

from moldau.broker.coordinator.outcome import Outcome, Ticket
from moldau.protocol.declare import LogKey, LogValue

NO_PRODUCER: int = -1


class Shard(Protocol):
    """One partition's state."""

    def replay(
        self, offset: int, producer_id: int, key: LogKey, value: LogValue | None, now_ms: int
    ) -> None:
        """The record at `offset`; `producer_id` is that of its transaction, or NO_PRODUCER."""
        ...

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None:
        """The transaction of that producer is over in this partition."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether `settle` has nothing to do, and no deadline came nearer since it was called."""
        ...

    def settle(self, now_ms: int) -> Outcome | None:
        """To be called after loading and after each outcome unless `is_settled`, until it returns
        None: tidies up, and says what else is to be done."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When `on_tick` is due; never later than needed."""
        ...

    def on_tick(self, now_ms: int) -> Outcome:
        """A part of what is overdue."""
        ...

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """The partition goes elsewhere: all who are parked in it, to hear NOT_COORDINATOR."""
        ...


S = TypeVar("S", bound=Shard)

Decide: TypeAlias = "Callable[[S, int], Outcome]"
"""From the shard and `now_ms`, monotonic. A KafkaError refuses, and nothing happened."""
