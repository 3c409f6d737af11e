"""The shapes in which records are handed in and out, apart from `Record` itself.

`Record` is not here because each kernel brings its own: the compiled one keeps its numbers as plain
64-bit integers and stays out of the garbage collector's sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from moldau.records.header import Buffer

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from moldau.records.kernel import ConsumerRecord

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
"""Of a record's key and value: what its reader or writer has in place of bytes."""

BATCH_BYTES_MAX: Final = (1 << 31) - 1

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
HeadersGiven: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Headers of a record to be written."""
Row: TypeAlias = tuple[int, bytes | None, bytes | None, HeadersGiven]
"""A record to be written: timestamp, key, value, headers."""


class Spans(NamedTuple):
    """A column of binary values in buffers, as Arrow lays them out: value i is what lies between
    the offsets i and i + 1 behind `first`, and null where its bit of `validity` is not set."""

    data: Buffer | None
    offsets: Buffer
    width: int  # of an offset: 4 or 8 bytes, in the machine's order
    validity: Buffer | None
    first: int
    length: int


class HeaderBuffers(NamedTuple):
    """The headers of many records: those of record i are the ones from `ends[i]` on, below
    `ends[i + 1]` (32 bits, in the machine's order). Names are UTF-8."""

    ends: Buffer
    names: Spans
    contents: Spans


class ColumnBuffers(NamedTuple):
    """Records as columns in buffers: offsets and timestamps as numbers of 64 bits in the machine's
    order. No headers at all are None."""

    length: int
    offsets: Buffer
    timestamps: Buffer
    keys: Spans
    values: Spans
    headers: HeaderBuffers | None


class OpenedColumns(NamedTuple):
    """As `Opened`, with how many records were added to columns."""

    added: int
    position: int
    next_offset: int
    leader_epoch: int
    attributes: int


class Entry(NamedTuple):
    """Where a record stands in its section, to copy it without a look inside."""

    offset: int
    timestamp: int
    key: bytes | None
    value_bytes: int  # -1 for null: a tombstone where there is a key
    start: int
    tail: int  # of the offset delta, behind which nothing depends on the batch's base timestamp
    end: int


class TimestampType(IntEnum):
    """Whose time a record's timestamp is, with Kafka's numbers; as text Kafka's names."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


class Opened(NamedTuple):
    """Records of whole batches that follow one another, of one leader's epoch and with the same
    attributes; `position` and `next_offset` are where the next batch begins."""

    records: list[ConsumerRecord]
    position: int
    next_offset: int
    leader_epoch: int
    attributes: int


class Columns(NamedTuple):
    """Records as parallel lists, for bulk work."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]
