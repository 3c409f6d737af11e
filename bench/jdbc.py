"""The JDBC connectors beside the driver alone with the same rows, in rows a second.

Tasks run as in a worker, but without the worker: sinks get batches of `SinkRecord`s, sources are
polled. Each round begins with an empty or a prepared table and commits once a batch, and so do the
peers.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
import sqlalchemy as sa

from bench import jdbc_end_to_end
from bench.harness import Case, Goal, Table, rate
from bench.jdbc_end_to_end import BATCH, copy_rows, in_batches
from moldau.connect.api import Schema, SinkRecord, SourceBatch, Struct
from moldau.connect.converters.json import JsonConverter
from moldau.connect.data import FLOAT64, INT64, STRING, TIMESTAMP
from moldau.connectors.jdbc.columns import TableId
from moldau.connectors.jdbc.selection import TABLES_KEY, tables_to_text
from moldau.connectors.jdbc.sink_task import JdbcSinkTask
from moldau.connectors.jdbc.source_task import JdbcSourceTask
from tests.connectors.contexts import Offsets, SinkContext, SourceContext
from tests.databases.servers import postgresql_address

ROWS = 60_000
COLUMNS = "id, name, amount, moment, note"
DDL = (
    "CREATE TABLE {} (id BIGINT PRIMARY KEY, name TEXT, amount DOUBLE PRECISION, "
    "moment TIMESTAMP, note TEXT)"
)
SCHEMA = Schema.struct(
    {"id": INT64, "name": STRING, "amount": FLOAT64, "moment": TIMESTAMP, "note": STRING}
)
UPSERT = (
    f"INSERT INTO target ({COLUMNS}) VALUES (%s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET "
    "name = EXCLUDED.name, amount = EXCLUDED.amount, moment = EXCLUDED.moment, note = EXCLUDED.note"
)
NOTES = (
    f"{ROWS} rows of 5 columns, about 60 bytes, {BATCH} a batch and transaction; PostgreSQL over "
    "a Unix socket, both processes on the same cores.",
)

Row = tuple[Any, ...]


class Measured:
    """A database with the tables `target` (emptied each round) and `source` (full)."""

    def __init__(self, address: str) -> None:
        self.address = address
        url = sa.make_url(address).set(drivername="postgresql")
        self.connection = psycopg.connect(url.render_as_string(hide_password=False))
        moment = datetime(2024, 5, 1, 12, 0, 0, 250_000)
        self.rows: list[Row] = [
            (n, f"name {n}", n / 7, moment, "a note of some length") for n in range(ROWS)
        ]
        aware = moment.replace(tzinfo=UTC)
        self.records = [
            SinkRecord(
                "target", 0, None, None, SCHEMA,
                Struct.of_row(SCHEMA, [row[0], row[1], row[2], aware, row[4]]), row[0],
            )
            for row in self.rows
        ]  # fmt: skip
        self.run(DDL.format("target"), DDL.format("source"))
        self.copy("source")
        # What stays for the whole bench is no work for the collector of either side.
        gc.freeze()

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)
        self.connection.commit()

    def copy(self, table: str = "target") -> None:
        copy_rows(self.connection, table, COLUMNS, self.rows)

    def execute_many(self) -> None:
        for rows in in_batches(self.rows):
            with self.connection.cursor() as cursor:
                cursor.executemany(UPSERT, rows)
            self.connection.commit()

    def read(self) -> int:
        count = 0
        with self.connection.cursor(name="peer") as cursor:
            cursor.execute("SELECT * FROM source WHERE id > -1 ORDER BY id")
            while rows := cursor.fetchmany(BATCH):
                count += len(rows)
        self.connection.commit()
        return count

    def sink(self, settings: Mapping[str, str]) -> Callable[[], None]:
        task = JdbcSinkTask()
        task.initialize(SinkContext())
        task.start({"connection.url": self.address, "name": "bench", **settings})
        atexit.register(task.stop)

        def run() -> None:
            for start in range(0, ROWS, BATCH):
                task.put(self.records[start : start + BATCH])

        return run

    def source(self, use: Callable[[SourceBatch], Sequence[object]]) -> float:
        """Return a started task's rows a second, with what a worker does to its batches."""
        task = JdbcSourceTask()
        task.initialize(SourceContext(Offsets()))
        task.start(
            {
                "connection.url": self.address,
                "mode": "incrementing",
                "incrementing.column.name": "id",
                "topic.prefix": "",
                "batch.max.rows": str(BATCH),
                TABLES_KEY: tables_to_text([TableId(None, "public", "source")]),
            }
        )

        def work() -> None:
            count = 0
            while count < ROWS:
                records = task.poll()
                count += len(use(records)) if isinstance(records, SourceBatch) else 0

        try:
            return rate(work, ROWS)()
        finally:
            task.stop()


def tables() -> Iterator[Table]:
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    made = Measured(stack.enter_context(postgresql_address()))
    stack.callback(made.connection.close)

    def emptied(work: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            made.run("TRUNCATE target")
            return rate(work, ROWS)()

        return run

    insert = made.sink({"insert.mode": "insert"})
    upsert = made.sink({"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"})
    yield Table(
        "Sink: insert",
        "rows/s",
        [Case("COPY", emptied(made.copy)), Case("JDBC sink", emptied(insert))],
        [Goal("JDBC sink", versus="COPY", ratio_at_least=0.5)],
        notes=NOTES,
    )
    yield Table(
        "Sink: upsert of new rows",
        "rows/s",
        [Case("executemany", emptied(made.execute_many)), Case("JDBC sink", emptied(upsert))],
        [Goal("JDBC sink", versus="executemany", ratio_at_least=2)],
        notes=NOTES,
    )
    yield Table(
        "Source: incrementing",
        "rows/s",
        [
            Case("server-side cursor", rate(made.read, ROWS)),
            Case("JDBC source to JSON", lambda: made.source(json_of({"schemas.enable": "false"}))),
            Case("JDBC source to JSON with schemas", lambda: made.source(json_of({}))),
            Case("JDBC source, single records", lambda: made.source(SourceBatch.records)),
        ],
        [Goal("JDBC source to JSON", versus="server-side cursor", ratio_at_least=0.5)],
        notes=NOTES,
    )
    yield from jdbc_end_to_end.tables()


def json_of(settings: Mapping[str, str]) -> Callable[[SourceBatch], Sequence[object]]:
    """Return the function that converts the values of a batch to JSON, as a topic gets them."""
    converter = JsonConverter()
    converter.configure(settings)
    return lambda batch: converter.from_connect_columns(batch.topic, batch.schema, batch.columns)
