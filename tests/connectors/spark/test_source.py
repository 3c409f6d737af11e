"""The Spark source: its runner alone, and in a Connect worker."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from moldau.client.sync import Consumer
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import command, wait_until
from tests.connectors.spark.runners import SMALL, need_spark, running
from tests.spark.topics import make_topic

pytestmark = pytest.mark.real

PATIENCE_S = 240.0


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


def _put(folder: Path, name: str, first: int, count: int) -> None:
    """A file that is there at once, whole."""
    folder.mkdir(exist_ok=True)
    draft = folder.parent / name
    draft.write_text("".join(f'{{"id": {each}}}\n' for each in range(first, first + count)))
    draft.rename(folder / name)


def _ids(broker: SyncEmbeddedBroker, topic: str, count: int) -> Counter[int]:
    """The ids in the topic, as soon as there are so many records."""
    found: list[Any] = []
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)

        def is_there() -> bool:
            found.extend(each for part in consumer.poll(0.5) for each in part.records)
            return len(found) >= count

        wait_until(is_there, f"{count} records", PATIENCE_S)
    return Counter(json.loads(each.value)["id"] for each in found)


def test_rows_of_a_database_are_read_once_and_then_what_is_new(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    url = f"sqlite:///{tmp_path}/orders.db"
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)

    def insert(first: int, count: int) -> None:
        with engine.begin() as connection:
            rows = [(each,) for each in range(first, first + count)]
            connection.exec_driver_sql("INSERT INTO orders VALUES (?)", rows)

    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id BIGINT)")
    insert(0, 100)
    config = {
        "mode": "incremental",
        "incremental.column": "id",
        "source.format": "jdbc",
        "source.table": "orders",
        "jdbc.url": f"jdbc:{url}",
        "topic": moldau_topic,
        "key.columns": "id",
        "schedule.interval.ms": "500",
        "checkpoint.location": str(tmp_path / "checkpoints"),
        **SMALL,
    }

    with running(moldau_broker, moldau_topic, config, kind="source") as events:
        assert events.until("offset")["offset"] == {"max": "99"}
        insert(100, 50)
        assert events.until("offset")["offset"] == {"max": "149"}
        events.process.send({"type": "pause"})
        events.until("paused")

    assert _ids(moldau_broker, moldau_topic, 150) == Counter(range(150))


def test_files_are_read_whole_again_and_again(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    _put(tmp_path / "in", "a.json", 0, 20)
    config = {
        "source.format": "json",
        "source.path": str(tmp_path / "in"),
        "topic": moldau_topic,
        "schedule.interval.ms": "500",
        "checkpoint.location": str(tmp_path / "checkpoints"),
        **SMALL,
    }
    with running(moldau_broker, moldau_topic, config, kind="source") as events:
        assert [events.until("progress")["rows"] for _ in range(2)] == [20, 20]
        assert _ids(moldau_broker, moldau_topic, 40).keys() == set(range(20))


def test_files_are_followed_in_a_worker_and_a_reset_reads_them_again(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    incoming = tmp_path / "in"
    _put(incoming, "a.json", 0, 100)
    config = {
        "connector.class": "SparkSourceConnector",
        "mode": "stream",
        "source.format": "json",
        "source.path": str(incoming),
        "source.schema": "id BIGINT",
        "topic": moldau_topic,
        "trigger": "processing 500 ms",
        "checkpoint.location": str(tmp_path / "checkpoints"),
        **SMALL,
    }
    file = tmp_path / "source.json"
    file.write_text(json.dumps({"name": moldau_topic, "config": config}))
    words = ("run", str(file), "--state", str(tmp_path / "state"))
    where = ("--bootstrap", moldau_broker.bootstrap_servers, "--listen", "127.0.0.1:0")
    path = f"/connectors/{moldau_topic}"
    with command(*words, *where, environment={}) as worker:
        worker.wait_for(moldau_topic, "RUNNING", "RUNNING")
        assert _ids(moldau_broker, moldau_topic, 100) == Counter(range(100))
        _put(incoming, "b.json", 100, 20)
        assert _ids(moldau_broker, moldau_topic, 120) == Counter(range(120))

        def offsets() -> list[Any]:
            found: list[Any] = worker.ask("GET", f"{path}/offsets")[1]["offsets"]
            return found

        wait_until(lambda: bool(offsets()), "an offset", PATIENCE_S)
        assert offsets()[0]["partition"] == {"source": f"json:{incoming}"}
        assert worker.ask("PUT", f"{path}/stop")[0] == 204
        worker.wait_for(moldau_topic, "STOPPED")
        assert worker.ask("DELETE", f"{path}/offsets")[0] == 200
        assert worker.ask("PUT", f"{path}/resume")[0] == 202
        twice = Counter(dict.fromkeys(range(120), 2))
        assert _ids(moldau_broker, moldau_topic, 240) == twice
        assert worker.stop() == 0
    assert (tmp_path / "checkpoints" / moldau_topic / "gen-1").is_dir()
