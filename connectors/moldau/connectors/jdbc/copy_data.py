"""Columns of values as the bytes of PostgreSQL's `COPY .. (FORMAT binary)`. No IO.

A driver that gets rows makes a call for each value; here each column is checked as a whole and
packed by functions written in C. Only types with a simple binary form are supported, and only
values of exactly their Python type: `copy_data` returns None for anything else, and the caller
writes the rows one by one, which also shows what is wrong with them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import repeat
from operator import floordiv, sub
from typing import Any, Final

from moldau.deferred import dataclass

Column = Sequence[Any]
_Change = Callable[[Column], Iterable[Any]]

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH: Final = datetime(2000, 1, 1)
_FIRST_DAY: Final = date(2000, 1, 1)
_NONE: Final = type(None)


@dataclass(frozen=True, slots=True)
class CopyData:
    """The encoded rows, ready to be sent, and their number."""

    data: bytes
    count: int

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A type whose values have one size: the letter of `struct`, and the conversion before it."""

    kind: type
    code: str
    change: _Change

    @property
    def size(self) -> int:
        return struct.calcsize(f">{self.code}")


@dataclass(frozen=True, slots=True)
class _Varying:
    """A type whose values are bytes of any length."""

    kind: type
    change: _Change


def _same(column: Column) -> Column:
    return column


def _since(epoch: Any, unit: timedelta) -> _Change:
    return lambda column: map(floordiv, map(sub, column, repeat(epoch)), repeat(unit))


def _timestamps(column: Column) -> Iterable[int]:
    """Convert by the first value, with or without a zone. Raise TypeError if the others differ."""
    is_naive = bool(column) and column[0].tzinfo is None
    return _since(_NAIVE_EPOCH if is_naive else _EPOCH, _MICROSECOND)(column)


_TEXT: Final = _Varying(str, lambda column: map(str.encode, column))
_BY_OID: Final[Mapping[int, _Fixed | _Varying]] = {
    16: _Fixed(bool, "?", _same), 17: _Varying(bytes, _same), 20: _Fixed(int, "q", _same),
    21: _Fixed(int, "h", _same), 23: _Fixed(int, "i", _same), 25: _TEXT,
    700: _Fixed(float, "f", _same), 701: _Fixed(float, "d", _same), 1042: _TEXT, 1043: _TEXT,
    1082: _Fixed(date, "i", _since(_FIRST_DAY, _DAY)), 1114: _Fixed(datetime, "q", _timestamps),
    1184: _Fixed(datetime, "q", _since(_EPOCH, _MICROSECOND)),
}  # fmt: skip
"""The encoders by the OIDs of PostgreSQL's types, which are the same in every server."""


def copy_data(columns: Sequence[Column], types: Sequence[int]) -> CopyData | None:
    """Return the encoded rows; None if a type is not supported or a value does not fit it."""
    if not columns or any(each not in _BY_OID for each in types):
        return None
    packer = _Packer(len(columns), len(columns[0]))
    try:
        for column, oid in zip(columns, types, strict=True):
            packer.add(column, _BY_OID[oid])
        return CopyData(packer.data(), packer.count)
    except (struct.error, TypeError, ValueError, ArithmeticError):
        return None


class _Packer:
    """Packs rows. One call packs adjacent fixed-size columns and the length of the next text."""

    def __init__(self, width: int, count: int) -> None:
        self.count = count
        self._parts: list[Sequence[bytes]] = []
        self._codes = "h"
        self._values: list[Iterable[Any]] = [repeat(width)]

    def add(self, column: Column, by: _Fixed | _Varying) -> None:
        """Add the next column of each row. Raise TypeError for a value of another type."""
        kinds = set(map(type, column))
        if kinds <= {by.kind}:
            if isinstance(by, _Fixed):
                self._codes += f"i{by.code}"
                self._values += [repeat(by.size), by.change(column)]
            else:
                self._add_varying(list(by.change(column)))
            return
        if not kinds <= {by.kind, _NONE}:
            raise TypeError(f"{kinds} are not only {by.kind}")
        self._add_with_nulls(column, by)

    def _add_varying(self, found: Sequence[bytes]) -> None:
        self._codes += "i"
        self._values.append(map(len, found))
        self._flush()
        self._parts.append(found)

    def _add_with_nulls(self, column: Column, by: _Fixed | _Varying) -> None:
        given = iter(list(by.change([value for value in column if value is not None])))
        self._flush()
        if isinstance(by, _Fixed):
            pack, size = struct.Struct(f">i{by.code}").pack, by.size
            packed = [_NULL if value is None else pack(size, next(given)) for value in column]
        else:
            pack = struct.Struct(">i").pack
            packed = [_NULL if value is None else _sized(pack, next(given)) for value in column]
        self._parts.append(packed)

    def _flush(self) -> None:
        if self._codes:
            self._parts.append(list(map(struct.Struct(f">{self._codes}").pack, *self._values)))
            self._codes, self._values = "", []

    def data(self) -> bytes:
        """Return all rows, with COPY's header and trailer."""
        self._flush()
        step = len(self._parts)
        pieces: list[bytes] = [b""] * (step * self.count)
        for index, part in enumerate(self._parts):
            pieces[index::step] = part
        return b"".join([_SIGNATURE, *pieces, _END])


def _sized(pack: Callable[[int], bytes], value: bytes) -> bytes:
    return pack(len(value)) + value
