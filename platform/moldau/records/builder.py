"""Encodes record batches: one record at a time until a batch is full, or all records at once.

Invariants: a built batch passes `validate`; its first record's timestamp is the base timestamp;
`build` can be called once. The result is a new bytearray that belongs to the caller, so that a
broker in the same process may stamp it in place.

The builder is the kernel's appender, with a header added at the end: with the compiled kernel,
`append` is one C call.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
from typing import Final, NamedTuple

from moldau.records import kernel
from moldau.records.batch import seal
from moldau.records.codecs import Codec, compress
from moldau.records.header import (
    ATTRIBUTES_AT,
    CONTROL,
    HEADER_BYTES,
    LAYOUT,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    OVERHEAD_BYTES,
    PRODUCER_AT,
    TRANSACTIONAL,
    read_header,
)
from moldau.records.record import BATCH_BYTES_MAX, Headers, Row


class Producer(NamedTuple):
    """The producer of a batch, for idempotence and transactions."""

    id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


NO_PRODUCER: Final = Producer()

_put_producer = struct.Struct(">qhi").pack_into
_put_attributes = struct.Struct(">h").pack_into


def stamp_producer(batch: bytearray | memoryview, producer: Producer) -> None:
    """Give a built batch another producer epoch and sequence, as after an epoch bump (KIP-360)."""
    _put_producer(batch, PRODUCER_AT, producer.id, producer.epoch, producer.base_sequence)
    attributes = read_header(batch).attributes & ~TRANSACTIONAL
    _put_attributes(
        batch, ATTRIBUTES_AT, attributes | (TRANSACTIONAL if producer.is_transactional else 0)
    )
    seal(batch, 0, len(batch))


class BatchBuilder(kernel.Appender):
    """Collects records with `append`, until it returns None; then `build`.

    `size_bytes_max` limits the batch before compression. A sender that knows how well its data
    compresses passes a larger limit (its own, divided by the expected ratio).
    """

    def __init__(
        self,
        size_bytes_max: int = BATCH_BYTES_MAX,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        is_control: bool = False,
    ) -> None:
        super().__init__(size_bytes_max)
        self.codec = codec
        self.level = level
        self.is_control = is_control

    def extend_columns(
        self,
        timestamps: int | Sequence[int],
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> int:
        """Append records from parallel sequences of one length, and return how many fitted."""
        rows: list[Row] = list(
            zip(
                repeat(timestamps, len(values)) if isinstance(timestamps, int) else timestamps,
                repeat(None, len(values)) if keys is None else keys,
                values,
                repeat((), len(values)) if headers is None else headers,
                strict=True,
            )
        )
        return self.extend(rows)

    def build(
        self,
        base_offset: int = 0,
        *,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer: Producer = NO_PRODUCER,
    ) -> bytearray:
        """Return the finished batch. Raise ValueError if no record was appended."""
        if not self.count:
            raise ValueError("a batch needs a record")
        batch = self.take()
        if self.codec is not Codec.NONE:
            with memoryview(batch) as view:
                records = compress(self.codec, view[HEADER_BYTES:], self.level)
            batch[HEADER_BYTES:] = records
        LAYOUT.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - OVERHEAD_BYTES,
            leader_epoch,
            MAGIC,
            0,
            self.codec
            | (TRANSACTIONAL if producer.is_transactional else 0)
            | (CONTROL if self.is_control else 0),
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer.id,
            producer.epoch,
            producer.base_sequence,
            self.count,
        )
        seal(batch, 0, len(batch))
        return batch


def encode_batch(
    rows: Sequence[Row],
    base_offset: int = 0,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer: Producer = NO_PRODUCER,
) -> bytearray:
    """Return all rows (timestamp, key, value, headers) as one batch."""
    builder = BatchBuilder(codec=codec, level=level)
    if builder.extend(rows) < len(rows):
        raise ValueError("the records do not fit a batch of 2 GiB")
    return builder.build(base_offset, leader_epoch=leader_epoch, producer=producer)
