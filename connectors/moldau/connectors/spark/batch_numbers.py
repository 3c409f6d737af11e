"""The number of the last batch of each query in each table, in a table of the database.

A batch with its number there was written before a crash, and is left out. The key of a row is the
query's name, a blank and the table's name. Rows of an earlier version have the query's name alone;
they count for every table until the query has written its next batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy.engine import Connection

from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId
from moldau.connectors.jdbc.dialects import Dialect
from moldau.connectors.jdbc.structure import RowColumns

BATCH_TABLE: Final = "moldau_spark_batches"
_TABLE: Final = TableId(None, None, BATCH_TABLE)
_QUERY, _BATCH = "query", "batch"
_KEY_CHARS: Final = 255
_TYPES: Final = {
    _QUERY: ColumnType(ColumnKind.STRING),
    _BATCH: ColumnType(ColumnKind.INT64),
}
BATCH_COLUMNS: Final = RowColumns(
    _TABLE, (_QUERY,), (_BATCH,), lambda name, _: Column(name, _TYPES[name], nullable=False)
)


class BatchNumbers:
    """The row of one query and one table."""

    def __init__(self, dialect: Dialect, query: str, table: str) -> None:
        self._dialect = dialect
        self._own = f"{query} {table}"[:_KEY_CHARS]
        self._earlier = query

    def locked(self, connection: Connection) -> Mapping[str, int]:
        """Return what is stored, by key. No other process changes it until the transaction ends."""
        dialect = self._dialect
        table, query, batch = dialect.table(_TABLE), *map(dialect.identifier, (_QUERY, _BATCH))
        where = f"WHERE {query} IN ({', '.join(dialect.placeholders(2))})"
        keys = (self._own, self._earlier)
        # Not every database has SELECT FOR UPDATE. An update locks the rows in all of them.
        lock = f"UPDATE {table} SET {batch} = {batch} {where}"  # noqa: S608 - quoted names
        connection.exec_driver_sql(lock, keys)
        select = f"SELECT {query}, {batch} FROM {table} {where}"  # noqa: S608 - quoted names
        rows = connection.exec_driver_sql(select, keys)
        return {str(name): int(number) for name, number in rows}

    def last(self, found: Mapping[str, int]) -> int | None:
        """Return the number of the last batch in this table; None if it has none."""
        return found.get(self._own, found.get(self._earlier))

    def store(self, connection: Connection, number: int, found: Mapping[str, int]) -> None:
        """Store the number, in the transaction that `found` comes from. Two processes that store a
        first number fail: one of them inserts a key that is there."""
        dialect = self._dialect
        if self._own in found:
            update = dialect.update(_TABLE, (_QUERY,), (_QUERY, _BATCH))
            connection.exec_driver_sql(update, (number, self._own))
        else:
            insert = dialect.insert(_TABLE, (_QUERY, _BATCH))
            connection.exec_driver_sql(insert, (self._own, number))
        if self._earlier in found and self._earlier != self._own:
            connection.exec_driver_sql(dialect.delete(_TABLE, (_QUERY,)), (self._earlier,))
