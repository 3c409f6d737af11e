"""Reads columns of structs from JSON, many records at a time.

All records begin with the same bytes, the envelope's head. They are compared, and the payloads are
decoded by one call, with the types of the schema. `read` returns None where this is not possible or
a value does not fit: the caller then converts record by record, which also shows what is wrong.

Why the payloads, joined by newlines, are exactly the records: each begins with "{" and ends with
"}", a newline cannot stand inside a string, and after "}" a "{" without a comma can only follow at
the top level. So every boundary between records is one between values; and as each record has at
least one value, as many values as records means one each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise, repeat
from operator import add, attrgetter, eq, getitem, mul
from typing import Annotated, Any, Final

import msgspec

from moldau.connect.api.columns import StructColumns
from moldau.connect.converters.json_values import Convert, Readers, has_decimal
from moldau.connect.data.logical import EPOCH
from moldau.connect.data.schema import Logical, Schema, Type
from moldau.connect.data.validation import RANGES
from moldau.connect.errors import DataError

_MS: Final = timedelta(milliseconds=1)
_CLOSE: Final = ord("}")
_EXACT: Final = {Type.STRING: str, Type.BOOLEAN: bool, Type.FLOAT32: float, Type.FLOAT64: float}
Change = Callable[[Sequence[Any]], Sequence[Any]]


class ColumnReader:
    """Reads structs of one schema. Each record is `head`, the payload, and "}" if there is a
    head."""

    def __init__(self, schema: Schema, readers: Readers, head: bytes) -> None:
        self._schema = schema
        self._head = head
        fields: list[Any] = []
        self._columns: list[tuple[attrgetter[Any], Change | None]] = []
        for field in schema.fields:
            name, own = f"f{field.position}", field.schema
            of_json, change = _decoding(own, readers.of(own))
            is_required = not own.optional and own.default is None
            fields.append((name, of_json) if is_required else (name, of_json | None, None))
            self._columns.append((attrgetter(name), change))
        names = {f"f{field.position}": field.name for field in schema.fields}
        row = msgspec.defstruct("Row", fields, rename=names, gc=False, kw_only=True)
        self._decode = msgspec.json.Decoder(row).decode_lines

    def read(self, data: bytes, ends: Sequence[int]) -> StructColumns | None:
        """Return the columns of the records `data[ends[i]:ends[i + 1]]`."""
        payloads = self._payloads(data, ends)
        count = len(ends) - 1
        lines = b"\n".join(payloads)
        is_plain = lines[:1] == b"{" and lines[-1:] == b"}" and lines.count(b"}\n{") == count - 1
        if not is_plain:
            return None
        try:
            rows = self._decode(lines)
            if len(rows) != count:
                return None
            columns: list[Sequence[Any]] = []
            for of_row, change in self._columns:
                column: Sequence[Any] = list(map(of_row, rows))
                columns.append(column if change is None else change(column))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, DataError):
            return None
        return StructColumns(self._schema, columns)

    def _payloads(self, data: bytes, ends: Sequence[int]) -> list[bytes]:
        """Return the payloads; none if a record has another form."""
        head, size = self._head, len(self._head)
        if not head:
            return [data[low:high] for low, high in pairwise(ends)]
        if not all(map(data.startswith, repeat(head), ends[:-1])):
            return []
        tails = [high - 1 for high in ends[1:]]
        if set(map(getitem, repeat(data), tails)) != {_CLOSE}:
            return []
        return [data[low + size : high] for low, high in zip(ends, tails, strict=False)]


def columns_of_dicts(
    data: bytes, ends: Sequence[int], parse: Callable[[bytes], Any]
) -> StructColumns | None:
    """Return the columns of records that are JSON objects with the same keys in one order; None
    for others. `parse` raises DataError for what is no JSON."""
    values = [parse(data[low:high]) for low, high in pairwise(ends)]
    if set(map(type, values)) != {dict}:
        return None
    names = tuple(values[0])
    if not names or not all(map(eq, map(tuple, values), repeat(names))):
        return None
    return StructColumns(None, list(zip(*map(dict.values, values), strict=True)))


def is_readable(schema: Schema | None) -> bool:
    """Whether structs of this schema can be read as columns."""
    return (
        schema is not None
        and schema.type is Type.STRUCT
        and bool(schema.fields)
        and not any(_needs_digits(field.schema) for field in schema.fields)
    )


def _needs_digits(schema: Schema) -> bool:
    """Whether decimals lie inside a value, where a number would lose digits."""
    return schema.logical is not Logical.DECIMAL and has_decimal(schema)


def _decoding(schema: Schema, read: Convert) -> tuple[Any, Change | None]:
    """Return the decoder's type for a schema, and the function from its values to Connect's."""
    change = None if schema.default is None and schema.logical is None else _each(read)
    if schema.logical is Logical.DECIMAL:
        return str, _each(read)  # a number is read one by one, with all its digits
    if schema.logical is Logical.TIMESTAMP:
        is_simple = schema.default is None
        return _integer(Type.INT64), _timestamps if is_simple else _each(read)
    if schema.type in RANGES:
        return _integer(schema.type), change
    exact = _EXACT.get(schema.type)
    return (Any, _each(read)) if exact is None else (exact, change)


def _integer(kind: Type) -> Any:
    low, high = RANGES[kind]
    return Annotated[int, msgspec.Meta(ge=low, le=high)]


def _each(read: Convert) -> Change:
    return lambda column: list(map(read, column))


def _timestamps(column: Sequence[Any]) -> list[Any]:
    try:
        return list(map(add, repeat(EPOCH), map(mul, repeat(_MS), column)))
    except TypeError:  # a null
        return [None if value is None else EPOCH + _MS * value for value in column]
