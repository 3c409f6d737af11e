"""Changes of a store as its changelog topic holds them, in columns."""

from __future__ import annotations

from dataclasses import field

from moldau.deferred import dataclass


@dataclass(slots=True)
class ChangelogRecords:
    """Records of a changelog: lists of equal length. A value of None deletes.

    The bytes are those of Kafka Streams: the value of a store with timestamps is the plain value,
    and its time is the record's timestamp.
    """

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.keys.append(key)
        self.values.append(value)
        self.timestamps.append(timestamp)
