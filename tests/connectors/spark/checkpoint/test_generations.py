"""Checkpoints that begin again, and sinks that have batches of before: nothing is left out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from moldau.client import TopicPartition
from moldau.connectors.spark.batches import (
    QueryCheckpoint,
    is_repeated,
    last_batch,
    last_file_batch,
)
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.checkpoint.generations import Generation
from moldau.connectors.spark.connector import SparkSinkConnector
from moldau.connectors.spark.jobs import SinkJob
from moldau.errors import ConfigError
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.connectors.spark.orders_lake import ORDERS_LAKE
from tests.connectors.spark.runners import ids_in, orders, orders_lake
from tests.spark.topics import make_topic, send

UNKNOWN = "batches that the checkpoint does not know"


def test_only_the_batch_that_spark_repeats_is_left_out() -> None:
    assert not is_repeated(None, 0, is_fresh=True)
    assert not is_repeated(6, 7, is_fresh=False)
    assert is_repeated(7, 7, is_fresh=False)
    for last, number, is_fresh in ((7, 0, False), (0, 0, True)):
        with pytest.raises(ConfigError, match=UNKNOWN):
            is_repeated(last, number, is_fresh=is_fresh)


def test_a_new_generation_removes_what_a_crash_left_of_the_one_before() -> None:
    before = QueryCheckpoint("q", "/c/orders/gen-0/rows")
    after = QueryCheckpoint("q", "s3://b/orders/gen-1/rows")
    assert before.spool == "/c/orders/spool"
    assert after.spool == "s3://b/orders/spool"


def test_the_last_batch_of_files_is_that_of_sparks_log(tmp_path: Path) -> None:
    assert last_file_batch(None, str(tmp_path)) is None
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name in ("8", "9.compact", "10", ".11.tmp", ".10.crc"):
        (log / name).touch()

    assert last_file_batch(None, str(tmp_path)) == 10
    assert last_file_batch(None, f"file://{tmp_path}") == 10


def test_offsets_that_are_reset_begin_as_a_new_query(tmp_path: Path) -> None:
    props = {**ORDERS_LAKE, "name": "lake", "checkpoint.location": str(tmp_path)}
    folder = CheckpointFolder(str(tmp_path), "lake")
    folder.begin_generation({"orders": {"0": 5}})

    SparkSinkConnector().alter_offsets(props, {TopicPartition("orders", 1): 7})
    assert folder.generations.current().starting == {"orders": {"0": 5, "1": 7}}

    SparkSinkConnector().alter_offsets(props, {})
    assert folder.generations.current() == Generation(3, {})


@pytest.fixture
def run(spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> Callable[..., int]:
    """Runs a sink to its end; how many records it has read."""

    def until_finished(config: dict[str, str]) -> int:
        told: list[dict[str, Any]] = []
        folder = CheckpointFolder(config["checkpoint.location"], moldau_topic)
        clients = {"bootstrap.servers": moldau_broker.bootstrap_servers}
        start = {"name": moldau_topic, "config": config, "clients": clients}
        job = SinkJob(start, SparkSinkConnector.config_model.of(config), folder, told.append)
        job.start(spark)

        def is_finished() -> bool:
            job.poll()
            return any(each["type"] == "finished" for each in told)

        try:
            wait_until(is_finished, "the end of what is there", 240)
        finally:
            job.stop()
        return sum(each.get("rows", 0) for each in told)

    return until_finished


@pytest.mark.real
def test_files_are_written_again_after_a_reset_and_not_without_their_checkpoint(
    run: Callable[..., int], moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(20))
    config = {**orders_lake(moldau_topic, tmp_path), "name": moldau_topic}
    assert run(config) == 20
    rows = list(range(20))
    for count in (1, 2):
        # The second time there are batches 0 and 1, and Spark looks at both.
        SparkSinkConnector().alter_offsets(config, {TopicPartition(moldau_topic, 0): 15})
        send(moldau_broker, moldau_topic, orders(5, 15 + 5 * count))
        assert run(config) == 5 + 5 * count
        rows += range(15, 20 + 5 * count)
        assert ids_in(tmp_path / "orders") == sorted(rows)
        assert run(config) == 0

    shutil.rmtree(tmp_path / "checkpoints")
    send(moldau_broker, moldau_topic, orders(5, 30))
    with pytest.raises(ConfigError, match=UNKNOWN):
        run(config)
    assert ids_in(tmp_path / "orders") == sorted(rows)


LACKS = "batches that this sink.path lacks"


@pytest.fixture
def compacts_often(spark: Any) -> Iterator[None]:
    """Lets Spark compact its log of a directory at each second batch."""
    name = "spark.sql.streaming.fileSink.log.compactInterval"
    spark.conf.set(name, "2")
    yield
    spark.conf.unset(name)


@pytest.mark.real
def test_a_directory_without_the_batches_of_the_checkpoint_is_refused(
    run: Callable[..., int],
    compacts_often: None,
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
) -> None:
    """Without these batches Spark fails when it next compacts the log, and at each start then."""
    make_topic(moldau_broker, moldau_topic, 1)
    config = {**orders_lake(moldau_topic, tmp_path), "name": moldau_topic}
    elsewhere = {**config, "sink.path": str(tmp_path / "elsewhere")}
    for batch in range(3):
        send(moldau_broker, moldau_topic, orders(5, 5 * batch))
        assert run(config) == 5
    assert (tmp_path / "orders" / "_spark_metadata" / "1.compact").exists()

    send(moldau_broker, moldau_topic, orders(5, 15))
    with pytest.raises(ConfigError, match=LACKS):
        run(elsewhere)
    assert not (tmp_path / "elsewhere").exists()

    # The right directory goes on, over the next compaction.
    for batch in range(4, 6):
        assert run(config) == 5
        send(moldau_broker, moldau_topic, orders(5, 5 * batch))
    assert run(config) == 5
    assert ids_in(tmp_path / "orders") == list(range(30))

    shutil.rmtree(tmp_path / "orders")
    with pytest.raises(ConfigError, match=LACKS):
        run(config)

    SparkSinkConnector().alter_offsets(config, {})
    assert run(elsewhere) == 30
    assert ids_in(tmp_path / "elsewhere") == list(range(30))


def test_a_crash_before_the_first_commit_leaves_a_directory_that_may_be_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows" / "offsets").mkdir(parents=True)
    (tmp_path / "rows" / "offsets" / "0").touch()

    assert last_batch(None, str(tmp_path / "rows" / "offsets")) == 0
    assert last_batch(None, str(tmp_path / "rows" / "commits")) is None


@pytest.mark.real
@pytest.mark.parametrize(
    "stateful",
    [
        {"transforms.sql": "SELECT window.start AS id, count(*) AS n FROM source "
         "GROUP BY window(at, '1 minute')"},
        {"dedup.columns": "id"},
        {"transforms.sql": "SELECT DISTINCT id, at FROM source"},
    ],
)  # fmt: skip
def test_a_query_with_state_does_not_begin_anew_among_its_files(
    run: Callable[..., int],
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    stateful: dict[str, str],
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(20))
    more = {"watermark": "at, 10 minutes", **stateful}
    config = {**orders_lake(moldau_topic, tmp_path, **more), "name": moldau_topic}
    assert run(config) >= 20

    SparkSinkConnector().alter_offsets(config, {})
    with pytest.raises(ConfigError, match="a query with state"):
        run(config)
    assert not (tmp_path / "checkpoints" / moldau_topic / "gen-1" / "rows").exists()

    assert run({**config, "sink.path": str(tmp_path / "elsewhere")}) >= 20


@pytest.mark.real
def test_a_database_is_not_written_without_its_checkpoint(
    run: Callable[..., int], moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(20))
    database = {"sink.format": "jdbc", "sink.table": "orders"}
    database["jdbc.url"] = f"jdbc:sqlite:///{tmp_path}/orders.db"
    config = {**orders_lake(moldau_topic, tmp_path, **database), "name": moldau_topic}
    assert run(config) == 20

    shutil.rmtree(tmp_path / "checkpoints")
    send(moldau_broker, moldau_topic, orders(5, 20))
    with pytest.raises(Exception, match=UNKNOWN):
        run(config)

    engine = sa.create_engine(f"sqlite:///{tmp_path}/orders.db", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM orders").scalar() == 20
