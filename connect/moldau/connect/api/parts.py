"""Records of another Kafka cluster, stored as columns of bytes from the read to the write.

A source that copies topics returns `SourceParts` from `poll`. It is a sequence of `SourceRecord`s.
If nothing has to look at single records (no transforms, ByteArrayConverter for keys, values and
headers), the worker writes the columns as they are and never creates the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from moldau.client import PartitionColumns
from moldau.connect.api.batch import LateRecords
from moldau.connect.api.record import SourceRecord
from moldau.connect.data.headers import Header, Headers
from moldau.connect.data.schema import OPTIONAL_BYTES
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class SourcePart:
    """Consecutive records of one partition of the source, for one partition of a topic.

    `offset_after` returns the source offset of the record with this offset in the source's log.
    """

    topic: str
    kafka_partition: int
    source_partition: Mapping[str, Any]
    columns: PartitionColumns
    offset_after: Callable[[int], dict[str, Any]]

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def last_offset(self) -> dict[str, Any]:
        """The source offset of the last record."""
        return self.offset_after(int(self.columns.offsets[-1]))

    def records(self) -> list[SourceRecord]:
        """Return the records as objects."""
        partition: Any = self.source_partition
        return [
            SourceRecord(
                partition,
                self.offset_after(raw.offset),
                self.topic,
                self.kafka_partition,
                OPTIONAL_BYTES,
                raw.key,
                OPTIONAL_BYTES,
                raw.value,
                raw.timestamp if raw.timestamp >= 0 else None,
                Headers([Header(name, data, OPTIONAL_BYTES) for name, data in raw.headers]),
            )
            for raw in self.columns.records()
        ]


@dataclass(slots=True)
class SourceParts(LateRecords):
    """Parts of any topics and partitions; none of them is empty."""

    parts: Sequence[SourcePart]
    _made: list[SourceRecord] | None = field(default=None, repr=False)

    def records(self) -> list[SourceRecord]:
        if self._made is None:
            self._made = [record for part in self.parts for record in part.records()]
        return self._made

    def __len__(self) -> int:
        return sum(map(len, self.parts))
