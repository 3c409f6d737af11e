"""The records of one `send_many` or `send_batch`, on their way into batches.

Records with keys or partitions of their own are appended partition by partition, so that one kernel
call fills a batch. If that fails in the middle, the accepted records are not the first ones of the
caller's list: the error says which are left, so that exactly those can be sent again.

Invariant: records are appended in the order of `_turns` if it is set, else in the caller's order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import chain, repeat
from typing import Final

from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.columns import Columns
from moldau.client.producer.delivery import Delivery, Part
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.record import NO_RECORD, no_record
from moldau.client.producer.run import RowRun, Run
from moldau.client.producer.sender import Sender, Turn
from moldau.client.producer.topics import OutgoingTopic, OutgoingTopics
from moldau.errors import MoldauError
from moldau.records import Row, partition_for_key
from moldau.runtime import Clock

_MIXED: Final = 500
_SHOWN: Final = 5


class Indices(tuple[int, ...]):
    """Indices into a list that may be long; the repr shows only the first of them."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[:_SHOWN]))
        return f"[{shown}, and {len(self) - _SHOWN} more]" if len(self) > _SHOWN else f"[{shown}]"


class BulkSend:
    """The records of one call; `parts` are those that are in batches."""

    def __init__(
        self,
        count: int,
        topics: OutgoingTopics,
        accumulator: Accumulator,
        sender: Sender,
        clock: Clock,
    ) -> None:
        self.parts: list[Part] = []
        self._count = count
        self._topics = topics
        self._accumulator = accumulator
        self._sender = sender
        self._clock = clock
        self._records: Sequence[Row] = ()
        self._turns: list[Sequence[Row]] = []
        self._places: list[int] = []
        """The indices of the records in sending order, if that is known before the first."""

    # On their way

    def add(self, delivery: Delivery) -> None:
        """Add one record that was sent by itself."""
        batch, index = delivery.batch, delivery.index
        if self.parts and self.parts[-1][0] is batch and sum(self.parts[-1][1:]) == index:
            self.parts[-1] = (batch, self.parts[-1][1], self.parts[-1][2] + 1)
        else:
            self.parts.append((batch, index, 1))

    async def send_columns(self, topic: OutgoingTopic, columns: Columns) -> None:
        """Send each record to the partition given, or to the partition of its key."""
        partition = columns.partition
        has_no_choice = self._topics.ignores_keys or topic.partitioner.count == 1
        now_ms = self._clock.wall_ms()
        if isinstance(partition, int):
            queue = self._topics.choose(topic, None, partition)
            await self.send_runs(topic, queue, columns.runs(now_ms))
        elif partition is None and (columns.keys is None or has_no_choice):
            await self.send_runs(topic, None, columns.runs(now_ms))
        elif partition is None and columns.is_splittable:
            await self._send_split(topic, columns, now_ms)
        else:
            self._records = records = columns.as_lists().rows(now_ms)
            if partition is None:
                await self._send_keyed(topic, records)
            else:
                self.check_partitions(topic, columns)  # before the first of them is used
                await self._send_placed(topic, records, partition)

    def check_partitions(self, topic: OutgoingTopic, columns: Columns) -> None:
        """Raise KafkaError if a named partition does not exist."""
        for index in columns.partitions:
            self._topics.choose(topic, None, index)

    async def _send_split(self, topic: OutgoingTopic, columns: Columns, now_ms: int) -> None:
        """Send records in Arrow's buffers by their keys, without an object for each of them."""
        keys, count = columns.keys.to_list(), topic.partitioner.count
        if None in keys:
            self._records = columns.as_lists().rows(now_ms)
            await self._send_placed(topic, self._records, [None] * len(keys))
            return
        places: list[list[int]] = [[] for _ in range(count)]
        for index, partition in enumerate(map(partition_for_key, keys, repeat(count))):
            places[partition].append(index)
        self._places = list(chain.from_iterable(places))
        for queue, chosen in zip(topic.queues, places, strict=False):
            if chosen:
                await self.send_runs(topic, queue, columns.taken(chosen).runs(now_ms))

    async def _send_keyed(self, topic: OutgoingTopic, records: list[Row]) -> None:
        of_key = topic.partitioner.of_key
        by_partition: list[list[Row]] = [[] for _ in range(topic.partitioner.count)]
        try:
            for row in records:
                key = row[1]
                if key is None:
                    await self._send_placed(topic, records, [None] * len(records))
                    return
                by_partition[of_key(key)].append(row)
        except TypeError as error:
            raise no_record(error, topic.name, row) from None
        self._turns.extend(by_partition)
        for queue, chosen in zip(topic.queues, by_partition, strict=False):
            await self.send_runs(topic, queue, [RowRun(chosen)])

    async def _send_placed(
        self, topic: OutgoingTopic, records: list[Row], partitions: Sequence[int | None]
    ) -> None:
        """Send partition by partition, in the records' order within each. Records without partition
        and key go to the sticky partition, which is read once for `_MIXED` records, not for each:
        so they keep their order among the others."""
        at_once = _MIXED if None in partitions else max(1, len(records))
        for start in range(0, len(records), at_once):
            chosen = partitions[start : start + at_once]
            by_partition = self._by_partition(topic, records[start : start + at_once], chosen)
            self._turns.extend(by_partition.values())
            for index, its_records in by_partition.items():
                await self.send_runs(topic, topic.queues[index], [RowRun(its_records)])

    def _by_partition(
        self, topic: OutgoingTopic, records: list[Row], partitions: Sequence[int | None]
    ) -> dict[int, list[Row]]:
        of_key, sticky = topic.partitioner.of_key, topic.sticky.where.partition
        ignores_keys = self._topics.ignores_keys
        found: dict[int, list[Row]] = {}
        try:
            for row, partition in zip(records, partitions, strict=True):
                key = row[1]
                if partition is None:
                    partition = sticky if key is None or ignores_keys else of_key(key)
                found.setdefault(partition, []).append(row)
        except TypeError as error:
            raise no_record(error, topic.name, row) from None
        return found

    async def send_runs(
        self, topic: OutgoingTopic, queue: PartitionQueue | None, runs: Iterable[Run]
    ) -> None:
        """Append the runs to one partition's batches, or to the sticky one's if `queue` is None."""
        for run in runs:
            start = 0
            while start < len(run):
                part = await self._extend(topic, queue or topic.sticky, run, start)
                self.parts.append(part)
                start += part[2]

    async def _extend(
        self, topic: OutgoingTopic, queue: PartitionQueue, run: Run, start: int
    ) -> Part:
        """Append as many records as one batch takes."""
        self._sender.check_open()
        now = self._clock.monotonic()
        waited: Turn | None = None
        while (part := self._fill(queue, now, run, start, waited)) is None:
            waited = await self._sender.wait_for_room(queue.where, waited)
            self._sender.check_open()
            now = topic.used_at = self._clock.monotonic()
        if part[1] == 0:
            topic.used_at = now
            self._sender.begun(queue)
        if start + part[2] < len(run):  # it is full
            self._accumulator.full(queue)
            if self._sender.filled():
                await asyncio.sleep(0)
        return part

    def _fill(
        self, queue: PartitionQueue, now: float, run: Run, start: int, waited: Turn | None
    ) -> Part | None:
        if queue.open is None and not self._sender.may_begin(waited):
            return None
        try:
            return self._accumulator.extend(queue, now, run, start)
        except NO_RECORD as error:
            raise no_record(error, queue.where.topic, run.row(start)) from None

    # What is left

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Add to an error of the block how many records are sent all the same (`accepted`), at
        which record it happened, and which are left."""
        try:
            yield
        except MoldauError as error:
            left = self._left_in_turn()
            facts = {"at": left[0], "left": Indices(sorted(left))} if left else {}
            accepted = {"accepted": self._accepted, "records": self._count}
            found = copy(error)
            found.context = {**error.context, **accepted, **facts}
            raise found from error.__cause__ or error
        except TypeError as error:
            where = Indices(sorted(self._left_in_turn()))
            error.add_note(f"{self._accepted} of these records are on their way, not {where}")
            raise

    @property
    def _accepted(self) -> int:
        return sum(part[2] for part in self.parts)

    def _left_in_turn(self) -> list[int]:
        """Return the indices of the records not accepted, in sending order as far as known."""
        order = self._places or list(range(self._count))
        if self._turns:
            places = {id(each): index for index, each in enumerate(self._records)}
            known = [places[id(each)] for each in chain.from_iterable(self._turns)]
            order = known + sorted(set(order).difference(known))
        return order[self._accepted :]
