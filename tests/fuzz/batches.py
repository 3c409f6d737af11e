"""Record batches and their compression.

`records`: one byte chooses the rules and whether to repair what guards a batch (length, version and
checksum), because no search finds a right checksum by itself; the rest is opened as a consumer does
it, walked, opened batch by batch with both kernels, judged, cleaned. The kernels must agree in
every answer and every refusal, and what `validate` lets through must open and survive the cleaner.

`compression`: one byte chooses the codec, the rest is decompressed under a small limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from moldau.errors import CorruptRecord
from moldau.records import (
    HEADER_BYTES,
    LOGGED,
    Batch,
    Codec,
    ControlType,
    Producer,
    Row,
    Rules,
    compress,
    control_records,
    decompress,
    encode_batch,
    encode_control_batch,
    kernel,
    open_batch,
    retain,
    stamp,
    validate,
    walk,
    whole_bytes,
)
from moldau.records import _pure as pure
from moldau.records.batch import seal
from moldau.records.diagnosis import DENSE, KEYED
from tests.fuzz.corpus import Input
from tests.fuzz.target import MEBIBYTE, Finding, Target

LIMIT = 256 * 1024
REPAIR = 1
OBJECTS_MAX = 2048
RULES = (
    Rules(decompressed_bytes_max=LIMIT),
    Rules(decompressed_bytes_max=LIMIT, from_client=False),
    Rules(decompressed_bytes_max=LIMIT, needs_keys=True),
    Rules(timestamp_ms_min=10, timestamp_ms_max=1 << 50, decompressed_bytes_max=4096),
)


def kernels() -> tuple[ModuleType, ...]:
    """Both, or the pure one alone where the other was not compiled."""
    if kernel.KERNEL == "pure":
        return (pure,)
    from moldau.records import _speed

    return (_speed, pure)


def records(data: bytes) -> None:
    flags = data[0] if data else 0
    buffer = bytearray(data[1:])
    if flags & REPAIR:
        _repair(buffer)
    rules = RULES[(flags >> 1) % len(RULES)]
    for check_crc in (True, False):
        _same_of_all_kernels(_opened, bytes(buffer), check_crc)
    batches = list(walk(buffer))
    if whole_bytes(buffer) != (batches[-1].end if batches else 0):
        raise Finding("walk and whole_bytes disagree")
    for batch in batches:
        _same_in_both_kernels(batch)
        _judge(batch, rules)


def _repair(buffer: bytearray) -> None:
    if len(buffer) >= HEADER_BYTES:
        struct.pack_into(">i", buffer, 8, len(buffer) - 12)
        struct.pack_into(">b", buffer, 16, 2)
        seal(buffer, 0, len(buffer))


def _same_in_both_kernels(batch: Batch) -> None:
    section = batch.section(LIMIT)
    for ask in (_decoded, _columns, _entries, _scanned(0), _scanned(DENSE), _scanned(KEYED)):
        _same_of_all_kernels(ask, section, batch.header)


def _same_of_all_kernels(ask: Callable[..., Any], *arguments: Any) -> None:
    answers = [_answer(ask, each, *arguments) for each in kernels()]
    if any(answer != answers[0] for answer in answers):
        raise Finding(f"the kernels disagree: {answers!r}")


def _judge(batch: Batch, rules: Rules) -> None:
    validated = validate(batch.data, rules)
    try:
        count = len(batch.records(LIMIT))
        kept = retain(batch, lambda entry: entry.offset % 2 == 0, keep_empty=True, limit=LIMIT)
        assert kept is not None
        validate(kept, LOGGED)
        stamped = bytearray(batch.data)
        stamp(stamped, 7, 3, append_time_ms=validated.timestamp_max)
        open_batch(stamped).check_crc()
    except CorruptRecord as error:
        raise Finding(f"validate let it through, then: {error}") from error
    if count != batch.header.record_count:
        raise Finding(f"{count} records, the header says {batch.header.record_count}")
    if batch.header.is_control:
        control_records(batch, LIMIT)


def _answer(ask: Callable[..., Any], *arguments: Any) -> object:
    try:
        return ask(*arguments)
    except CorruptRecord as error:
        return str(error)


def _decoded(each: Any, section: Any, header: Any) -> list[tuple[Any, ...]]:
    return _fields(each.decode(section, header, OBJECTS_MAX))


def _opened(each: Any, data: bytes, check_crc: bool) -> tuple[Any, ...] | None:
    opened = each.decode_usual(data, 0, OBJECTS_MAX, check_crc, "t", 3)
    return opened and (_fields(opened.records), *opened[1:])


def _fields(records: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for record in records
    ]


def _columns(each: Any, section: Any, header: Any) -> tuple[Any, ...]:
    return tuple(each.columns(section, header, OBJECTS_MAX))


def _entries(each: Any, section: Any, header: Any) -> list[tuple[Any, ...]]:
    return [tuple(entry) for entry in each.entries(section, header, OBJECTS_MAX)]


def _scanned(rules: int) -> Callable[..., Any]:
    return lambda each, section, header: each.scan(section, header, rules, OBJECTS_MAX)


def compression(data: bytes) -> None:
    codec = Codec(data[0] % len(Codec)) if data else Codec.NONE
    content = decompress(codec, data[1:], LIMIT)
    if len(content) > LIMIT:
        raise Finding(f"{codec.name} gave {len(content)} bytes, the limit is {LIMIT}")
    if bytes(decompress(codec, compress(codec, content), LIMIT)) != bytes(content):
        raise Finding(f"{codec.name} does not give back what it took")


ROWS: list[Row] = [
    (1000, b"key", b"value" * 20, [("trace", b"\x01"), ("none", None)]),
    (1001, None, b"", []),
    (999, b"", None, []),
    (1 << 41, b"k" * 130, b"v" * 300, []),
]
PRODUCER = Producer(id=5, epoch=1, base_sequence=2**31 - 2, is_transactional=True)


def record_seeds() -> Iterator[Input]:
    plain = encode_batch(ROWS, 40)
    batches = {
        **{f"batch-{codec.name.lower()}": encode_batch(ROWS, 40, codec=codec) for codec in Codec},
        "batch-transactional": encode_batch(ROWS[:1], producer=PRODUCER),
        "control-commit": encode_control_batch(
            [(ControlType.COMMIT, b"\0\0\0\0\0\x07")], 1000, producer=PRODUCER
        ),
        "control-leader-change": encode_control_batch([(ControlType.LEADER_CHANGE, b"\0" * 9)], 5),
        "two-batches": plain + encode_batch(ROWS[1:2], 44),
        "torn-tail": plain + plain[:50],
        "cleaned": bytearray(_cleaned(plain, lambda entry: entry.offset == 42)),
        "empty": bytearray(_cleaned(plain, lambda entry: False)),
    }
    for label, batch in batches.items():
        for flags in range(2 * len(RULES)):
            yield f"{label}-{flags}", bytes([flags]) + bytes(batch)
    for label, position, lie in LIES:
        broken = bytearray(plain)
        broken[position : position + len(lie)] = lie
        yield f"lie-{label}", b"\x01" + bytes(broken)
        yield f"lie-{label}-logged", b"\x03" + bytes(broken)


LIES = (
    ("attributes-codec-7", 21, b"\0\x07"),
    ("attributes-codec-gzip", 21, b"\0\x01"),
    ("last-offset-delta", 23, b"\x7f\xff\xff\xff"),
    ("last-offset-delta-negative", 23, b"\xff\xff\xff\xff"),
    ("base-timestamp", 27, b"\x7f" + b"\xff" * 7),
    ("count", 57, b"\x7f\xff\xff\xff"),
    ("count-negative", 57, b"\x80\0\0\0"),
    ("count-small", 57, b"\0\0\0\x01"),
    ("record-length", 61, b"\xff\xff\xff\xff\x0f"),
    ("record-length-endless", 61, b"\xff" * 11),
    ("record-length-negative", 61, b"\x01"),
    ("record-attributes", 63, b"\xff"),
    ("timestamp-delta", 64, b"\xff" * 9 + b"\x01"),
    ("key-length", 66, b"\xfe\xff\xff\xff\x0f"),
)


def _cleaned(batch: bytearray, keep: Callable[[Any], bool]) -> Any:
    return retain(open_batch(batch), keep, keep_empty=True)


def compression_seeds() -> Iterator[Input]:
    contents = {"text": b"the same again and again, " * 40, "short": b"x", "empty": b""}
    for codec in Codec:
        head = bytes([codec])
        for label, content in contents.items():
            yield f"{codec.name.lower()}-{label}", head + bytes(compress(codec, content))
        bomb = bytes(compress(codec, bytes(LIMIT + 1))) if codec is not Codec.NONE else b""
        if len(bomb) <= 20_000:
            yield f"{codec.name.lower()}-bomb", head + bomb
        packed = bytes(compress(codec, contents["text"]))
        yield f"{codec.name.lower()}-cut", head + packed[: len(packed) // 2]
        yield f"{codec.name.lower()}-twice", head + packed + packed
    yield "snappy-raw", b"\x02\x05\x10hello"
    yield "snappy-raw-bomb", b"\x02\xff\xff\xff\xff\x0f\x10hello"
    yield "snappy-xerial-length", b"\x02\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\xff\xff\xff\xffx"
    yield "lz4-legacy", b"\x03\x02\x21\x4c\x18\x01\0\0\0\x10x"
    yield "zstd-window", b"\x04\x28\xb5\x2f\xfd\x00\xf8\x01\0\0"


RECORDS = Target("records", records, (CorruptRecord,), record_seeds, memory_bytes_max=16 * MEBIBYTE)
COMPRESSION = Target(
    "compression", compression, (CorruptRecord,), compression_seeds, memory_bytes_max=4 * MEBIBYTE
)
