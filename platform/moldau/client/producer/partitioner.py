"""Which partition a record without a given one goes to. No IO.

By itself: by its key as all of Kafka's clients do, else where the last ones went until
`batch.size` bytes are there (KIP-794), so that batches get full. Where to go next is drawn from the
partitions that have a leader; with `partitioner.adaptive.partitioning.enable` one for which few
batches wait is likelier by just that, so a slow broker gets less. Partitions whose broker has
taken nothing for `partitioner.availability.timeout.ms` are passed over while there are others.

Or as `partitioner.class` says: `RoundRobin`, or anything with the method of `RecordPartitioner`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol

from moldau.client.settings.user_code import made_from
from moldau.errors import ConfigError
from moldau.link.metadata import Topic
from moldau.records import partition_for_key

if TYPE_CHECKING:
    from random import Random

    from moldau.client.producer.record import ProducerRecord

GROUP: Final = "moldau.partitioners"

# A linear congruential generator (Knuth's for MMIX); its low bits are weak.
_STATE_BITS: Final = 64
_LOW_BITS: Final = 33
_STEP: Final = 6_364_136_223_846_793_005


@dataclass(frozen=True, slots=True)
class Loads:
    """What the accumulator knows of a topic's partitions when another one is drawn."""

    waiting: Callable[[int], int]
    """How many batches wait for a partition."""
    is_stuck: Callable[[int], bool] | None = None
    """Whether a broker has taken nothing for too long; None where that does not matter."""


IDLE: Final = Loads(lambda partition: 0)


class Partitioner:
    """The choice for one topic."""

    def __init__(
        self,
        topic: Topic,
        stick_bytes: int,
        random: Random,
        loads: Loads = IDLE,
        *,
        is_adaptive: bool = True,
    ) -> None:
        self._state = random.getrandbits(_STATE_BITS)
        self._stick_bytes = stick_bytes
        self._left_bytes = stick_bytes
        self._loads = loads
        self._is_adaptive = is_adaptive
        self._leaders: dict[int, int] = {}
        self.count = 0
        self.available: Sequence[int] = ()
        self.sticky = -1
        self.update(topic)

    def update(self, topic: Topic) -> None:
        """The topic's partitions or their leaders have changed."""
        self.count = len(topic.partitions)
        self._leaders = {each.index: each.leader for each in topic.partitions}
        available = [each.index for each in topic.partitions if each.leader >= 0]
        self.available = available or range(self.count)
        if self.sticky not in self.available:
            self._move()

    def of_key(self, key: bytes) -> int:
        """The partition of all records with this key."""
        return partition_for_key(key, self.count)

    def filled(self, size_bytes: int) -> None:
        """So many bytes went to the sticky partition."""
        self._left_bytes -= size_bytes
        if self._left_bytes <= 0:
            self._move()

    def _move(self) -> None:
        self._left_bytes = self._stick_bytes
        choices = self.available
        is_stuck = self._loads.is_stuck
        if is_stuck is not None:
            able = [each for each in choices if not is_stuck(self._leaders[each])]
            choices = able or choices
        if self._is_adaptive and len(choices) > 1:
            self.sticky = self._drawn(choices)
        else:
            self.sticky = choices[self._below(len(choices))]

    def _drawn(self, choices: Sequence[int]) -> int:
        """One of them; the one with the longest queue has weight one, each batch less one more."""
        waiting = [self._loads.waiting(each) for each in choices]
        longest = max(waiting)
        steps = list(accumulate(longest + 1 - each for each in waiting))
        return choices[bisect_right(steps, self._below(steps[-1]))]

    def _below(self, count: int) -> int:
        """The next draw. The runtime's randomness is asked once: in production it is the system's,
        a call of which costs more than filling a batch."""
        self._state = (self._state * _STEP + 1) % (1 << _STATE_BITS)
        return (self._state >> _LOW_BITS) % count


class RecordPartitioner(Protocol):
    """What `partitioner.class` names: it is asked for every record that has no partition."""

    def partition(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, topic: Topic, /
    ) -> int:
        """The number of one of the topic's partitions; `key` and `value` as they are sent."""


class RoundRobin:
    """One partition after the other of those that have a leader, whatever the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, topic: Topic, /
    ) -> int:
        turn = self._next.get(topic.name, 0)
        self._next[topic.name] = turn + 1
        available = [each.index for each in topic.partitions if each.leader >= 0]
        return available[turn % len(available)] if available else turn % len(topic.partitions)


_OURS: Final[dict[str, Callable[[], RecordPartitioner]]] = {
    "round-robin": RoundRobin,
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobin,
}


def load_partitioner(given: object) -> RecordPartitioner:
    """What `partitioner.class` says, a name or an object; ConfigError with the reason if not."""
    found = made_from(given, "partitioner.class", GROUP, _OURS)
    if not callable(getattr(found, "partition", None)):
        raise ConfigError(
            "partitioner.class is no partitioner: it has no method partition",
            setting="partitioner.class",
            type=type(found).__name__,
        )
    partitioner: RecordPartitioner = found
    return partitioner
