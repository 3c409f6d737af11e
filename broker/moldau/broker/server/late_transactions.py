"""Tells of transactions that are open for longer than any may be: readers of committed records stop
in front of them.

Invariant: a transaction is told of once while it stays open, and its end once.

The age counts from when this node, as the leader of the partition, saw the transaction first. The
timestamps of records say nothing of it: clients choose them, and a copy of old data has old ones.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.coordinator.kind import KeyType
from moldau.broker.settings import transaction as settings
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.broker.api.node import Node
    from moldau.broker.replication.partition import Partition

LATE_TRANSACTION_MS: Final = 5 * 60 * 1000
"""The time beyond the longest transaction timeout before an open transaction counts as late, as in
Kafka."""
_MS: Final = 1_000_000
_TOLD_MAX: Final = 20
"""The number of transactions that one look tells of; the metric counts all."""

TopicPartition = tuple[str, int]


class Open(NamedTuple):
    """The oldest open transaction of one partition."""

    producer_id: int
    first_offset: int


@dataclass(slots=True)
class _Seen:
    """A transaction since it was seen first."""

    opened: Open
    since_ms: int
    is_told: bool = False


class Late(NamedTuple):
    """A transaction that became late, or that was late and has ended."""

    place: TopicPartition
    opened: Open
    open_for_ms: int


class OpenTransactions:
    """The ages of the oldest open transactions of all partitions that this node leads."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, _Seen] = {}

    def on_look(
        self, found: Mapping[TopicPartition, Open], now_ms: int, longest_ms: int
    ) -> tuple[list[Late], list[Late]]:
        """Take what is open now. Return the transactions that have become late, and those that were
        late and are not open here any more."""
        ended = [
            Late(place, seen.opened, now_ms - seen.since_ms)
            for place, seen in self._seen.items()
            if seen.is_told and found.get(place) != seen.opened
        ]
        before, self._seen = self._seen, {}
        late = []
        for place, opened in found.items():
            seen = before.get(place)
            if seen is None or seen.opened != opened:
                seen = _Seen(opened, now_ms)
            self._seen[place] = seen
            age_ms = now_ms - seen.since_ms
            if age_ms > longest_ms and not seen.is_told:
                seen.is_told = True
                late.append(Late(place, opened, age_ms))
        return late, ended

    @property
    def late_count(self) -> int:
        """The number of partitions with a late transaction."""
        return sum(each.is_told for each in self._seen.values())

    def oldest_ms(self, now_ms: int) -> int:
        """The age of the oldest one; 0 if none is open."""
        return max((now_ms - each.since_ms for each in self._seen.values()), default=0)


class LateTransactions:
    """Looks at the partitions of a node as often as the coordinator looks for overdue
    transactions."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._open = OpenTransactions()
        node.metrics.read_gauge(
            "moldau.transaction.late",  # ReplicaManager PartitionsWithLateTransactionsCount
            "Partitions led here in which a transaction is open for longer than any may be.",
            "{partition}",
            read=lambda: self._open.late_count,
        )
        node.metrics.read_gauge(
            "moldau.transaction.open.longest",
            "How long the oldest open transaction of the partitions led here has been open.",
            "s",
            read=lambda: self._open.oldest_ms(self._now_ms()) / 1000,
        )
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._interval_s(), self._look)

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _interval_s(self) -> float:
        key = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        return self._node.settings[key] / 1000

    def _now_ms(self) -> int:
        return self._node.runtime.clock.monotonic_ns() // _MS

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._interval_s(), self._look)
        longest_ms = self._node.settings[settings.transaction_max_timeout_ms] + LATE_TRANSACTION_MS
        late, ended = self._open.on_look(self._found(), self._now_ms(), longest_ms)
        for each in late[:_TOLD_MAX]:
            self._report_late(each)
        for each in ended[:_TOLD_MAX]:
            self._node.log.info("a late transaction is not open here any more", **self._facts(each))

    def _found(self) -> dict[TopicPartition, Open]:
        found = {}
        for partition in self._node.replicas:
            if not partition.is_leader or not _keeps_readers_back(partition):
                continue
            opened = [
                Open(entry.producer_id, entry.transaction_first_offset)
                for entry in partition.producers.values()
                if entry.transaction_first_offset is not None
            ]
            if opened:
                place = partition.topic, partition.index
                found[place] = min(opened, key=lambda each: each.first_offset)
        return found

    def _report_late(self, late: Late) -> None:
        name, (topic, index) = self._name_of(late.opened.producer_id), late.place
        if name is None:
            what = (
                f"see `moldau txn hanging {topic}`; if it is there: `moldau txn abort --topic "
                f"{topic} --partition {index} --start-offset {late.opened.first_offset}`"
            )
        else:
            what = f"see `moldau txn describe {name}`; `moldau txn abort {name}` ends it"
        self._node.log.warn(
            "a transaction is open for longer than any may be, and keeps readers of committed "
            "records back",
            **self._facts(late),
            transactional_id=name or "not known here",
            do=what,
        )

    def _facts(self, late: Late) -> dict[str, object]:
        topic, index = late.place
        return {
            "topic": topic,
            "partition": index,
            "producer_id": late.opened.producer_id,
            "offset": late.opened.first_offset,
            "seconds": late.open_for_ms // 1000,
        }

    def _name_of(self, producer_id: int) -> str | None:
        """Return the transactional id of a producer, if its coordinator is on this node."""
        for _, shard in self._node.coordinators.of(KeyType.TRANSACTION).loaded():
            for known in shard:
                if known.producer_id == producer_id:
                    return str(known.transactional_id)
        return None


def _keeps_readers_back(partition: Partition) -> bool:
    return partition.last_stable_offset < partition.high_watermark
