"""A row of a store as the record of its changelog: the inverse of a store's `restore`. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final

from moldau.streams.state.spec import StoreKind, StoreSpec

CLOCK_ROW: Final = b"\xff"
"""The row with the clock of a store that has one, which it finds again in its records."""
_TIME: Final = Struct(">q")
_TIME_BYTES: Final = 8
_LENGTH: Final = Struct(">I")
_SLICE: Final = Struct(">QI")
_END: Final = Struct(">Q")
_NO_SEQUENCE: Final = b"\0\0\0\0"
_TIMED_ROWS: Final = b"k"
_SESSION_TIMES: Final = b"\xf0"


def has_clock_row(store: StoreSpec) -> bool:
    """Whether the row of that name is its clock: a table may have a key of these bytes."""
    return store.slice_ms is not None


def changelog_record(
    store: StoreSpec, key: bytes, value: bytes
) -> tuple[bytes, bytes | None, int] | None:
    """Return the record of a row; None for a row that a store makes from others."""
    kind = store.kind
    if kind is StoreKind.KEY_VALUE:
        if store.is_timed:
            if not key.startswith(_TIMED_ROWS):
                return None
            key = key[1:]
        return key, value[_TIME_BYTES:], _TIME.unpack_from(value)[0]
    if kind is StoreKind.WINDOW and not has_clock_row(store):
        start = key[:_TIME_BYTES]
        name = key[_TIME_BYTES:] + start + _NO_SEQUENCE
        return name, value[_TIME_BYTES:], _TIME.unpack_from(value)[0]
    if kind is StoreKind.VERSIONED:
        (length,) = _LENGTH.unpack_from(key)
        name = key[_LENGTH.size : _LENGTH.size + length]
        (time,) = _END.unpack_from(key, _LENGTH.size + length)
        return name, value[1:] if value[:1] == b"\1" else None, time
    if key == CLOCK_ROW or (kind is StoreKind.SESSION and key.startswith(_SESSION_TIMES)):
        return None
    _, length = _SLICE.unpack_from(key)
    name, place = key[_SLICE.size : _SLICE.size + length], key[_SLICE.size + length :]
    return name + place, value, _END.unpack_from(place)[0]
