"""Read values one by one into dicts, and make a column of structs from them.

Invariants: One value is one row. A dict that does not fit its columns is null, as if the value
could not be read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import time
from typing import Any, Final

import pyarrow as pa

from moldau.client.serdes.contract import asking_once
from moldau.spark.unreadable import UnreadablePolicy
from moldau.values.failures import DeserializationFailed

_CONVERSION_ERRORS: Final = (ValueError, TypeError, ArithmeticError)
"""A value does not fit its column. Arrow's own errors are ValueErrors and TypeErrors too."""
_READ_ERRORS: Final = (
    DeserializationFailed, *_CONVERSION_ERRORS, EOFError, LookupError, RecursionError, struct.error
)  # fmt: skip


class RecordColumn:
    """Turns an Arrow array of binary values into a column of structs."""

    def __init__(
        self, kind: Any, read: Callable[[bytes], dict[str, Any]], policy: UnreadablePolicy
    ) -> None:
        self._kind = kind
        self._read = read
        self._policy = policy
        self._converts = False
        """Whether values were found that Arrow does not take as they are."""

    def __call__(self, values: Any) -> Any:
        found = values.to_pylist()
        with asking_once():
            rows = [self._row(each) for each in found]
        if not self._converts:
            try:
                return pa.array(rows, self._kind)
            except _CONVERSION_ERRORS:
                pass
        rows = [to_arrow_value(each, self._kind) for each in rows]
        try:
            column = pa.array(rows, self._kind)
        except _CONVERSION_ERRORS:
            # A row has a value that does not fit into its column, such as the year 300,000.
            fitting = [self._row_or_null(*each) for each in zip(rows, found, strict=True)]
            return pa.array(fitting, self._kind)
        self._converts = True
        return column

    def _row(self, value: bytes | None) -> dict[str, Any] | None:
        if value is None:
            return None
        try:
            return self._read(value)
        except _READ_ERRORS as error:
            self._policy(value, error.reason if isinstance(error, DeserializationFailed) else None)
            return None

    def _row_or_null(self, row: dict[str, Any] | None, value: bytes) -> dict[str, Any] | None:
        """Return the row if it fits into its columns, and otherwise None."""
        try:
            pa.array([row], self._kind)
        except _CONVERSION_ERRORS:
            self._policy(value)
            return None
        return row


def to_arrow_value(value: Any, kind: Any) -> Any:
    """Return the value as Arrow takes it for this type.

    Avro's libraries read a `uuid` as a UUID, whose column is text, and a `time-millis` as a time of
    day, whose column is milliseconds since midnight. For a `time-micros` it is microseconds."""
    if value is None:
        return None
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {each.name: to_arrow_value(value.get(each.name), each.type) for each in kind}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [to_arrow_value(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(key, to_arrow_value(each, kind.item_type)) for key, each in pairs]
    # By its name: only the runtime may import `uuid`, which can make random ones.
    if pa.types.is_string(kind) and type(value).__qualname__ == "UUID":
        return str(value)
    if pa.types.is_integer(kind) and isinstance(value, time):
        return _since_midnight(value, is_millis=pa.types.is_int32(kind))
    return value


def _since_midnight(value: time, *, is_millis: bool) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    micros = seconds * 1_000_000 + value.microsecond
    return micros // 1000 if is_millis else micros
