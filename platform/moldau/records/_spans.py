"""Columns in buffers, in plain Python: reads them as rows, and builds them. A part of `_pure`."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING, Any

from moldau.records.record import ColumnBuffers, HeaderBuffers, Headers, Row, Spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def contents(spans: Spans, start: int) -> Iterator[bytes | None]:
    """Yield the values of a column from index `start` on. Each used offset is checked."""
    data, offsets, width, validity, first, count = spans
    if width not in (4, 8):
        raise ValueError("offsets have 4 or 8 bytes")
    with memoryview(offsets) as view:
        places = view.nbytes // width
        if first < 0 or count < 0 or first > places or count > places - 1 - first:
            raise ValueError("the values lie outside of their offsets")
        whole = view.cast("B")[first * width : (first + count + 1) * width]
        numbers = whole.cast("i" if width == 4 else "q").tolist()
    there = None if validity is None else bytes(validity)
    if there is not None and first + count > len(there) * 8:
        raise ValueError("the values lie outside of their validity")
    content = b"" if data is None else memoryview(data).cast("B")
    size = len(content)
    for index in range(start, count):
        place = first + index
        if there is not None and not there[place >> 3] >> (place & 7) & 1:
            yield None
            continue
        low, high = numbers[index], numbers[index + 1]
        if not 0 <= low <= high <= size:
            raise ValueError("an offset leads out of the data")
        yield bytes(content[low:high])


def rows_of(columns: ColumnBuffers, start: int) -> Iterator[Row]:
    """Yield the records of the columns from index `start` on. Each used place is checked."""
    count, headers = columns.length, columns.headers
    stamps = memoryview(columns.timestamps).cast("B")
    ends = None if headers is None else memoryview(headers.ends).cast("B")
    if not (
        count == columns.values.length == columns.keys.length
        and len(stamps) >= count * 8
        and (ends is None or len(ends) >= count * 4 + 4)
    ):
        raise ValueError("the columns are not of one length")
    tails: Iterator[Headers] = repeat(())
    if headers is not None and ends is not None:
        tails = headers_in(headers, ends.cast("i")[start : count + 1].tolist())
    numbers = stamps[: count * 8].cast("q")[start:].tolist()
    keys, values = contents(columns.keys, start), contents(columns.values, start)
    return zip(numbers, keys, values, tails, strict=False)


def headers_in(headers: HeaderBuffers, ends: list[int]) -> Iterator[Headers]:
    names, contents = span_list(headers.names), span_list(headers.contents)
    if len(names) != len(contents):
        raise ValueError("the columns are not of one length")
    for low, high in pairwise(ends):
        if not 0 <= low <= high <= len(names):
            raise ValueError("an end leads out of the headers")
        if None in names[low:high]:
            raise ValueError("a header has no name")
        there = zip(names[low:high], contents[low:high], strict=True)
        yield tuple(((name or b"").decode(), content) for name, content in there) or ()


def sizes_of(record: Any) -> tuple[int, int, int, int]:
    """Return the size of the key, of the value and of the headers, and the number of headers."""
    size = sum(len(name.encode()) + len(content or b"") for name, content in record.headers)
    return len(record.key or b""), len(record.value or b""), size, len(record.headers)


def ends_of(sizes: Iterable[int]) -> bytearray:
    return bytearray(array("i", accumulate(sizes, initial=0)).tobytes())


def spans_of(values: list[bytes | None]) -> Spans:
    validity = None
    if None in values:
        validity = bytearray(len(values) + 7 >> 3)
        for index, value in enumerate(values):
            if value is not None:
                validity[index >> 3] |= 1 << (index & 7)
    there = [value or b"" for value in values]
    data = bytearray().join(there)
    return Spans(data, ends_of(map(len, there)), 4, validity, 0, len(values))


def span_list(spans: Spans) -> list[bytes | None]:
    """Return the values of `Spans` as bytes, None for nulls. Each used offset is checked."""
    return list(contents(spans, 0))
