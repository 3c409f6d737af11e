"""The last quarter of an hour of a node: traffic and errors, in all and by topic, and lag by group.

`/history` shows it, for charts of a console that was started a minute ago.

Invariants: a sample is taken in slices as a scrape is, and is seen when it is whole. Memory is that
of two rings, and of the last counters of each topic that had traffic. A rate that began before the
node has no reading. A lag is NaN where this node does not know an end: it coordinates the group,
and has no replica of the partition.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import add, attrgetter, lt
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.exposition.slices import AT_ONCE, pairs_of_now
from moldau.broker.replication.ends import is_end_known
from moldau.metrics.ring import BLOCK, EVERY_MS, Block, Ring

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.exposition.scrape import ScrapedNode, Turn
    from moldau.broker.replication.traffic import TopicTraffic
    from moldau.runtime import Clock

TRAFFIC: Final = ("bytes_in", "bytes_out", "messages_in", "failed_produces", "failed_fetches")
"""The counters of which the ring has rates a second."""
TOPIC_COLUMNS: Final = (*TRAFFIC, "lag")
GROUP_COLUMNS: Final = ("lag",)
ALL: Final = ""
"""The name of the sums of the node: no topic has it."""
_COUNTS: Final = attrgetter(*TRAFFIC)
_IDLE: Final[tuple[float, ...]] = (0.0,) * len(TRAFFIC)
_SLICE_NS: Final = 500_000
_MS_PER_S: Final = 1_000


class Recent:
    """The rings of one node, and the task's side of filling them."""

    def __init__(self, clock: Clock, turn: Turn) -> None:
        """`turn` gives the event loop a turn between two slices."""
        self._clock = clock
        self._turn = turn
        self._topics = Ring(len(TOPIC_COLUMNS))
        self._groups = Ring(len(GROUP_COLUMNS))
        self._before: dict[str, array[int]] = {}
        self._before_ms: int | None = None

    def seconds_to_next(self) -> float:
        """How long it is to the time of the next sample. A sleep may end a moment before that time:
        what it slept for is not due again then."""
        wait_ms = EVERY_MS - self._clock.wall_ms() % EVERY_MS
        return (wait_ms + EVERY_MS if wait_ms < EVERY_MS // 10 else wait_ms) / _MS_PER_S

    async def sample(self, observed: ScrapedNode, at_ms: int | None = None) -> None:
        """Take a sample, of the time `at_ms` or of now."""
        node = observed.node
        if node is None:
            return
        now_ms = self._clock.wall_ms() if at_ms is None else at_ms
        group_lags: dict[str, float] = defaultdict(float)
        topic_lags: dict[str, float] = defaultdict(float)
        await self._sliced(_add_lags(node, group_lags, topic_lags))
        topics: list[tuple[str, Sequence[float]]] = []
        elapsed_s = None
        if self._before_ms is not None:
            elapsed_s = max(1, now_ms - self._before_ms) / _MS_PER_S
        self._before_ms = now_ms
        await self._sliced(self._rates(node, elapsed_s, topic_lags, topics))
        if elapsed_s is not None:
            self._topics.add(now_ms, await self._blocks(topics))
        groups = [(name, (lag,)) for name, lag in group_lags.items()]
        self._groups.add(now_ms, await self._blocks(groups))

    def answer(self, observed: ScrapedNode, topic: str | None, group: str | None) -> dict[str, Any]:
        """Return what `/history` says of a topic, of a group or of the node."""
        ring, name = self._topics, topic or ALL
        columns: tuple[str, ...] = TRAFFIC if topic is None else TOPIC_COLUMNS
        if group is not None:
            ring, columns, name = self._groups, GROUP_COLUMNS, group
        node = observed.node
        return {
            "cluster": "" if node is None else node.cluster_id,
            "node": observed.node_id,
            "columns": columns,
            "readings": [
                [at_ms, *(None if math.isnan(each) else each for each in values[: len(columns)])]
                for at_ms, values in ring.of(name)
            ],
        }

    def _rates(
        self,
        node: Node,
        elapsed_s: float | None,
        lags: dict[str, float],
        found: list[tuple[str, Sequence[float]]],
    ) -> Iterator[None]:
        """Add the entry of each topic with traffic or lag, and that of the node."""
        traffic, before = node.replicas.traffic, {}
        for number, (name, counts) in enumerate(traffic.topics(node.image.topics.by_name)):
            if number % AT_ONCE == 0:
                yield
            counted = _counted(counts)
            known = self._before.get(name)
            if counted == known:
                before[name] = known
            elif known is not None or any(counted):
                before[name] = counted
                found.append((name, (*_rate(known, counted, elapsed_s), lags.pop(name, 0.0))))
        found += ((name, (*_IDLE, lag)) for name, lag in lags.items())
        total = _IDLE
        for number, counts in enumerate(traffic.parts()):
            if number % AT_ONCE == 0:
                yield
            total = tuple(map(add, total, _COUNTS(counts)))
        before[ALL] = array("q", map(int, total))
        found.append((ALL, (*_rate(self._before.get(ALL), before[ALL], elapsed_s), 0.0)))
        self._before = before

    async def _blocks(self, entries: Sequence[tuple[str, Sequence[float]]]) -> list[Block]:
        made = []
        for begin in range(0, len(entries), BLOCK):
            made.append(Block.of(entries[begin : begin + BLOCK]))
            await self._turn()
        return made

    async def _sliced(self, steps: Iterator[None]) -> None:
        began = self._clock.monotonic_ns()
        for _ in steps:
            if self._clock.monotonic_ns() - began >= _SLICE_NS:
                await self._turn()
                began = self._clock.monotonic_ns()


def _counted(counts: TopicTraffic) -> array[int]:
    return array("q", _COUNTS(counts))


def _rate(
    before: array[int] | None, counted: array[int], elapsed_s: float | None
) -> Iterable[float]:
    """Return what was counted a second. A topic that was made anew begins at 0 again."""
    if elapsed_s is None:
        return _IDLE
    if before is None or any(map(lt, counted, before)):
        return (now / elapsed_s for now in counted)
    return ((now - then) / elapsed_s for now, then in zip(counted, before, strict=True))


def _add_lags(node: Node, by_group: dict[str, float], by_topic: dict[str, float]) -> Iterator[None]:
    """Add up the lags of the groups that this node coordinates. Those of topics that are gone do
    not count."""
    number = 0
    for _, shard in list(node.groups.loaded()):
        for group in list(shard.offsets.groups()):
            for topic, partitions in pairs_of_now(shard.offsets.of_group(group)):
                if node.image.topics.by_name(topic) is None:
                    continue
                behind = 0.0
                for index, committed in pairs_of_now(partitions):
                    if number % AT_ONCE == 0:
                        yield
                    number += 1
                    partition = node.replicas.hosted.get((topic, index))
                    if partition is None or not is_end_known(partition):
                        behind = math.nan
                    else:
                        behind += max(0, partition.high_watermark - committed.offset)
                by_group[group] += behind
                by_topic[topic] += behind
    for number, share in enumerate(list(node.shares)):
        if number % AT_ONCE == 0:
            yield
        window, partition = share.window, share.partition
        if window is None or share.error is not None or not is_end_known(partition):
            continue
        behind = partition.high_watermark - window.start_offset - window.complete_count
        by_group[share.key.group_id] += max(behind, 0)
        by_topic[partition.topic] += max(behind, 0)
