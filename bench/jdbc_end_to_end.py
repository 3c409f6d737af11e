"""The JDBC connectors in a running worker, from topic to table and from table to topic, beside the
driver alone.

The sinks: a topic of JSON rows, one partition, is full when the connector is made. The clock runs
from the first rows that are committed to the last row, for all rows but those first ones, and the
time is scaled to all of them. The peers write prepared rows, 3,000 a statement and transaction. The
sources: the same from the first record in the topic to the last; the peer reads with a server-side
cursor, 3,000 rows a time. CPU is that of the worker and its tasks, or of the peer's process, over
all of the work; that of the server and the broker is not in it.

BENCH_ROWS makes a quick run smaller.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from bench.connect_workers import moldau_worker
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, MoldauBroker
from moldau.client import KafkaError, TopicPartition
from moldau.client.base.offsets import LATEST
from moldau.client.sync import Admin, Producer
from moldau.connect.api import Schema
from moldau.connect.converters.json import JsonConverter
from moldau.connect.data import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP
from tests.databases.servers import postgresql_address

ROWS: Final = int(os.environ.get("BENCH_ROWS", "200000"))
BATCH: Final = 3_000
NAMES: Final = ("id", "name", "amount", "moment", "active", "note")
COLUMNS: Final = ", ".join(NAMES)
DDL: Final = (
    "CREATE TABLE {} (id BIGINT PRIMARY KEY, name TEXT, amount DOUBLE PRECISION, "
    "moment TIMESTAMP, active BOOLEAN, note TEXT)"
)
SCHEMA: Final = Schema.struct(
    dict(zip(NAMES, (INT64, STRING, FLOAT64, TIMESTAMP, BOOLEAN, STRING), strict=True))
)
INSERT: Final = "INSERT INTO target VALUES (%s, %s, %s, %s, %s, %s)"
UPSERT: Final = (
    f"{INSERT} ON CONFLICT (id) DO UPDATE SET "
    f"{', '.join(f'{name} = EXCLUDED.{name}' for name in NAMES[1:])}"
)
NOTES: Final = (
    f"{ROWS} rows of 6 columns, about 80 bytes; one task, one partition, a distributed worker and "
    "a broker as processes on the same cores; PostgreSQL over a Unix socket with its defaults.",
    f"The connectors work from topic to table or back; peers have prepared rows, {BATCH} a "
    "statement and transaction. The time is that of all rows but the first, scaled to all.",
)
UPSERT_NOTE: Final = (
    "An upsert writes each row twice in the server, into a staging table and from there, which "
    "costs more than the connector does: without a core for the server, the ratio nears 1.",
)
SOURCE_NOTE: Final = (
    "The peer keeps nothing; the source writes 560 bytes a row to a topic, 430 of them the schema. "
    "Tried: binary rows, the next rows fetched ahead, the schema put around rows that are encoded "
    "together. What is left is datetimes to milliseconds (0.3 us a row), a bytes object a record "
    "(0.25), and the producer and broker.",
)
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_SINK: Final = "io.confluent.connect.jdbc.JdbcSinkConnector"
_SOURCE: Final = "io.confluent.connect.jdbc.JdbcSourceConnector"
_PLAIN: Final = {"value.converter": _JSON, "value.converter.schemas.enable": "false"}
_WITH_SCHEMAS: Final = {"value.converter": _JSON}
_WAIT_S: Final = 120.0


def in_batches(rows: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """The rows that peers write in one transaction each."""
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


def copy_rows(
    connection: psycopg.Connection[Any], table: str, columns: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    """The peer that writes by COPY."""
    for batch in in_batches(rows):
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy,
        ):
            for row in batch:
                copy.write_row(row)
        connection.commit()


class EndToEnd:
    """A broker with full topics, a database, and a worker between them."""

    def __init__(self, stack: ExitStack) -> None:
        broker = stack.enter_context(MoldauBroker.started({"num.partitions": "1"}))
        self.bootstrap = f"{HOST}:{broker.port}"
        self.address = stack.enter_context(postgresql_address())
        url = sa.make_url(self.address).set(drivername="postgresql")
        conninfo = url.render_as_string(hide_password=False)
        self.connection = psycopg.connect(conninfo)
        self.watching = psycopg.connect(conninfo, autocommit=True)
        stack.callback(self.connection.close)
        stack.callback(self.watching.close)
        self.admin = stack.enter_context(Admin({"bootstrap.servers": self.bootstrap}))
        self.worker = stack.enter_context(moldau_worker(self.bootstrap))
        self._numbers = count()
        moment = datetime(2024, 5, 1, 12, 0, 0, 250_000)
        self.rows: list[tuple[Any, ...]] = [
            (n, f"name {n}", n / 7, moment, n % 3 == 0, f"a note of some length about {n}")
            for n in range(ROWS)
        ]
        self._fill()
        self.cpu_us: dict[str, float] = {}

    def _fill(self) -> None:
        self.connection.execute(DDL.format("target"))
        self.connection.execute(DDL.format("source"))
        self.connection.commit()
        self.copy("source")
        aware = [(*row[:3], row[3].replace(tzinfo=UTC), *row[4:]) for row in self.rows]
        with Producer({"bootstrap.servers": self.bootstrap}) as producer:
            for topic, settings in (("schemas", {}), ("plain", {"schemas.enable": "false"})):
                converter = JsonConverter()
                converter.configure(settings)
                for start in range(0, ROWS, 10_000):
                    columns = list(zip(*aware[start : start + 10_000], strict=True))
                    values = converter.from_connect_columns(topic, SCHEMA, columns)
                    producer.send_many(topic, list(values))

    # The peers

    def copy(self, table: str = "target") -> None:
        copy_rows(self.connection, table, COLUMNS, self.rows)

    def execute_many(self, statement: str) -> None:
        for rows in in_batches(self.rows):
            with self.connection.cursor() as cursor:
                cursor.executemany(statement, rows)
            self.connection.commit()

    def read(self) -> None:
        with self.connection.cursor(name="peer") as cursor:
            cursor.execute("SELECT * FROM source WHERE id > -1 ORDER BY id")
            while cursor.fetchmany(BATCH):
                pass
        self.connection.commit()

    def peer(self, name: str, work: Callable[[], object]) -> Case:
        """Return the case of a peer, in seconds."""

        def run() -> float:
            self._empty()
            cpu, begun = time.process_time(), time.perf_counter()
            work()
            taken = time.perf_counter() - begun
            self.cpu_us[name] = (time.process_time() - cpu) / ROWS * 1e6
            return taken

        return Case(name, run)

    def _empty(self) -> None:
        self.connection.execute("TRUNCATE target")
        self.connection.commit()

    # The connectors

    def connector(
        self, name: str, config: Mapping[str, str], progress: Callable[[str], tuple[int, bool]]
    ) -> Case:
        """Return the case of a connector, in seconds. `progress` gets its name and returns how much
        is there, which is asked for once, and whether everything is there."""

        def run() -> float:
            self._empty()
            made, worker = f"bench-{next(self._numbers)}", self.worker
            before = worker.cpu_of_each()
            worker.create(made, {**config, "topic.prefix": f"{made}-"})
            found = [0]

            def has_begun() -> bool:
                found[0] = progress(made)[0]
                return found[0] > 0

            worker.wait(has_begun, _WAIT_S, "it has begun")
            begun = time.perf_counter()
            worker.wait(lambda: progress(made)[1], _WAIT_S, "it is done")
            taken = time.perf_counter() - begun
            self.cpu_us[name] = worker.cpu_since(before) / ROWS * 1e6
            worker.delete(made)
            return taken * ROWS / max(1, ROWS - found[0])

        return Case(name, run)

    def sink(self, name: str, topic: str, settings: Mapping[str, str]) -> Case:
        """Return the case of a sink of a full topic."""
        config = {
            "connector.class": _SINK,
            "connection.url": self.address,
            "topics": topic,
            "table.name.format": "target",
            **settings,
        }
        return self.connector(name, config, self._written)

    def _written(self, connector: str) -> tuple[int, bool]:
        """Return the highest id in the table: rows come in the order of their ids."""
        found = self.watching.execute("SELECT max(id) FROM target").fetchone()
        count = 0 if found is None or found[0] is None else found[0] + 1
        return count, count >= ROWS

    def source(self, name: str, settings: Mapping[str, str]) -> Case:
        """Return the case of a source of a full table."""
        config = {
            "connector.class": _SOURCE,
            "connection.url": self.address,
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": "source",
            "batch.max.rows": str(BATCH),
            "poll.interval.ms": "100",
            **settings,
        }
        return self.connector(name, config, self._sent)

    def _sent(self, connector: str) -> tuple[int, bool]:
        partition = TopicPartition(f"{connector}-source", 0)
        try:
            count = self.admin.list_offsets({partition: LATEST})[partition].offset
        except KafkaError:
            count = 0  # the topic does not exist yet
        return count, count >= ROWS

    def cpu(self, cases: Sequence[Case]) -> list[Case]:
        """Return cases with the CPU that the last round of each of these cases took."""
        return [Case(each.name, lambda name=each.name: self.cpu_us[name]) for each in cases]  # type: ignore[misc]


def tables() -> Iterator[Table]:
    stack = ExitStack()
    atexit.register(stack.close)
    scene = EndToEnd(stack)
    upsert = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
    sinks = [
        scene.peer("executemany: insert", lambda: scene.execute_many(INSERT)),
        scene.peer("executemany: upsert", lambda: scene.execute_many(UPSERT)),
        scene.peer("COPY", scene.copy),
        scene.sink("JDBC sink: insert", "schemas", _WITH_SCHEMAS),
        scene.sink("JDBC sink: upsert", "schemas", {**_WITH_SCHEMAS, **upsert}),
        scene.sink("JDBC sink: insert, JSON without schemas", "plain", _PLAIN),
    ]
    sources = [
        scene.peer("server-side cursor", scene.read),
        scene.source("JDBC source", _WITH_SCHEMAS),
        scene.source("JDBC source, JSON without schemas", _PLAIN),
    ]
    yield Table(
        "End to end: sinks",
        "seconds",
        sinks,
        [
            Goal("JDBC sink: insert", versus="executemany: insert", ratio_at_most=0.8),
            Goal("JDBC sink: upsert", versus="executemany: upsert", ratio_at_most=0.8),
            Goal("JDBC sink: insert", versus="COPY", ratio_at_most=3),
        ],
        higher_is_better=False,
        notes=NOTES + UPSERT_NOTE,
    )
    yield _cpu("End to end: sinks, CPU", scene.cpu(sinks))
    yield Table(
        "End to end: sources",
        "seconds",
        sources,
        [Goal("JDBC source", versus="server-side cursor", ratio_at_most=1.5)],
        higher_is_better=False,
        notes=NOTES + SOURCE_NOTE,
    )
    yield _cpu("End to end: sources, CPU", scene.cpu(sources))


def _cpu(title: str, cases: Sequence[Case]) -> Table:
    return Table(title, "us a row", cases, higher_is_better=False, notes=("The last round above.",))
