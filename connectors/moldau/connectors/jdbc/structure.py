"""The target tables: reads them, and makes them fit (auto.create, auto.evolve).

Columns are only ever added, nullable or with a default; no type is changed, nothing is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from moldau.connect.errors import ConnectError, RetriableError
from moldau.connectors.jdbc.catalog import read_table
from moldau.connectors.jdbc.columns import Column, Table, TableId
from moldau.connectors.jdbc.database import Database, PoisonError
from moldau.deferred import dataclass

_log = logging.getLogger(__name__)


class MissingColumns(ConnectError):
    """A table lacks columns, and none may be added."""


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """The columns that rows have for a table: the names, and how to make a column that is missing.

    `column` gets a name and whether it is in the key. It returns None if no value says what column
    that would be: the rows are written without it.
    """

    table: TableId
    key: tuple[str, ...]
    others: tuple[str, ...]
    column: Callable[[str, bool], Column | None]


class Structure:
    """The target tables as last read. `version` grows when one of them changes."""

    def __init__(
        self, database: Database, *, auto_create: bool, auto_evolve: bool, or_else: str = ""
    ) -> None:
        """`or_else` says what else a user can do about a missing column."""
        self._database = database
        self._auto_create = auto_create
        self._auto_evolve = auto_evolve
        self._or_else = or_else
        self._tables: dict[TableId, Table] = {}
        self.version = 0

    def table(self, table: TableId) -> Table:
        """Return a table that was passed to `fit`."""
        return self._tables[table]

    def is_fit(self, table: TableId, names: Iterable[str]) -> bool:
        """Whether the table is known to have all these columns."""
        found = self._tables.get(table)
        return found is not None and all(name in found.by_name for name in names)

    def fit(self, rows: RowColumns) -> None:
        """Make a table have all columns for which the rows have values."""
        table = self._tables.get(rows.table) or self._read(rows.table)
        if table is None:
            table = self._create(rows)
        missing = self._missing(table, rows)
        if missing:
            table = self._evolve(table, missing)
        self._tables[rows.table] = table

    def forget(self) -> None:
        """Forget all tables, so that they are read again: another program may have changed one."""
        self._tables.clear()
        self.version += 1

    def _read(self, table: TableId) -> Table | None:
        with self._database.transaction() as connection:
            return read_table(connection, table)

    def _create(self, rows: RowColumns) -> Table:
        if not self._auto_create:
            raise ConnectError(
                f"table {rows.table} does not exist -> create it, or set auto.create=true"
            )
        key = [rows.column(name, True) for name in rows.key]
        others = [rows.column(name, False) for name in rows.others]
        columns = [each for each in (*key, *others) if each is not None]
        if not columns:
            raise ConnectError(f"table {rows.table} cannot be created: the record has no values")
        dialect = self._database.dialect
        statement = dialect.create_table(rows.table, columns, rows.key)
        return self._change([statement], rows.table, columns)

    def _missing(self, table: Table, rows: RowColumns) -> list[Column]:
        for name in rows.key:
            if name not in table.by_name and rows.column(name, True) is not None:
                raise ConnectError(
                    f"table {table.id} has no column {name}, but it is a key -> add it, or name "
                    "other keys"
                )
        missing = []
        for name in rows.others:
            column = rows.column(name, False) if name not in table.by_name else None
            if column is None:
                continue
            if not column.nullable and column.default is None:
                raise ConnectError(
                    f"table {table.id} has no column {name}, and it cannot be added: the "
                    "field is neither optional nor has it a default -> add the column, or "
                    f"{self._or_else}"
                )
            missing.append(column)
        return missing

    def _evolve(self, table: Table, missing: Sequence[Column]) -> Table:
        names = ", ".join(column.name for column in missing)
        if not self._auto_evolve:
            raise MissingColumns(
                f"table {table.id} has no column {names} -> add it, set auto.evolve=true, or "
                f"{self._or_else}"
            )
        statements = self._database.dialect.add_columns(table.id, missing)
        return self._change(statements, table.id, missing)

    def _change(
        self, statements: Sequence[str], table: TableId, columns: Sequence[Column]
    ) -> Table:
        """Run DDL, and return the table. If it fails, another task may have done the same: raise
        ConnectError if a column is missing then, whose values would be lost."""
        try:
            with self._database.transaction() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
                    _log.info("table %s: %s", table, statement)
        except (ConnectError, PoisonError) as error:
            found = self._read(table)
            if found is None or any(each.name not in found.by_name for each in columns):
                if isinstance(error, RetriableError):
                    raise
                raise ConnectError(str(error)) from error
            _log.info("table %s was changed by another task as well: %s", table, error)
        self.version += 1
        found = self._read(table)
        if found is None:
            raise ConnectError(f"table {table} was created and has vanished again")
        return found
