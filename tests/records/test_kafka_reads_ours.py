"""Apache Kafka reads what we write: every codec and level, compacted, empty and control batches."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moldau.records import (
    Batch,
    BatchBuilder,
    Codec,
    ControlType,
    Producer,
    Record,
    Row,
    encode_batch,
    encode_control_batch,
    open_batch,
    retain,
    stamp,
)
from tests.peers.apache_kafka import fetch_or_skip
from tests.records.golden import ROWS
from tests.records.strategies import NOW

PRODUCER = Producer(9000, 5, 2**31 - 2, is_transactional=True)


def some_rows(seed: int) -> list[Row]:
    """A few hundred rows, over several blocks of every codec."""
    rng = random.Random(seed)
    return [
        (
            NOW + rng.randrange(-100_000, 100_000),
            rng.choice((None, b"", b"key-%d" % index)),
            rng.choice((None, rng.randbytes(rng.randrange(700)), b"ab" * rng.randrange(900))),
            (("h", rng.choice((None, b"", b"1"))), ("\u017elu\u0165", b"2"))[: rng.randrange(3)],
        )
        for index in range(rng.randrange(1, 400))
    ]


def batches() -> list[bytes]:
    """All kinds that we write."""
    made: list[object] = [encode_batch(ROWS, 7, leader_epoch=3, producer=PRODUCER)]
    for codec in Codec:
        whole = encode_batch(some_rows(codec), 100, codec=codec, producer=PRODUCER)
        batch = open_batch(whole)
        odd = retain(batch, lambda entry: entry.offset % 2 == 1, keep_empty=True)
        marked = retain(batch, lambda entry: True, delete_horizon_ms=NOW + 5)
        made += [bytes(whole), odd, marked, retain(batch, lambda entry: False, keep_empty=True)]
        stamp(whole, 5_000, 9, append_time_ms=NOW + 77)
        made.append(whole)
    for codec, level in ((Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, 19), (Codec.ZSTD, -5)):
        builder = BatchBuilder(codec=codec, level=level)
        builder.extend(some_rows(level))
        made.append(builder.build())
    marker = [(ControlType.ABORT, bytes(6))]
    made.append(encode_control_batch(marker, NOW, 12, producer=PRODUCER._replace(base_sequence=-1)))
    return [bytes(each) for each in made if isinstance(each, bytes | bytearray | memoryview)]


def text(content: bytes | None) -> str:
    return "null" if content is None else content.hex()


def describe_record(record: Record) -> str:
    fields = [str(record.offset), str(record.timestamp), text(record.key), text(record.value)]
    fields += [f"{text(name.encode())}={text(value)}" for name, value in record.headers]
    return ",".join(fields)


def describe(batch: Batch) -> str:
    """What ReadBatches.java says of the batch, when it sees what we see."""
    header = batch.header
    horizon = -1 if header.delete_horizon_ms is None else header.delete_horizon_ms
    facts = (
        batch.codec.name.lower(),
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence,
        str(header.is_transactional).lower(),
        str(header.is_control).lower(),
        horizon,
    )
    return " ".join([*map(str, facts), *map(describe_record, batch.records())])


@pytest.mark.real
def test_kafka_sees_in_our_batches_what_we_see() -> None:
    made = batches()
    assert len(made) == 1 + 5 * 5 + 4 + 1
    answers = fetch_or_skip().run_source(
        Path(__file__).with_name("ReadBatches.java"), [batch.hex() for batch in made]
    )
    assert answers == [describe(open_batch(batch)) for batch in made]
