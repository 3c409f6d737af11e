"""The two kernels against each other, and both against the careful walker that explains errors."""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from inspect import signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records import Record
from tests.records.editions import KERNEL, edition
from tests.records.strategies import NOW, damaged_sections, rows, section_header
from tests.records.twin_answers import both, carefully


def built(kernel: Any, given_rows: list[Any], size_bytes_max: int) -> tuple[object, ...]:
    appender = kernel.Appender(size_bytes_max)
    taken = appender.extend(given_rows)
    state = (appender.count, appender.base_timestamp, appender.max_timestamp, appender.size_bytes)
    return (taken, *state, bytes(appender.take()))


@given(rows, st.integers(61, 20_000))
def test_both_write_the_same(given_rows: list[Any], size_bytes_max: int) -> None:
    kernels = [edition(which)["kernel"] for which in KERNEL]
    for limit in (size_bytes_max, 2**31 - 1):
        compiled, pure = (built(kernel, given_rows, limit) for kernel in kernels)
        assert compiled == pure


@given(rows)
def test_one_by_one_is_the_same_as_all_at_once(given_rows: list[Any]) -> None:
    for which in KERNEL:
        kernel = edition(which)["kernel"]
        appender = kernel.Appender()
        assert [appender.append(*row) for row in given_rows] == list(range(len(given_rows)))
        assert bytes(appender.take()) == built(kernel, given_rows, 2**31 - 1)[-1]


@given(rows, st.integers(61, 400), st.integers(0, 400))
def test_a_batch_that_was_widened_is_as_one_that_was_wide_before(
    given_rows: list[Any], size_bytes_max: int, more: int
) -> None:
    for which in KERNEL:
        kernel = edition(which)["kernel"]
        appender = kernel.Appender(size_bytes_max)
        taken = appender.extend(given_rows)
        with pytest.raises(ValueError, match="negative"):
            appender.widen(-1)
        appender.widen(more)
        assert appender.size_bytes_max == size_bytes_max + more
        taken += appender.extend(given_rows, taken)
        wide = built(kernel, given_rows, size_bytes_max + more)
        assert (taken, bytes(appender.take())) == (wide[0], wide[-1])
        appender.widen(2**40)
        assert appender.size_bytes_max == 2**31 - 1


@given(rows)
def test_what_was_written_is_read(given_rows: list[Any]) -> None:
    for which in KERNEL:
        kernel, package = edition(which)["kernel"], edition(which)[""]
        appender = kernel.Appender()
        appender.extend(given_rows)
        section = bytes(appender.take()[61:])
        header = section_header(
            package, len(section), len(given_rows), base_timestamp=given_rows[0][0]
        )
        decoded = kernel.decode(section, header)
        assert [(r.timestamp, r.key, r.value, r.headers) for r in decoded] == given_rows
        assert [record.offset for record in decoded] == list(range(len(given_rows)))
        columns = kernel.columns(section, header)
        assert list(zip(*columns[1:], strict=True)) == given_rows
        stamps = [row[0] for row in given_rows]
        newest = max(stamps)
        scanned = kernel.scan(section, header, 1)
        assert scanned == (min(stamps), newest, stamps.index(newest))
        for entry, record in zip(kernel.entries(section, header), decoded, strict=True):
            assert (entry.offset, entry.timestamp, entry.key) == record_front(record)
            assert entry.value_bytes == (-1 if record.value is None else len(record.value))


def record_front(record: Any) -> tuple[int, int, bytes | None]:
    return record.offset, record.timestamp, record.key


@given(damaged_sections(), st.integers(-1, 1), st.integers(-2, 3), st.integers(0, 3))
def test_both_judge_damage_alike(
    damaged: tuple[bytes, int], more: int, further: int, rules: int
) -> None:
    section, count = damaged
    header = section_header(edition("pure")[""], len(section), count + more)
    header = header._replace(last_offset_delta=header.last_offset_delta + further)
    judged = [both(name, section, header) for name in ("decode", "columns", "entries")]
    judged.append(both("scan", section, header, rules))
    expected = carefully(section, header, 0)
    assert all((answer[:1] == ("corrupt",)) == expected for answer in judged[:3])
    assert (judged[3][:1] == ("corrupt",)) == carefully(section, header, rules)


@given(st.binary(max_size=40), st.integers(0, 6))
def test_both_judge_noise_alike(section: bytes, count: int) -> None:
    header = section_header(edition("pure")[""], len(section), count)
    judged = both("decode", section, header)
    assert (judged[:1] == ("corrupt",)) == carefully(section, header, 0)


def rows_of_a_topic(sizes: list[int]) -> bytes:
    """The rows of partitions with batches of these sizes, and the tags of the topic behind them."""
    rows = bytearray()
    for index, size in enumerate(sizes):
        rows += (index - 1).to_bytes(4, "big", signed=True)
        length = size + 1
        while length > 0x7F:
            rows.append(length & 0x7F | 0x80)
            length >>= 7
        rows += bytes([length]) + b"e" * size + b"\0"
    return bytes(rows) + b"\0"


def batches_of(
    given: bytes, position: int, count: int
) -> tuple[list[tuple[int, bytes]], int] | None:
    """What both kernels find."""
    found = []
    for which in KERNEL:
        kernel = edition(which)["kernel"]
        batches = kernel.produced_batches(memoryview(bytearray(given)), position, count)
        found.append(batches and ([(index, bytes(each)) for index, each in batches[0]], batches[1]))
    assert found[0] == found[1]
    return found[0]


@given(st.lists(st.sampled_from([61, 62, 126, 127, 16_382, 16_383]), min_size=1, max_size=4))
def test_both_find_the_batches_of_a_request(sizes: list[int]) -> None:
    rows, count = rows_of_a_topic(sizes), len(sizes)
    expected = [(index - 1, b"e" * size) for index, size in enumerate(sizes)]
    for behind in (b"\0", b"x", b"another topic"):
        assert batches_of(rows + behind, 0, count) == (expected, len(rows))
        assert batches_of(b"front" + rows + behind, 5, count) == (expected, 5 + len(rows))
    assert batches_of(rows + b"\0", 0, count + 1) is None
    assert batches_of(rows, 0, count) is None
    assert batches_of(rows[:-1] + b"\1\0", 0, count) is None


@given(
    st.lists(st.integers(55, 140), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=3),
    st.integers(0, 400),
    st.integers(1, 4),
)
def test_both_leave_the_same_requests_to_the_codec(
    sizes: list[int], changes: list[tuple[int, bytes]], cut: int, count: int
) -> None:
    changed = bytearray(rows_of_a_topic(sizes) + b"\0")
    for at, put in changes:
        changed[at : at + len(put)] = put
    batches_of(bytes(changed), 0, count)
    batches_of(bytes(changed), 0, len(sizes))
    batches_of(bytes(changed[:cut]), 0, len(sizes))


def test_a_batch_of_a_transaction_is_left_to_the_codec() -> None:
    given_rows = bytearray(rows_of_a_topic([100, 100]) + b"\0")
    assert batches_of(bytes(given_rows), 0, 2) is not None
    given_rows[106 + 5 + 22] |= 0x10
    assert batches_of(bytes(given_rows), 0, 2) is None


@given(damaged_sections(), st.integers(-1, 12))
def test_both_stop_at_the_same_object(damaged: tuple[bytes, int], objects_max: int) -> None:
    section, count = damaged
    header = section_header(edition("pure")[""], len(section), count)
    expected = carefully(section, header, 0, objects_max)
    for name in ("decode", "columns", "entries"):
        judged = both(name, section, header, objects_max)
        assert (judged[:1] == ("corrupt",)) == expected
    judged = both("scan", section, header, 0, objects_max)
    assert (judged[:1] == ("corrupt",)) == expected


@given(
    st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**63 - 1)
)
def test_both_judge_the_edges_of_64_bits_alike(base: int, delta: int, offset: int) -> None:
    varint = edition("pure")["kernel"].varint
    body = b"\0" + varint(delta) + varint(3) + b"\1\1\0"
    section = varint(len(body)) + body
    header = section_header(
        edition("pure")[""], len(section), 1, base_timestamp=base, base_offset=offset
    )._replace(last_offset_delta=3)
    judged = both("decode", section, header)
    fits = -(2**63) <= base + delta < 2**63 and offset + 3 < 2**63
    assert (judged[:1] == ("corrupt",)) != fits


wide_varints = st.one_of(
    st.integers(-2, 1 << 22).map(lambda number: edition("pure")["kernel"].varint(number)),
    st.binary(min_size=1, max_size=4),
)


@given(st.lists(wide_varints, min_size=1, max_size=3), st.sampled_from((0, 2**63 - 9000)))
def test_both_judge_offsets_alike(deltas: list[bytes], base: int) -> None:
    """Whatever bytes they take, also where that is not the fewest."""
    varint = edition("pure")["kernel"].varint
    bodies = [b"\0\0" + delta + varint(3) + b"\1\1\0" for delta in deltas]
    section = b"".join(varint(len(body)) + body for body in bodies)
    header = section_header(edition("pure")[""], len(section), len(deltas), base_offset=base)
    for last in (1 << 21, 9000):
        header = header._replace(last_offset_delta=last)
        judged = both("decode", section, header)
        assert (judged[:1] == ("corrupt",)) == carefully(section, header, 0)


def test_the_pure_kernel_reads_offsets_of_three_bytes_without_a_second_look() -> None:
    kernel, count = edition("pure")["kernel"], 20_000
    appender = kernel.Appender()
    appender.extend([(NOW, None, b"%d" % number, ()) for number in range(count)])
    section = bytes(appender.take()[61:])
    header = section_header(edition("pure")[""], len(section), count)
    plain = kernel.plain_records(section, header, 1 << 20, kernel.Into(kernel.Record, (), []))
    assert [record.offset for record in plain] == list(range(count))
    assert [record.value for record in plain] == [b"%d" % number for number in range(count)]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_are_the_same(number: int) -> None:
    both("varint", number)


@given(st.binary(max_size=60), st.text(max_size=20), st.integers(-1, 2**31 - 1))
def test_hashes_are_the_same(key: bytes, text: str, partition_count: int) -> None:
    both("murmur2", key)
    both("partition_for_key", key, partition_count)
    both("java_string_hash", text)


@pytest.mark.parametrize("row", [(NOW, b"key", b"value", ()), (NOW, None, b"v", (("h", b"1"),))])
def test_a_batch_takes_records_to_its_last_byte(
    kernel: Any, row: tuple[int, bytes | None, bytes, tuple[tuple[str, bytes], ...]]
) -> None:
    whole = kernel.Appender()
    whole.extend([row] * 3)
    for short, taken in ((0, 3), (1, 2)):
        appender = kernel.Appender(whole.size_bytes - short)
        assert appender.extend([row] * 4) == taken


def test_a_timestamp_near_the_end_of_64_bits_is_not_followed_beyond_it(kernel: Any) -> None:
    appender = kernel.Appender()
    assert appender.append(2**63 - 10, b"k", b"v") == 0
    assert appender.append(2**63 - 1, b"k", b"v") == 1
    with pytest.raises(OverflowError):
        appender.append(2**63, b"k", b"v")


BAD_ROWS = [
    "text",
    [NOW, b"k", b"v", ()],
    (NOW, b"k", b"v"),
    (NOW, b"k", b"v", (), 1),
    (None, b"k", b"v", ()),
    ("1", b"k", b"v", ()),
    (1.5, b"k", b"v", ()),
    (2**63, b"k", b"v", ()),
    (-(2**63) - 1, b"k", b"v", ()),
    (NOW, "k", b"v", ()),
    (NOW, 5, b"v", ()),
    (NOW, bytearray(b"k"), b"v", ()),
    (NOW, b"k", "v", ()),
    (NOW, b"k", memoryview(b"v"), ()),
    (NOW, b"k", b"v", None),
    (NOW, b"k", b"v", "ab"),
    (NOW, b"k", b"v", ("ab",)),
    (NOW, b"k", b"v", (("a",),)),
    (NOW, b"k", b"v", (("a", b"", b""),)),
    (NOW, b"k", b"v", (["a", b""],)),
    (NOW, b"k", b"v", ((b"a", b""),)),
    (NOW, b"k", b"v", (("a", "b"),)),
    (NOW, b"k", b"v", ((None, b"b"),)),
    (NOW, b"k", b"v", (("\ud800", b"b"),)),
]


@pytest.mark.parametrize("row", BAD_ROWS, ids=range(len(BAD_ROWS)))
def test_both_refuse_what_is_not_a_row(row: Any) -> None:
    errors = []
    for which in KERNEL:
        appender = edition(which)["kernel"].Appender()
        good = (NOW, b"k", b"v", ())
        with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
            appender.extend([good, row, good])
        assert (appender.count, appender.size_bytes) == (1, 61 + 9)
        assert appender.extend([good]) == 1
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("first", "near", "far"), [(-(2**63), -1, 0), (2**63 - 1, -1, -2), (5, 2**63 - 1, -(2**63))]
)
def test_timestamps_too_far_apart_are_refused(kernel: Any, first: int, near: int, far: int) -> None:
    appender = kernel.Appender()
    assert appender.append(first, None, None) == 0
    assert appender.append(near, None, None) == 1
    with pytest.raises(OverflowError, match="too far"):
        appender.append(far, None, None)
    assert appender.count == 2


def test_timestamps_of_more_than_64_bits_are_refused_near_the_last_one_too(kernel: Any) -> None:
    appender = kernel.Appender()
    appender.append(2**63 - 3, None, None)
    assert appender.append(2**63 - 1, None, None) == 1
    with pytest.raises(OverflowError, match="64 bits"):
        appender.append(2**63, None, None)


@pytest.mark.parametrize("bad", [None, 5, "text", object(), [b"a"]])
def test_what_is_no_buffer_is_a_type_error(kernel: Any, records: Any, bad: Any) -> None:
    header = section_header(records, 0, 0)
    for name in ("decode", "columns", "entries"):
        with pytest.raises(TypeError):
            getattr(kernel, name)(bad, header)
    for name in ("murmur2", "java_string_hash"):
        if not (name == "java_string_hash" and isinstance(bad, str)):
            with pytest.raises(TypeError):
                getattr(kernel, name)(bad)


def test_a_row_may_come_from_a_subclass(kernel: Any) -> None:
    class Stamp(int):
        pass

    class Content(bytes):
        pass

    appender = kernel.Appender()
    assert appender.extend([(Stamp(5), Content(b"k"), Content(b"v"), [("h", Content(b"x"))])]) == 1
    assert appender.base_timestamp == 5


def test_an_appender_that_was_taken_is_spent(kernel: Any) -> None:
    appender = kernel.Appender()
    appender.append(NOW, None, b"v")
    assert len(appender.take()) == appender.size_bytes
    for call in (
        lambda: appender.append(NOW, None, b"v"),
        lambda: appender.extend([]),
        appender.take,
    ):
        with pytest.raises(ValueError, match="taken"):
            call()


def test_headers_that_spend_the_appender_while_they_are_read_do_no_harm(kernel: Any) -> None:
    appender = kernel.Appender()

    class Headers(tuple):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            if appender.count:
                appender.take()
            return super().__iter__()

    appender.append(NOW, None, b"v")
    with suppress(ValueError):
        appender.extend([(NOW, None, b"w" * 5000, Headers([("h", b"")]))])
    with pytest.raises(ValueError, match="taken"):
        appender.take()


def test_a_list_that_shrinks_while_it_is_read_does_no_harm(kernel: Any) -> None:
    given_rows: list[Any] = []

    class Headers(tuple):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            given_rows.clear()
            return super().__iter__()

    given_rows += [(NOW, None, b"v", Headers([("h", b"")]))] * 3
    appender = kernel.Appender()
    assert appender.extend(given_rows) in (1, 3)
    assert len(appender.take()) == appender.size_bytes


def test_both_kernels_offer_the_same() -> None:
    compiled, pure = (edition(which)["kernel"] for which in KERNEL)
    for name in edition("pure")["kernel"].__dict__:
        if name in ("Appender", "Record", "decode", "columns", "entries", "scan", "varint"):
            assert hasattr(compiled, name)
    assert list(signature(pure.Record).parameters) == [
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    ]


def test_records_are_values(records: Any) -> None:
    record = records.Record(7, NOW, b"k", None, (("h", None),))
    twin = records.Record(offset=7, timestamp=NOW, key=b"k", value=None, headers=(("h", None),))
    assert record == twin
    assert hash(record) == hash(twin)
    assert record != records.Record(8, NOW, b"k", None, (("h", None),))
    assert record != "record"
    assert repr(record) == (
        f"Record(offset=7, timestamp={NOW}, key=b'k', value=None, headers=(('h', None),))"
    )
    assert records.Record(1, 2, None, None).headers == ()
    with pytest.raises(AttributeError):
        record.key = b"other"


def test_records_can_be_sent_to_another_process() -> None:
    record = Record(7, NOW, b"k", None, (("h", None),))
    assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301


def test_plain_python_is_told_with_the_python_and_the_machine(records: Any) -> None:
    notice = records.kernel_notice()
    assert (notice is None) == (records.KERNEL == "compiled")
    assert notice is None or f"for cpython 3.{sys.version_info.minor} on " in notice
