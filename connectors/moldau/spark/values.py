"""Turn values and keys into typed columns: `value.format=binary|string|json|avro|protobuf`.

Invariants: One value is one row, whatever its bytes are. A value that cannot be read is null; in
mode `failfast` it ends the query, and the error shows it. A tombstone is null.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from moldau.client.serdes.contract import DeserializationFailed, asking_once
from moldau.errors import ConfigError
from moldau.spark.avro import avro_reader
from moldau.spark.options import ReadOptions
from moldau.spark.plain_arrays import int32s, repeated_text

Column = Callable[[Any], Any]
"""Turns an Arrow array of binary values into a column of the wanted type."""

_FORMAT_NAMES: Final = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON"}
_CONVERSION_ERRORS: Final = (ValueError, TypeError, ArithmeticError)
"""A value does not fit its column. Arrow's own errors are ValueErrors and TypeErrors too."""
_READ_ERRORS: Final = (
    DeserializationFailed, *_CONVERSION_ERRORS, EOFError, LookupError, RecursionError, struct.error
)  # fmt: skip
_SHOWN_BYTES: Final = 80
_NEWLINE: Final = repeated_text("\n", 1).cast(pa.binary())
_JSON_OBJECT: Final = r"^[ \t]*\{.*\}[ \t]*$"


def value_column(options: ReadOptions, kind: Any) -> Column:
    """Return the function that turns values into a column of this Arrow type."""
    if options.value_registry is not None:
        from moldau.spark.registry import RegistryReader

        registered = RegistryReader(options.value_registry, options.value_format)
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


class UnreadablePolicy(NamedTuple):
    """What to do with a key or value that cannot be read: nothing, or end the query."""

    what: str
    format: str
    is_strict: bool = False

    def __call__(self, value: bytes, why: str | None = None) -> None:
        """Raise ConfigError if such a value must end the query. `why` is part of the error."""
        if not self.is_strict:
            return
        shown = json.dumps(value[:_SHOWN_BYTES].decode("utf-8", "replace"))
        raise ConfigError(
            f"a {self.what} is not {_FORMAT_NAMES[self.format]} of its schema ({self.what}.schema, "
            f"{self.what}.registry): set value.mode=permissive to read it as null",
            value=shown,
            **({} if why is None else {"why": why}),
        )


class JsonColumn:
    """Reads JSON objects as structs. It parses a whole batch at once.

    If that fails, it parses the two halves of the batch, down to the values that are wrong."""

    def __init__(self, kind: Any, policy: UnreadablePolicy) -> None:
        self._kind = kind
        self._policy = policy
        self._options = pa_json.ParseOptions(
            explicit_schema=pa.schema(list(_json_fields(kind))), unexpected_field_behavior="ignore"
        )

    def __call__(self, values: Any) -> Any:
        lines = pc.drop_null(values) if values.null_count else values
        chunks = self._parse(_without_line_breaks(lines))
        rows = pa.concat_arrays(chunks) if chunks else pa.array([], self._kind)
        if len(lines) == len(values):
            return rows
        # The row of a value is the number of values before it that are not null.
        is_there = pc.is_valid(values)
        order = pc.subtract(pc.cumulative_sum(is_there.cast(pa.int64())), 1)
        return rows.take(pc.if_else(is_there, order, pa.scalar(None, pa.int64())))

    def _parse(self, lines: Any) -> list[Any]:
        if not len(lines):
            return []
        found = self._parse_together(lines)
        if found is not None:
            return [found]
        if len(lines) == 1:
            self._policy(lines[0].as_py())
            return [pa.nulls(1, self._kind)]
        middle = len(lines) // 2
        return self._parse(lines[:middle]) + self._parse(lines[middle:])

    def _parse_together(self, lines: Any) -> Any:
        """Parse all lines in one call. Return None if that is not possible.

        Each line begins with `{` and ends with `}`, so no object continues on another line, and
        each line has at least one object. So if there are as many rows as lines, each line is one
        row."""
        if not _are_objects(lines):
            return None
        whole = pa.ListArray.from_arrays(int32s(0, len(lines)), lines)
        data = pc.binary_join(whole, _NEWLINE)[0].as_buffer()
        reading = pa_json.ReadOptions(block_size=max(data.size + 1, 1024), use_threads=False)
        try:
            table = pa_json.read_json(
                pa.BufferReader(data), read_options=reading, parse_options=self._options
            )
            rows = table.to_struct_array().combine_chunks().cast(self._kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        return rows if len(rows) == len(lines) else None


class RecordColumn:
    """Reads values one by one into dicts, and makes a column of structs from them."""

    def __init__(
        self, kind: Any, read: Callable[[bytes], dict[str, Any]], policy: UnreadablePolicy
    ) -> None:
        self._kind = kind
        self._read = read
        self._policy = policy

    def __call__(self, values: Any) -> Any:
        found = values.to_pylist()
        with asking_once():
            rows = [self._row(each) for each in found]
        try:
            return pa.array(rows, self._kind)
        except _CONVERSION_ERRORS:
            # A row has a value that does not fit into its column, such as the year 300,000.
            fitting = [self._row_or_null(*each) for each in zip(rows, found, strict=True)]
            return pa.array(fitting, self._kind)

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


def _json_fields(kind: Any) -> list[Any]:
    """Return the fields with the types that JSON has for them: a date is a string."""
    return [pa.field(each.name, _json_type(each.type)) for each in kind]


def _json_type(kind: Any) -> Any:
    if pa.types.is_date(kind) or pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct(_json_fields(kind))
    if pa.types.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    return kind


def _without_line_breaks(values: Any) -> Any:
    """Replace line breaks by blanks. In JSON they are between tokens, where both mean the same."""
    for mark in ("\n", "\r"):
        if pc.any(pc.match_substring(values, mark)).as_py():
            values = pc.replace_substring(values, mark, " ")
    return values


def _are_objects(lines: Any) -> bool:
    plain = pc.and_(pc.starts_with(lines, "{"), pc.ends_with(lines, "}"))
    if pc.all(plain).as_py():
        return True
    others = lines.filter(pc.invert(plain))
    return bool(pc.all(pc.match_substring_regex(others, _JSON_OBJECT)).as_py())
