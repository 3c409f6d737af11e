"""Exactly-once: a sink's offsets, stored in the target database with their rows.

Invariant: `next_offset` of a partition moves in the same transaction as the rows below it, and only
from the value that this task has read. So a crash loses both or neither, and if two tasks believe
that they own a partition, the slower one fails instead of writing rows twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from sqlalchemy.engine import Connection

from moldau.client import TopicPartition
from moldau.connect.api import RetriableError
from moldau.connectors.jdbc.catalog import read_table
from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId
from moldau.connectors.jdbc.database import Database, PoisonError

TABLE = TableId(None, None, "__connect_offsets")
_KEY = ("connector", "topic", "partition")
_OFFSET = "next_offset"
_NOTHING = -1


class StoredOffsets:
    """The offsets of one connector in its target database."""

    def __init__(self, database: Database, connector: str) -> None:
        self._database = database
        self._connector = connector
        self._next: dict[TopicPartition, int] = {}

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where these partitions continue, without those that have no offset yet."""
        with self._database.transaction() as connection:
            self._create(connection)
        stored = self._read()
        for partition in partitions:
            if partition not in stored:
                self._begin(partition)
        stored = self._read()
        self._next.update({partition: stored[partition] for partition in partitions})
        return {each: stored[each] for each in partitions if stored[each] != _NOTHING}

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Change the offsets of a stopped connector; None deletes one. {} deletes all of them."""
        dialect = self._database.dialect
        with self._database.transaction() as connection:
            self._create(connection)
            where = f"{dialect.identifier('connector')} = {dialect.placeholder(1)}"
            remove = f"DELETE FROM {dialect.table(TABLE)} WHERE {where}"
            if not offsets:
                connection.exec_driver_sql(remove, (self._connector,))
                return
            marks = dialect.placeholders(3)
            remove = (
                f"DELETE FROM {dialect.table(TABLE)} WHERE {dialect.identifier('connector')} = "
                f"{marks[0]} AND {dialect.identifier('topic')} = {marks[1]} AND "
                f"{dialect.identifier('partition')} = {marks[2]}"
            )
            insert = dialect.insert(TABLE, (*_KEY, _OFFSET))
            for partition, offset in offsets.items():
                identity = (self._connector, partition.topic, partition.partition)
                connection.exec_driver_sql(remove, identity)
                if offset is not None:
                    connection.exec_driver_sql(insert, (*identity, offset))

    def close(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    def next_of(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last stored record; None if there is none."""
        stored = self._next.get(partition, _NOTHING)
        return None if stored == _NOTHING else stored

    def is_behind(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the stored offset of an open partition is below `offset`."""
        stored = self._next.get(partition)
        return stored is not None and stored < offset

    def store(self, connection: Connection, offsets: Mapping[TopicPartition, int]) -> None:
        """Move offsets in the transaction that writes the rows. Call `stored` after its commit."""
        dialect = self._database.dialect
        quoted = dialect.identifier
        marks = dialect.placeholders(5)
        update = (
            f"UPDATE {dialect.table(TABLE)} SET {quoted(_OFFSET)} = {marks[0]} WHERE "
            f"{quoted('connector')} = {marks[1]} AND {quoted('topic')} = {marks[2]} AND "
            f"{quoted('partition')} = {marks[3]} AND {quoted(_OFFSET)} = {marks[4]}"
        )
        for partition, next_ in offsets.items():
            known = self._next[partition]
            identity = (self._connector, partition.topic, partition.partition)
            if self._moved(connection, update, (next_, *identity, known)) == 0:
                raise RetriableError(
                    f"{partition.topic}-{partition.partition}: the stored offset is not {known} "
                    "any more -> another task writes this partition"
                )

    def stored(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the transaction that moved these offsets was committed."""
        self._next.update(offsets)

    def _moved(self, connection: Connection, update: str, parameters: tuple[object, ...]) -> int:
        result = connection.exec_driver_sql(update, parameters)
        if self._database.dialect.name == "duckdb":
            return int(result.fetchall()[0][0])
        return result.rowcount

    def _read(self) -> dict[TopicPartition, int]:
        dialect = self._database.dialect
        query = (
            f"SELECT {dialect.names((*_KEY, _OFFSET))} FROM {dialect.table(TABLE)} "
            f"WHERE {dialect.identifier('connector')} = {dialect.placeholder(1)}"
        )
        with self._database.transaction() as connection:
            rows = connection.exec_driver_sql(query, (self._connector,)).fetchall()
        return {TopicPartition(topic, number): next_ for _, topic, number, next_ in rows}

    def _begin(self, partition: TopicPartition) -> None:
        """Insert a partition's entry. It does not matter which of two tasks inserts it."""
        insert = self._database.dialect.insert(TABLE, (*_KEY, _OFFSET))
        row = (self._connector, partition.topic, partition.partition, _NOTHING)
        with suppress(PoisonError), self._database.transaction() as connection:
            connection.exec_driver_sql(insert, row)

    def _create(self, connection: Connection) -> None:
        if read_table(connection, TABLE) is not None:
            return
        text, number = ColumnType(ColumnKind.STRING), ColumnType(ColumnKind.INT64)
        columns = [
            Column("connector", text, nullable=False),
            Column("topic", text, nullable=False),
            Column("partition", ColumnType(ColumnKind.INT32), nullable=False),
            Column(_OFFSET, number, nullable=False),
        ]
        connection.exec_driver_sql(self._database.dialect.create_table(TABLE, columns, _KEY))
