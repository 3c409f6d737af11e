"""A batch that Spark runs again: its rows are in the topic once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

types = pytest.importorskip("pyspark.sql.types")

from moldau.client import TransactionError  # noqa: E402
from moldau.errors import ConfigError  # noqa: E402
from moldau.spark.transactions import TaskBatch, committed_once  # noqa: E402
from moldau.spark.writing import parse_write  # noqa: E402
from moldau.testing import SyncEmbeddedBroker  # noqa: E402
from tests.connect.committed import committed  # noqa: E402
from tests.no_client_left import close_what_is_left  # noqa: E402
from tests.spark.topics import make_topic, numbers, send, stream  # noqa: E402

ROWS = types.StructType([types.StructField("value", types.StringType())])


@pytest.fixture(scope="module", autouse=True)
def no_client_is_left() -> Iterator[None]:
    """A writer leaves its clients open until the process of its executor ends, which is ours."""
    yield
    close_what_is_left()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exactlyOnce": "yes"}, "exactlyonce"),
        ({"kafka.transactional.id": "a"}, "use the option exactlyOnce"),
        ({"exactlyOnce": "true"}, "a batch also needs exactlyOnceName"),
        ({"exactlyOnceName": "a"}, "a batch needs .*exactlyOnceBatch"),
        ({"exactlyOnceBatch": "1"}, "a batch needs exactlyOnceName"),
        ({"exactlyOnceBatch": "-1", "exactlyOnceName": "a"}, "exactlyOnceBatch.*'-1'"),
        ({"exactlyOnceBatch": "1", "exactlyOnceName": " "}, "a batch needs exactlyOnceName"),
        (
            {"exactlyOnceBatch": "1", "exactlyOnceName": "a", "exactlyOnce": "false"},
            "leave it out, or exactlyOnceName",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], message: str) -> None:
    given = {"kafka.bootstrap.servers": "b:1", "topic": "t", **options}
    with pytest.raises(ConfigError, match=message):
        parse_write(given, ROWS, overwrite=False, is_stream=False)


def test_a_stream_needs_no_name() -> None:
    given = {"kafka.bootstrap.servers": "b:1", "topic": "t"}
    assert parse_write(given, ROWS, overwrite=False, is_stream=True).is_exactly_once
    assert not parse_write(given, ROWS, overwrite=False, is_stream=False).is_exactly_once
    named = {**given, "exactlyOnceName": "a", "exactlyOnceBatch": "1"}
    with pytest.raises(ConfigError, match="it is for foreachBatch"):
        parse_write(named, ROWS, overwrite=False, is_stream=True)


def test_settings_that_do_not_allow_transactions_are_named_before_a_task_runs() -> None:
    given = {"kafka.bootstrap.servers": "b:1", "topic": "t", "kafka.acks": "1"}
    with pytest.raises(ConfigError, match=r"acks=1.*exactlyOnce=false"):
        parse_write(given, ROWS, overwrite=False, is_stream=True)

    plain = {**given, "exactlyOnce": "false"}
    assert not parse_write(plain, ROWS, overwrite=False, is_stream=True).is_exactly_once


def found_in(broker: SyncEmbeddedBroker, topic: str) -> list[int]:
    """The sorted numbers that a reader of committed records finds."""
    return sorted(map(int, committed(broker.bootstrap_servers, topic)))


def test_an_attempt_after_another_one_writes_nothing(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    settings = {"bootstrap.servers": moldau_broker.bootstrap_servers, "linger.ms": "1"}
    for number in (0, 0, 3, 3):
        task = TaskBatch(moldau_topic, 0, number)
        with committed_once(settings, task, moldau_topic) as attempt:
            attempt.rows = 1
            if attempt.producer is not None:
                attempt.producer.send(moldau_topic, str(number).encode())

    assert found_in(moldau_broker, moldau_topic) == [0, 3]


@pytest.mark.parametrize(
    ("batch", "rows", "message"),
    [(7, 2, "with other rows in this task"), (6, 1, "a later batch than its checkpoint")],
)
def test_rows_are_left_out_only_if_they_are_those_that_are_written(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, batch: int, rows: int, message: str
) -> None:
    """After a change of the split, a task would leave out rows of another one."""
    make_topic(moldau_broker, moldau_topic, 1)
    settings = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    with committed_once(settings, TaskBatch(moldau_topic, 0, 7), moldau_topic) as first:
        assert first.producer is not None
        first.rows = 1

    def again() -> None:
        task = TaskBatch(moldau_topic, 0, batch)
        with committed_once(settings, task, moldau_topic) as attempt:
            assert attempt.producer is None
            attempt.rows = rows

    with pytest.raises(ConfigError, match=message):
        again()


def test_an_attempt_that_is_taken_over_commits_nothing(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    settings = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    task = TaskBatch(moldau_topic, 0, 7)

    def late() -> None:
        with committed_once(settings, task, moldau_topic) as first:
            assert first.producer is not None
            first.producer.send(moldau_topic, b"1").result(60)
            with committed_once(settings, task, moldau_topic) as second:
                assert second.producer is not None
                second.producer.send(moldau_topic, b"2")

    with pytest.raises(TransactionError):
        late()

    assert found_in(moldau_broker, moldau_topic) == [2]


def test_a_broker_that_restarts_in_the_middle_changes_nothing() -> None:
    with SyncEmbeddedBroker() as broker:
        make_topic(broker, "t", 1)
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        for _ in range(2):
            with committed_once(settings, TaskBatch("w", 0, 3), "t") as attempt:
                attempt.rows = 40
                if attempt.producer is not None:
                    attempt.producer.send_many("t", numbers(20)).result()
                    broker.restart()
                    attempt.producer.send_many("t", numbers(20, 20)).result()

        assert found_in(broker, "t") == [*range(40)]


@pytest.mark.real
def test_a_batch_that_runs_again_adds_nothing(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    copies = f"{moldau_topic}-copies"
    for topic in (moldau_topic, copies):
        make_topic(moldau_broker, topic)
    for partition in (0, 1):
        send(moldau_broker, moldau_topic, numbers(100, 1000 * partition), partition)

    def run(value: str = "value") -> None:
        rows = stream(spark, moldau_broker, moldau_topic, startingOffsets="earliest").load()
        writer = rows.selectExpr(f"CAST({value} AS STRING) AS value").writeStream
        query = (
            writer.format("moldau")
            .option("kafka.bootstrap.servers", moldau_broker.bootstrap_servers)
            .option("topic", copies)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)

    # One task fails after it has written some of its rows; the other one may commit.
    with pytest.raises(Exception, match="in the middle"):
        run("IF(value = '1050', raise_error('in the middle'), value)")
    run()
    expected = sorted([*range(100), *range(1000, 1100)])
    assert found_in(moldau_broker, copies) == expected
    # All tasks have committed, but the driver died before it had written that down.
    (tmp_path / "commits" / "0").unlink()
    (tmp_path / "commits" / ".0.crc").unlink(missing_ok=True)
    send(moldau_broker, moldau_topic, numbers(5, 5000), 0)
    run()
    assert found_in(moldau_broker, copies) == [*expected, *range(5000, 5005)]
