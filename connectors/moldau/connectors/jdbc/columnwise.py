"""Converts records of one shape to columns of rows. No IO.

Most batches are of one kind: structs of one schema from one topic. Their rows are taken apart
column by column, each step one call for the whole batch. If a batch is of another kind, or a value
does not convert, the result is None: such records are converted one by one, which shows the bad
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from moldau.connect.api import SinkColumns, SinkRecord, Struct
from moldau.connectors.jdbc.shapes import FieldPositions, RowShape, coordinates
from moldau.connectors.jdbc.values import Convert, are_unchanged
from moldau.connectors.jdbc.writing import TargetTable
from moldau.deferred import dataclass

Column = Sequence[Any]

COLUMN_TRIES: Final = 3
"""After this many batches in a row that could not be written by columns, no other is tried."""


@dataclass(slots=True)
class RowPlan:
    """How rows of a shape are made for the current table."""

    target: TargetTable
    names: tuple[str, ...]
    key_converts: list[tuple[int, Convert]]
    converts: list[tuple[int, Convert]]
    kept: list[int] | None
    """Positions of the columns that exist in the table; None: all of them."""
    tries_left: int = COLUMN_TRIES


def are_alike(records: Sequence[SinkRecord]) -> bool:
    """Whether all are structs of one schema, with keys of one type, of one topic."""
    first = records[0]
    if type(first.value) is not Struct:
        return False
    for name in ("topic", "value_schema", "key_schema"):
        each, wanted = attrgetter(name), getattr(first, name)
        if any(found is not wanted and found != wanted for found in map(each, records)):
            return False
    return set(map(type, map(_VALUE, records))) == {Struct} and (
        set(map(type, map(_KEY, records))) == {type(first.key)}
    )


_VALUE = attrgetter("value")
_KEY = attrgetter("key")


def columns_of(
    records: Sequence[SinkRecord], shape: RowShape, prepared: RowPlan, *, is_keyed: bool
) -> list[Column] | None:
    """Return the key's columns, then the others. With `is_keyed` they have the last row of each
    key, sorted by key. The records must be alike (`are_alike`)."""
    try:
        keys = converted(_side(records, shape, in_key=True), prepared.key_converts)
        others = _side(records, shape, in_key=False)
        if prepared.kept is not None:
            others = [others[index] for index in prepared.kept]
        others = converted(others, prepared.converts)
        columns = [*keys, *others]
        return _last_of_each(keys, columns) if is_keyed and keys else columns
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return None


def columns_of_part(part: SinkColumns, shape: RowShape, prepared: RowPlan) -> list[Column] | None:
    """Return the key's columns, then the others, of records that came as columns. Return None if
    they are of another kind."""
    try:
        keys = _keys_of(part, shape)
        if keys is None or shape.others_picked is None:
            return None
        others = _chosen(part.value.columns, shape.others_picked)
        if prepared.kept is not None:
            others = [others[index] for index in prepared.kept]
        return [*converted(keys, prepared.key_converts), *converted(others, prepared.converts)]
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return None


def _keys_of(part: SinkColumns, shape: RowShape) -> list[Column] | None:
    picked = shape.key_picked
    if not shape.key:
        return []
    if picked is not None and not picked.of_key:
        return _chosen(part.value.columns, picked)
    if shape.key_of is coordinates:
        count = len(part)
        return [[part.topic] * count, [part.partition] * count, list(part.offsets)]
    kinds, schema = set(map(type, part.keys)), part.first.key_schema
    if kinds != {type(part.first.key)}:
        return None
    if picked is None:  # a single value; its schema may differ from record to record
        is_one = len(shape.key) == 1 and kinds <= {str, int, bytes} and schema is not None
        return [part.keys] if is_one else None
    if kinds != {Struct} or any(key.schema != schema for key in part.keys):
        return None
    return _chosen(list(zip(*[key.row for key in part.keys], strict=True)), picked)


class UnsortableError(ValueError):
    """Keys of these rows have no order: one is null, or they are of several types."""


def last_rows(columns: Sequence[Column], keys: int) -> list[Column]:
    """Return the last row of each key, sorted by key. The first `keys` columns are the key. Raise
    UnsortableError if that is not possible."""
    listed = list(columns)
    try:
        return _last_of_each(listed[:keys], listed) if keys else listed
    except TypeError as error:
        raise UnsortableError(str(error)) from error


def _side(records: Sequence[SinkRecord], shape: RowShape, *, in_key: bool) -> list[Column]:
    parts = shape.key if in_key else shape.others
    picked = shape.key_picked if in_key else shape.others_picked
    if not parts:
        return []
    if picked is None:
        extract = shape.key_of if in_key else shape.others_of
        return list(zip(*map(extract, records), strict=True))
    return _picked(records, picked)


def _picked(records: Sequence[SinkRecord], picked: FieldPositions) -> list[Column]:
    structs = map(_KEY if picked.of_key else _VALUE, records)
    return _chosen(list(zip(*[each.row for each in structs], strict=True)), picked)


def _chosen(fields: Sequence[Column], picked: FieldPositions) -> list[Column]:
    found = [fields[position] for position in picked.positions]
    for index, default in picked.defaults:
        if None in found[index]:
            found[index] = [default if value is None else value for value in found[index]]
    return found


def converted(columns: list[Column], converts: list[tuple[int, Convert]]) -> list[Column]:
    """Return the columns, those at these indexes with each value converted. None stays."""
    changed = list(columns)
    for index, convert in converts:
        column = columns[index]
        if not are_unchanged(convert, set(map(type, column))):
            changed[index] = [None if value is None else convert(value) for value in column]
    return changed


def _last_of_each(keys: list[Column], columns: list[Column]) -> list[Column]:
    listed = list(keys[0] if len(keys) == 1 else zip(*keys, strict=True))
    last = {key: index for index, key in enumerate(listed)}
    order = sorted(last)
    if order == listed:
        return columns
    if len(order) == 1:
        return [(column[last[order[0]]],) for column in columns]
    choose = itemgetter(*[last[key] for key in order])
    return [choose(column) for column in columns]
