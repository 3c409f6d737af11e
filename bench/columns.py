"""Columns in buffers: `poll_batches`, and lists and Arrow made of it, beside aiokafka's `getmany`.

First, what one core does with a fetch in memory, without a network. Then whole clients, each in its
own process (`bench.reading`), on moldau's broker, with batches as large as Java's producer makes
them by default. `BENCH_SCALE=0.1` makes every load a tenth as long, for a quick run.
"""

from __future__ import annotations

import atexit
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from typing import Final

from bench.broker_load import create_topic, rdkafka_produce
from bench.consumer import AS_JAVA, SIZE_BYTES, program, scaled
from bench.harness import Case, Goal, Table
from bench.peer_brokers import PARTITIONS, BrokerProcess, MoldauBroker
from moldau.client.consumer.records import FetchedRecords
from moldau.link.metadata import TopicPartition
from moldau.records import BatchBuilder, Codec, ColumnBuffers, Row, encode_batch

WHERE: Final = TopicPartition("t", 0)
RECORDS: Final = 600_000
IN_MEMORY: Final = 20_000
PER_BATCH: Final = 135
_NOW: Final = 1_700_000_000_000

COLUMNS: Final = "columns"
LISTS: Final = "lists of columns"
ARROW: Final = "Arrow"
RECORD_LISTS: Final = "lists of records"
SENT: Final = "columns to batches"
ROWS: Final = "rows to batches"
AIOKAFKA: Final = "aiokafka"


@cache
def fetched(codec: Codec) -> bytes:
    """Return a fetch of values of 100 bytes, half of each random, with keys of 10 bytes."""
    chance, data = random.Random(7), bytearray()
    half = SIZE_BYTES // 2
    for first in range(0, IN_MEMORY, PER_BATCH):
        rows = [
            (_NOW + at, b"k%09d" % at, chance.randbytes(half) + bytes(half), ())
            for at in range(first, min(first + PER_BATCH, IN_MEMORY))
        ]
        data += encode_batch(rows, first, codec=codec)
    return bytes(data)


def opened(codec: Codec) -> FetchedRecords:
    return FetchedRecords(WHERE, 0, fetched(codec), None, IN_MEMORY)


def columns(codec: Codec) -> None:
    part = opened(codec).take_columns(IN_MEMORY, check_crc=True)
    assert part is not None
    assert len(part) == IN_MEMORY


def arrow(codec: Codec) -> None:
    part = opened(codec).take_columns(IN_MEMORY, check_crc=True)
    assert part is not None
    assert part.to_arrow().num_rows == IN_MEMORY


def lists(codec: Codec) -> None:
    part = opened(codec).take_columns(IN_MEMORY, check_crc=True)
    assert part is not None
    of_numbers = part.offsets.tolist(), part.timestamps.tolist()
    assert len(part.keys.tolist()) == len(part.values.tolist()) == len(of_numbers[0])


def lists_of_records(codec: Codec) -> None:
    fetch = opened(codec)
    while (part := fetch.take(IN_MEMORY, check_crc=True)) is not None:
        of_numbers = part.offsets(), part.timestamps()
        assert len(part.keys()) == len(part.values()) == len(of_numbers[0])


def sent(codec: Codec) -> None:
    part = _columns_once()
    start = 0
    while start < IN_MEMORY:
        builder = BatchBuilder(16_384, codec=codec)
        start += builder.extend_buffers(part, start)
        builder.build()


def rows(codec: Codec) -> None:
    given = _rows_once()
    start = 0
    while start < IN_MEMORY:
        builder = BatchBuilder(16_384, codec=codec)
        start += builder.extend(given, start)
        builder.build()


@cache
def _columns_once() -> ColumnBuffers:
    part = opened(Codec.NONE).take_columns(IN_MEMORY, check_crc=True)
    assert part is not None
    return part.buffers


@cache
def _rows_once() -> list[Row]:
    part = opened(Codec.NONE).take_columns(IN_MEMORY, check_crc=True)
    assert part is not None
    return [(each.timestamp, each.key, each.value, each.headers) for each in part.records()]


def rate(work: Callable[[Codec], None], codec: Codec) -> float:
    """Return the records a second of processor time."""
    work(codec)
    count, start = 0, time.process_time()
    while (elapsed := time.process_time() - start) < 0.3:
        work(codec)
        count += IN_MEMORY
    return count / elapsed


@cache
def broker() -> BrokerProcess:
    """Return our broker with a topic for each codec, made when the first case runs."""
    with ExitStack() as stack:
        found = stack.enter_context(MoldauBroker.started())
        for codec in ("none", "lz4"):
            create_topic(found, codec, PARTITIONS)
            count = scaled(RECORDS) // PARTITIONS * PARTITIONS
            settings = {**AS_JAVA, "compression.type": codec}
            rdkafka_produce(found, codec, count, bytes(range(SIZE_BYTES)), settings)
        atexit.register(stack.pop_all().close)
    return found


def read(topic: str, reader: str, count: int) -> float:
    """Return the records a second that the reader gets from the topic."""
    (found,) = program("bench.reading", reader, broker().port, topic, scaled(count))
    return float(found)


def tables() -> Iterator[Table]:
    in_memory: dict[str, Callable[[Codec], None]] = {
        RECORD_LISTS: lists_of_records,
        LISTS: lists,
        COLUMNS: columns,
        ARROW: arrow,
        ROWS: rows,
        SENT: sent,
    }
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        yield Table(
            f"a fetch in memory, {codec.name.lower()}",
            f"records of {SIZE_BYTES} B a second of one core",
            [Case(name, partial(rate, work, codec)) for name, work in in_memory.items()],
            [Goal(ARROW, at_least=5e6), Goal(LISTS, RECORD_LISTS, ratio_at_least=1.0)],
        )
    for topic in ("none", "lz4"):
        cases = {
            AIOKAFKA: ("aiokafka_batches", 150_000),
            COLUMNS: ("our_columns", RECORDS),
            LISTS: ("our_lists", RECORDS),
            ARROW: ("our_arrow", RECORDS),
        }
        yield Table(
            f"`poll_batches` beside `getmany`, {topic}",
            f"records of {SIZE_BYTES} B a second",
            [Case(name, partial(read, topic, *case)) for name, case in cases.items()],
            [Goal(COLUMNS, AIOKAFKA, ratio_at_least=3.0)],
        )
