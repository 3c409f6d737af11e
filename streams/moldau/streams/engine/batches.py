"""The input and output of a task: records in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Chunk:
    """Fetched records of one partition: lists of equal length, in the order of their offsets.

    `headers` is None if no record has any. `next_offset` is the offset to read after the last
    record; it can be more than one above the last offset if the log has gaps.
    """

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    next_offset: int
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(slots=True)
class Outputs:
    """Records for one topic, in the order they were made: lists of equal length.

    `headers` and `partitions` stay empty until a record has some; then they are as long as the
    others. A partition of None leaves the choice to the producer (by key, as Kafka does).
    """

    topic: str
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.timestamps)
