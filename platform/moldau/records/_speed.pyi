from collections.abc import Sequence
from typing import final

from moldau.records.header import BatchHeader, Buffer
from moldau.records.record import Columns, Entry, Headers, Row

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
    def extend(self, rows: Sequence[Row], start: int = 0) -> int: ...
    def take(self) -> bytearray: ...

def varint(number: int) -> bytes: ...
def decode(buffer: Buffer, header: BatchHeader, objects_max: int = ...) -> list[Record]: ...
def columns(buffer: Buffer, header: BatchHeader, objects_max: int = ...) -> Columns: ...
def entries(buffer: Buffer, header: BatchHeader, objects_max: int = ...) -> list[Entry]: ...
def scan(
    buffer: Buffer, header: BatchHeader, rules: int, objects_max: int = ...
) -> tuple[int, int, int]: ...
def admit_usual(
    buffer: Buffer,
    rules: int,
    timestamp_min: int,
    timestamp_max: int,
    base_offset: int,
    leader_epoch: int,
) -> tuple[int, int, int] | None: ...
def murmur2(key: bytes) -> int: ...
def java_string_hash(text: str) -> int: ...
