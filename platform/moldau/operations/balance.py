"""A plan that gives brokers about the same load: bytes on their disks, and what they lead.

Invariants: a partition never has fewer racks than before; each move makes the sum of squares of the
loads smaller, so planning ends; a plan for the result of a plan is empty. When it ends, every
broker is within `imbalance` of the mean, or no single move would bring two brokers nearer, or all
that could move between them is less than `WORTH` of what is too much: many small partitions do not
make room for a large one, and would take their leaders with them.

Moves are chosen from the fullest broker, the smallest partition that is enough first. In the end a
move that turned out not to be needed is taken back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from moldau.deferred import dataclass
from moldau.errors import BadGiven

Place = tuple[str, int]
Replicas = tuple[int, ...]
IMBALANCE: Final = 0.1
WORTH: Final = 0.1
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers that may have replicas, with their racks."""

    racks: Mapping[int, str | None]

    def rack_of(self, broker: int) -> str | int:
        """Return the rack of a broker; a broker without a rack counts as a rack of its own."""
        return self.racks.get(broker) or broker

    def racks_of(self, replicas: Iterable[int]) -> int:
        """Return in how many racks these brokers are."""
        return len({*map(self.rack_of, replicas)})


@dataclass(frozen=True, slots=True)
class Load:
    """What a partition costs: bytes on the disk of each replica, and work of its leader. Whole
    numbers, so that sums are exact and a second plan sees the same."""

    size_bytes: int
    leading: int = 1


def keeps_racks(replicas: Collection[int], old: int, new: int, brokers: Brokers) -> bool:
    """Whether `new` may take the replica of `old`: the partition has no replica there, and is in
    as many racks as before or more."""
    if old not in replicas or new in replicas:
        return False
    return brokers.racks_of(_replaced(replicas, old, new)) >= brokers.racks_of(replicas)


def plan(
    current: Mapping[Place, Sequence[int]],
    loads: Mapping[Place, Load],
    brokers: Brokers,
    imbalance: float = IMBALANCE,
) -> dict[Place, Replicas]:
    """Return new replicas of the partitions that change; the first replica is the one to lead.
    Raise BadGiven if a replica is on a broker that is not known, because it is down."""
    for place, replicas in sorted(current.items()):
        unknown = sorted({*replicas} - brokers.racks.keys())
        if unknown:
            raise BadGiven(
                f"{place[0]}-{place[1]} has a replica on broker {unknown[0]}, which is down: "
                "start it, or take it out with `moldau broker decommission`, before balancing"
            )
    placed = {place: list(replicas) for place, replicas in sorted(current.items())}
    disks = _Disks(placed, loads, brokers, imbalance)
    disks.spread_racks()
    disks.level()
    disks.take_back(current)
    _level_leaders(placed, loads, brokers, imbalance)
    return {
        place: tuple(replicas)
        for place, replicas in placed.items()
        if tuple(replicas) != tuple(current[place])
    }


def level_counts(placed: dict[Place, list[int]], brokers: Brokers) -> None:
    """Move replicas in `placed` until brokers have equally many, and lead equally often."""
    loads = dict.fromkeys(placed, Load(1))
    _Disks(placed, loads, brokers, 0).level()
    _level_leaders(placed, loads, brokers, 0)


def disk_loads(
    replicas: Mapping[Place, Sequence[int]], loads: Mapping[Place, Load], brokers: Brokers
) -> dict[int, int]:
    """Return the bytes of each broker."""
    found = dict.fromkeys(brokers.racks, 0)
    for place, chosen in replicas.items():
        for each in chosen:
            found[each] = found.get(each, 0) + loads[place].size_bytes
    return found


def leader_loads(
    replicas: Mapping[Place, Sequence[int]], loads: Mapping[Place, Load], brokers: Brokers
) -> dict[int, int]:
    """Return the work of each broker for what it leads, if the first replicas lead."""
    found = dict.fromkeys(brokers.racks, 0)
    for place, chosen in replicas.items():
        found[chosen[0]] = found.get(chosen[0], 0) + loads[place].leading
    return found


def is_level(loads: Mapping[int, int], imbalance: float) -> bool:
    """Whether every load is within `imbalance` (0.1: a tenth) of the mean."""
    mean = sum(loads.values()) / len(loads)
    return all(abs(each - mean) <= imbalance * mean + _ROUNDING for each in loads.values())


def _level(
    loads: dict[int, int],
    imbalance: float,
    candidates: Callable[[int, int], Iterator[tuple[int, Place]]],
    move: Callable[[Place, int, int], None],
) -> None:
    """Move work from a broker to another, as long as they are not level and that helps."""
    mean = sum(loads.values()) / len(loads)
    high, low = mean * (1 + imbalance), mean * (1 - imbalance)
    while not is_level(loads, imbalance):
        chosen = _best_move(loads, high, low, candidates)
        if chosen is None:
            return
        amount, place, full, empty = chosen
        move(place, full, empty)
        loads[full] -= amount
        loads[empty] += amount


def _best_move(
    loads: Mapping[int, int],
    high: float,
    low: float,
    candidates: Callable[[int, int], Iterator[tuple[int, Place]]],
) -> tuple[int, Place, int, int] | None:
    """Return the move of the fullest broker that can give, to the emptiest that can take: the
    smallest amount that is enough for one of them, or else the largest."""
    ordered = sorted(loads, key=lambda each: (loads[each], each))
    for full in reversed(ordered):
        for empty in ordered:
            gap = loads[full] - loads[empty]
            if loads[full] <= high and loads[empty] >= low:
                continue
            useful = [each for each in candidates(full, empty) if 0 < each[0] < gap]
            if not useful:
                continue
            needed = max(loads[full] - high, low - loads[empty])
            if sum(each[0] for each in useful) < WORTH * needed:
                continue
            enough = [
                each
                for each in useful
                if each[0] >= needed
                and loads[full] - each[0] >= low
                and loads[empty] + each[0] <= high
            ]
            amount, place = min(enough) if enough else max(useful)
            return amount, place, full, empty
    return None


class _Disks:
    """The replicas while they are moved, with the bytes of each broker."""

    def __init__(
        self,
        placed: dict[Place, list[int]],
        loads: Mapping[Place, Load],
        brokers: Brokers,
        imbalance: float,
    ) -> None:
        self._placed = placed
        self._sizes = {place: loads[place].size_bytes for place in placed}
        self._brokers = brokers
        self._imbalance = imbalance
        self._bytes = disk_loads(placed, loads, brokers)
        self._on: dict[int, set[Place]] = defaultdict(set)
        for place, replicas in placed.items():
            for each in replicas:
                self._on[each].add(place)

    def spread_racks(self) -> None:
        """Move replicas that share a rack to racks that the partition is not in, if there are some
        left."""
        brokers = self._brokers
        racks = brokers.racks_of(brokers.racks)
        for place, replicas in self._placed.items():
            while brokers.racks_of(replicas) < min(len(replicas), racks):
                used = [brokers.rack_of(each) for each in replicas]
                double = [each for each in replicas if used.count(brokers.rack_of(each)) > 1]
                old = max(double, key=lambda each: (self._bytes[each], each))
                new = min(
                    (each for each in brokers.racks if brokers.rack_of(each) not in used),
                    key=lambda each: (self._bytes[each], each),
                )
                self._move(place, old, new)
                self._bytes[old] -= self._sizes[place]
                self._bytes[new] += self._sizes[place]

    def level(self) -> None:
        """Move replicas until the disks are level, or no move helps."""
        _level(self._bytes, self._imbalance, self._candidates, self._move)

    def _candidates(self, full: int, empty: int) -> Iterator[tuple[int, Place]]:
        for place in self._on[full]:
            if keeps_racks(self._placed[place], full, empty, self._brokers):
                yield self._sizes[place], place

    def take_back(self, current: Mapping[Place, Sequence[int]]) -> None:
        """Undo each move without which the disks are level too; the largest first."""
        if not is_level(self._bytes, self._imbalance):
            return
        for place in sorted(self._placed, key=lambda each: (-self._sizes[each], each)):
            before, after = current[place], self._placed[place]
            for index, (old, new) in enumerate(zip(before, tuple(after), strict=True)):
                if old == new or not keeps_racks(after, new, old, self._brokers):
                    continue
                size = self._sizes[place]
                tried = {**self._bytes, old: self._bytes[old] + size}
                tried[new] -= size
                if is_level(tried, self._imbalance):
                    self._bytes = tried
                    after[index] = old

    def _move(self, place: Place, old: int, new: int) -> None:
        replicas = self._placed[place]
        replicas[replicas.index(old)] = new
        self._on[old].discard(place)
        self._on[new].add(place)


def _level_leaders(
    placed: dict[Place, list[int]],
    loads: Mapping[Place, Load],
    brokers: Brokers,
    imbalance: float,
) -> None:
    """Let other replicas lead until the work of leaders is level, or no change helps. No data are
    moved for it."""
    led: dict[int, set[Place]] = defaultdict(set)
    for place, replicas in placed.items():
        led[replicas[0]].add(place)

    def candidates(full: int, empty: int) -> Iterator[tuple[int, Place]]:
        for place in led[full]:
            if empty in placed[place]:
                yield loads[place].leading, place

    def move(place: Place, full: int, empty: int) -> None:
        replicas = placed[place]
        index = replicas.index(empty)
        replicas[0], replicas[index] = empty, full
        led[full].discard(place)
        led[empty].add(place)

    _level(leader_loads(placed, loads, brokers), imbalance, candidates, move)


def _replaced(replicas: Collection[int], old: int, new: int) -> list[int]:
    return [new if each == old else each for each in replicas]
