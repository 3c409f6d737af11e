"""The Spark sink in a Connect worker: the config of the docs as it is, states, offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.connectors.spark.config import SparkSinkConfig
from moldau.spark.session import shared_server
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import command, wait_until
from tests.connectors.spark.connect_servers import server_address
from tests.connectors.spark.connect_servers import shared as shared
from tests.connectors.spark.runners import SMALL, ids_in, need_spark, orders, orders_lake
from tests.spark.topics import make_topic, send

pytestmark = pytest.mark.real

PATIENCE_S = 240.0


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


def _rows(folder: Path) -> list[int]:
    return ids_in(folder) if (folder / "_spark_metadata").is_dir() else []


def test_orders_lake_runs_as_it_is_and_obeys(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, orders(100))
    config = orders_lake(moldau_topic, tmp_path, trigger="processing 1 second")
    file = tmp_path / "orders-lake.json"
    file.write_text(json.dumps({"name": moldau_topic, "config": config}))
    lake = tmp_path / "orders"

    words = ("run", str(file), "--state", str(tmp_path / "state"))
    where = ("--bootstrap", moldau_broker.bootstrap_servers, "--listen", "127.0.0.1:0")
    with command(*words, *where, environment={}) as worker:
        worker.wait_for(moldau_topic, "RUNNING", "RUNNING")
        wait_until(lambda: len(_rows(lake)) == 100, "100 rows", PATIENCE_S)

        assert worker.ask("PUT", f"/connectors/{moldau_topic}/pause")[0] == 202
        worker.wait_for(moldau_topic, "PAUSED", "PAUSED")
        assert worker.ask("PUT", f"/connectors/{moldau_topic}/resume")[0] == 202
        worker.wait_for(moldau_topic, "RUNNING", "RUNNING")
        send(moldau_broker, moldau_topic, orders(20, 100), partition=1)
        wait_until(lambda: len(_rows(lake)) == 120, "120 rows", PATIENCE_S)

        def offsets() -> dict[int, int]:
            _, body = worker.ask("GET", f"/connectors/{moldau_topic}/offsets")
            return {
                each["partition"]["kafka_partition"]: each["offset"]["kafka_offset"]
                for each in body["offsets"]
            }

        wait_until(lambda: offsets().get(0) == 100, "the group's offsets", PATIENCE_S)
        assert worker.ask("PUT", f"/connectors/{moldau_topic}/stop")[0] == 204
        assert worker.stop() == 0
    assert _rows(lake) == list(range(120))


def test_a_value_that_cannot_be_read_fails_the_task_in_one_line(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, [b"{broken"])
    config = {**orders_lake(moldau_topic, tmp_path), **SMALL, "errors.restart.max": "0"}
    file = tmp_path / "orders-lake.json"
    file.write_text(json.dumps({"name": moldau_topic, "config": config}))

    words = ("run", str(file), "--state", str(tmp_path / "state"))
    where = ("--bootstrap", moldau_broker.bootstrap_servers, "--listen", "127.0.0.1:0")
    with command(*words, *where, environment={}) as worker:
        wait_until(
            lambda: worker.states(moldau_topic)[1:] == ["FAILED"], "a failed task", PATIENCE_S
        )
        _, body = worker.ask("GET", f"/connectors/{moldau_topic}/status")
        assert worker.stop() == 0

    first = body["tasks"][0]["trace"].splitlines()[0]
    assert "a value does not fit value.schema" in first


def test_a_mistake_in_the_config_fails_the_task_until_the_config_is_changed(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(10))
    config = orders_lake(moldau_topic, tmp_path, **{"errors.restart.backoff.ms": "1"})
    wrong = {**config, "transforms.sql": "SELECT idd FROM source"}
    file = tmp_path / "orders-lake.json"
    file.write_text(json.dumps({"name": moldau_topic, "config": wrong}))

    words = ("run", str(file), "--state", str(tmp_path / "state"))
    where = ("--bootstrap", moldau_broker.bootstrap_servers, "--listen", "127.0.0.1:0")
    with command(*words, *where, environment={}) as worker:

        def task() -> dict[str, object]:
            found: dict[str, object] = worker.ask("GET", "/v1/connectors")[1][moldau_topic][
                "tasks"
            ][0]
            return found

        wait_until(
            lambda: worker.states(moldau_topic)[1:] == ["FAILED"], "a failed task", PATIENCE_S
        )
        assert "UNRESOLVED_COLUMN" in str(task()["error"])
        assert "restart_in_ms" not in task(), "it is not tried again"
        assert worker.ask("PUT", f"/connectors/{moldau_topic}/config", config)[0] == 200
        wait_until(lambda: _rows(tmp_path / "orders") == list(range(10)), "10 rows", PATIENCE_S)
        assert task().get("restarts", 0) == 0
        assert worker.stop() == 0


@pytest.mark.parametrize("deploy", ["shared-local", "remote"])
def test_a_task_runs_on_a_spark_connect_server(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, shared: Path, deploy: str
) -> None:
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, orders(60))
    send(moldau_broker, moldau_topic, orders(40, 60), partition=1)
    config = orders_lake(moldau_topic, tmp_path, trigger="processing 1 second")
    if deploy == "remote":
        shared_server("local[2]", SparkSinkConfig.of(config).spark_conf)
        config["spark.remote"] = server_address(shared)
    config["spark.deploy"] = deploy
    file = tmp_path / "orders-lake.json"
    file.write_text(json.dumps({"name": moldau_topic, "config": config}))

    words = ("run", str(file), "--state", str(tmp_path / "state"))
    where = ("--bootstrap", moldau_broker.bootstrap_servers, "--listen", "127.0.0.1:0")
    with command(*words, *where, environment={}) as worker:

        def read() -> object:
            task = worker.ask("GET", "/v1/tasks")[1].get(f"{moldau_topic}/0", {})
            assert task.get("restarts", 0) == 0, worker.ask(
                "GET", f"/connectors/{moldau_topic}/status"
            )
            return task.get("metrics", {}).get("sink-record-read-total")

        wait_until(lambda: read() == 100, "100 rows in the metrics", PATIENCE_S)
        assert _rows(tmp_path / "orders") == list(range(100))
        assert worker.states(moldau_topic) == ["RUNNING", "RUNNING"]
        assert worker.stop() == 0
