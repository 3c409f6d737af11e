"""Writes rows, inside a transaction that the sink has opened. One class for each way of writing.

`TableWriter` works everywhere: one statement, repeated by the driver for many rows. `CopyWriter` is
for PostgreSQL: COPY into the table, or into a staging table and from there with one statement.
`ValuesWriter` is for DuckDB, which is slow row by row: one statement with many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sqlalchemy.engine import Connection

from moldau.connectors.jdbc.columns import TableId
from moldau.connectors.jdbc.copy_data import Column, CopyData, copy_data
from moldau.connectors.jdbc.database import Database
from moldau.connectors.jdbc.dialects import Dialect
from moldau.connectors.jdbc.reduction import Row, TableChanges
from moldau.connectors.jdbc.sink_settings import InsertMode
from moldau.deferred import dataclass

Rows = list[Row] | CopyData

# Below this many rows the round trips of a staging table cost more than they save.
_STAGING_ROWS_MIN = 20
_UNKNOWN_TYPE = 0
_TYPES = (
    "SELECT attname, atttypid::bigint FROM pg_attribute "
    "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
)
_KIND = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
_VIEW = "v"
# DuckDB binds this many values quickly in one statement.
_VALUES_MAX = 2_000


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table, the columns of its key, and the insert mode."""

    table: TableId
    key: tuple[str, ...]
    mode: InsertMode


class TableWriter:
    """Writes with one statement, which the driver repeats for many rows."""

    takes_columns: ClassVar[bool] = False
    """Whether `write_columns` is supported."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    def write(self, connection: Connection, target: TargetTable, step: TableChanges) -> None:
        """Carry out one step; the caller commits."""
        if step.deletes:
            statement = self.dialect.delete(target.table, target.key)
            self.repeat(connection, statement, step.deletes)
        for names, rows in step.writes.items():
            columns = target.key + names
            if target.mode is InsertMode.UPSERT:
                self.upsert(connection, target, columns, rows)
            elif target.mode is InsertMode.UPDATE:
                self.update(connection, target, columns, rows)
            else:
                self.insert(connection, target, columns, rows)

    def write_columns(
        self,
        connection: Connection,
        target: TargetTable,
        names: tuple[str, ...],
        columns: Sequence[Column],
    ) -> bool:
        """Write rows given as columns, the key's first. Return False if nothing was written."""
        return False

    def write_batch(
        self,
        connection: Connection,
        target: TargetTable,
        names: tuple[str, ...],
        columns: Sequence[Column],
    ) -> None:
        """Write rows given as columns, the key's first and then those with these names. The caller
        commits."""
        if not self.write_columns(connection, target, target.key + names, columns):
            rows = list(zip(*columns, strict=True))
            self.write(connection, target, TableChanges(writes={names: rows}))

    def forget(self) -> None:
        """Forget what is known of tables, because they may have changed."""
        return

    def insert(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        self.repeat(connection, self.dialect.insert(target.table, columns), rows)

    def upsert(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        self.repeat(connection, self.dialect.upsert(target.table, target.key, columns), rows)

    def update(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        keys = len(target.key)
        if len(columns) > keys:
            statement = self.dialect.update(target.table, target.key, columns)
            self.repeat(connection, statement, [row[keys:] + row[:keys] for row in rows])

    def repeat(self, connection: Connection, statement: str, rows: Sequence[Row]) -> None:
        connection.exec_driver_sql(statement, list(rows))


class CopyWriter(TableWriter):
    """Writes with PostgreSQL's COPY, which is several times faster than statements."""

    takes_columns = True

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._stages: dict[tuple[TableId, tuple[str, ...]], int] = {}
        self._types: dict[TableId, dict[str, int]] = {}
        self._views: dict[TableId, bool] = {}
        self._filled: dict[str, object] = {}
        """The transaction that each staging table was last filled in: its end empties the table."""

    def write_columns(
        self,
        connection: Connection,
        target: TargetTable,
        names: tuple[str, ...],
        columns: Sequence[Column],
    ) -> bool:
        if not columns or len(columns[0]) < _STAGING_ROWS_MIN:
            return False
        types = self._types_of(connection, target.table)
        data = copy_data(columns, [types.get(name, _UNKNOWN_TYPE) for name in names])
        if data is None:
            return False
        if target.mode is InsertMode.UPSERT:
            self._upsert(connection, target, names, data)
        elif target.mode is InsertMode.UPDATE:
            if len(names) > len(target.key):
                self._update(connection, target, names, data)
        else:
            self._insert(connection, target, names, data)
        return True

    def forget(self) -> None:
        self._types.clear()
        self._views.clear()

    def insert(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        self._insert(connection, target, columns, rows)

    def upsert(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        if len(rows) < _STAGING_ROWS_MIN:
            super().upsert(connection, target, columns, rows)
        else:
            self._upsert(connection, target, columns, rows)

    def update(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        if len(rows) < _STAGING_ROWS_MIN or len(columns) == len(target.key):
            super().update(connection, target, columns, rows)
        else:
            self._update(connection, target, columns, rows)

    def _insert(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: Rows
    ) -> None:
        """COPY into the table. A view takes no COPY, so its rows come from a staging table."""
        table = self.dialect.table(target.table)
        if not self._is_view(connection, target.table):
            self._copy(table, columns, rows)
            return
        stage = self._stage(connection, target, columns, rows)
        names = self.dialect.names(columns)
        connection.exec_driver_sql(f"INSERT INTO {table} ({names}) SELECT {names} FROM {stage}")

    def _upsert(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: Rows
    ) -> None:
        stage = self._stage(connection, target, columns, rows)
        names = self.dialect.names(columns)
        conflict = self.dialect.on_conflict(target.key, columns)
        connection.exec_driver_sql(
            f"INSERT INTO {self.dialect.table(target.table)} ({names}) "
            f"SELECT {names} FROM {stage} {conflict}"
        )

    def _update(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: Rows
    ) -> None:
        stage = self._stage(connection, target, columns, rows)
        quoted = self.dialect.identifier
        others = columns[len(target.key) :]
        sets = ", ".join(f"{quoted(name)} = staged.{quoted(name)}" for name in others)
        where = " AND ".join(f"target.{quoted(n)} = staged.{quoted(n)}" for n in target.key)
        connection.exec_driver_sql(
            f"UPDATE {self.dialect.table(target.table)} target SET {sets} "
            f"FROM {stage} staged WHERE {where}"
        )

    def _stage(
        self, connection: Connection, target: TargetTable, columns: tuple[str, ...], rows: Rows
    ) -> str:
        """Put the rows into a temporary table without constraints. Return its name."""
        number = self._stages.setdefault((target.table, columns), len(self._stages))
        stage = self.dialect.identifier(f"moldau_stage_{number}")
        connection.exec_driver_sql(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {stage} ON COMMIT DELETE ROWS AS SELECT "
            f"{self.dialect.names(columns)} FROM {self.dialect.table(target.table)} WITH NO DATA"
        )
        transaction = connection.get_transaction()
        if self._filled.get(stage) is transaction:
            connection.exec_driver_sql(f"TRUNCATE {stage}")
        self._filled[stage] = transaction
        self._copy(stage, columns, rows)
        return stage

    def _copy(self, table: str, columns: tuple[str, ...], rows: Rows) -> None:
        statement = f"COPY {table} ({self.dialect.names(columns)}) FROM STDIN"
        statement = _unescaped(statement)
        cursor = self._database.driver.cursor()
        if isinstance(rows, CopyData):
            with cursor, cursor.copy(f"{statement} (FORMAT binary)") as copy:
                copy.write(rows.data)
            return
        with cursor, cursor.copy(statement) as copy:
            write_row = copy.write_row
            for row in rows:
                write_row(row)

    def _types_of(self, connection: Connection, table: TableId) -> dict[str, int]:
        """Return the OIDs of a table's column types; {} if texts are not in UTF-8."""
        types = self._types.get(table)
        if types is None:
            found = connection.exec_driver_sql(_TYPES, (_unescaped(self.dialect.table(table)),))
            is_utf8 = self._database.driver.info.encoding == "utf-8"
            types = {name: int(number) for name, number in found} if is_utf8 else {}
            self._types[table] = types
        return types

    def _is_view(self, connection: Connection, table: TableId) -> bool:
        found = self._views.get(table)
        if found is None:
            name = _unescaped(self.dialect.table(table))
            kind = connection.exec_driver_sql(_KIND, (name,)).scalar()
            found = self._views[table] = kind == _VIEW
        return found


def _unescaped(text: str) -> str:
    """Return SQL for a call in which the driver does not look for placeholders."""
    return text.replace("%%", "%")


class ValuesWriter(TableWriter):
    """Writes many rows with one statement."""

    def repeat(self, connection: Connection, statement: str, rows: Sequence[Row]) -> None:
        marks = f"({', '.join(self.dialect.placeholders(len(rows[0])))})"
        before, found, after = statement.partition(f" VALUES {marks}")
        if not found:
            super().repeat(connection, statement, rows)
            return
        count = max(1, _VALUES_MAX // len(rows[0]))
        for start in range(0, len(rows), count):
            part = rows[start : start + count]
            values = ", ".join([marks] * len(part))
            parameters = tuple(value for row in part for value in row)
            connection.exec_driver_sql(f"{before} VALUES {values}{after}", parameters)


def writer_for(database: Database) -> TableWriter:
    """Return the fastest writer for a database."""
    ways = {"postgresql": CopyWriter, "duckdb": ValuesWriter}
    return ways.get(database.dialect.name, TableWriter)(database)
