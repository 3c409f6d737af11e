"""`spark.task.per.topic=true` in a Connect worker: each topic goes its own way."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connectors.spark.connector_worker import worker_of
from tests.connectors.spark.runners import ids_in, need_spark, orders, orders_lake
from tests.spark.topics import make_topic, send

pytestmark = pytest.mark.real

PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


def each_topic(topics: list[str], folder: Path, **more: str) -> dict[str, str]:
    split = {
        "topics": ",".join(topics),
        "spark.task.per.topic": "true",
        "tasks.max": "2",
        "trigger": "processing 1 second",
        "sink.path": str(folder / "lake" / "${topic}"),
        "errors.restart.max": "0",
    }
    return orders_lake(topics[0], folder, **split, **more)


def offsets_of(worker: Worker, name: str) -> dict[str, int]:
    """The offset of partition 0 of each topic."""
    _, body = worker.ask("GET", f"/connectors/{name}/offsets")
    return {
        each["partition"]["kafka_topic"]: each["offset"]["kafka_offset"]
        for each in body["offsets"]
        if each["partition"]["kafka_partition"] == 0
    }


def test_a_topic_is_read_again_or_fails_and_the_other_goes_on(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    name, first, second = moldau_topic, f"{moldau_topic}-a", f"{moldau_topic}-b"
    for topic, count in ((first, 60), (second, 35)):
        make_topic(moldau_broker, topic, 1)
        send(moldau_broker, topic, orders(count))

    def rows(topic: str) -> list[int]:
        folder = tmp_path / "lake" / topic
        return ids_in(folder) if (folder / "_spark_metadata").is_dir() else []

    config = each_topic([second, first], tmp_path)
    with worker_of(moldau_broker, name, config, tmp_path) as worker:
        worker.wait_for(name, "RUNNING", "RUNNING", "RUNNING")
        wait_until(lambda: rows(first) == list(range(60)), "the first topic", PATIENCE_S)
        wait_until(lambda: rows(second) == list(range(35)), "the second topic", PATIENCE_S)
        both = {first: 60, second: 35}
        wait_until(lambda: offsets_of(worker, name) == both, "offsets of both", PATIENCE_S)

        assert worker.ask("PUT", f"/connectors/{name}/pause")[0] == 202
        worker.wait_for(name, "PAUSED", "PAUSED", "PAUSED")
        assert worker.ask("PUT", f"/connectors/{name}/stop")[0] == 204
        change = {"partition": {"kafka_topic": first, "kafka_partition": 0}, "offset": None}
        status, body = worker.ask("PATCH", f"/connectors/{name}/offsets", {"offsets": [change]})
        assert status == 200, body
        assert offsets_of(worker, name) == {second: 35}

        send(moldau_broker, second, orders(5, 35))
        assert worker.ask("PUT", f"/connectors/{name}/resume")[0] == 202
        twice = sorted([*range(60), *range(60)])
        wait_until(lambda: rows(first) == twice, "the first topic again", PATIENCE_S)
        wait_until(lambda: rows(second) == list(range(40)), "what is new of the second", PATIENCE_S)

        send(moldau_broker, second, [b"{broken"])
        worker_states = ["RUNNING", "RUNNING", "FAILED"]
        wait_until(lambda: worker.states(name) == worker_states, "one failed task", PATIENCE_S)
        send(moldau_broker, first, orders(10, 60))
        more = sorted([*twice, *range(60, 70)])
        wait_until(lambda: rows(first) == more, "the first topic goes on", PATIENCE_S)
        _, body = worker.ask("GET", f"/connectors/{name}/status")
        assert f"topic {second}, partition 0, offset 40" in body["tasks"][1]["trace"]
        assert worker.states(name) == worker_states
        assert worker.ask("DELETE", f"/connectors/{name}")[0] == 204

    assert rows(second) == list(range(40))
    folders = sorted(each.name for each in (tmp_path / "checkpoints" / name / "topics").iterdir())
    assert folders == [first, second]


def test_topics_share_a_table_of_a_database_and_a_topic_is_written_again(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    name, topics = moldau_topic, [f"{moldau_topic}-a", f"{moldau_topic}-b"]
    for topic in topics:
        make_topic(moldau_broker, topic, 1)
        send(moldau_broker, topic, orders(40))
    engine = sa.create_engine(f"sqlite:///{tmp_path}/orders.db", poolclass=sa.pool.NullPool)

    def counts() -> dict[str, int]:
        if not sa.inspect(engine).has_table("orders"):
            return {}
        with engine.connect() as connection:
            words = "SELECT topic, count(*) FROM orders GROUP BY topic"
            return dict(tuple(each) for each in connection.exec_driver_sql(words))

    table = {
        "sink.format": "jdbc",
        "sink.table": "orders",
        "jdbc.url": f"jdbc:sqlite:///{tmp_path}/orders.db",
        "transforms.sql": "SELECT id, _topic AS topic FROM source",
    }
    config = each_topic(topics, tmp_path, **table)
    del config["sink.path"]
    with worker_of(moldau_broker, name, config, tmp_path) as worker:
        once = dict.fromkeys(topics, 40)
        wait_until(lambda: counts() == once, "both topics", PATIENCE_S)
        assert worker.ask("PUT", f"/connectors/{name}/stop")[0] == 204
        change = {
            "partition": {"kafka_topic": topics[1], "kafka_partition": 0},
            "offset": {"kafka_offset": 30},
        }
        status, body = worker.ask("PATCH", f"/connectors/{name}/offsets", {"offsets": [change]})
        assert status == 200, body
        assert offsets_of(worker, name)[topics[1]] == 30
        assert worker.ask("PUT", f"/connectors/{name}/resume")[0] == 202
        again = {topics[0]: 40, topics[1]: 50}
        wait_until(lambda: counts() == again, "ten records again", PATIENCE_S)
        send(moldau_broker, topics[0], orders(1, 40))
        wait_until(lambda: counts() == {**again, topics[0]: 41}, "one more", PATIENCE_S)

    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT query FROM moldau_spark_batches").scalars()
        queries = sorted(each.partition(" ")[0] for each in found)
    assert queries[:2] == [f"{name}:{topic}" for topic in topics]
    assert queries[2].startswith(f"{name}:{topics[1]}:1-")
