"""Reads and writes Parquet with pyarrow, which is imported at the first use."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, BinaryIO

from moldau.connect.api import ConnectError, DataError, Schema, Struct
from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
)
from moldau.plugins.extras import install_command

_SIMPLE: Mapping[str, Schema] = {
    "bool": BOOLEAN, "int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64, "uint8": INT16,
    "uint16": INT32, "uint32": INT64, "float": FLOAT32, "double": FLOAT64, "string": STRING,
    "large_string": STRING, "binary": BYTES, "large_binary": BYTES, "date32[day]": DATE,
}  # fmt: skip


def missing() -> str:
    """Return what to say without pyarrow."""
    return f"Parquet needs pyarrow -> {install_command('parquet')}"


def is_installed() -> bool:
    """Whether pyarrow can be imported. It is not imported by that."""
    return find_spec("pyarrow") is not None


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConnectError(missing()) from error
    return pyarrow


def read_rows(file: BinaryIO, skip: int, batch: int) -> Iterator[list[Struct]]:
    """Yield a file's rows as structs, in batches, without the first `skip`."""
    opened = _arrow().parquet.ParquetFile(file)
    schema = _struct_schema(opened.schema_arrow)
    for part in opened.iter_batches(batch_size=batch):
        if skip >= part.num_rows:
            skip -= part.num_rows
            continue
        rows = part.slice(skip).to_pylist()
        skip = 0
        yield [Struct.of_row(schema, _row(schema, row)) for row in rows]


def write_rows(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a file of rows with the columns that occur in them."""
    arrow = _arrow()
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        columns = {name: arrow.array([row.get(name) for row in rows]) for name in names}
        table = arrow.table(columns)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
        raise DataError(f"the records of one file do not agree on a type: {error}") from error
    out = io.BytesIO()
    arrow.parquet.write_table(table, out)
    return out.getvalue()


def _struct_schema(arrow: Any) -> Schema:
    return Schema.struct({field.name: _schema(field.type).optionally() for field in arrow})


def _schema(kind: Any) -> Schema:
    text = str(kind)
    if text in _SIMPLE:
        return _SIMPLE[text]
    if text.startswith("timestamp"):
        return TIMESTAMP
    if text.startswith("time"):
        return TIME
    if text.startswith("decimal"):
        return Schema.decimal(kind.scale)
    if text.startswith(("list", "large_list")):
        return Schema.array(_schema(kind.value_type).optionally())
    if text.startswith("struct"):
        return _struct_schema(kind)
    raise ConnectError(f"Parquet columns of type {text} cannot be read")


def _row(schema: Schema, row: Mapping[str, Any]) -> list[Any]:
    return [_value(field.schema, row[field.name]) for field in schema.fields]


def _value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.fields:
        return Struct.of_row(schema, _row(schema, value))
    if isinstance(value, list) and schema.value_schema is not None:
        return [_value(schema.value_schema, item) for item in value]
    if schema.logical is TIMESTAMP.logical and value.tzinfo is None:
        from datetime import UTC

        return value.replace(tzinfo=UTC)
    return value
