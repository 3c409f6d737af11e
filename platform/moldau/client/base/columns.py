"""Records of a partition as columns in buffers, as `Consumer.poll_batches` returns them. No IO.

    for part in await consumer.poll_batches(1.0):
        part.offsets, part.timestamps        # memoryviews of 64-bit numbers; .tolist() for a list
        part.keys, part.values               # bytes in buffers; .tolist() for a list of bytes
        part.to_arrow()                      # a pyarrow.RecordBatch on the same memory
        part.records()                       # Python objects, made now

The buffers have the layout of Arrow's binary type: the data of all values, and 32-bit numbers that
say where each value ends. The kernel fills them from the batches, without Python objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, repeat
from operator import index as index_of
from typing import Any, Literal

from moldau.client.base.part import UNKNOWN, Origin
from moldau.deferred import dataclass
from moldau.records import (
    Buffer,
    ColumnBuffers,
    ConsumerRecord,
    HeaderBuffers,
    Headers,
    Spans,
    TimestampType,
    span_list,
)


class BinaryColumn:
    """A column of bytes values, some of which may be null."""

    __slots__ = ("spans",)

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        """The buffers: the data, the ends (0 before the first), and a bitmap of non-null values."""

    def __len__(self) -> int:
        return self.spans.length

    def __getitem__(self, index: int) -> bytes | None:
        place = index_of(index)
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError("there are not so many values")
        (found,) = span_list(self.spans._replace(first=self.spans.first + place, length=1))
        return found

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        return f"<BinaryColumn of {len(self)}>"

    @property
    def data(self) -> memoryview:
        """The bytes of all values, one after another."""
        return memoryview(b"" if self.spans.data is None else self.spans.data).toreadonly()

    @property
    def ends(self) -> memoryview:
        """The bounds of the values: value i is `data[ends[i]:ends[i + 1]]`."""
        return numbers(self.spans.offsets, "i")

    @property
    def validity(self) -> memoryview | None:
        """One bit for each value, the lowest first: 0 for null. None if no value is null."""
        validity = self.spans.validity
        return None if validity is None else memoryview(validity).toreadonly()

    def tolist(self) -> list[bytes | None]:
        """Return a copy of each value."""
        return span_list(self.spans)


class HeadersColumn:
    """The headers of all records of a part."""

    __slots__ = ("buffers",)

    def __init__(self, buffers: HeaderBuffers) -> None:
        self.buffers = buffers

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __repr__(self) -> str:
        return f"<HeadersColumn of {len(self)}>"

    @property
    def ends(self) -> memoryview:
        """The bounds of the headers: those of record i are `ends[i]` up to `ends[i + 1]`."""
        return numbers(self.buffers.ends, "i")

    @property
    def names(self) -> BinaryColumn:
        """The names of all headers, as UTF-8."""
        return BinaryColumn(self.buffers.names)

    @property
    def contents(self) -> BinaryColumn:
        """The values of all headers."""
        return BinaryColumn(self.buffers.contents)

    def tolist(self) -> list[Headers]:
        """Return the headers of each record, as pairs of a name and bytes."""
        names = [b"" if each is None else each for each in self.names.tolist()]
        pairs = [
            (name.decode(), content)
            for name, content in zip(names, self.contents.tolist(), strict=True)
        ]
        ends = self.ends.tolist()
        return [tuple(pairs[low:high]) for low, high in pairwise(ends)]


@dataclass(frozen=True, slots=True)
class PartitionColumns:
    """Consecutive records of one partition and one `origin`; never empty.

    `next_offset` is where reading continues, `high_watermark` the end of what may be read. Keys and
    values are raw bytes as in the log: no deserializer has run.
    """

    topic: str
    partition: int
    buffers: ColumnBuffers
    next_offset: int
    high_watermark: int
    origin: Origin = UNKNOWN

    def __len__(self) -> int:
        return self.buffers.length

    def __repr__(self) -> str:
        return f"<PartitionColumns {self.topic}-{self.partition}: {len(self)} records>"

    @property
    def timestamp_type(self) -> TimestampType:
        """The meaning of the timestamps: set by the producer (CreateTime) or by the broker."""
        return self.origin.timestamp_type

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that appended the records; -1 if unknown."""
        return self.origin.leader_epoch

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return int(self.offsets[0])

    @property
    def offsets(self) -> memoryview:
        """The offset of each record, as 64-bit numbers."""
        return numbers(self.buffers.offsets, "q")

    @property
    def timestamps(self) -> memoryview:
        """The timestamp of each record in milliseconds, as 64-bit numbers; -1 for none."""
        return numbers(self.buffers.timestamps, "q")

    @property
    def keys(self) -> BinaryColumn:
        """The key of each record."""
        return BinaryColumn(self.buffers.keys)

    @property
    def values(self) -> BinaryColumn:
        """The value of each record."""
        return BinaryColumn(self.buffers.values)

    @property
    def headers(self) -> HeadersColumn | None:
        """The headers of each record; None if no record has any."""
        headers = self.buffers.headers
        return None if headers is None else HeadersColumn(headers)

    def records(self) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return the records as objects."""
        headers = repeat(()) if self.headers is None else self.headers.tolist()
        return list(
            map(
                ConsumerRecord,
                repeat(self.topic),
                repeat(self.partition),
                self.offsets.tolist(),
                self.timestamps.tolist(),
                self.keys,
                self.values,
                headers,
                repeat(self.leader_epoch),
                repeat(self.timestamp_type),
            )
        )

    def to_arrow(self) -> Any:
        """Return a `pyarrow.RecordBatch` on the memory of these buffers, with the columns topic,
        partition, offset, timestamp, key, value and headers. Without pyarrow, raise a ConfigError
        that says what to install."""
        from moldau.client.base.arrow import columns_to_arrow

        return columns_to_arrow(self.topic, self.partition, self.buffers)


def numbers(buffer: Buffer, kind: Literal["i", "q"]) -> memoryview:
    """Return a buffer of integers as a memoryview; `kind` is the format code of `struct`."""
    return memoryview(buffer).cast("B").cast(kind).toreadonly()
