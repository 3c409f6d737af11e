"""Read JSON objects as structs: a whole batch at once with Arrow, and odd values one by one.

Invariants: One value is one row, whatever its bytes are. A batch with one odd value is read as fast
as without it, but for the few values beside it.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from moldau.spark.json_records import json_reader
from moldau.spark.plain_arrays import int32s, repeated_text
from moldau.spark.record_column import RecordColumn
from moldau.spark.unreadable import UnreadablePolicy

_NEWLINE: Final = repeated_text("\n", 1).cast(pa.binary())
_JSON_OBJECT: Final = r"^[ \t]*\{.*\}[ \t]*$"
_FEWEST_TOGETHER: Final = 16
"""Arrow does not parse fewer values than this in one call if it refused them: a call costs more
than to read them one by one."""


class JsonColumn:
    """Reads JSON objects as structs. It parses a whole batch at once.

    If that fails, it parses the two halves of the batch, down to a few values that are read one by
    one. Types that Arrow's reader does not know are always read one by one."""

    def __init__(self, kind: Any, policy: UnreadablePolicy) -> None:
        """Raise ConfigError, which names the field, if JSON has no value for a type."""
        self._kind = kind
        self._one_by_one = RecordColumn(kind, json_reader(kind, policy.what), policy)
        self._is_known_to_arrow = _is_known_to_arrow(kind)
        self._options = pa_json.ParseOptions(
            explicit_schema=pa.schema(_json_fields(kind)), unexpected_field_behavior="ignore"
        )

    def __call__(self, values: Any) -> Any:
        if not self._is_known_to_arrow:
            return self._one_by_one(values)
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
        if len(lines) <= _FEWEST_TOGETHER:
            return [self._one_by_one(lines)]
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


def _is_known_to_arrow(kind: Any) -> bool:
    """Whether Arrow's reader has values of this type. It knows no maps, and no bytes in base64."""
    if pa.types.is_struct(kind):
        return all(_is_known_to_arrow(each.type) for each in kind)
    if pa.types.is_list(kind):
        return _is_known_to_arrow(kind.value_type)
    return not (pa.types.is_map(kind) or pa.types.is_binary(kind))


def _json_fields(kind: Any) -> list[Any]:
    """Return the fields with the types that JSON has for them: a date is a string."""
    return [pa.field(each.name, _json_type(each.type)) for each in kind]


def _json_type(kind: Any) -> Any:
    if pa.types.is_date(kind):
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
