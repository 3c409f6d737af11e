"""Records as columns in buffers: both kernels lay out the same, and it is what `decode` gives."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.editions import KERNEL, edition
from tests.records.strategies import NOW, damaged_sections, rows, section_header

UNUSUAL = 0x30  # transactional and control batches


@pytest.fixture(params=KERNEL, ids=list(KERNEL))
def records(request: pytest.FixtureRequest) -> Any:
    return edition(request.param)[""]


def both() -> Iterator[Any]:
    return (edition(which)[""] for which in KERNEL)


def plain(value: Any) -> Any:
    """Buffers as bytes, to be compared across editions."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return bytes(value) if isinstance(value, bytearray) else value


def rows_in(records: Any, columns: Any) -> list[tuple[Any, ...]]:
    """What the buffers say: offset, timestamp, key, value and headers of each record."""
    count = columns.length
    offsets = struct.unpack(f"={count}q", columns.offsets)
    stamps = struct.unpack(f"={count}q", columns.timestamps)
    keys, values = records.span_list(columns.keys), records.span_list(columns.values)
    headers: list[Any] = [()] * count
    if columns.headers is not None:
        ends = struct.unpack(f"={count + 1}i", columns.headers.ends)
        names = [each.decode() for each in records.span_list(columns.headers.names)]
        pairs = list(zip(names, records.span_list(columns.headers.contents), strict=True))
        headers = [tuple(pairs[ends[n] : ends[n + 1]]) for n in range(count)]
    return list(zip(offsets, stamps, keys, values, headers, strict=True))


def fields(found: list[Any]) -> list[tuple[Any, ...]]:
    return [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in found]


def written(given_rows: list[Any], first: int = 0) -> list[tuple[Any, ...]]:
    return [
        (first + n, stamp, key, value, tuple(headers))
        for n, (stamp, key, value, headers) in enumerate(given_rows)
    ]


@given(st.lists(rows, max_size=4), st.integers(0, 30))
def test_batches_become_columns_alike_in_both_kernels(batches: list[Any], skipped: int) -> None:
    found = []
    for records in both():
        builder, expected, offset = records.ColumnBuilder(), [], 0
        for each in filter(None, batches):
            batch = records.open_batch(records.encode_batch(each, offset))
            assert builder.add(batch.section(), batch.header, skipped)
            expected += written(each, offset)
            offset += len(each)
        wanted = [row for row in expected if row[0] >= skipped]
        assert builder.count == len(wanted)
        columns = builder.take()
        assert rows_in(records, columns) == wanted
        assert builder.count == 0
        assert builder.take().length == 0
        found.append(plain(columns))
    assert found[0] == found[1]


@given(damaged_sections())
def test_what_decode_refuses_is_refused_and_nothing_is_added(given_section: Any) -> None:
    section, count = given_section
    answers = []
    for records in both():
        header = section_header(records, len(section), count)
        builder = records.ColumnBuilder()
        try:
            assert builder.add(section, header)
        except records.batch.CorruptRecord as error:
            answers.append((error.reason, error.context))
            assert builder.count == 0
            continue
        answers.append(plain(builder.take()))
    assert answers[0] == answers[1]


@given(damaged_sections(), st.integers(-1, 1))
def test_of_a_damaged_batch_both_kernels_take_all_or_nothing(given_section: Any, more: int) -> None:
    """Without a checksum, so that all of it is looked at."""
    section, count = given_section
    answers = []
    for records in both():
        batch = records.encode_batch([(NOW, None, b"v", ())] * max(count + more, 1))
        struct.pack_into(">i", batch, 8, 49 + len(section))
        batch[61:] = section
        builder = records.ColumnBuilder()
        opened = builder.add_usual(batch, 0, 10, 0, False, UNUSUAL)
        if opened is None:
            assert builder.count == 0
        answers.append((opened and tuple(opened), plain(builder.take())))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("codec", ["NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"])
def test_usual_batches_are_opened_at_one_call_until_enough_is_there(
    records: Any, codec: str
) -> None:
    rows_of = [[(NOW + n, b"k%d" % n, b"v" * n, ()) for n in range(10)] for _ in range(5)]
    data, offset = bytearray(), 100
    for each in rows_of:
        data += records.encode_batch(each, offset, codec=records.Codec[codec], leader_epoch=7)
        offset += len(each)
    builder = records.ColumnBuilder()
    opened = builder.add_usual(bytes(data), 0, 15, 103, True, UNUSUAL)
    assert opened[0] == 17
    assert opened[2:] == (120, 7, records.Codec[codec])
    opened = builder.add_usual(bytes(data), opened.position, 1000, 0, True, UNUSUAL)
    assert opened == (30, len(data), 150, 7, records.Codec[codec])
    found = rows_in(records, builder.take())
    assert [each[0] for each in found] == list(range(103, 150))
    assert [each[3] for each in found[-10:]] == [b"v" * n for n in range(10)]
    assert builder.add_usual(bytes(data), len(data), 1, 0, True, UNUSUAL) is None


def test_what_takes_a_closer_look_is_left(records: Any) -> None:
    row = [(NOW, None, b"v", ())]
    usual = records.encode_batch(row)
    producer = records.Producer(1, 0, 0, is_transactional=True)
    transactional = records.encode_batch(row, 1, producer=producer)
    other_epoch = records.encode_batch(row, 1, leader_epoch=3)
    damaged = bytearray(usual)
    damaged[-1] ^= 1
    empty = records.encode_batch(row)
    struct.pack_into(">i", empty, 57, 0)

    def added(data: bytes | bytearray, *, check_crc: bool = True, unusual: int = UNUSUAL) -> Any:
        opened = records.ColumnBuilder().add_usual(data, 0, 10, 0, check_crc, unusual)
        return None if opened is None else opened.added

    assert added(usual) == 1
    assert added(transactional) is None
    assert added(transactional, unusual=0x20) == 1
    assert added(usual + transactional) == 1
    assert added(usual + other_epoch) == 1
    assert added(usual + usual) == 1, "the second has offsets that were there already"
    assert added(damaged) is None
    assert added(empty, check_crc=False) is None
    assert added(usual[:-1]) is None
    assert added(b"") is None
    lz4 = records.encode_batch(row, codec=records.Codec.LZ4)
    lz4[70:] = b"\xff" * (len(lz4) - 70)
    assert added(lz4, check_crc=False) is None


def test_append_time_is_every_records_time(records: Any) -> None:
    batch = records.encode_batch([(1, None, b"a", ()), (2, None, b"b", ())])
    records.stamp(batch, 0, 0, append_time_ms=NOW)
    for way in ("add", "add_usual"):
        builder = records.ColumnBuilder()
        if way == "add":
            opened = records.open_batch(batch)
            builder.add(opened.section(), opened.header)
        else:
            builder.add_usual(batch, 0, 10, 0, True, UNUSUAL)
        assert [each[1] for each in rows_in(records, builder.take())] == [NOW, NOW]


def test_a_name_that_is_no_text_gets_replacement_characters(records: Any) -> None:
    rows_given = [(NOW, None, None, (("n\u00e4me", b"1"), ("xyz", None))), (NOW, b"", b"", ())]
    batch = records.encode_batch(rows_given)
    for broken in (False, True):
        if broken:
            at = batch.index(b"xyz")
            batch[at : at + 3] = b"\xffyz"
        builder = records.ColumnBuilder()
        assert builder.add_usual(batch, 0, 10, 0, False, UNUSUAL) is not None
        headers = [each[4] for each in rows_in(records, builder.take())]
        name = "\ufffdyz" if broken else "xyz"
        assert headers == [(("n\u00e4me", b"1"), (name, None)), ()]


@given(rows, st.integers(0, 8), st.integers(61, 3_000))
def test_columns_are_written_as_rows_are(given_rows: list[Any], start: int, room: int) -> None:
    found = []
    for records in both():
        columns = records.ColumnBuilder()
        if given_rows:
            batch = records.open_batch(records.encode_batch(given_rows))
            columns.add(batch.section(), batch.header)
        by_columns, by_rows = records.BatchBuilder(room), records.BatchBuilder(room)
        taken = columns.take()
        count = by_columns.extend_buffers(taken, start)
        assert count == by_rows.extend(given_rows, start)
        if count:
            found.append(bytes(by_columns.build()))
            assert found[-1] == by_rows.build()
    assert len(set(found)) <= 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"length": 3}, "not of one length"),
        ({"timestamps": bytes(15)}, "not of one length"),
        ({"ends": struct.pack("=3i", 0, 5, 6)}, "leads out of the headers"),
        ({"ends": struct.pack("=3i", 1, 0, 1)}, "leads out of the headers"),
        ({"ends": struct.pack("=3i", -1, 0, 1)}, "leads out of the headers"),
        ({"ends": bytes(8)}, "not of one length"),
        ({"names": [None]}, "a header has no name"),
        ({"contents": [b"1", b"2"]}, "not of one length"),
        ({"values": [b"v", b"w", b"x"]}, "not of one length"),
        ({"keys": [b"v"]}, "not of one length"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(
    records: Any, change: dict[str, Any], reason: str
) -> None:
    def spans(values: list[bytes | None]) -> Any:
        builder = records.ColumnBuilder()
        batch = records.open_batch(records.encode_batch([(0, each, None, ()) for each in values]))
        builder.add(batch.section(), batch.header)
        return builder.take().keys

    batch = records.open_batch(
        records.encode_batch([(NOW, b"k", b"v", (("h", b"1"),)), (NOW, b"l", b"w", ())])
    )
    builder = records.ColumnBuilder()
    builder.add(batch.section(), batch.header)
    columns = builder.take()
    given_columns = {
        name: spans(value) if isinstance(value, list) else value for name, value in change.items()
    }
    of_headers = {
        name: given_columns.pop(name)
        for name in ("ends", "names", "contents")
        if name in given_columns
    }
    columns = columns._replace(headers=columns.headers._replace(**of_headers), **given_columns)
    with pytest.raises(ValueError, match=reason):
        records.BatchBuilder().extend_buffers(columns)
