"""Rows in memory: order, bounds, deletion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.streams.state.backing import MemoryBacking, first_numbers

keys = st.binary(max_size=2)
rows = st.lists(st.tuples(keys, st.none() | st.binary(max_size=2)))


@given(rows, keys, st.none() | keys, st.booleans())
def test_a_scan_yields_the_rows_of_its_range_in_order(
    written: list[tuple[bytes, bytes | None]], first: bytes, end: bytes | None, is_reverse: bool
) -> None:
    backing = MemoryBacking()
    for row in written:
        backing.write([row])
    kept = {key: value for key, value in dict(written).items() if value is not None}

    expected = sorted(
        row for row in kept.items() if row[0] >= first and (end is None or row[0] < end)
    )
    found = list(backing.scan(first, end, is_reverse=is_reverse))

    assert found == (expected[::-1] if is_reverse else expected)


@given(rows, keys, keys)
def test_a_range_is_deleted_and_nothing_else(
    written: list[tuple[bytes, bytes | None]], first: bytes, end: bytes
) -> None:
    backing = MemoryBacking()
    backing.write(written)
    kept = {key: value for key, value in dict(written).items() if value is not None}

    backing.delete_range(first, end)

    expected = {key: value for key, value in kept.items() if not first <= key < end}
    assert dict(backing.scan(b"", None)) == expected
    assert all(backing.get(key) == expected.get(key) for key in kept)


@given(st.sets(st.integers(0, 2**62)))
def test_the_first_numbers_of_rows_are_found(numbers: set[int]) -> None:
    backing = MemoryBacking()
    for number in numbers:
        start = number.to_bytes(8, "big")
        backing.write([(start + b"a", b""), (start + b"\xff\xff", b"")])
    backing.write([(b"\xff", b"")])

    assert first_numbers(backing, b"\xff") == numbers
