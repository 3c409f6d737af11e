"""The types of decoded records and of records to encode, apart from `Record` itself.

`Record` is not here because each kernel has its own: the compiled one keeps its numbers as plain
64-bit integers and is not tracked by the garbage collector.
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
"""The types of a record's key and value for its reader or writer, in place of bytes."""

BATCH_BYTES_MAX: Final = (1 << 31) - 1

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
HeadersGiven: TypeAlias = Sequence[tuple[str, bytes | None]]
"""The headers of a record to encode."""
Row: TypeAlias = tuple[int, bytes | None, bytes | None, HeadersGiven]
"""A record to encode: timestamp, key, value, headers."""


class Spans(NamedTuple):
    """A column of binary values in buffers, in the layout of Arrow. Value i lies between the
    offsets i and i + 1, counted from `first`. It is null if its bit of `validity` is not set."""

    data: Buffer | None
    offsets: Buffer
    width: int  # of an offset: 4 or 8 bytes, in the machine's order
    validity: Buffer | None
    first: int
    length: int


class HeaderBuffers(NamedTuple):
    """The headers of many records: record i has those from `ends[i]` to before `ends[i + 1]` (32
    bits, in the machine's byte order). Names are UTF-8."""

    ends: Buffer
    names: Spans
    contents: Spans


class ColumnBuffers(NamedTuple):
    """Records as columns in buffers: offsets and timestamps are 64-bit numbers in the machine's
    byte order. `headers` is None if no record has headers."""

    length: int
    offsets: Buffer
    timestamps: Buffer
    keys: Spans
    values: Spans
    headers: HeaderBuffers | None


class OpenedColumns(NamedTuple):
    """The result of adding batches to columns: as `Opened`, with the count of records."""

    added: int
    position: int
    next_offset: int
    leader_epoch: int
    attributes: int


class Entry(NamedTuple):
    """The positions of a record in its section, to copy it without decoding it."""

    offset: int
    timestamp: int
    key: bytes | None
    value_bytes: int  # -1 for null: a tombstone where there is a key
    start: int
    tail: int  # of the offset delta, behind which nothing depends on the batch's base timestamp
    end: int


class TimestampType(IntEnum):
    """The kind of time in a record's timestamp, by Kafka's numbers; its text is Kafka's name."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


class Opened(NamedTuple):
    """The records of consecutive whole batches of one leader epoch and with the same attributes.
    `position` and `next_offset` are those of the next batch."""

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
