"""Writing rows, inside a transaction that the sink has opened. One class a way of writing.

`Writer` works everywhere: one statement, repeated by the driver for many rows. `CopyWriter` is for
PostgreSQL: COPY into the table, or into a staging table and from there with one statement.
`ValuesWriter` is for DuckDB, which is slow row by row: one statement with many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from moldau.connectors.jdbc.columns import TableId
from moldau.connectors.jdbc.database import Database
from moldau.connectors.jdbc.dialects import Dialect
from moldau.connectors.jdbc.reduction import Row, Step
from moldau.connectors.jdbc.sink_settings import InsertMode

# Below this many rows the round trips of a staging table cost more than they save.
_STAGING_ROWS_MIN = 20
# DuckDB binds this many values quickly in one statement.
_VALUES_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Target:
    """A table and the columns of its key."""

    table: TableId
    key: tuple[str, ...]
    mode: InsertMode


class Writer:
    """Repeats one statement for many rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    def write(self, connection: Connection, target: Target, step: Step) -> None:
        """Do one step; the caller commits."""
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

    def insert(
        self, connection: Connection, target: Target, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        self.repeat(connection, self.dialect.insert(target.table, columns), rows)

    def upsert(
        self, connection: Connection, target: Target, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        self.repeat(connection, self.dialect.upsert(target.table, target.key, columns), rows)

    def update(
        self, connection: Connection, target: Target, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        keys = len(target.key)
        if len(columns) > keys:
            statement = self.dialect.update(target.table, target.key, columns)
            self.repeat(connection, statement, [row[keys:] + row[:keys] for row in rows])

    def repeat(self, connection: Connection, statement: str, rows: Sequence[Row]) -> None:
        connection.exec_driver_sql(statement, list(rows))


class CopyWriter(Writer):
    """PostgreSQL's COPY, which takes rows several times faster than statements."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._stages: dict[tuple[TableId, tuple[str, ...]], int] = {}

    def insert(
        self, connection: Connection, target: Target, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        self._copy(self.dialect.table(target.table), columns, rows)

    def upsert(
        self, connection: Connection, target: Target, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        if len(rows) < _STAGING_ROWS_MIN:
            super().upsert(connection, target, columns, rows)
            return
        stage = self._stage(connection, target, columns, rows)
        names = self.dialect.names(columns)
        conflict = self.dialect.on_conflict(target.key, columns)
        connection.exec_driver_sql(
            f"INSERT INTO {self.dialect.table(target.table)} ({names}) "
            f"SELECT {names} FROM {stage} {conflict}"
        )

    def update(
        self, connection: Connection, target: Target, columns: tuple[str, ...], rows: list[Row]
    ) -> None:
        others = columns[len(target.key) :]
        if len(rows) < _STAGING_ROWS_MIN or not others:
            super().update(connection, target, columns, rows)
            return
        stage = self._stage(connection, target, columns, rows)
        quoted = self.dialect.identifier
        sets = ", ".join(f"{quoted(name)} = staged.{quoted(name)}" for name in others)
        where = " AND ".join(f"target.{quoted(n)} = staged.{quoted(n)}" for n in target.key)
        connection.exec_driver_sql(
            f"UPDATE {self.dialect.table(target.table)} target SET {sets} "
            f"FROM {stage} staged WHERE {where}"
        )

    def _stage(
        self, connection: Connection, target: Target, columns: tuple[str, ...], rows: list[Row]
    ) -> str:
        """A temporary table with the rows and without constraints; its name."""
        number = self._stages.setdefault((target.table, columns), len(self._stages))
        stage = self.dialect.identifier(f"moldau_stage_{number}")
        connection.exec_driver_sql(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {stage} ON COMMIT DELETE ROWS AS SELECT "
            f"{self.dialect.names(columns)} FROM {self.dialect.table(target.table)} WITH NO DATA"
        )
        self._copy(stage, columns, rows)
        return stage

    def _copy(self, table: str, columns: tuple[str, ...], rows: list[Row]) -> None:
        statement = f"COPY {table} ({self.dialect.names(columns)}) FROM STDIN".replace("%%", "%")
        cursor = self._database.driver.cursor()
        with cursor, cursor.copy(statement) as copy:
            write_row = copy.write_row
            for row in rows:
                write_row(row)


class ValuesWriter(Writer):
    """One statement with many rows."""

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


def writer_for(database: Database) -> Writer:
    """The fastest way of writing that a database has."""
    ways = {"postgresql": CopyWriter, "duckdb": ValuesWriter}
    return ways.get(database.dialect.name, Writer)(database)
