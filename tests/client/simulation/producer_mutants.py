"""Bugs on purpose in what becomes of records: in producers, and in the broker's logs.

As `mutants`: each is a context in which the code has the bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from zlib import crc32

from moldau.broker.log import appending
from moldau.broker.log.admission import NO_APPEND_TIME, Admitted, admit
from moldau.broker.log.appending import AppendedFields, LogAppender
from moldau.broker.log.log_config import LogConfig
from moldau.client.producer import delivery, splitting
from moldau.client.producer import outcome as outcomes
from moldau.client.producer.accumulator import Accumulator, Clocks
from moldau.client.producer.batch import Batch
from moldau.client.producer.bulk import BulkSend
from moldau.client.producer.delivery import SentRange
from moldau.client.producer.partitioner import Partitioner
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.run import Run
from moldau.client.producer.topics import OutgoingTopic, OutgoingTopics
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Buffer, Rules, open_batch
from moldau.records.record import BATCH_BYTES_MAX
from tests.broker.simulation.search import Hunt, Mutant
from tests.client.simulation.promises import Promise
from tests.client.simulation.scenario import Bias, run_clients

Mutation = AbstractContextManager[object]
_REQUEST_BYTES_MAX = 2**31 - 1


def hashes_keys_in_its_own_way() -> Mutation:
    """Other clients look for a key elsewhere."""
    return patch.object(Partitioner, "of_key", lambda self, key: crc32(key) % self.count)


@contextmanager
def takes_a_key_for_more_than_a_partition() -> Iterator[None]:
    """That was named beside it."""
    original = OutgoingTopics.choose

    def choose(
        self: OutgoingTopics, known: OutgoingTopic, key: bytes | None, partition: int | None
    ) -> PartitionQueue:
        return original(self, known, key, partition if key is None else None)

    with patch.object(OutgoingTopics, "choose", choose):
        yield


def _splits(change: Callable[[Any, Any], dict[str, Any]]) -> Mutation:
    """Every record that is put into a part is changed so, who knows the first of the whole."""

    def opened(data: Buffer) -> Any:
        records = open_batch(data).records(BATCH_BYTES_MAX)
        rows = [
            SimpleNamespace(
                **{
                    "timestamp": each.timestamp,
                    "key": each.key,
                    "value": each.value,
                    "headers": each.headers,
                    **change(each, records[0]),
                }
            )
            for each in records
        ]
        return SimpleNamespace(records=lambda _: rows)

    return patch.object(splitting, "open_batch", opened)


def splits_without_headers() -> Mutation:
    return _splits(lambda record, first: {"headers": ()})


def splits_under_one_time() -> Mutation:
    return _splits(lambda record, first: {"timestamp": first.timestamp})


@contextmanager
def stamps_with_the_time_of_the_batch() -> Iterator[None]:
    """It is read once, when the batch is begun."""
    original = Accumulator.begin

    def begin(self: Accumulator, *record: Any) -> Batch:
        clocks = self.clocks
        assert clocks is not None
        now_ns = clocks.monotonic_ns()
        self.clocks = Clocks(lambda: now_ns, clocks.wall_ms)
        try:
            return original(self, *record)
        finally:
            self.clocks = clocks

    with patch.object(Accumulator, "begin", begin):
        yield


def fails_a_batch_that_is_too_large() -> Mutation:
    """With all the records that would fit well."""
    return patch.object(outcomes, "TOO_LARGE", frozenset())


@contextmanager
def puts_parts_back_in_reverse() -> Iterator[None]:
    """`extendleft` turns them round."""
    original = PartitionQueue.replace

    def turned(self: PartitionQueue, batch: Batch, parts: list[Batch]) -> None:
        original(self, batch, parts if batch.was_sent else parts[::-1])

    with patch.object(PartitionQueue, "replace", turned):
        yield


@contextmanager
def ends_with_the_first_part() -> Iterator[None]:
    """A batch that was split is told as acknowledged when the first part is."""

    def part_ended(self: Batch) -> None:
        assert self.parts is not None
        first = next(each for each in self.parts if each.is_done)
        if not self.is_done:
            self.finish(first.base_offset, first.timestamp)

    with patch.object(Batch, "_part_ended", part_ended):
        yield


@contextmanager
def refuses_what_it_keeps() -> Iterator[None]:
    """A record that is too large for a request is in a batch before anybody looks."""
    original = Accumulator.begin

    def begin(self: Accumulator, queue: PartitionQueue, *record: Any) -> Batch:
        options = self.options
        self.options = replace(options, request_bytes=_REQUEST_BYTES_MAX)
        try:
            batch = original(self, queue, *record)
        finally:
            self.options = options
        assert batch.builder is not None
        if batch.builder.size_bytes > options.request_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return batch

    with patch.object(Accumulator, "begin", begin):
        yield


@contextmanager
def counts_what_has_gone_out_whole() -> Iterator[None]:
    """`accepted` lacks the records of a run that ended in the midst."""
    original = BulkSend.send_runs

    async def send_runs(
        self: BulkSend, topic: OutgoingTopic, queue: PartitionQueue | None, runs: Iterable[Run]
    ) -> None:
        before = list(self.parts)
        try:
            await original(self, topic, queue, runs)
        except BaseException:
            self.parts = before
            raise

    with patch.object(BulkSend, "send_runs", send_runs):
        yield


def tells_ranges_from_the_first_of_the_batch() -> Mutation:
    """Wherever in it the records are."""

    def ranges(batch: Batch, first: int, count: int) -> Iterator[SentRange]:
        for part, _, records in batch.pieces(first, count):
            yield SentRange(*part.where, part.base_offset, records)

    return patch.object(delivery, "ranges_of", ranges)


def tells_a_batch_that_was_split_by_its_first_part() -> Mutation:
    """As if all its records were there."""

    def ranges(batch: Batch, first: int, count: int) -> Iterator[SentRange]:
        part, index, records = next(batch.pieces(first, count))
        sent = delivery.sent_of(part, index)
        yield SentRange(sent.topic, sent.partition, sent.offset, records)

    return patch.object(delivery, "ranges_of", ranges)


@contextmanager
def answers_a_duplicate_with_the_time_now() -> Iterator[None]:
    """The broker, for what it has stored under another."""
    original = LogAppender._append_admitted

    def append(
        self: LogAppender, admitted: Admitted, leader_epoch: int, now_ms: int
    ) -> AppendedFields:
        base, last, timestamp, is_known = original(self, admitted, leader_epoch, now_ms)
        is_stamped = admitted[-1] != NO_APPEND_TIME
        return base, last, now_ms if is_known and is_stamped else timestamp, is_known

    with patch.object(LogAppender, "_append_admitted", append):
        yield


def looks_at_the_clock_once_a_second() -> Mutation:
    """The broker, for LogAppendTime."""

    def coarse(records: Buffer, config: LogConfig, rules: Rules, now_ms: int) -> Admitted:
        return admit(records, config, rules, now_ms // 1000 * 1000)

    return patch.object(appending, "admit", coarse)


run_narrow_topics = partial(run_clients, bias=Bias(topics=("narrow",)))
run_stamped_topics = partial(run_clients, bias=Bias(topics=("stamped",)))

PRODUCER_MUTANTS: dict[Mutant, Hunt] = {
    hashes_keys_in_its_own_way: Hunt(range(160), {Promise.ITS_PARTITION}),
    takes_a_key_for_more_than_a_partition: Hunt(range(160), {Promise.ITS_PARTITION}),
    splits_without_headers: Hunt(range(160), {Promise.AS_SENT}),
    splits_under_one_time: Hunt(range(160), {Promise.GIVEN_TIME}),
    stamps_with_the_time_of_the_batch: Hunt(range(160), {Promise.GIVEN_TIME}),
    fails_a_batch_that_is_too_large: Hunt(range(160), {Promise.REALLY_TOO_LARGE}),
    puts_parts_back_in_reverse: Hunt(range(160), {Promise.ORDER}, run_narrow_topics),
    ends_with_the_first_part: Hunt(range(160), {Promise.ACKNOWLEDGED_KEPT}),
    refuses_what_it_keeps: Hunt(range(160), {Promise.REFUSED_NOWHERE}),
    counts_what_has_gone_out_whole: Hunt(range(160), {Promise.REFUSED_NOWHERE}),
    tells_ranges_from_the_first_of_the_batch: Hunt(range(160), {Promise.MANY_AS_ONE}),
    tells_a_batch_that_was_split_by_its_first_part: Hunt(range(160), {Promise.MANY_AS_ONE}),
    answers_a_duplicate_with_the_time_now: Hunt(
        range(160), {Promise.TOLD_TIME}, run_stamped_topics
    ),
    looks_at_the_clock_once_a_second: Hunt(range(160), {Promise.APPEND_TIME}),
}
"""Each with what must find it, and seeds enough for that; several times what it took."""
