"""A replica of the partition: its local log, its view of the cluster, its remote work."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.copying import LocalLog, LocalSegment, SegmentOrigin
from moldau.broker.tiered.remote_log import RemoteLog, TierSettings
from moldau.runtime.backoff import Backoff

TOPIC_ID: Final = bytes(range(16))
RECORD_BYTES: Final = 10


class Record(NamedTuple):
    """A record, or the marker that ends a transaction."""

    epoch: int
    serial: int
    time_ms: int
    kind: str = "plain"
    """plain, txn (in a transaction), commit or abort."""
    first_offset: int = -1
    """Of the transaction that a marker ends."""


class Replica:
    """One node. What a kill takes is made anew by `boot`."""

    def __init__(self, node: int, random: Random, settings: TierSettings) -> None:
        self.node = node
        self._random = random
        self._settings = settings
        self.chain = LeaderEpochs()
        self.records: list[Record] = []
        self.rolls = [0]
        """Where local segments begin; the first one is where the local log begins."""
        self.log_start = self.durable_start = 0
        self.high_watermark = 0
        self.is_alive = False
        self.boot()

    def boot(self) -> None:
        """A process begins, with what is on the disk."""
        self.is_alive = True
        self.log_start = self.durable_start
        origin = SegmentOrigin("t", TOPIC_ID, 0, self.node)
        self.core = RemoteLog(origin, self._random, Backoff(20, 100, jitter=0.0))
        self.core.on_settings(self._settings)
        self.position = 0
        """Up to where it has read the topic."""
        self.has_read_topic = False
        """Whether it was at the end once: before that it serves nothing remote."""
        self.led_epoch: int | None = None
        """The epoch in which it thinks that it leads."""
        self.is_core_leader = False
        self.isr: set[int] = set()
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        """The log starts and ends that followers have told."""
        self.effects: list[Callable[[], None]] = []
        """What the topic and the store were asked for, and have not done yet."""

    def die(self) -> None:
        self.is_alive = False
        self.effects.clear()

    @property
    def base(self) -> int:
        return self.rolls[0]

    @property
    def end(self) -> int:
        return self.base + len(self.records)

    def at(self, offset: int) -> Record | None:
        return self.records[offset - self.base] if self.base <= offset < self.end else None

    def facts(self) -> LocalLog:
        segments = [self._segment(*pair) for pair in pairwise((*self.rolls, self.end))]
        stable = min(self.high_watermark, self.first_open())
        return LocalLog(self.chain, segments, self.log_start, self.high_watermark, stable)

    def _segment(self, start: int, end: int) -> LocalSegment:
        records = self.records[start - self.base : end - self.base]
        newest = max((each.time_ms for each in records), default=-1)
        has_aborted = any(each.kind == "abort" for each in records)
        return LocalSegment(start, end, newest, RECORD_BYTES * len(records), has_aborted)

    def first_open(self) -> int:
        """The first record of the transaction that is open, or else the end."""
        found = offset = self.end
        for record in reversed(self.records):
            offset -= 1
            if record.kind in ("commit", "abort"):
                break
            found = offset if record.kind == "txn" else found
        return found

    def append(self, record: Record) -> None:
        self.chain.assign(record.epoch, self.end)
        self.records.append(record)

    def roll(self) -> None:
        if self.rolls[-1] < self.end:
            self.rolls.append(self.end)

    def cut(self, offset: int) -> None:
        """Local segments that end here or before go; the start is durable before."""
        self.persist_start()
        while len(self.rolls) > 1 and self.rolls[1] <= offset:
            del self.records[: self.rolls[1] - self.rolls[0]], self.rolls[0]

    def truncate(self, offset: int) -> None:
        self.chain.truncate_from_end(offset)
        self._begin_no_later_than(offset)
        if offset < self.base:
            self.records.clear()
            self.rolls = [offset]
            return
        del self.records[offset - self.base :]
        self.rolls = [each for each in self.rolls if each <= offset]

    def restart_at(self, offset: int, chain: LeaderEpochs) -> None:
        """Begin anew at an offset, with the leader's epochs before it."""
        self.records.clear()
        self.rolls = [offset]
        self.chain = LeaderEpochs(chain.entries)
        self.chain.truncate_from_end(offset)
        self._begin_no_later_than(offset)

    def _begin_no_later_than(self, offset: int) -> None:
        self.high_watermark = min(self.high_watermark, offset)
        self.log_start = min(self.log_start, offset)
        self.durable_start = min(self.durable_start, offset)

    def raise_start(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)

    def persist_start(self) -> None:
        """The start is durable, and epochs before it are forgotten after that."""
        self.durable_start = self.log_start
        self.chain.truncate_from_start(min(self.log_start, self.end))

    def low_watermark(self) -> int:
        others = (self.starts.get(each, 0) for each in self.isr if each != self.node)
        return min((self.log_start, *others))

    def follow(self, leader: Replica, count: int) -> None:
        """Fetch so many records: where histories part, the leader's is right."""
        self.chain.truncate_from_end(self.end)  # an epoch that it led without a record
        common = min(self.end, leader.end)
        while common > max(self.base, leader.log_start):
            if self.chain.epoch_for_offset(common - 1) == leader.chain.epoch_for_offset(common - 1):
                break
            common -= 1
        if common < self.end:
            self.truncate(common)
        is_same = self.chain.epoch_for_offset(self.end - 1) == leader.chain.epoch_for_offset(
            self.end - 1
        )
        if self.end < leader.base or self.end < leader.log_start or (self.end and not is_same):
            self.restart_at(max(leader.base, leader.log_start), leader.chain)
        for offset in range(self.end, min(self.end + count, leader.end)):
            record = leader.at(offset)
            assert record is not None
            if record.serial % 7 == 0:  # segments end elsewhere on every node
                self.roll()
            self.append(record)
        self.raise_start(leader.log_start)
        self.high_watermark = max(self.high_watermark, min(leader.high_watermark, self.end))
        leader.starts[self.node], leader.ends[self.node] = self.log_start, self.end
