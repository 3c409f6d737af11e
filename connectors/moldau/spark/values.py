"""Values as typed columns: `value.format=binary|string|json|avro|protobuf`; keys in the same way.

Invariants: one value is one row, whatever is in it; a value that cannot be read is null, or in mode
`failfast` ends the query, and the error names it; a tombstone is null.
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
"""From values as Arrow's binary to a column of the type that is wanted."""

_SPELLED: Final = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON"}
_UNFIT: Final = (ValueError, TypeError, ArithmeticError)
"""Arrow's own errors are ValueErrors and TypeErrors too."""
_UNREADABLE: Final = (
    DeserializationFailed, *_UNFIT, EOFError, LookupError, RecursionError, struct.error
)  # fmt: skip
_SHOWN: Final = 80
_BREAK: Final = repeated_text("\n", 1).cast(pa.binary())
_OBJECT: Final = r"^[ \t]*\{.*\}[ \t]*$"


def value_column(options: ReadOptions, kind: Any) -> Column:
    """What makes a column of this Arrow type of values."""
    if options.value_registry is not None:
        from moldau.spark.registry import RegistryReader

        registered = RegistryReader(options.value_registry, options.value_format)
        told = Unreadable("value", options.value_format, options.value_mode == "failfast")
        return RecordColumn(kind, registered, told)
    given = Given("value", options.value_format, options.value_schema, options.is_value_framed)
    return _column(options, kind, given)


def key_column(options: ReadOptions, kind: Any) -> Column:
    """What makes a column of this Arrow type of keys."""
    return _column(options, kind, Given("key", options.key_format, options.key_schema))


class Given(NamedTuple):
    """How keys or values are written."""

    what: str
    format: str
    schema: str | None
    is_framed: bool = False


def _column(options: ReadOptions, kind: Any, given: Given) -> Column:
    if given.format == "binary":
        return _as_they_are
    if given.format == "string":
        return _string
    told = Unreadable(given.what, given.format, options.value_mode == "failfast")
    if given.format == "json":
        return JsonColumn(kind, told)
    assert given.schema is not None
    return RecordColumn(kind, avro_reader(given.schema, is_framed=given.is_framed), told)


def _as_they_are(values: Any) -> Any:
    return values


def _string(values: Any) -> Any:
    """Bytes that are no UTF-8 become U+FFFD, as Spark's `CAST(value AS STRING)` shows them."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [
            None if each is None else each.decode("utf-8", "replace") for each in values.to_pylist()
        ]
        return pa.array(texts, pa.string())


class Unreadable(NamedTuple):
    """What is done about a key or value that cannot be read."""

    what: str
    format: str
    is_strict: bool = False

    def __call__(self, value: bytes, why: str | None = None) -> None:
        """ConfigError if it ends the query; `why` is told with it."""
        if not self.is_strict:
            return
        shown = json.dumps(value[:_SHOWN].decode("utf-8", "replace"))
        raise ConfigError(
            f"a {self.what} is no {_SPELLED[self.format]} of its schema ({self.what}.schema, "
            f"{self.what}.registry): set value.mode=permissive to read it as null",
            value=shown,
            **({} if why is None else {"why": why}),
        )


class JsonColumn:
    """JSON objects as structs: the whole batch at once, and halves of it where one is bad."""

    def __init__(self, kind: Any, told: Unreadable) -> None:
        self._kind = kind
        self._told = told
        self._options = pa_json.ParseOptions(
            explicit_schema=pa.schema(list(_as_written(kind))), unexpected_field_behavior="ignore"
        )

    def __call__(self, values: Any) -> Any:
        lines = pc.drop_null(values) if values.null_count else values
        chunks = self._parse(_one_line_each(lines))
        rows = pa.concat_arrays(chunks) if chunks else pa.array([], self._kind)
        if len(lines) == len(values):
            return rows
        # How many values are there before: where a value is, that is its row.
        is_there = pc.is_valid(values)
        order = pc.subtract(pc.cumulative_sum(is_there.cast(pa.int64())), 1)
        return rows.take(pc.if_else(is_there, order, pa.scalar(None, pa.int64())))

    def _parse(self, lines: Any) -> list[Any]:
        if not len(lines):
            return []
        found = self._together(lines)
        if found is not None:
            return [found]
        if len(lines) == 1:
            self._told(lines[0].as_py())
            return [pa.nulls(1, self._kind)]
        middle = len(lines) // 2
        return self._parse(lines[:middle]) + self._parse(lines[middle:])

    def _together(self, lines: Any) -> Any:
        """None where they cannot be read together. Each line begins with `{` and ends with `}`, so
        no object goes over two lines, and each line has at least one: as many rows as lines are one
        row a line."""
        if not _are_objects(lines):
            return None
        whole = pa.ListArray.from_arrays(int32s(0, len(lines)), lines)
        data = pc.binary_join(whole, _BREAK)[0].as_buffer()
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
    """Values that are read one by one into dicts."""

    def __init__(
        self, kind: Any, read: Callable[[bytes], dict[str, Any]], told: Unreadable
    ) -> None:
        self._kind = kind
        self._read = read
        self._told = told

    def __call__(self, values: Any) -> Any:
        found = values.to_pylist()
        with asking_once():
            rows = [self._row(each) for each in found]
        try:
            return pa.array(rows, self._kind)
        except _UNFIT:
            # Some row has a value that no column of its type can hold, such as a year 300,000.
            fitting = [self._fitting(*each) for each in zip(rows, found, strict=True)]
            return pa.array(fitting, self._kind)

    def _row(self, value: bytes | None) -> dict[str, Any] | None:
        if value is None:
            return None
        try:
            return self._read(value)
        except _UNREADABLE as error:
            self._told(value, error.reason if isinstance(error, DeserializationFailed) else None)
            return None

    def _fitting(self, row: dict[str, Any] | None, value: bytes) -> dict[str, Any] | None:
        try:
            pa.array([row], self._kind)
        except _UNFIT:
            self._told(value)
            return None
        return row


def _as_written(kind: Any) -> list[Any]:
    """The fields as JSON writes them: a date is text."""
    return [pa.field(each.name, _written(each.type)) for each in kind]


def _written(kind: Any) -> Any:
    if pa.types.is_date(kind) or pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct(_as_written(kind))
    if pa.types.is_list(kind):
        return pa.list_(_written(kind.value_type))
    return kind


def _one_line_each(values: Any) -> Any:
    """Line breaks in JSON stand between tokens, where a blank means the same."""
    for mark in ("\n", "\r"):
        if pc.any(pc.match_substring(values, mark)).as_py():
            values = pc.replace_substring(values, mark, " ")
    return values


def _are_objects(lines: Any) -> bool:
    plain = pc.and_(pc.starts_with(lines, "{"), pc.ends_with(lines, "}"))
    if pc.all(plain).as_py():
        return True
    others = lines.filter(pc.invert(plain))
    return bool(pc.all(pc.match_substring_regex(others, _OBJECT)).as_py())
