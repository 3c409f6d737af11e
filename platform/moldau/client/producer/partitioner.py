"""The choice of a partition for a record that names none. No IO.

By default: by its key, as all of Kafka's clients do. Without a key: the same partition as the
records before, until it has got `batch.size` bytes (KIP-794), so that batches fill up. The next one
is drawn from the partitions that have a leader. With `partitioner.adaptive.partitioning.enable` a
partition with fewer waiting batches is proportionally more likely, so a slow broker gets less.
Partitions whose broker has taken nothing for `partitioner.availability.timeout.ms` are skipped as
long as there are others.

Or as `partitioner.class` says: `RoundRobin`, or any object with the method of `RecordPartitioner`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol

from moldau.client.base.user_code import made_from
from moldau.deferred import dataclass
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
    """The accumulator's facts about a topic's partitions, for the draw of another one."""

    waiting: Callable[[int], int]
    """Returns how many batches wait for a partition."""
    is_stuck: Callable[[int], bool] | None = None
    """Returns whether a broker has taken nothing for too long; None if that does not matter."""


IDLE: Final = Loads(lambda partition: 0)


class Partitioner:
    """The choice of partitions for one topic."""

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
        """Apply a change of the topic's partitions or leaders."""
        self.count = len(topic.partitions)
        self._leaders = {each.index: each.leader for each in topic.partitions}
        available = [each.index for each in topic.partitions if each.leader >= 0]
        self.available = available or range(self.count)
        if self.sticky not in self.available:
            self._move()

    def of_key(self, key: bytes) -> int:
        """Return the partition of all records with this key."""
        return partition_for_key(key, self.count)

    def filled(self, size_bytes: int) -> None:
        """Count bytes of the sticky partition, and choose another one if it has its share."""
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
        """Draw one of them. The one with the longest queue has weight 1, each batch less adds 1."""
        waiting = [self._loads.waiting(each) for each in choices]
        longest = max(waiting)
        steps = list(accumulate(longest + 1 - each for each in waiting))
        return choices[bisect_right(steps, self._below(steps[-1]))]

    def _below(self, count: int) -> int:
        """Return the next random number below `count`. The runtime's randomness is used only for
        the seed: in production a system call for each draw would cost more than filling a batch."""
        self._state = (self._state * _STEP + 1) % (1 << _STATE_BITS)
        return (self._state >> _LOW_BITS) % count


class RecordPartitioner(Protocol):
    """The type for `partitioner.class`: called for every record without a partition."""

    def partition(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, topic: Topic, /
    ) -> int:
        """Return the index of one of the topic's partitions; `key` and `value` are final bytes."""


class RoundRobin:
    """Chooses the partitions that have a leader one after another, whatever the key."""

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
    """Return the partitioner for `partitioner.class`, a name or an object. Raise ConfigError with
    the reason if there is none."""
    found = made_from(given, "partitioner.class", GROUP, _OURS)
    if not callable(getattr(found, "partition", None)):
        raise ConfigError(
            "partitioner.class is no partitioner: it has no method partition",
            setting="partitioner.class",
            type=type(found).__name__,
        )
    partitioner: RecordPartitioner = found
    return partitioner
