"""The target tables: reads them, and makes them fit (auto.create, auto.evolve).

Columns are only ever added, nullable or with a default; no type is changed, nothing is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from moldau.connect.api import ConnectError
from moldau.connectors.jdbc.catalog import read_table
from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, Table, TableId
from moldau.connectors.jdbc.database import Database, PoisonError
from moldau.connectors.jdbc.inference import type_of_values
from moldau.connectors.jdbc.shapes import RowShape, ShapeColumn
from moldau.connectors.jdbc.sink_settings import SinkConfig

_log = logging.getLogger(__name__)

Samples = Callable[[str, bool], Iterable[Any]]
"""Returns a batch's values for a column: (name, whether it is part of the key)."""


class Structure:
    """The target tables as last read. `version` grows when one of them changes."""

    def __init__(self, database: Database, config: SinkConfig) -> None:
        self._database = database
        self._config = config
        self._tables: dict[TableId, Table] = {}
        self._fitting: set[RowShape] = set()
        self.version = 0

    def table(self, table: TableId) -> Table:
        """Return a table that was passed to `fit`."""
        return self._tables[table]

    def is_fit(self, shape: RowShape) -> bool:
        """Whether the table is known to have all columns of the shape."""
        return shape in self._fitting and shape.table in self._tables

    def fit(self, shape: RowShape, samples: Samples) -> None:
        """Make the table of a shape have all columns for which the rows have values."""
        table = self._tables.get(shape.table)
        if table is not None and shape in self._fitting:
            return
        table = table or self._read(shape.table)
        if table is None:
            table = self._create(shape, samples)
        missing = self._missing(table, shape, samples)
        if missing:
            table = self._evolve(table, missing)
        self._tables[shape.table] = table
        if all(name in table.by_name for name in shape.names):
            self._fitting.add(shape)

    def forget(self) -> None:
        """Forget all tables, so that they are read again: another program may have changed one."""
        self._tables.clear()
        self._fitting.clear()
        self.version += 1

    def _read(self, table: TableId) -> Table | None:
        with self._database.transaction() as connection:
            return read_table(connection, table)

    def _create(self, shape: RowShape, samples: Samples) -> Table:
        if not self._config.auto_create:
            raise ConnectError(
                f"table {shape.table} does not exist -> create it, or set auto.create=true"
            )
        key = [_column(part, samples, in_key=True) for part in shape.key]
        others = [_column(part, samples, in_key=False) for part in shape.others]
        columns = [each for each in (*key, *others) if each is not None]
        if not columns:
            raise ConnectError(f"table {shape.table} cannot be created: the record has no values")
        dialect = self._database.dialect
        self._change([dialect.create_table(shape.table, columns, shape.key_names)], shape.table)
        return self._after_change(shape.table)

    def _missing(self, table: Table, shape: RowShape, samples: Samples) -> list[Column]:
        missing = []
        for part in (*shape.key, *shape.others):
            if part.name in table.by_name:
                continue
            column = _column(part, samples, in_key=part in shape.key)
            if column is None:
                continue
            if part in shape.key:
                raise ConnectError(f"table {table.id} has no column {part.name}, but it is a key")
            if not column.nullable and column.default is None and part.schema is not None:
                raise ConnectError(
                    f"table {table.id} has no column {part.name}, and it cannot be added: the "
                    "field is neither optional nor has it a default"
                )
            missing.append(column)
        return missing

    def _evolve(self, table: Table, missing: Sequence[Column]) -> Table:
        names = ", ".join(column.name for column in missing)
        if not self._config.auto_evolve:
            raise ConnectError(
                f"table {table.id} has no column {names} -> add it, set auto.evolve=true, or leave "
                "the field out with fields.whitelist"
            )
        self._change(self._database.dialect.add_columns(table.id, missing), table.id)
        return self._after_change(table.id)

    def _change(self, statements: Sequence[str], table: TableId) -> None:
        """Run DDL. If it fails, another task may have done the same: raise ConnectError only if the
        table does not exist then."""
        try:
            with self._database.transaction() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
                    _log.info("table %s: %s", table, statement)
        except (ConnectError, PoisonError) as error:
            if self._read(table) is None:
                raise ConnectError(str(error)) from error
            _log.info("table %s was changed by another task as well: %s", table, error)

    def _after_change(self, table: TableId) -> Table:
        self.version += 1
        self._fitting.clear()
        found = self._read(table)
        if found is None:
            raise ConnectError(f"table {table} was created and has vanished again")
        return found


def _column(part: ShapeColumn, samples: Samples, *, in_key: bool) -> Column | None:
    """Return the column for a part; None for a JSON field with only nulls."""
    if part.schema is not None:
        return part.column(in_key)
    found = type_of_values(samples(part.name, in_key))
    if found is None:
        return Column(part.name, ColumnType(ColumnKind.STRING)) if in_key else None
    return Column(part.name, found, nullable=not in_key)
