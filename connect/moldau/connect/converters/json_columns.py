"""Converts columns of structs to JSON, many at a time.

A column is checked as a whole: one pass checks that all values have the type of the schema, and
most columns then go to the encoder unchanged. Unusual values use the same functions as a single
record (`json_values`), so the JSON has the same meaning. `ColumnWriter.write` returns None if the
fast way is not possible; the caller then converts record by record, which also shows what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import starmap
from math import isfinite
from typing import Any, Final

import msgspec

from moldau.connect.converters.json_values import Convert, Writers
from moldau.connect.data.logical import EPOCH
from moldau.connect.data.schema import Logical, Schema, Type
from moldau.connect.data.validation import RANGES

_MS: Final = timedelta(milliseconds=1)
_NONE: Final = type(None)
_EXACT: Final = {Type.STRING: str, Type.BOOLEAN: bool, Type.FLOAT32: float, Type.FLOAT64: float}
_ENCODER: Final = msgspec.json.Encoder()

Prepare = Callable[[Sequence[Any]], Sequence[Any]]


class ColumnWriter:
    """Writes structs of one schema. `head` and `tail` surround each payload."""

    def __init__(
        self, schema: Schema, writers: Writers, head: bytes = b"", tail: bytes = b""
    ) -> None:
        names = {f"f{field.position}": field.name for field in schema.fields}
        self._row: Callable[..., Any] = msgspec.defstruct(
            "Row", list(names), rename=names, gc=False
        )
        self._prepares = [
            _prepare(field.schema, writers.of(field.schema)) for field in schema.fields
        ]
        self._around: Callable[[bytes], bytes] | None = None
        if head or tail:
            self._around = b"%b".join(each.replace(b"%", b"%%") for each in (head, tail)).__mod__

    def write(self, columns: Sequence[Sequence[Any]]) -> list[bytes] | None:
        """Return the JSON of each row; None if the rows have to be converted one by one."""
        try:
            prepared = [p(column) for p, column in zip(self._prepares, columns, strict=True)]
            rows = list(starmap(self._row, zip(*prepared, strict=True)))
            lines = _ENCODER.encode_lines(rows)
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
            return None
        # JSON has no newline inside, so those between the rows are the only ones.
        payloads = lines.split(b"\n")[:-1]
        return list(map(self._around, payloads)) if self._around is not None else payloads


def is_writable(schema: Schema | None) -> bool:
    """Whether a schema is a struct with at least one field."""
    return schema is not None and schema.type is Type.STRUCT and bool(schema.fields)


def _prepare(schema: Schema, write: Convert) -> Prepare:
    """Return a function from a column of Connect values to one for the encoder."""
    fits = _fits(schema)
    change = _timestamps if schema.logical is Logical.TIMESTAMP else None
    kinds, kinds_or_none = {fits}, {fits, _NONE}

    def prepare(column: Sequence[Any]) -> Sequence[Any]:
        found = set(map(type, column))
        if found == kinds or (
            schema.optional and schema.default is None and found <= kinds_or_none
        ):
            values = column if _NONE not in found else [v for v in column if v is not None]
            if _is_regular(schema, values):
                return column if change is None else change(column)
        return list(map(write, column))

    return prepare


def _fits(schema: Schema) -> type | None:
    """Return the only Python type that needs no conversion (except timestamps); None for none."""
    if schema.logical is not None:
        return datetime if schema.logical is Logical.TIMESTAMP else None
    return int if schema.type in RANGES else _EXACT.get(schema.type)


def _is_regular(schema: Schema, values: Sequence[Any]) -> bool:
    """Whether values of the right type are also in the range of JSON and of the schema."""
    if schema.logical is not None or not values:
        return True
    if schema.type in RANGES:
        low, high = RANGES[schema.type]
        return bool(low <= min(values) and max(values) <= high)
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return all(map(isfinite, values))
    return True


def _timestamps(column: Sequence[Any]) -> list[int | None]:
    """Return milliseconds since 1970. Raise TypeError for a datetime without a zone."""
    return [None if value is None else (value - EPOCH) // _MS for value in column]
