"""Turn values and keys into typed columns: `value.format=binary|string|json|avro|protobuf`.

Invariants: One value is one row, whatever its bytes are. A value that cannot be read is null; in
mode `failfast` it ends the query, and the error shows it. A tombstone is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from moldau.spark.avro import avro_reader
from moldau.spark.json_column import JsonColumn
from moldau.spark.options import ReadOptions
from moldau.spark.record_column import RecordColumn
from moldau.spark.unreadable import UnreadablePolicy

Column = Callable[[Any], Any]
"""Turns an Arrow array of binary values into a column of the wanted type."""


def value_column(options: ReadOptions, kind: Any) -> Column:
    """Return the function that turns values into a column of this Arrow type."""
    if options.value_registry is not None:
        from moldau.spark.registry import RegistryReader

        registered = RegistryReader(
            options.value_registry, options.value_format, checks_rules=options.checks_rules
        )
        policy = UnreadablePolicy("value", options.value_format, options.value_mode == "failfast")
        return RecordColumn(kind, registered, policy)
    field = FieldFormat(
        "value", options.value_format, options.value_schema, options.is_value_framed
    )
    return _column(options, kind, field)


def key_column(options: ReadOptions, kind: Any) -> Column:
    """Return the function that turns keys into a column of this Arrow type."""
    return _column(options, kind, FieldFormat("key", options.key_format, options.key_schema))


class FieldFormat(NamedTuple):
    """How the keys or the values of a topic are encoded. `what` is `key` or `value`."""

    what: str
    format: str
    schema: str | None
    is_framed: bool = False


def _column(options: ReadOptions, kind: Any, field: FieldFormat) -> Column:
    if field.format == "binary":
        return _unchanged
    if field.format == "string":
        return _string
    policy = UnreadablePolicy(field.what, field.format, options.value_mode == "failfast")
    if field.format == "json":
        return JsonColumn(kind, policy)
    assert field.schema is not None
    return RecordColumn(kind, avro_reader(field.schema, is_framed=field.is_framed), policy)


def _unchanged(values: Any) -> Any:
    return values


def _string(values: Any) -> Any:
    """Decode texts. As in Spark's `CAST(value AS STRING)`, invalid UTF-8 becomes U+FFFD."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [
            None if each is None else each.decode("utf-8", "replace") for each in values.to_pylist()
        ]
        return pa.array(texts, pa.string())
