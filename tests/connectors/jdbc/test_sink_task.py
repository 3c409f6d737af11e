"""The JDBC sink on real databases: every mode, every key, and what is done about bad records."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.connect.api import ConnectError, DataError, RetriableError, Schema, SinkRecord, Struct
from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
)
from moldau.connectors.jdbc.sink import JdbcSinkConnector
from moldau.errors import ConfigError
from tests.connectors.contexts import TOPIC, Reporter, SinkContext, at, committed, record, struct
from tests.connectors.jdbc.tasks import sink_task
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

ORDER = Schema.struct({"id": INT64, "name": OPTIONAL_STRING, "size": OPTIONAL_INT64})
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
CREATING = {"auto.create": "true"}
EVOLVING = {**CREATING, "auto.evolve": "true"}
TABLE = "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20), size BIGINT)"


def order(number: int, name: str | None = "a", size: int | None = 1) -> Struct:
    return struct(ORDER, number, name, size)


def test_rows_are_inserted(database: TestDatabase) -> None:
    database.run(TABLE)
    task = sink_task(database, **{"batch.size": "2"})

    task.put([record(order(n), offset=n) for n in range(5)])
    task.stop()

    assert database.rows("SELECT * FROM orders ORDER BY id") == [(n, "a", 1) for n in range(5)]


def test_a_table_is_created_from_the_schema_and_every_type_arrives(database: TestDatabase) -> None:
    schema = Schema.struct(
        {
            "id": INT32,
            "price": Schema.decimal(2),
            "day": DATE,
            "hour": TIME,
            "moment": TIMESTAMP,
            "paid": BOOLEAN,
            "weight": FLOAT64,
            "data": BYTES,
            "note": STRING.replace(default="none"),
            "tags": Schema.array(STRING, optional=True),
        }
    )
    moment = datetime(2024, 5, 1, 12, 30, 0, 250_000, UTC)
    row = [7, Decimal("1.50"), date(2024, 5, 1), time(12, 30), moment, True, 2.5, b"\0\xff", None,
           ["x", "y"]]  # fmt: skip
    task = sink_task(database, **UPSERT, **CREATING)

    task.put([record(struct(schema, *row))])
    task.stop()

    (found,) = database.rows("SELECT id, price, paid, weight, data, note FROM orders")
    assert (found[0], Decimal(str(found[1])), bool(found[2])) == (7, Decimal("1.50"), True)
    assert (found[3], bytes(found[4]), found[5]) == (2.5, b"\0\xff", "none")
    (times,) = database.rows("SELECT day, moment FROM orders")
    assert str(times[0]) == "2024-05-01"
    assert str(times[1]).startswith("2024-05-01 12:30:00.25")


def test_plain_json_is_written_without_a_schema(database: TestDatabase) -> None:
    task = sink_task(database, **UPSERT, **EVOLVING)

    task.put(
        [
            record({"id": 1, "name": "a", "size": None, "ratio": 1}),
            record({"id": 2, "name": "b", "size": None, "ratio": 2.5}),
        ]
    )
    task.put([record({"id": 3, "name": "c", "size": 9, "ratio": 3.0, "extra": {"x": [1]}})])
    task.stop()

    query = "SELECT id, name, size, ratio FROM orders ORDER BY id"
    assert database.rows(query) == [(1, "a", None, 1.0), (2, "b", None, 2.5), (3, "c", 9, 3.0)]
    ((extra,),) = database.rows("SELECT extra FROM orders WHERE id = 3")
    assert extra in ('{"x":[1]}', {"x": [1]})


def test_upsert_keeps_the_last_write_of_each_key(database: TestDatabase) -> None:
    database.run(TABLE)
    database.run("INSERT INTO orders VALUES (1, 'old', 0), (2, 'old', 0)")
    task = sink_task(database, **UPSERT)

    task.put([record(order(n % 30, f"v{n}")) for n in range(90)])
    task.stop()

    rows = database.rows("SELECT id, name FROM orders ORDER BY id")
    assert rows == [(n, f"v{n + 60}") for n in range(30)]


def test_an_upsert_without_a_unique_key_is_refused_or_on_mysql_warned_of(
    database: TestDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    database.run(TABLE.replace(" PRIMARY KEY", ""))
    task = sink_task(database, **UPSERT)
    written = [record(order(1), offset=0), record(order(2), offset=1)]
    told = "has no primary key or unique index on id: MySQL inserts a row for each record"
    try:
        if database.kind == "mariadb":
            for _ in range(2):
                task.put(written)
            assert [told in each for each in caplog.messages] == [True]
            assert len(database.rows("SELECT * FROM orders")) == 4
            database.run("DROP TABLE orders", TABLE)
            caplog.clear()
            other = sink_task(database, **UPSERT)
            other.put(written)
            other.stop()
            assert not caplog.messages
        else:
            with pytest.raises(ConnectError, match=r"(?i)unique"):
                task.put(written)
    finally:
        task.stop()


def test_update_changes_only_rows_that_exist(database: TestDatabase) -> None:
    database.run(TABLE)
    database.run(*(f"INSERT INTO orders VALUES ({n}, 'old', 0)" for n in range(30)))
    task = sink_task(database, **{**UPSERT, "insert.mode": "update"})

    task.put([record(order(n, "new", 5)) for n in range(10, 50)])
    task.stop()

    rows = database.rows("SELECT name, size, COUNT(*) FROM orders GROUP BY name, size ORDER BY 1")
    assert rows == [("new", 5, 20), ("old", 0, 10)]


def test_tombstones_delete_and_a_later_write_brings_the_row_back(database: TestDatabase) -> None:
    database.run(TABLE)
    database.run("INSERT INTO orders VALUES (1, 'old', 7), (2, 'old', 7), (3, 'old', 7)")
    settings = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id"}
    task = sink_task(database, **settings, **{"delete.enabled": "true"})
    name = Schema.struct({"name": STRING})

    task.put(
        [
            record(None, key=1, offset=0),
            record(None, key=2, offset=1),
            record(struct(name, "again"), key=2, offset=2),
            record(struct(name, "new"), key=4, offset=3),
            record(None, key=4, offset=4),
        ]
    )
    task.stop()

    assert database.rows("SELECT id, name, size FROM orders ORDER BY id") == [
        (2, "again", None),
        (3, "old", 7),
    ]


def test_the_kafka_key_is_topic_partition_and_offset(database: TestDatabase) -> None:
    task = sink_task(database, **CREATING, **{"pk.mode": "kafka", "insert.mode": "upsert"})

    task.put([record(order(1), offset=41, partition=3), record(order(1), offset=42, partition=3)])
    task.put([record(order(2), offset=42, partition=3)])
    task.stop()

    columns = "__connect_topic, __connect_partition, __connect_offset, id"
    assert database.rows(f"SELECT {columns} FROM orders ORDER BY 3") == [
        (TOPIC, 3, 41, 1),
        (TOPIC, 3, 42, 2),
    ]


def test_keys_may_be_structs_and_differ_from_topic_to_topic(database: TestDatabase) -> None:
    key = Schema.struct({"a": INT64, "b": STRING})
    name = Schema.struct({"name": STRING, "other": STRING})
    settings = {"pk.mode": "record_key", "insert.mode": "upsert", "fields.whitelist": "name"}
    task = sink_task(database, **CREATING, **settings, **{"topic.single.pk.fields": "nr"})

    task.put([record(struct(name, "n", "o"), key=struct(key, 1, "x"), topic="many")])
    task.put([record(struct(name, "n", "o"), key="k", topic="single")])
    task.stop()

    assert database.rows("SELECT a, b, name FROM many") == [(1, "x", "n")]
    assert database.rows("SELECT * FROM single") == [("k", "n")]


def test_columns_are_added_when_a_schema_grows(database: TestDatabase) -> None:
    database.run(TABLE)
    grown = Schema.struct({"id": INT64, "more": OPTIONAL_STRING})
    task = sink_task(database, **UPSERT, **EVOLVING)

    task.put([record(order(1)), record(struct(grown, 1, "m")), record(struct(grown, 2, "m"))])
    task.stop()

    rows = database.rows("SELECT id, name, size, more FROM orders ORDER BY id")
    assert rows == [(1, "a", 1, "m"), (2, None, None, "m")]


@pytest.mark.databases("postgresql", "mariadb")
def test_a_column_that_was_not_added_costs_no_value(database: TestDatabase) -> None:
    database.run(TABLE)
    grown = Schema.struct({"id": INT64, "more": OPTIONAL_STRING})
    ids = "pg_stat_activity" if database.kind == "postgresql" else "information_schema.processlist"
    others = {
        "postgresql": "SELECT pid FROM {} WHERE datname = current_database() AND "
        "pid <> pg_backend_pid()",
        "mariadb": "SELECT id FROM {} WHERE db = database() AND id <> connection_id()",
    }[database.kind].format(ids)
    kill = "SELECT pg_terminate_backend({})" if database.kind == "postgresql" else "KILL {}"
    task = sink_task(database, **UPSERT, **EVOLVING)
    task.put([record(order(1))])

    for (session,) in database.rows(others):
        database.run(kill.format(session))
    with pytest.raises(RetriableError):
        task.put([record(struct(grown, 2, "m"))])
    task.put([record(struct(grown, 2, "m"))])
    task.stop()

    assert database.rows("SELECT id, more FROM orders ORDER BY id") == [(1, None), (2, "m")]


@pytest.mark.databases("postgresql")
def test_a_column_that_may_not_be_added_ends_the_task(database: TestDatabase) -> None:
    database.run(TABLE, "CREATE VIEW seen AS SELECT * FROM orders")
    grown = Schema.struct({"id": INT64, "more": OPTIONAL_STRING})
    task = sink_task(database, **EVOLVING, **{"table.name.format": "seen"})

    with pytest.raises(ConnectError, match="seen"):
        task.put([record(struct(grown, 2, "m"))])
    task.stop()


@pytest.mark.parametrize(("scale", "small"), [(0, "1.25"), (4, "1.00001"), (127, "1E-31")])
def test_no_decimal_is_rounded(database: TestDatabase, scale: int, small: str) -> None:
    of = Schema.struct({"id": INT64, "amount": Schema.decimal(scale, optional=True)})
    good = [Decimal(7), Decimal(-8) if scale == 0 else Decimal("-0.0001"), None]
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter), **UPSERT, **CREATING)

    task.put(
        [record(struct(of, *row), offset=row[0]) for row in enumerate([*good, Decimal(small)])]
    )
    task.stop()

    found = [None if each is None else Decimal(str(each)) for _, each in _amounts(database)]
    if reporter.reports:
        ((_, error),) = reporter.reports
        assert "give the column a larger scale" in str(error)
        assert found == good
    else:
        assert found == [*good, Decimal(small)]


@pytest.mark.databases("postgresql", "mariadb", "duckdb")
@pytest.mark.parametrize("number", [Decimal("1.255"), 1.5])
def test_no_number_is_rounded_in_a_table_that_was_there(
    database: TestDatabase, number: Decimal | float
) -> None:
    kind = "DECIMAL(10,2)" if isinstance(number, Decimal) else "INTEGER"
    schema = Schema.decimal(3) if isinstance(number, Decimal) else FLOAT64
    database.run(f"CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, amount {kind})")
    reporter = Reporter()
    of = Schema.struct({"id": INT64, "amount": schema})
    task = sink_task(database, SinkContext(reporter), **UPSERT)

    two = type(number)(2)
    task.put([record(struct(of, 1, two), offset=1), record(struct(of, 2, number), offset=2)])
    task.put([record({"id": 3, "amount": 2}, offset=3)])
    task.stop()

    assert [(number, int(each)) for number, each in _amounts(database)] == [(1, 2), (3, 2)]
    ((_, error),) = reporter.reports
    assert f"{number} has more than" in str(error)


def _amounts(database: TestDatabase) -> list[tuple[Any, ...]]:
    return database.rows("SELECT id, amount FROM orders ORDER BY id")


def test_without_auto_create_the_error_names_the_table_and_the_setting(
    database: TestDatabase,
) -> None:
    task = sink_task(database)

    with pytest.raises(ConnectError, match=r"table orders does not exist -> .*auto\.create"):
        task.put([record(order(1))])
    database.run("CREATE TABLE orders (id BIGINT)")
    with pytest.raises(ConnectError, match=r"no column name, size -> .*auto\.evolve"):
        task.put([record(order(1))])
    task.stop()


@pytest.mark.databases("sqlite")
def test_a_column_that_cannot_be_added_is_named_with_what_to_do(database: TestDatabase) -> None:
    database.run("CREATE TABLE orders (nr BIGINT)")
    task = sink_task(database, **EVOLVING)

    with pytest.raises(ConnectError, match=r"no column id, and .* -> add the column"):
        task.put([record(order(1))])
    task.stop()


def test_bad_records_are_found_by_halving_and_the_others_are_written(
    database: TestDatabase,
) -> None:
    database.run(TABLE.replace("name VARCHAR(20)", "name VARCHAR(20) NOT NULL"))
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter))

    records = [record(order(n, None if n in (17, 63) else "x"), offset=n) for n in range(100)]
    task.put(records)
    task.stop()

    assert database.rows("SELECT COUNT(*), MIN(id), MAX(id) FROM orders") == [(98, 0, 99)]
    assert [each.offset for each, _ in reporter.reports] == [17, 63]
    assert all(isinstance(error, DataError) for _, error in reporter.reports)


def test_a_bad_record_without_a_reporter_fails_with_its_coordinates(database: TestDatabase) -> None:
    database.run(TABLE)
    task = sink_task(database)
    records = [record(order(n % 5), offset=n, partition=2) for n in range(6)]

    with pytest.raises(DataError, match=r"record orders-2@5: "):
        task.put(records)
    task.stop()

    assert database.rows("SELECT COUNT(*) FROM orders") == [(5,)]


@pytest.mark.parametrize(
    ("value", "settings", "reason"),
    [
        (None, {}, r"delete\.enabled=true"),
        (17, {}, "not an object with fields"),
        ({"name": "x"}, UPSERT, r"pk\.fields: the value has no field id"),
        ({"id": 1}, {"pk.mode": "record_key", "pk.fields": "id"}, "the record has no key"),
    ],
)
@pytest.mark.databases("sqlite")
def test_records_that_do_not_fit_the_settings_are_reported(
    database: TestDatabase, value: object, settings: dict[str, str], reason: str
) -> None:
    database.run(TABLE)
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter), **settings)

    task.put([record(value, offset=1)])
    task.stop()

    ((_, error),) = reporter.reports
    assert error.args
    with pytest.raises(DataError, match=reason):
        raise error


@pytest.mark.databases("postgresql")
def test_a_lost_connection_is_retried_and_given_up_in_the_end(database: TestDatabase) -> None:
    database.run(TABLE)
    context = SinkContext()
    task = sink_task(database, context, **UPSERT, **{"max.retries": "1", "retry.backoff.ms": "7"})
    kill = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    task.put([record(order(0))])

    database.run(kill)
    with pytest.raises(RetriableError, match="terminating connection"):
        task.put([record(order(1))])
    task.put([record(order(1))])
    task.stop()

    assert context.timeouts == [7]
    assert database.rows("SELECT COUNT(*) FROM orders") == [(2,)]


@pytest.mark.databases("sqlite")
def test_retries_end(database: TestDatabase) -> None:
    database.run(TABLE)
    context = SinkContext()
    url = f"{database.url}?busy_timeout=1"
    task = sink_task(database, context, **{"connection.url": url, "max.retries": "1"})
    with database._engine.connect() as other:
        other.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(RetriableError, match="database is locked"):
            task.put([record(order(1))])
        with pytest.raises(ConnectError, match=r"max\.retries=1"):
            task.put([record(order(1))])
    task.stop()


# --- exactly once ---------------------------------------------------------------------------------

EXACTLY = {"exactly.once": "true"}


def test_offsets_are_stored_with_the_rows_and_a_replay_writes_nothing_twice(
    database: TestDatabase,
) -> None:
    database.run("CREATE TABLE orders (id BIGINT, name VARCHAR(20), size BIGINT)")
    records = [record(order(n), offset=n) for n in range(10)]
    first = sink_task(database, **EXACTLY)
    first.open([at(TOPIC, 0), at(TOPIC, 1)])
    first.put(records[:7])
    first.stop()

    context = SinkContext()
    second = sink_task(database, context, **EXACTLY)
    second.open([at(TOPIC, 0), at(TOPIC, 1)])
    second.put(records)
    allowed = second.pre_commit({at(TOPIC, 0): committed(9)})
    second.stop()

    assert context.seeks == {at(TOPIC, 0): 7}
    assert database.rows("SELECT id FROM orders ORDER BY id") == [(n,) for n in range(10)]
    assert allowed == {at(TOPIC, 0): committed(9)}


def test_records_that_were_rejected_before_the_sink_are_not_read_again(
    database: TestDatabase,
) -> None:
    database.run(TABLE)
    first = sink_task(database, **EXACTLY)
    first.open([at(TOPIC, 0), at(TOPIC, 1)])
    first.put([record(order(n), offset=n) for n in range(3)])
    done = {at(TOPIC, 0): committed(5), at(TOPIC, 1): committed(2)}
    assert first.pre_commit(done) == done
    first.stop()

    context = SinkContext()
    second = sink_task(database, context, **EXACTLY)
    second.open([at(TOPIC, 0), at(TOPIC, 1)])
    second.stop()
    assert context.seeks == {at(TOPIC, 0): 5, at(TOPIC, 1): 2}


def test_stored_offsets_are_altered_and_reset(database: TestDatabase) -> None:
    database.run(TABLE)
    props = {"connection.url": database.url, "name": "sink", "topics": TOPIC, **EXACTLY}
    task = sink_task(database, **EXACTLY)
    task.open([at(TOPIC, 0), at(TOPIC, 1)])
    task.put([record(order(n), offset=n) for n in range(3)])
    task.stop()

    def seeks() -> dict[TopicPartition, int]:
        context = SinkContext()
        again = sink_task(database, context, **EXACTLY)
        again.open([at(TOPIC, 0), at(TOPIC, 1)])
        again.stop()
        return context.seeks

    assert JdbcSinkConnector().alter_offsets(props, {at(TOPIC, 0): 1, at(TOPIC, 1): 7})
    assert seeks() == {at(TOPIC, 0): 1, at(TOPIC, 1): 7}
    assert JdbcSinkConnector().alter_offsets(props, {at(TOPIC, 1): None})
    assert seeks() == {at(TOPIC, 0): 1}
    assert JdbcSinkConnector().alter_offsets(props, {})
    assert seeks() == {}


def test_rows_that_are_rolled_back_leave_no_offset(database: TestDatabase) -> None:
    database.run(TABLE)
    task = sink_task(database, **EXACTLY)
    task.open([at(TOPIC, 0)])
    records = [record(order(n % 3), offset=n) for n in range(4)]

    with pytest.raises(DataError, match="orders-0@3"):
        task.put(records)
    task.stop()

    assert database.rows("SELECT COUNT(*) FROM orders") == [(3,)]
    assert database.rows("SELECT next_offset FROM __connect_offsets") == [(3,)]


@pytest.mark.databases("sqlite", "postgresql", "mariadb")
def test_of_two_tasks_with_one_partition_the_slower_one_writes_nothing(
    database: TestDatabase,
) -> None:
    database.run("CREATE TABLE orders (id BIGINT, name VARCHAR(20), size BIGINT)")
    slow, fast = sink_task(database, **EXACTLY), sink_task(database, **EXACTLY)
    slow.open([at(TOPIC, 0)])
    fast.open([at(TOPIC, 0)])
    fast.put([record(order(1), offset=0)])

    with pytest.raises(RetriableError, match="another task writes this partition"):
        slow.put([record(order(1), offset=0)])
    slow.stop()
    fast.stop()

    assert database.rows("SELECT COUNT(*) FROM orders") == [(1,)]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"insert.mode": "upsert"}, r"set pk\.mode="),
        ({"delete.enabled": "true"}, r"needs pk\.mode=record_key"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "needs three names"),
        ({"connection.url": "jdbc:db2://h/d"}, "no driver for jdbc:db2:"),
        ({"db.timezone": "Mars/Olympus"}, "no time zone is called"),
        ({"table.name.format": "of_${topc}"}, "it may have \\$.topic., and no other"),
    ],
)
@pytest.mark.databases("sqlite")
def test_settings_that_contradict_each_other_are_refused(
    database: TestDatabase, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        sink_task(database, **settings)


ENVELOPE = Schema.struct(
    {"before": ORDER.optionally(), "after": ORDER.optionally(), "op": STRING},
    name="db.public.orders.Envelope",
)
BY_KEY = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id"}


def changed(op: str, number: int, name: str | None, *, has_schema: bool) -> SinkRecord:
    """A change event of Debezium's, with the row's key."""
    after = None if op == "d" else order(number, name)
    key = Schema.struct({"id": INT64})
    value: Any = Struct(ENVELOPE, {"after": after, "op": op})
    if not has_schema:
        row = None if after is None else after.to_dict()
        return record({"before": None, "after": row, "op": op}, {"id": number})
    return record(value, struct(key, number))


@pytest.mark.parametrize("has_schema", [True, False])
def test_change_events_are_written_as_rows_and_deletes(
    database: TestDatabase, has_schema: bool
) -> None:
    database.run(TABLE)
    task = sink_task(database, **BY_KEY, **{"delete.enabled": "true"})

    events = [("c", 1, "a"), ("r", 2, "b"), ("u", 1, "c"), ("c", 3, "d"), ("d", 2, None)]
    task.put([changed(*event, has_schema=has_schema) for event in events])
    task.put(
        [
            record(None, struct(Schema.struct({"id": INT64}), 2)),
            changed("d", 3, None, has_schema=has_schema),
        ]
    )
    task.stop()

    assert database.rows("SELECT id, name FROM orders") == [(1, "c")]


def test_a_change_event_about_no_row_is_reported(database: TestDatabase) -> None:
    database.run(TABLE)
    reporter = Reporter()
    task = sink_task(database, SinkContext(reporter), **BY_KEY)

    task.put([changed("c", 1, "a", has_schema=True), changed("t", 2, "b", has_schema=True)])
    task.stop()

    assert database.rows("SELECT id FROM orders") == [(1,)]
    assert [str(error) for _, error in reporter.reports] == [
        "a change event with op=t is about no row -> drop it with the transform "
        "ExtractNewRecordState"
    ]
