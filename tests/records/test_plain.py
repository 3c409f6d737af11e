"""The pure kernel's way through records that are laid out alike, held against the compiled one and
against the walker that explains errors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from tests.records.editions import edition
from tests.records.strategies import NOW, section_header
from tests.records.twin_answers import both, carefully

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]

# Of one byte and of two: what is added to a timestamp, and a value.
STAMPS = {1: (0, 63, -64), 2: (64, 8191, -65)}
VALUES = {1: (b"", b"v" * 7, b"w" * 50), 2: (b"x" * 64, b"y" * 200, b"z" * 8000)}
ODD: Sequence[Row] = [
    (NOW, b"key", b"value", ()),
    (NOW, None, None, ()),
    (NOW, None, b"value", (("name", b"content"),)),
    (NOW + 9000, None, b"value", ()),
    (NOW - 9000, None, b"value", ()),
    (NOW, None, b"v" * 9000, ()),
    (NOW, None, b"", ()),
]


def section_of(rows: Sequence[Row]) -> bytes:
    appender = edition("compiled")["kernel"].Appender()
    assert appender.extend(list(rows)) == len(rows)
    return bytes(appender.take()[61:])


def check(rows: Sequence[Row]) -> None:
    """Both kernels read them, and the pure one without its careful way if that can be."""
    section = section_of(rows)
    pure = edition("pure")
    header = section_header(pure[""], len(section), len(rows), base_timestamp=rows[0][0])
    assert both("decode", section, header)[:1] != ("corrupt",)
    decoded = pure["kernel"].decode(section, header)
    assert [(each.timestamp, each.key, each.value, each.headers) for each in decoded] == list(rows)
    assert [each.offset for each in decoded] == list(range(len(rows)))


def rows_of(stamp: int, size: int, count: int = 12) -> list[Row]:
    """With fields of so many bytes, but for the first one, whose timestamp is the batch's."""
    stamps, values = STAMPS[stamp], VALUES[size]
    first: Row = (NOW, None, values[0], ())
    return [
        first,
        *((NOW + stamps[each % 3], None, values[each % 3], ()) for each in range(1, count)),
    ]


@pytest.mark.parametrize(("stamp", "size"), list(product((1, 2), repeat=2)))
@pytest.mark.parametrize("before", [0, 100], ids=["offsets-of-one-byte", "of-two"])
def test_records_that_are_laid_out_alike(stamp: int, size: int, before: int) -> None:
    check([*rows_of(1, 1, before), *rows_of(stamp, size)])


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("at", [0, 1, 9, 20])
def test_one_among_them_that_is_not(odd: Row, at: int) -> None:
    """Where the batch begins, in its midst and as the last one."""
    rows = rows_of(1, 1, 20)
    check([*rows[:at], odd, *rows[at:]])
    check([*rows[:at], odd, odd, *rows[at:], *rows_of(2, 2), *rows])


def test_records_of_changing_layouts() -> None:
    check([row for _ in range(40) for row in (*rows_of(1, 1, 2), *ODD, *rows_of(2, 2, 2))])


def test_offsets_that_leave_gaps_and_that_need_three_bytes() -> None:
    varint = edition("pure")["kernel"].varint
    deltas = [*range(0, 60, 5), 64, 8000, 8191, 8192, 70_000, *range(70_001, 70_030)]
    bodies = [b"\0\0" + varint(delta) + b"\1" + varint(1) + b"v\0" for delta in deltas]
    section = b"".join(varint(len(body)) + body for body in bodies)
    header = section_header(edition("pure")[""], len(section), len(deltas))
    header = header._replace(last_offset_delta=deltas[-1])
    assert both("decode", section, header)[:1] != ("corrupt",)
    found = edition("pure")["kernel"].decode(section, header)
    assert [each.offset for each in found] == deltas
    one_less = header._replace(last_offset_delta=deltas[-1] - 1)
    assert both("decode", section, one_less)[:1] == ("corrupt",)


@pytest.mark.parametrize("deltas", [(*range(10), 9), (*range(10), 12, *range(3, 20))])
def test_offsets_that_do_not_grow_are_refused(deltas: Sequence[int]) -> None:
    """Also where those that are alike begin anew, behind one that is not."""
    varint = edition("pure")["kernel"].varint
    bodies = [
        b"\0\0" + varint(delta) + (b"\2k" if delta == 12 else b"\1") + varint(1) + b"v\0"
        for delta in deltas
    ]
    section = b"".join(varint(len(body)) + body for body in bodies)
    header = section_header(edition("pure")[""], len(section), len(deltas))
    assert both("decode", section, header)[:1] == ("corrupt",)


@pytest.mark.parametrize("size", [1, 2])
def test_damage_of_every_byte_is_judged_alike(size: int) -> None:
    rows: list[Row] = [
        (NOW + 70 * (each > 8), None, VALUES[size][0] + b"a", ()) for each in range(11)
    ]
    section = section_of(rows)
    header: Any = section_header(edition("pure")[""], len(section), len(rows), base_timestamp=NOW)
    refused = 0
    for at in range(len(section)):
        for change in (1, 2, 3, 0x7F, 0x80, 0x81, 0xFF):
            damaged = bytearray(section)
            damaged[at] ^= change
            judged = both("decode", bytes(damaged), header)
            assert (judged[:1] == ("corrupt",)) == carefully(bytes(damaged), header, 0)
            refused += judged[:1] == ("corrupt",)
    assert refused > 20 * len(rows)
    for end in range(len(section)):
        assert both("decode", section[:end], header)[:1] == ("corrupt",)


@pytest.mark.parametrize(
    "rows",
    [
        [*rows_of(1, 1), *ODD[:3], *rows_of(2, 2), *rows_of(1, 2), *rows_of(2, 1)] * 5,
        # The last one is shorter than the beginnings of those before.
        [*rows_of(2, 2, 100), (NOW, None, None, ())],
    ],
    ids=["of-many-layouts", "of-one-but-the-last"],
)
def test_the_quick_way_takes_them_all(rows: Sequence[Row]) -> None:
    """None of these is left to the careful way, which takes thrice the time."""
    section = section_of(rows)
    pure = edition("pure")
    header = section_header(pure[""], len(section), len(rows), base_timestamp=rows[0][0])
    into = pure["kernel"].Into(pure["kernel"].Record, (), [])
    assert len(pure["kernel"].plain_records(section, header, 1 << 20, into)) == len(rows)
