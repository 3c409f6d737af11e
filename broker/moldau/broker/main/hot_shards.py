"""Which partition leaves a hot shard of this host, and how far its move is. Pure.

A shard is hot if it used more than `Limits.hot` of a core over a whole window while another shard
of the host used `Limits.gap` less. One of its partitions then moves there: its leadership, if an
in-sync replica is there, or else its replica. Racks stay, because the shards of a host share one.

Invariants: one move at a time, and none while another reassignment of the cluster goes on. A
decision is made from a window in which nothing moved. A move never makes its target as hot as its
source was: a partition that is the whole load stays. A partition that was moved stays for
`STAY_WINDOWS`. So moves end if the load does not change.

The planner of `moldau cluster balance` is not used: it levels all brokers of a cluster by many
moves, disks first. Here a shard is relieved by one move, then measured again.

| state | on | then |
|-|-|-|
| watching | a window with a hot shard, and a partition that fits | moving |
| moving | the target leads, or the assignment is another one, or the time is over | watching |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from moldau.deferred import dataclass

Place: TypeAlias = tuple[str, int]

STAY_WINDOWS: Final = 10
STEP_SECONDS: Final = 0.5
"""The pause between two looks at a move that goes on."""
UNDONE_SECONDS: Final = 10.0
"""A move of which nothing is seen for this long was not begun, or was cancelled."""
LEADER_SECONDS: Final = 60.0
COPY_SECONDS: Final = 600.0
"""The time of a copy, besides that of its bytes at half of its rate."""
COPY_BYTES_PER_SECOND: Final = 32 << 20
"""The least rate of a copy. A partition with more traffic is copied at twice that."""
_INTERNAL: Final = "__"
_WHOLE: Final = 0.9
"""The part of a window that a measure must last."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is hot, how long to watch, and what may be copied."""

    window_s: float
    hot: float
    """The share of a core above which a shard is hot."""
    copy_bytes_max: int

    @property
    def gap(self) -> float:
        """How much less a target uses: 30 points for 80."""
        return self.hot * 3 / 8

    @property
    def margin(self) -> float:
        """How much cooler than the source was a target stays: 10 points for 80."""
        return self.hot / 8

    @property
    def gain(self) -> float:
        """The least share that is worth a move: a point for 80."""
        return self.hot / 80


class LedPartition(NamedTuple):
    """A partition that a shard leads."""

    topic: str
    partition: int
    work: int
    """Its part of `ShardLoad.work`."""
    size_bytes: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class ShardLoad(NamedTuple):
    """What a shard did since it was last asked."""

    broker: int
    elapsed_s: float
    share: float
    """The share of a core that it used."""
    work: int
    """What all partitions that it leads cost it, in any unit."""
    takes_replicas: bool
    is_moving: bool
    """Whether any partition of the cluster is being reassigned."""
    led: tuple[LedPartition, ...]
    """Those that cost the most."""


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one partition between two shards, given by their numbers."""

    place: Place
    source: int
    target: int
    before: tuple[int, ...]
    goal: tuple[int, ...]
    """The replicas after it; the first is on the target, and is to lead."""
    size_bytes: int
    is_copy: bool
    share: float
    """The share of a core that the partition is estimated to use."""
    shares: tuple[float, float]
    """Those of source and target before it."""
    bytes_per_second: int = COPY_BYTES_PER_SECOND

    @property
    def kind(self) -> str:
        """What moves."""
        return "replica" if self.is_copy else "leader"

    @property
    def seconds_max(self) -> float:
        """How long it may take."""
        if not self.is_copy:
            return LEADER_SECONDS
        return COPY_SECONDS + 2 * self.size_bytes / self.bytes_per_second


class Progress(Enum):
    """How far a move is, as its target sees it."""

    UNCHANGED = "the assignment is that before the move"
    GOES_ON = "the replica is copied, or the leader elected"
    DONE = "the target leads"
    OVERTAKEN = "the assignment is another one, or the partition is gone"


class Notice(NamedTuple):
    """A line of the log."""

    text: str
    facts: Mapping[str, object]
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """What the shell must do, in this order: log, ask the target of the move, ask all shards."""

    notices: tuple[Notice, ...] = ()
    step: Move | None = None
    is_first_step: bool = False
    """Whether the move must be requested from the controller."""
    is_look_due: bool = False
    wake: float | None = None


@dataclass(slots=True)
class _Ongoing:
    """A move that goes on."""

    move: Move
    began: float
    step_at: float
    is_begun: bool = False
    """Whether the target has answered that it requested the move."""
    seen: float = field(default=0.0)
    """When it was last not UNCHANGED, or was requested."""


class HotShards:
    """The balance of the shards of one host. Times are seconds of the monotonic clock."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.shares: Mapping[int, float] = {}
        """The share of a core that each shard used up to the last look."""
        self.moves: Counter[str] = Counter(leader=0, replica=0)
        """The moves that are done, by kind."""
        self._limits = limits
        self._ongoing: _Ongoing | None = None
        self._look_at = now
        self._quiet_since = now
        """Since when nothing moves."""
        self._stay_until: dict[Place, float] = {}
        self._stuck: set[int] = set()
        """The hot shards of which no partition fits, and a notice said so."""
        self._notices: list[Notice] = []

    def on_load(self, loads: Mapping[int, ShardLoad], now: float) -> None:
        """All shards were asked; `loads` has those that answered. Perhaps begin a move."""
        self._look_at = now + self._limits.window_s
        self.shares = {number: each.share for number, each in loads.items()}
        if self._ongoing is not None:
            return
        if any(each.is_moving for each in loads.values()):
            self._quiet_since = now
            return
        since, shortest_s = self._quiet_since, self._limits.window_s * _WHOLE
        whole = {
            number: each
            for number, each in loads.items()
            if each.elapsed_s >= shortest_s and now - each.elapsed_s >= since
        }
        self._stay_until = {
            place: until for place, until in self._stay_until.items() if until > now
        }
        chosen = self._choose(whole)
        if chosen is not None:
            self._begin(chosen, now)

    def _begin(self, move: Move, now: float) -> None:
        self._ongoing = _Ongoing(move, now, now, seen=now)
        self._stuck.clear()
        source, target = move.shares
        facts = {
            **_facts(move),
            "what": move.kind,
            "size_bytes": move.size_bytes,
            "share": _percent(move.share),
            "source_share": _percent(source),
            "target_share": _percent(target),
        }
        self._notices.append(Notice("a shard is hot: a partition moves to another one", facts))

    def on_step(self, progress: Progress | None, refusal: str, now: float) -> None:
        """The target was asked for the next step of the move, and how far it is. None: it did not
        answer. `refusal` is the reason why the controller rejected the move; empty if it did not.
        """
        ongoing = self._ongoing
        assert ongoing is not None, "nothing moves"
        ongoing.step_at = now + STEP_SECONDS
        if progress is not None and not ongoing.is_begun:
            ongoing.is_begun, ongoing.seen = True, now
        if progress is Progress.GOES_ON:
            ongoing.seen = now
        is_undone = progress is Progress.UNCHANGED and now - ongoing.seen >= UNDONE_SECONDS
        if progress is Progress.DONE:
            self.moves[ongoing.move.kind] += 1
            self._end("", now)
        elif progress is Progress.OVERTAKEN:
            self._end("a move of a hot shard's partition was replaced by another change", now)
        elif is_undone or (progress is Progress.UNCHANGED and refusal):
            self._end("a partition of a hot shard does not move", now, refusal or "cancelled")
        elif now - ongoing.began >= ongoing.move.seconds_max:
            text = "a move of a hot shard's partition does not end; see `moldau reassign list`"
            self._end(text, now)

    def _end(self, problem: str, now: float, why: str = "") -> None:
        ongoing, self._ongoing = self._ongoing, None
        assert ongoing is not None
        move = ongoing.move
        self._stay_until[move.place] = now + STAY_WINDOWS * self._limits.window_s
        self._quiet_since = self._look_at = now
        if problem:
            facts = {**_facts(move), **({"why": why} if why else {})}
            self._notices.append(Notice(problem, facts, is_warning=True))

    def ready(self, now: float) -> Ready:
        """Return what is to be done now. Its notices are returned once."""
        notices, self._notices = tuple(self._notices), []
        ongoing = self._ongoing
        wake = self._look_at if ongoing is None else min(self._look_at, ongoing.step_at)
        is_step_due = ongoing is not None and now >= ongoing.step_at
        return Ready(
            notices,
            ongoing.move if ongoing is not None and is_step_due else None,
            ongoing is not None and not ongoing.is_begun,
            now >= self._look_at,
            wake,
        )

    # The choice of a move.

    def _choose(self, loads: Mapping[int, ShardLoad]) -> Move | None:
        """Return the best move of the hottest shard that has one."""
        limits = self._limits
        for source in sorted(loads, key=lambda number: -loads[number].share):
            hot = loads[source]
            if hot.share <= limits.hot:
                self._stuck.discard(source)
                continue
            targets = [n for n, each in loads.items() if each.share <= hot.share - limits.gap]
            moves = [each for n in targets for each in self._moves(source, n, loads)]
            if moves:
                return min(moves, key=_rank)
            if targets and source not in self._stuck:
                self._stuck.add(source)
                self._notices.append(_stuck(source, loads[source]))
        return None

    def _moves(self, source: int, target: int, loads: Mapping[int, ShardLoad]) -> Iterator[Move]:
        """Yield the moves from one shard to another that may be made."""
        hot, cool, limits = loads[source], loads[target], self._limits
        for each in hot.led:
            place = each.topic, each.partition
            share = _share_of(each, hot)
            is_fit = share >= limits.gain and cool.share + share <= hot.share - limits.margin
            if not is_fit or place in self._stay_until:
                continue
            is_copy = cool.broker not in each.replicas
            if is_copy:
                if not cool.takes_replicas or each.size_bytes > limits.copy_bytes_max:
                    continue
            elif cool.broker not in each.isr:
                continue
            gone = hot.broker if is_copy else cool.broker
            rate = int(2 * each.work / hot.elapsed_s)
            yield Move(
                place,
                source,
                target,
                each.replicas,
                (cool.broker, *(replica for replica in each.replicas if replica != gone)),
                each.size_bytes,
                is_copy,
                share,
                (hot.share, cool.share),
                max(COPY_BYTES_PER_SECOND, rate),
            )


def _share_of(partition: LedPartition, load: ShardLoad) -> float:
    """Return the share of a core that a partition uses, or less: what the shard does besides its
    partitions is spread over them."""
    return load.share * partition.work / load.work if load.work else 0.0


def _rank(move: Move) -> tuple[object, ...]:
    """Leaders before replicas, topics of users before internal ones; then what brings the two
    shards nearest."""
    source, target = move.shares
    is_internal = move.place[0].startswith(_INTERNAL)
    hotter = max(source - move.share, target + move.share)
    return move.is_copy, is_internal, hotter, target, move.place


def _facts(move: Move) -> dict[str, object]:
    topic, index = move.place
    return {"topic": topic, "partition": index, "source": move.source, "target": move.target}


def _stuck(number: int, load: ShardLoad) -> Notice:
    facts: dict[str, object] = {"shard": number, "share": _percent(load.share)}
    if load.led:
        most = max(load.led, key=lambda each: each.work)
        facts |= {
            "most": f"{most.topic}-{most.partition}",
            "share_of_most": _percent(_share_of(most, load)),
            "size_bytes": most.size_bytes,
        }
    return Notice("a shard is hot, and none of its partitions may move to another one", facts)


def _percent(share: float) -> str:
    return f"{share:.0%}"
