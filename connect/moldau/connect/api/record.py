"""The records that connectors and transforms handle.

A record must not change after it was passed on: `replace` makes a changed copy.
"""

from __future__ import annotations

from copy import copy
from dataclasses import field
from typing import Any, Self

from moldau.client import TimestampType
from moldau.connect.data.headers import Headers
from moldau.connect.data.schema import Schema
from moldau.deferred import dataclass


class ConnectRecord:
    """The attributes that source and sink records share; all that transforms and predicates see."""

    __slots__ = ()

    topic: str
    kafka_partition: int | None
    key_schema: Schema | None
    key: Any
    value_schema: Schema | None
    value: Any
    timestamp: int | None
    """Milliseconds since 1970."""
    headers: Headers

    def copy(self) -> Self:
        """Return a copy that shares key, value and headers."""
        return copy(self)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with these attributes changed."""
        new = self.copy()
        for name, value in changes.items():
            setattr(new, name, value)
        return new


@dataclass(slots=True)
class SourceRecord(ConnectRecord):
    """A record from a source. Reading resumes after this record at `source_offset` of
    `source_partition`; both hold only what JSON can hold."""

    source_partition: dict[str, Any] | None
    source_offset: dict[str, Any] | None
    topic: str
    kafka_partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp: int | None = None
    headers: Headers = field(default_factory=Headers)

    def copy(self) -> Self:
        return type(self)(
            self.source_partition,
            self.source_offset,
            self.topic,
            self.kafka_partition,
            self.key_schema,
            self.key,
            self.value_schema,
            self.value,
            self.timestamp,
            self.headers,
        )


@dataclass(slots=True)
class SinkRecord(ConnectRecord):
    """A record for a sink. The three `original_` attributes are the topic, partition and offset
    that the record was read from, unchanged by transforms (KIP-793)."""

    topic: str
    kafka_partition: int
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    offset: int = 0
    timestamp: int | None = None
    timestamp_type: TimestampType = TimestampType.NO_TIMESTAMP_TYPE
    headers: Headers = field(default_factory=Headers)
    original_topic: str = ""
    original_partition: int = -1
    original_offset: int = -1

    def __post_init__(self) -> None:
        if not self.original_topic:
            self.original_topic = self.topic
            self.original_partition = self.kafka_partition
            self.original_offset = self.offset

    @property
    def partition(self) -> int:
        return self.kafka_partition

    def copy(self) -> Self:
        return type(self)(
            self.topic,
            self.kafka_partition,
            self.key_schema,
            self.key,
            self.value_schema,
            self.value,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.headers,
            self.original_topic,
            self.original_partition,
            self.original_offset,
        )
