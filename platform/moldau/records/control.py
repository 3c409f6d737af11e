"""Control batches: records for brokers and clients. Their frame is here, their content elsewhere.

The key of a control record is its version and its type, two bytes each. The value follows the
schema of that type (`moldau.protocol.schemas`), so it stays bytes here. Unknown types are kept: a
newer broker may have written them, and they only have to be skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from moldau.errors import CorruptRecord
from moldau.records.batch import Batch
from moldau.records.builder import NO_PRODUCER, BatchBuilder, Producer
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX
from moldau.records.header import NO_LEADER_EPOCH

_KEY: Final = struct.Struct(">hh")
_KEY_VERSION: Final = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """One control record; `type` is a ControlType, or a number for an unknown type."""

    offset: int
    timestamp: int
    type: int
    value: bytes | None


def encode_control_batch(
    records: Sequence[tuple[ControlType, bytes]],
    timestamp: int,
    base_offset: int = 0,
    *,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer: Producer = NO_PRODUCER,
) -> bytearray:
    """Return a control batch. The end of a transaction is exactly one record of its producer."""
    builder = BatchBuilder(is_control=True)
    for control_type, value in records:
        builder.append(timestamp, _KEY.pack(_KEY_VERSION, control_type), value)
    return builder.build(base_offset, leader_epoch=leader_epoch, producer=producer)


def control_records(batch: Batch, limit: int = DECOMPRESSED_BYTES_MAX) -> list[ControlRecord]:
    """Return the records of a control batch."""
    assert batch.header.is_control
    return [
        ControlRecord(
            record.offset, record.timestamp, _control_type(record.key, record.offset), record.value
        )
        for record in batch.records(limit)
    ]


def _control_type(key: bytes | None, offset: int) -> int:
    if key is None or len(key) < _KEY.size:
        raise CorruptRecord("control record has no type", offset=offset, key=key)
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecord("control record's version is negative", offset=offset, version=version)
    return int(control_type)
