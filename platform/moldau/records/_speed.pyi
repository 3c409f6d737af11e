from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, final

from moldau.records.diagnosis import KernelProgress
from moldau.records.header import BatchHeader, Buffer
from moldau.records.record import (
    ColumnBuffers,
    Columns,
    Entry,
    Headers,
    K,
    Opened,
    OpenedColumns,
    Row,
    Spans,
    TimestampType,
    V,
)

@final
class ConsumerRecord(Generic[K, V]):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K
    value: V
    headers: Headers
    leader_epoch: int
    timestamp_type: TimestampType
    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: K,
        value: V,
        headers: Headers = (),
        leader_epoch: int = -1,
        timestamp_type: int = -1,
    ) -> None: ...

@final
class Record:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> None: ...

@final
class Slot:
    batch: Any
    index: int
    timestamp: int
    def __init__(self, batch: Any, index: int, timestamp: int = -1) -> None: ...
    @property
    def is_done(self) -> bool: ...
    def __await__(self) -> Generator[Any, None, Any]: ...

class Appender:
    size_bytes_max: int
    size_bytes: int
    count: int
    base_timestamp: int
    max_timestamp: int
    def __init__(self, size_bytes_max: int = ...) -> None: ...
    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> int | None: ...
    def widen(self, more: int) -> None: ...
    def open_for(self, owner: Any, clock_ns: Callable[[], int], wall_from_ns: int) -> None: ...
    def place(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> Slot | None: ...
    def extend_values(
        self, timestamp: int, values: Sequence[bytes | None], start: int = 0
    ) -> int: ...
    def extend_spans(
        self, timestamp: int, values: Spans, keys: Spans | None = None, start: int = 0
    ) -> int: ...
    def extend_buffers(self, columns: ColumnBuffers, start: int = 0) -> int: ...
    def extend(self, rows: Sequence[Row], start: int = 0) -> int: ...
    def take(self) -> bytearray: ...

class ColumnBuilder:
    count: int
    def __init__(self) -> None: ...
    def add(
        self,
        buffer: Buffer,
        header: BatchHeader,
        first_offset: int = 0,
        objects_max: int = ...,
    ) -> bool: ...
    def add_usual(
        self,
        buffer: Buffer,
        position: int,
        wanted: int,
        first_offset: int,
        check_crc: bool,
        unusual: int,
    ) -> OpenedColumns | None: ...
    def take(self) -> ColumnBuffers: ...

def span_list(spans: Spans) -> list[bytes | None]: ...
def varint(number: int) -> bytes: ...
def decode(buffer: Buffer, header: BatchHeader, objects_max: int = ...) -> list[Record]: ...
def decode_consumed(
    buffer: Buffer, header: BatchHeader, topic: str, partition: int, objects_max: int = ...
) -> list[ConsumerRecord]: ...
def decode_usual(
    buffer: Buffer, position: int, wanted: int, check_crc: bool, topic: str, partition: int
) -> Opened | None: ...
def with_contents(
    records: list[ConsumerRecord], keys: list[Any], values: list[Any]
) -> list[ConsumerRecord]: ...
def columns(buffer: Buffer, header: BatchHeader, objects_max: int = ...) -> Columns: ...
def entries(buffer: Buffer, header: BatchHeader, objects_max: int = ...) -> list[Entry]: ...
def scan(
    buffer: Buffer, header: BatchHeader, rules: int, objects_max: int = ...
) -> tuple[int, int, int]: ...
def scan_part(
    buffer: Buffer, header: BatchHeader, rules: int, reached: KernelProgress
) -> tuple[int, int, int, KernelProgress]: ...
def admit_usual(
    buffer: Buffer,
    rules: int,
    timestamp_min: int,
    timestamp_max: int,
    base_offset: int,
    leader_epoch: int,
) -> tuple[int, int, int] | None: ...
def produced_batches(
    body: memoryview, position: int, count: int
) -> tuple[list[tuple[int, memoryview]], int] | None: ...
def murmur2(key: bytes) -> int: ...
def partition_for_key(key: bytes, partition_count: int) -> int: ...
def java_string_hash(text: str) -> int: ...
