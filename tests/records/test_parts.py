"""Batches that are scanned in parts pass as they do at once, with the memory of a part or two."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import CorruptRecord
from moldau.records import (
    HEADER_BYTES,
    Buffer,
    OversizedRecords,
    compress,
    encode_batch,
    kernel,
    open_batch,
    retain,
    stamp,
    validate,
)
from moldau.records.batch import Batch, seal
from moldau.records.codecs import PART_BYTES, Codec, decompressed_parts
from moldau.records.diagnosis import DENSE, KEYED, KernelProgress
from moldau.records.header import ATTRIBUTES_AT, LOG_APPEND_TIME, OVERHEAD_BYTES, BatchHeader
from moldau.records.parts import (
    PART_RECORDS,
    SCANNED_BYTES,
    entries_in_parts,
    first_since,
    scan_in_parts,
    whole_parts,
)
from moldau.records.record import Entry

CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
MANY = [(at, b"k", bytes(100), (("h", b"v"),)) for at in range(20_000)]
HUGE = [(1, b"k", bytes(5 << 20), (("h", b"v"),)), (9, None, b"x", ()), (2, b"", b"", ())]
MEMORY_BYTES_MAX = 16 << 20


def packed(section: Buffer, codec: Codec, plain: Buffer) -> Batch:
    """Return a batch with that section, and the claims of a plain one."""
    content = compress(codec, section)
    data = bytearray(plain[:HEADER_BYTES]) + content
    data[8:12] = (len(data) - OVERHEAD_BYTES).to_bytes(4, "big")
    data[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = int(codec).to_bytes(2, "big")
    seal(data, 0, len(data))
    return open_batch(data)


def batch_of(records: Sequence[tuple[int, bytes | None, bytes, object]], codec: Codec) -> Batch:
    plain = bytes(encode_batch(records))  # type: ignore[arg-type]
    return packed(plain[HEADER_BYTES:], codec, plain)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("records", [MANY, HUGE, MANY[:1]], ids=["many", "huge", "one"])
def test_a_good_batch_has_the_same_times(codec: Codec, records: list[object]) -> None:
    batch = batch_of(records, codec)  # type: ignore[arg-type]

    assert scan_in_parts(batch, DENSE) == batch.scan(DENSE)
    assert validate(batch.data, is_in_parts=True)[1:] == validate(batch.data)[1:]


@pytest.mark.parametrize("codec", CODECS)
def test_a_null_key_is_found_in_a_late_part(codec: Codec) -> None:
    batch = batch_of([*MANY, (1, None, b"", ())], codec)

    for scan in (scan_in_parts, Batch.scan):
        with pytest.raises(CorruptRecord) as caught:
            scan(batch, KEYED)
        assert caught.value.context["record"] == len(MANY)


@given(
    st.sampled_from(CODECS),
    st.sampled_from((1, 40, 3000)),
    st.lists(st.tuples(st.integers(0, 1 << 22), st.binary(max_size=3)), max_size=2),
    st.integers(-9, 9),
)
def test_a_damaged_section_fails_in_both_ways(
    codec: Codec, count: int, damage: list[tuple[int, bytes]], more: int
) -> None:
    plain = bytes(encode_batch([(at, b"k", bytes(200), ()) for at in range(count)]))
    section = bytearray(plain[HEADER_BYTES:])
    for at, replacement in damage:
        at %= len(section)
        section[at : at + len(replacement)] = replacement
    section = section[:more] if more < 0 else section + bytes(more)
    batch = packed(section, codec, plain)
    try:
        expected = batch.scan(DENSE)
    except CorruptRecord as error:
        with pytest.raises(CorruptRecord) as caught:
            scan_in_parts(batch, DENSE)
        known, found = error.context, caught.value.context
        if known.get("record") is not None and "size_bytes" not in known:
            assert found["record"] == known["record"]
        return
    assert scan_in_parts(batch, DENSE) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_above_the_limit_is_oversized(codec: Codec) -> None:
    batch = batch_of(HUGE, codec)

    with pytest.raises(OversizedRecords):
        scan_in_parts(batch, DENSE, 4 << 20)


@pytest.mark.parametrize("codec", CODECS)
def test_parts_join_to_the_section(codec: Codec) -> None:
    content = random.Random(1).randbytes(1 << 20) + bytes(6 << 20)
    parts = list(decompressed_parts(codec, compress(codec, content)))

    assert b"".join(parts) == content
    assert all(len(each) <= 2 * PART_BYTES for each in parts)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("value", [60 << 20, SCANNED_BYTES // 3])
def test_the_memory_is_that_of_a_part_or_two(codec: Codec, value: int) -> None:
    count = (60 << 20) // value
    batch = batch_of([(1, None, bytes(value), ())] * count, codec)
    tracemalloc.start()
    try:
        scan_in_parts(batch, DENSE)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_entries_in_parts_are_those_of_the_section() -> None:
    batch = batch_of(MANY, Codec.GZIP)

    found = [(each.offset, each.timestamp, each.key) for each in entries_in_parts(batch)]

    assert found == [(each.offset, each.timestamp, each.key) for each in batch.entries()]


@pytest.mark.parametrize("is_append_time", [False, True])
@given(
    st.sampled_from((Codec.NONE, *CODECS)),
    st.lists(st.integers(0, 30), max_size=40),
    st.integers(0, 3),
    st.integers(-1, 31),
    st.integers(0, 50),
)
def test_the_first_record_since_a_time_is_that_of_a_walk(
    is_append_time: bool, codec: Codec, times: list[int], power: int, since: int, start: int
) -> None:
    content = bytes(10**power * 40)
    plain = encode_batch([(at, b"k", content, ()) for at in times] or [(5, b"k", b"", ())])
    if is_append_time:
        stamp(plain, 0, 0, append_time_ms=20)
    batch = packed(plain[HEADER_BYTES:], codec, plain)
    if is_append_time:
        header = batch.header._replace(attributes=batch.header.attributes | LOG_APPEND_TIME)
        batch = Batch(header, batch.data)

    found = first_since(batch, since, start)

    walked = (each for each in batch.entries() if each.timestamp >= since and each.offset >= start)
    expected = next(walked, None)
    assert (found and found[:2]) == (expected and expected[:2])


def test_a_record_larger_than_a_part_has_a_time_too() -> None:
    times = [each.timestamp for each in entries_in_parts(batch_of(HUGE, Codec.ZSTD))]

    assert times == [1, 9, 2]


def test_both_kernels_scan_a_part_alike(kernel: Any) -> None:
    """Of a section that is cut anywhere, the whole records before the cut are scanned."""
    plain = bytes(encode_batch([(at % 7, b"k", bytes(at), ()) for at in range(60)]))
    batch, section = open_batch(plain), plain[HEADER_BYTES:]
    whole = kernel.scan_part(section, batch.header, DENSE, KernelProgress(0, 0, -1, 1000))
    assert whole[:3] == batch.scan(DENSE)
    for cut in range(0, len(section), 13):
        reached = kernel.scan_part(
            section[:cut], batch.header, DENSE, KernelProgress(0, 0, -1, 1000)
        )[3]
        rest = kernel.scan_part(section[reached.position :], batch.header, DENSE, reached)
        assert rest[3].record == 60
        assert reached.position + rest[3].position == len(section)


COMPACTED = [(at, b"k%d" % at, b"v", (("h", b"v"),)) for at in range(PART_RECORDS + 1)]


@pytest.mark.parametrize("codec", [Codec.NONE, *CODECS])
@pytest.mark.parametrize(
    "records",
    [MANY, [*COMPACTED, *HUGE], MANY[:1], [(0, b"", b"", ())] * 9_000],
    ids=["many", "huge", "one", "smallest"],
)
def test_whole_parts_have_the_records_of_their_batch(codec: Codec, records: Any) -> None:
    batch = batch_of(records, codec)

    parts = list(whole_parts(batch))

    found = [each for data, header in parts for each in kernel.decode(data, header)]
    assert found == batch.records()
    assert max(header.record_count for _, header in parts) <= PART_RECORDS


def test_bytes_behind_the_last_of_many_records_are_refused() -> None:
    batch = batch_of(COMPACTED, Codec.NONE)
    plain = bytes(batch.data)

    with pytest.raises(CorruptRecord):
        list(whole_parts(packed(plain[HEADER_BYTES:] + b"\0", Codec.LZ4, plain)))
    with pytest.raises(CorruptRecord):
        list(whole_parts(packed(plain[HEADER_BYTES:-1], Codec.LZ4, plain)))


@pytest.mark.parametrize("horizon", [None, 5])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_many_records_are_retained_as_few_are(codec: Codec, horizon: int | None) -> None:
    few, many = (batch_of(COMPACTED[:count], codec) for count in (PART_RECORDS, len(COMPACTED)))

    kept = [
        retain(each, lambda entry: entry.offset % 3 == 0, delete_horizon_ms=horizon)
        for each in (few, many)
    ]

    found = [open_batch(each).records() for each in kept if each is not None]
    assert [(each.offset, each.timestamp, each.key) for each in found[0]] == [
        (at, at, b"k%d" % at) for at in range(0, PART_RECORDS, 3)
    ]
    assert found[1][: len(found[0])] == found[0]


def test_no_call_reads_many_records_while_a_batch_is_compacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call of the kernel holds the interpreter, and with it the event loop."""
    counts = list[int]()
    entries = kernel.entries

    def counted(data: Buffer, header: BatchHeader, *rest: int) -> list[Entry]:
        counts.append(header.record_count)
        return entries(data, header, *rest)

    monkeypatch.setattr(kernel, "entries", counted)
    records = [(at, b"k%d" % at, b"v", ()) for at in range(50_000)]

    retain(batch_of(records, Codec.ZSTD), lambda entry: entry.offset % 2 == 0)

    assert sum(counts) == len(records)
    assert max(counts) <= PART_RECORDS
