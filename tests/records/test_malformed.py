"""Bytes that lie: always CorruptRecord with where and why, soon, and without much memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from moldau.errors import CorruptRecord
from moldau.records.codecs import USUAL_BYTES_MAX
from moldau.records.diagnosis import OBJECTS_MAX
from tests.records.golden import BATCHES, ROWS
from tests.records.lying_batch import lying
from tests.records.memory import peak, refusal_stays_below
from tests.records.strategies import NOW, section_header


def refused(records: Any, batch: bytes | bytearray) -> CorruptRecord:
    """How `validate` and `decode_batch` refuse the batch."""
    with pytest.raises(CorruptRecord) as caught:
        records.validate(batch)
    return caught.value


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd", "commit"])
def test_a_batch_cut_at_any_byte_is_refused(records: Any, name: str) -> None:
    whole = BATCHES[name]
    for size in range(len(whole)):
        cut = whole[:size]
        assert list(records.walk(cut)) == []
        assert records.whole_bytes(cut) == 0
        for judge in (records.validate, records.decode_batch, records.open_batch):
            with pytest.raises(CorruptRecord):
                judge(cut)


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_cut_at_any_byte_are_refused_under_a_right_checksum(
    records: Any, name: str
) -> None:
    whole = BATCHES[name]
    for size in range(61, len(whole)):
        cut = lying(whole[:size], batch_length=size - 12)
        error = refused(records, cut)
        assert error.reason
        with pytest.raises(CorruptRecord):
            records.decode_batch(cut)


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_bytes_behind_the_records_are_refused(records: Any, name: str) -> None:
    longer = BATCHES[name] + b"\0\0\0"
    assert refused(records, lying(longer, batch_length=len(longer) - 12)).context


@pytest.mark.parametrize("position", range(16, len(BATCHES["none"])))
def test_any_changed_byte_behind_the_epoch_is_noticed(records: Any, position: int) -> None:
    changed = bytearray(BATCHES["none"])
    changed[position] ^= 0x55
    refused(records, changed)


def test_offset_and_epoch_are_not_under_the_checksum(records: Any) -> None:
    changed = lying(BATCHES["none"], base_offset=1234, partition_leader_epoch=99)
    assert changed[17:21] == BATCHES["none"][17:21]
    header = records.validate(changed).batch.header
    assert (header.base_offset, header.partition_leader_epoch) == (1234, 99)


LIES = [
    ({"magic": 0}, "version 2"),
    ({"magic": 1}, "version 2"),
    ({"magic": 3}, "version 2"),
    ({"batch_length": -1}, "batch length"),
    ({"batch_length": 0}, "batch length"),
    ({"batch_length": 48}, "batch length"),
    ({"batch_length": 49}, "batch length"),
    ({"batch_length": 2**31 - 1}, "batch length"),
    ({"base_offset": -1}, "offsets are out of range"),
    ({"base_offset": 2**63 - 3}, "offsets are out of range"),
    ({"attributes": 1}, "damaged"),
    ({"attributes": 2}, "snappy|damaged"),
    ({"attributes": 3}, "damaged"),
    ({"attributes": 4}, "damaged"),
    ({"attributes": 5}, "no such compression"),
    ({"attributes": 7}, "no such compression"),
    ({"attributes": 0x08}, "LogAppendTime"),
    ({"attributes": 0x10}, "needs a producer id"),
    ({"attributes": 0x20}, "control records"),
    ({"attributes": 0x21}, "never compressed"),
    ({"attributes": 0x40}, "delete horizon"),
    ({"last_offset_delta": -1}, "negative"),
    ({"last_offset_delta": 2}, "more records than offsets"),
    ({"last_offset_delta": 4}, "does not match the last offset delta"),
    ({"last_offset_delta": 2**31 - 1}, "does not match the last offset delta"),
    ({"base_timestamp": 2**63 - 1}, "timestamp is out of range"),
    ({"producer_id": -2}, "producer id or epoch"),
    ({"producer_id": 5}, "producer id or epoch"),
    ({"producer_id": 5, "producer_epoch": 0}, "needs a sequence"),
    ({"producer_id": 5, "producer_epoch": 0, "base_sequence": -7}, "needs a sequence"),
    ({"producer_id": 5, "producer_epoch": -3, "base_sequence": 0}, "producer id or epoch"),
    ({"record_count": -1}, "negative"),
    ({"record_count": 0}, "does not match"),
    ({"record_count": 3}, "does not match"),
    ({"record_count": 5}, "more records than offsets"),
    ({"record_count": 5, "last_offset_delta": 4}, "record is|record length|cut short"),
    ({"record_count": 3, "last_offset_delta": 2}, "bytes follow"),
    ({"record_count": 1000, "last_offset_delta": 999}, "record count is out of bounds"),
    ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, "more records than the limit"),
    ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 1}, "does not match"),
]


@pytest.mark.parametrize(("claims", "reason"), LIES, ids=str)
def test_each_lie_in_the_header_is_named(records: Any, claims: dict[str, int], reason: str) -> None:
    with pytest.raises(CorruptRecord, match=reason) as caught:
        records.validate(lying(BATCHES["none"], **claims))
    is_damage = "magic" in claims or "batch_length" in claims
    assert isinstance(caught.value, records.InvalidRecord) != is_damage


def test_unused_attribute_bits_are_let_through(records: Any) -> None:
    assert records.validate(lying(BATCHES["none"], attributes=0x4000))


def record(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    rest, encoded = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


NULL = b"\1"
BAD_RECORDS = {
    "length negative": (b"\3\0\0\0\1\1\0", "record length is out of bounds"),
    "length too small": (b"\x0a\0\0\0\1\1\0", "record length is out of bounds"),
    "length zero": (b"\0\0\0\0\1\1\0", "record length is out of bounds"),
    "length one too many": (b"\x0e\0\0\0\1\1\0", "record length is out of bounds"),
    "length huge": (b"\xfe\xff\xff\xff\x0f\0\0\0\1\1\0", "record length is out of bounds"),
    "length of 33 bits": (b"\xfe\xff\xff\xff\x1f\0\0\0\1\1\0", "more than 32 bits"),
    "length without end": (b"\xff" * 12, "more than 32 bits"),
    "length cut short": (b"\x80" * 4 + b"\x80" * 3, "more than 32 bits"),
    # In `bytes` a zero follows, which would pass for the count that is missing.
    "last byte missing": (
        record(b"\0\0\0", NULL, b"\6abc", b"\0")[:-1],
        "record length is out of bounds",
    ),
    "record longer than its fields": (record(b"\0\0\0", NULL, NULL, b"\0", b"\0"), "longer than"),
    "timestamp of 65 bits": (
        record(b"\0", b"\xff" * 9 + b"\x02", b"\0", NULL, NULL, b"\0"),
        "timestamp delta has more than 64 bits",
    ),
    "timestamp without end": (record(b"\0", b"\xff" * 12), "timestamp delta has more"),
    "offset delta negative": (record(b"\0\0\1", NULL, NULL, b"\0"), "offset delta is out of order"),
    "offset delta too far": (record(b"\0\0\2", NULL, NULL, b"\0"), "offset delta is out of order"),
    "key length -2": (record(b"\0\0\0", b"\3", NULL, b"\0"), "key length is out of bounds"),
    "key too long": (record(b"\0\0\0", b"\x08", b"ab", NULL), "key length is out of bounds"),
    "key huge": (
        record(b"\0\0\0", _varint(2**31 - 1), NULL, b"\0"),
        "key length is out of bounds",
    ),
    "value length -2": (record(b"\0\0\0", NULL, b"\3", b"\0"), "value length is out of bounds"),
    "value too long": (record(b"\0\0\0", NULL, b"\x06", b"ab"), "value length is out of bounds"),
    "value most negative": (
        record(b"\0\0\0", NULL, _varint(-(2**31)), b"\0"),
        "value length is out of bounds",
    ),
    "no header count": (record(b"\0\0\0", NULL, b"\2", b"a"), "header count is cut short"),
    "header count negative": (record(b"\0\0\0", NULL, NULL, b"\1"), "header count is out of"),
    "header count too many": (record(b"\0\0\0", NULL, NULL, b"\4\0\1"), "header count is out of"),
    "header count huge": (
        record(b"\0\0\0", NULL, NULL, _varint(2**31 - 1)),
        "header count is out of bounds",
    ),
    "header key null": (record(b"\0\0\0", NULL, NULL, b"\2\1\1"), "header key length"),
    "header key too long": (record(b"\0\0\0", NULL, NULL, b"\2\x08ab"), "header key length"),
    "header value -2": (record(b"\0\0\0", NULL, NULL, b"\2\0\3"), "header value length"),
    "header value too long": (record(b"\0\0\0", NULL, NULL, b"\2\0\4a"), "header value length"),
    "header without value": (record(b"\0\0\0", NULL, NULL, b"\2\2a"), "header value length is cut"),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_each_lie_in_a_record_is_named(kernel: Any, records: Any, name: str) -> None:
    section, reason = BAD_RECORDS[name]
    header = section_header(records, len(section), 1)
    for judge in ("decode", "columns", "entries", "scan"):
        arguments = (section, header, 0) if judge == "scan" else (section, header)
        with pytest.raises(CorruptRecord, match=reason) as caught:
            getattr(kernel, judge)(*arguments)
        assert caught.value.context["record"] == 0
        at = caught.value.context["at"]
        assert isinstance(at, int)
        assert 0 <= at <= len(section)


def test_the_second_record_is_blamed_where_it_stands(kernel: Any, records: Any) -> None:
    good = record(b"\0\0\0", NULL, NULL, b"\0")
    section = good + record(b"\0\0\0", NULL, NULL, b"\0")
    with pytest.raises(CorruptRecord, match="out of order") as caught:
        kernel.decode(section, section_header(records, len(section), 2))
    assert caught.value.context["record"] == 1
    assert caught.value.context["at"] == len(good) + 3


def test_varints_longer_than_they_need_be_are_read(kernel: Any, records: Any) -> None:
    section = record(b"\0", b"\x80\x80\x00", b"\x80\x00", b"\x81\x00", b"\x82\x00a", b"\x80\x00")
    (only,) = kernel.decode(section, section_header(records, len(section), 1))
    assert (only.timestamp, only.offset, only.key, only.value) == (NOW, 0, None, b"a")


def test_header_keys_that_are_not_utf8_do_not_stop_a_consumer(kernel: Any, records: Any) -> None:
    section = record(b"\0\0\0", NULL, NULL, b"\2\4\xff\xfe\1")
    (only,) = kernel.decode(section, section_header(records, len(section), 1))
    assert only.headers == (("\ufffd\ufffd", None),)


def test_a_section_may_be_any_buffer(kernel: Any, records: Any) -> None:
    section = record(b"\0\0\0", b"\2k", NULL, b"\2\2h\2v")
    header = section_header(records, len(section), 1)
    expected = kernel.decode(section, header)
    for buffer in (bytearray(section), memoryview(section), memoryview(bytearray(section))):
        assert kernel.decode(buffer, header) == expected


def test_a_count_that_lies_allocates_nothing(kernel: Any, records: Any) -> None:
    section = bytes(1 << 20)
    for count in (2**31 - 1, (1 << 20) // 7 + 1, (1 << 20) // 7):
        header = section_header(records, len(section), count)
        refusal_stays_below(
            3 << 20, CorruptRecord, "record", partial(kernel.decode, section, header)
        )


def test_a_batch_of_too_many_records_for_its_limit_is_not_made_into_objects(records: Any) -> None:
    batch = records.open_batch(records.encode_batch([(NOW, None, None, ())] * 1000))
    assert len(batch.records(128_000)) == 1000
    for read in READERS:
        with pytest.raises(CorruptRecord, match="more records than the limit allows"):
            getattr(batch, read)(127_999)


def test_a_kernel_that_is_told_no_limit_takes_that_of_a_batch(modules: dict[str, Any]) -> None:
    diagnosis = modules["diagnosis"]
    limit = modules["codecs"].DECOMPRESSED_BYTES_MAX
    assert limit == diagnosis.OBJECTS_MAX * diagnosis.OBJECT_BYTES


def header_bomb(records: Any, record_count: int, headers_each: int) -> Any:
    """A batch of few bytes: many headers, each of two bytes and without any content."""
    rows = [(NOW, None, None, (("", None),) * headers_each)] * record_count
    return records.open_batch(records.encode_batch(rows, codec=records.Codec.ZSTD))


READERS = ["records", "columns", "entries"]


@pytest.mark.parametrize(("record_count", "headers_each"), [(1, 999), (10, 99), (500, 1)])
def test_headers_are_counted_like_records(
    records: Any, record_count: int, headers_each: int
) -> None:
    batch = header_bomb(records, record_count, headers_each)
    rules = records.Rules(decompressed_bytes_max=128_000)
    records.validate(batch.data, rules)
    for read in READERS:
        assert getattr(batch, read)(128_000)
        with pytest.raises(CorruptRecord, match="more headers than the limit allows") as caught:
            getattr(batch, read)(127_999)
        assert caught.value.context["record"] == record_count - 1
    records.validate(batch.data, replace(rules, decompressed_bytes_max=127_999))


@pytest.mark.parametrize(
    ("record_count", "headers_each"), [(1, OBJECTS_MAX), (2, OBJECTS_MAX // 2)]
)
def test_headers_are_counted_where_no_object_is_made(
    records: Any, record_count: int, headers_each: int
) -> None:
    """A check under a lower limit of bytes makes none, and what passes can be decoded later."""
    batch = header_bomb(records, record_count, headers_each)
    for rules in (records.PRODUCED, records.Rules(decompressed_bytes_max=USUAL_BYTES_MAX << 2)):
        with pytest.raises(records.InvalidRecord, match="more headers than the limit allows"):
            records.validate(batch.data, rules)


def test_a_batch_of_a_few_bytes_does_not_become_gigabytes_of_headers(records: Any) -> None:
    batch = header_bomb(records, 1, 500_000)
    assert len(batch.data) < 300
    for read in READERS:
        refusal_stays_below(
            2 << 20,
            CorruptRecord,
            "more headers than the limit allows",
            partial(getattr(batch, read), 1 << 20),
        )


SHAPES = {
    "records of nothing": (1.0, (None, None, ())),
    "records": (1.0, (b"kk", b"vv", ())),
    "records with a header": (0.5, (b"kk", b"vv", (("hh", b"vv"),))),
    "a record of headers of nothing": (0, (None, None, (("", None),))),
    "a record of headers": (0, (None, None, (("hh", b"vv"),))),
    "a record of headers beyond Latin": (0, (None, None, (("\U0001f600", b"vv"),))),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_read_takes_a_small_multiple_of_the_limit(records: Any, shape: str) -> None:
    share, (key, value, headers) = SHAPES[shape]
    limit = 1 << 18
    count = limit // 128
    if share:
        rows = [(NOW + at * 50, key, value, headers) for at in range(int(count * share))]
    else:
        rows = [(NOW, key, value, headers * (count - 1))]
    batch = records.open_batch(records.encode_batch(rows, codec=records.Codec.ZSTD))
    for read in READERS:
        assert getattr(batch, read)(limit)
        assert peak(partial(getattr(batch, read), limit)) < 3 * limit


def test_compiled_and_pure_count_what_several_records_have_used(kernel: Any, records: Any) -> None:
    one = record(b"\0\0", b"\0", NULL, NULL, b"\4\0\1\0\1")
    two = record(b"\0\0", b"\2", NULL, NULL, b"\4\0\1\0\1")
    header = section_header(records, len(one + two), 2)
    assert len(kernel.decode(one + two, header, 6)) == 2
    with pytest.raises(CorruptRecord, match="more headers") as caught:
        kernel.decode(one + two, header, 5)
    assert caught.value.context == {"record": 1, "at": len(one) + 6, "count": 2, "room": 1}


def test_the_rows_of_the_golden_batches_are_well_formed(records: Any) -> None:
    assert records.validate(records.encode_batch(ROWS)).batch.header.record_count == len(ROWS)
