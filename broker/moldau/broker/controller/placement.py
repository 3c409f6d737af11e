"""Place the replicas of new partitions: striped over racks, then over brokers.

Invariants: no partition has two replicas on one broker. The first replica, which is to lead, is on
a live broker if there is one. The replicas of a partition are in as many racks as possible. Leaders
and replicas are spread evenly over racks and brokers if all racks are alike.

The stripes begin with the rack and the broker that lead the fewest partitions, by their preferred
leaders, so that many small topics are spread evenly too; which one of equals is random. Kafka's
start is random: of twelve topics with one partition, the busiest of three brokers would lead six or
more in half of all cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random


class Candidate(NamedTuple):
    """A broker that may get replicas."""

    broker_id: int
    rack: str | None
    is_fenced: bool
    preferred: int = 0
    """How many partitions have it as their preferred leader."""


class _Rack:
    """The brokers of one rack, taken in turn: the live ones before the fenced ones."""

    def __init__(self, candidates: Iterable[Candidate], random: Random) -> None:
        ordered = sorted(candidates)
        alive = [each for each in ordered if not each.is_fenced]
        self._alive = _Ring(alive, random)
        self._fenced = _Ring([each for each in ordered if each.is_fenced], random)
        self.has_living = bool(alive)
        self.preferred = sum(each.preferred for each in alive)

    def take(self, turn: int) -> Iterator[int]:
        """Yield the brokers in the order of this turn."""
        yield from self._alive.from_turn(turn)
        yield from self._fenced.from_turn(turn)


class _Ring:
    """Brokers, of which another one is the first in each turn."""

    def __init__(self, brokers: list[Candidate], random: Random) -> None:
        self._ids = [each.broker_id for each in brokers]
        self._start = _start([each.preferred for each in brokers], random) if brokers else 0

    def from_turn(self, turn: int) -> Iterator[int]:
        start, count = self._start + turn, len(self._ids)
        return (self._ids[(start + step) % count] for step in range(count))


def _start(preferred: list[int], random: Random) -> int:
    """Return the position of the lowest number, of equal ones the first from a random position."""
    count = len(preferred)
    first = random.randrange(count)
    return min(range(count), key=lambda each: (preferred[each], (each - first) % count))


def place(
    partitions: int, replication_factor: int, candidates: Iterable[Candidate], random: Random
) -> list[list[int]]:
    """Return the replicas of each partition. Raise INVALID_REPLICATION_FACTOR if the placement is
    impossible."""
    known = list(candidates)
    if replication_factor < 1:
        raise _refusal("Replication factor must be larger than 0", replication_factor, known)
    if not known:
        reason = (
            f"Replication factor {replication_factor} cannot be reached because only 0 brokers "
            "take new replicas: are all log directories cordoned off?"
        )
        raise _refusal(reason, replication_factor, known)
    if replication_factor > len(known):
        reason = (
            f"Replication factor {replication_factor} cannot be reached because only "
            f"{len(known)} of the brokers take new replicas"
        )
        raise _refusal(reason, replication_factor, known)
    if all(each.is_fenced for each in known):
        raise _refusal("all brokers are fenced", replication_factor, known)
    by_rack: dict[str | None, list[Candidate]] = {}
    for each in known:
        by_rack.setdefault(each.rack, []).append(each)
    names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
    racks = [_Rack(by_rack[name], random) for name in names]
    first = _start([each.preferred for each in racks], random)
    return [
        _stripe(racks, first + number, number // len(racks), replication_factor)
        for number in range(partitions)
    ]


def _stripe(racks: list[_Rack], first: int, turn: int, replication_factor: int) -> list[int]:
    """Return the replicas of one partition: one from each rack in turn, beginning with a rack that
    has a live broker."""
    order = [racks[(first + step) % len(racks)] for step in range(len(racks))]
    leading = next(place for place, rack in enumerate(order) if rack.has_living)
    order = order[leading:] + order[:leading]
    dealt = [rack.take(turn) for rack in order]
    replicas: list[int] = []
    for step in count():
        broker_id = next(dealt[step % len(dealt)], None)
        if broker_id is not None:
            replicas.append(broker_id)
            if len(replicas) == replication_factor:
                return replicas
    raise AssertionError("there were enough brokers")


def _refusal(reason: str, replication_factor: int, known: list[Candidate]) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        reason,
        replication_factor=replication_factor,
        brokers=len(known),
    )
