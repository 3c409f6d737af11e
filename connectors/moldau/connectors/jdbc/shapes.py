"""From records to rows: the table, the columns, and the columns of the key.

Records with the same topic and the same schemas have one `RowShape`, which is computed once. Plain
JSON has a shape for each set of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.connect.api import DataError, SinkRecord
from moldau.connect.data import INT32, INT64, STRING, Schema, Struct, Type
from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId
from moldau.connectors.jdbc.inference import type_of_schema, type_of_values
from moldau.connectors.jdbc.sink_settings import KAFKA_COLUMNS, KeyMode, SinkConfig
from moldau.connectors.jdbc.structure import RowColumns
from moldau.deferred import dataclass

Extract = Callable[[SinkRecord], tuple[Any, ...]]
_KAFKA_SCHEMAS = (STRING, INT32, INT64)


@dataclass(frozen=True, slots=True, eq=False)
class ShapeColumn:
    """One column of a shape: its name, and its schema if there is one."""

    name: str
    schema: Schema | None

    def column(self, in_key: bool) -> Column:
        """Return the column that auto.create makes; only for parts with a schema."""
        assert self.schema is not None
        optional = self.schema.optional and not in_key
        return Column(self.name, type_of_schema(self.schema), optional, default=self.schema.default)


@dataclass(frozen=True, slots=True)
class FieldPositions:
    """The positions of values in the struct of each record, and the defaults for None values."""

    of_key: bool
    positions: tuple[int, ...]
    defaults: tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RowShape:
    """How records of one kind become rows; the key's columns come first."""

    table: TableId
    key: tuple[ShapeColumn, ...]
    others: tuple[ShapeColumn, ...]
    key_of: Extract
    others_of: Extract
    key_picked: FieldPositions | None = None
    others_picked: FieldPositions | None = None
    """The same for many records at once; None if values do not come from a struct."""

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.key)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in (*self.key, *self.others))


def row_columns(shape: RowShape, records: Sequence[SinkRecord]) -> RowColumns:
    """Return the columns of these records, which have this shape. The values of JSON fields without
    a schema decide about their columns."""

    def column(name: str, in_key: bool) -> Column | None:
        parts, extract = (shape.key, shape.key_of) if in_key else (shape.others, shape.others_of)
        index = [part.name for part in parts].index(name)
        part = parts[index]
        if part.schema is not None:
            return part.column(in_key)
        found = type_of_values(extract(record)[index] for record in records)
        if found is None:
            return Column(name, ColumnType(ColumnKind.STRING)) if in_key else None
        return Column(name, found, nullable=not in_key)

    return RowColumns(shape.table, shape.key_names, shape.names[len(shape.key) :], column)


class Shapes:
    """Finds the shape of a record. Raises DataError for a record that has none."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._known: dict[Any, RowShape] = {}
        self._last: tuple[Any, ...] = (self, self, "", None, None)
        """Schemas, topic and key type of the last struct record, and its shape, often reused."""

    def of(self, record: SinkRecord) -> RowShape:
        value = record.value
        if (
            record.value_schema is self._last[0]
            and record.key_schema is self._last[1]
            and record.topic == self._last[2]
            and type(value) is Struct
            and type(record.key) is self._last[3]
        ):
            found: RowShape = self._last[4]
            return found
        fields = tuple(value) if isinstance(value, dict) and record.value_schema is None else None
        key_fields = tuple(record.key) if isinstance(record.key, dict) else type(record.key)
        known = (
            record.topic,
            record.key_schema,
            record.value_schema,
            fields,
            key_fields,
            value is None,
        )
        shape = self._known.get(known)
        if shape is None:
            shape = self._known[known] = self._build(record)
        if type(value) is Struct and type(record.key) is not dict:
            schemas = record.value_schema, record.key_schema
            self._last = (*schemas, record.topic, type(record.key), shape)
        return shape

    def _build(self, record: SinkRecord) -> RowShape:
        try:
            table = self._config.table_of(record.topic)
        except ValueError as error:
            raise DataError(f"table.name.format: {error}") from None
        key, key_of = self._key(record)
        if record.value is None:
            if not self._config.delete_enabled:
                raise DataError(
                    "the record has no value -> set delete.enabled=true to delete rows, or drop "
                    "such records with a Filter transform"
                )
            return RowShape(table, key, (), key_of, _nothing)
        taken = {part.name for part in key}
        parts, others_of = self._others(record, taken)
        return RowShape(
            table,
            key,
            parts,
            key_of,
            others_of,
            self._key_picked(record, key),
            self._picked(_names(record.value_schema, record.value), parts, of_key=False),
        )

    def _key_picked(self, record: SinkRecord, key: Sequence[ShapeColumn]) -> FieldPositions | None:
        if self._config.key_mode is KeyMode.RECORD_VALUE:
            names = _names(record.value_schema, record.value)
            return self._picked(names, key, of_key=False)
        if self._config.key_mode is KeyMode.RECORD_KEY and record.key_schema is not None:
            return self._picked(_names(record.key_schema, record.key), key, of_key=True)
        return None

    def _picked(
        self, names: Sequence[str] | None, parts: Sequence[ShapeColumn], *, of_key: bool
    ) -> FieldPositions | None:
        if names is None:
            return None
        positions = tuple(names.index(part.name) for part in parts)
        return FieldPositions(of_key, positions, self._defaults(parts))

    def _defaults(self, parts: Sequence[ShapeColumn]) -> tuple[tuple[int, Any], ...]:
        """Return the defaults that replace None in these parts, by their indexes."""
        if not self._config.null_to_default:
            return ()
        return tuple(
            (index, part.schema.default)
            for index, part in enumerate(parts)
            if part.schema is not None and part.schema.default is not None
        )

    def _key(self, record: SinkRecord) -> tuple[tuple[ShapeColumn, ...], Extract]:
        mode = self._config.key_mode
        names = self._config.key_fields_of(record.topic)
        if mode is KeyMode.NONE:
            return (), _nothing
        if mode is KeyMode.KAFKA:
            named = zip(names or KAFKA_COLUMNS, _KAFKA_SCHEMAS, strict=True)
            return tuple(ShapeColumn(name, schema) for name, schema in named), coordinates
        if mode is KeyMode.RECORD_VALUE:
            return self._fields(record.value_schema, record.value, names, "value")
        if record.key is None:
            raise DataError("the record has no key, but pk.mode=record_key needs one")
        if isinstance(record.key, Struct | dict):
            return self._fields(record.key_schema, record.key, names, "key")
        if len(names) != 1:
            raise DataError(
                "the record's key is a single value, so pk.fields must name one column, "
                f"not {list(names)}"
            )
        return (ShapeColumn(names[0], record.key_schema),), lambda each: (each.key,)

    def _fields(
        self, schema: Schema | None, value: Any, names: Sequence[str], where: str
    ) -> tuple[tuple[ShapeColumn, ...], Extract]:
        """Return the key's parts from a struct or a dict: the named fields, or all."""
        available = _available(schema, value)
        if available is None:
            raise DataError(
                f"pk.mode=record_{where} needs a {where} with fields, not {type(value).__name__}"
            )
        missing = [name for name in names if name not in available]
        if missing:
            raise DataError(
                f"pk.fields: the {where} has no field {', '.join(missing)}; it has "
                f"{', '.join(available)}"
            )
        chosen = {name: available[name] for name in names} if names else available
        parts = tuple(ShapeColumn(name, part) for name, part in chosen.items())
        return parts, self._extract(schema, parts, where)

    def _others(
        self, record: SinkRecord, taken: set[str]
    ) -> tuple[tuple[ShapeColumn, ...], Extract]:
        available = _available(record.value_schema, record.value)
        if available is None:
            column = self._config.text_column
            if not isinstance(record.value, str):
                raise DataError(
                    f"the value is a {type(record.value).__name__}, not an object with fields -> "
                    "use a converter that gives structs or JSON objects"
                )
            return (ShapeColumn(column, STRING),), lambda each: (each.value,)
        chosen = [name for name in available if name not in taken]
        if self._config.whitelist:
            chosen = [name for name in chosen if name in self._config.whitelist]
        parts = tuple(ShapeColumn(name, available[name]) for name in chosen)
        return parts, self._extract(record.value_schema, parts, "value")

    def _extract(self, schema: Schema | None, parts: Sequence[ShapeColumn], where: str) -> Extract:
        """Return a function from a record to the values of these parts."""
        if schema is None:
            names = [part.name for part in parts]
            if where == "key":
                return lambda record: tuple([record.key[name] for name in names])
            return lambda record: tuple([record.value[name] for name in names])
        positions = [schema.positions[part.name] for part in parts]
        values = _picking(positions, len(schema.fields))
        defaults = self._defaults(parts)

        def extract(record: SinkRecord) -> tuple[Any, ...]:
            found = values((record.key if where == "key" else record.value).row)
            for index, default in defaults:
                if found[index] is None:
                    found = (*found[:index], default, *found[index + 1 :])
            return found

        return extract


def _picking(positions: Sequence[int], count: int) -> Callable[[list[Any]], tuple[Any, ...]]:
    if list(positions) == list(range(count)):
        return tuple
    if positions and list(positions) == list(range(positions[0], positions[-1] + 1)):
        start, end = positions[0], positions[-1] + 1
        return lambda row: tuple(row[start:end])
    return lambda row: tuple([row[each] for each in positions])


def _available(schema: Schema | None, value: Any) -> dict[str, Schema | None] | None:
    """Return the fields of a struct or a dict, with their schemas; None for anything else."""
    if isinstance(value, Struct):
        return {field.name: field.schema for field in value.schema.fields}
    if isinstance(value, dict) and (schema is None or schema.type is Type.MAP):
        return {str(name): None for name in value}
    return None


def _names(schema: Schema | None, value: Any) -> Sequence[str] | None:
    """Return the names of a struct's fields, or of a dict without a schema; None for others."""
    if schema is not None:
        return tuple(schema.positions) if schema.type is Type.STRUCT else None
    return tuple(map(str, value)) if isinstance(value, dict) else None


def _nothing(record: SinkRecord) -> tuple[Any, ...]:
    return ()


def coordinates(record: SinkRecord) -> tuple[Any, ...]:
    """Return topic, partition and offset: the key with pk.mode=kafka."""
    return record.original_topic, record.original_partition, record.original_offset
