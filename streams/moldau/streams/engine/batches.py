"""What goes into a task and what comes out of it: records in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Chunk:
    """Fetched records of one partition: equally long lists, in the order of their offsets.

    `headers` is None if no record has any. `next_offset` is where to read on after the last one; it
    can be more than one above its offset where the log has gaps.
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
    """Records for one topic, in the order they were made: equally long lists.

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
