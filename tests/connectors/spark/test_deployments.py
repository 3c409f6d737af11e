"""`spark.deploy`: one changed key, and the query goes on from its checkpoint."""

from __future__ import annotations

import os
import signal
import socket
from importlib import import_module
from pathlib import Path

import pytest

from moldau.connectors.spark.checkpoint.folder import CheckpointFolder, Session
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.connector import SparkSinkConnector
from moldau.connectors.spark.deployments import (
    attach_session,
    check_handshake,
    end_open_session,
    open_session,
)
from moldau.errors import ConfigError
from moldau.runtime.node_processes import free_ports
from moldau.spark.reach import check_reachable
from moldau.spark.session import shared_server
from moldau.testing import SyncEmbeddedBroker
from tests.connectors.spark.connect_servers import found_server, server_address
from tests.connectors.spark.connect_servers import shared as shared
from tests.connectors.spark.runners import ids_in, need_spark, orders, orders_lake, running
from tests.spark.clusters import standalone_cluster
from tests.spark.topics import make_topic, send

CHUNK = 100
ONE_BATCH = {"max.offsets.per.trigger": "1000000"}
"""Where a run only has to go on and end: each batch takes seconds on a busy machine."""


@pytest.mark.parametrize(
    ("scheme", "words"),
    [("spark", "no Spark master answers: start it"), ("sc", "no Spark Connect server answers")],
)
def test_an_unreachable_place_is_one_line_with_cause_and_fix(scheme: str, words: str) -> None:
    port = free_ports(1)[0]

    with pytest.raises(ConfigError, match=words) as raised:
        check_reachable(f"{scheme}://127.0.0.1:{port}/;token=secret")

    told = str(raised.value)
    assert "Connection refused" in told
    assert str(port) in told
    assert "secret" not in told
    assert "\n" not in told


def test_a_server_that_does_not_shake_hands_is_one_line() -> None:
    """Connections wait in the queue of the socket, and nothing accepts them."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpc")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ConfigError, match="does not answer as a Spark Connect") as raised:
            check_handshake(f"sc://127.0.0.1:{port}/;token=secret;use_ssl=false", 0.2)

    assert str(port) in str(raised.value)
    assert "secret" not in str(raised.value)


def test_other_masters_are_for_spark_to_check() -> None:
    for master in ("local[2]", "yarn", "k8s://https://127.0.0.1:1"):
        check_reachable(master)


@pytest.mark.real
def test_a_runner_tells_of_an_unreachable_master_before_it_starts_java(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    need_spark()
    master = f"spark://127.0.0.1:{free_ports(1)[0]}"
    config = orders_lake(moldau_topic, tmp_path, **{"spark.master": master})

    with running(moldau_broker, moldau_topic, config) as events:
        failed = events.until("failed")

    assert failed["cause"].startswith("no Spark master answers: start it")
    assert "\n" not in failed["cause"]


@pytest.mark.real
def test_a_shared_server_and_a_remote_one_go_on_with_the_checkpoint(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, shared: Path
) -> None:
    """The runner is killed in mid-query: the query goes on without it, and the next runner ends it
    before it begins. Then the server is killed, and one started anew does the rest."""
    need_spark()
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(CHUNK))
    config = orders_lake(
        moldau_topic,
        tmp_path,
        **{
            "spark.deploy": "shared-local",
            "trigger": "processing 1 second",
            "max.offsets.per.trigger": "25",
        },
    )
    _kill_in_mid_query(moldau_broker, moldau_topic, config)
    send(moldau_broker, moldau_topic, orders(CHUNK, CHUNK))
    with running(moldau_broker, moldau_topic, config) as events:
        started = events.until("started")
        assert started["guarantee"].startswith("exactly once")
        events.until("progress")
        _kill_server(shared)
        events.until("failed", 240)

    shared_server("local[2]", SparkSinkConfig.of(config).spark_conf)
    with running(moldau_broker, moldau_topic, _remote(config, shared)) as events:
        events.until("finished")
    assert ids_in(tmp_path / "orders") == list(range(2 * CHUNK))


def test_a_changed_deploy_is_refused_while_a_query_may_run_on_the_server_before(
    tmp_path: Path,
) -> None:
    folder = CheckpointFolder(str(tmp_path / "checkpoints"), "lake")
    folder.acquire_for_query()
    folder.session_note.write(Session(7, is_open=True, server="spark:15002"))
    config = orders_lake("lake", tmp_path)
    elsewhere = {"spark.deploy": "remote", "spark.remote": "sc://other:15002"}
    for changed in ({"spark.deploy": "local"}, {"spark.deploy": "submit"}, elsewhere):
        with pytest.raises(ConfigError, match=r"set spark\.deploy and spark\.rem") as caught:
            open_session(SparkSinkConfig.of({**config, **changed}), folder)
        assert str(folder.session_note.path) in str(caught.value)
        with pytest.raises(ConfigError, match=r"set spark\.deploy and spark\.rem"):
            end_open_session(SparkSinkConfig.of({**config, **changed}), folder)
    folder.lock.release()


@pytest.mark.real
def test_a_query_on_the_shared_server_ends_when_the_deploy_is_changed_to_local(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, shared: Path
) -> None:
    need_spark()
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(CHUNK))
    more = {"spark.deploy": "shared-local", "trigger": "processing 1 second"}
    config = orders_lake(moldau_topic, tmp_path, **more)
    _kill_in_mid_query(moldau_broker, moldau_topic, config)

    changed = {"spark.deploy": "local", "trigger": "available-now"}
    with running(moldau_broker, moldau_topic, {**config, **changed}) as events:
        events.until("finished")
    folder = CheckpointFolder(config["checkpoint.location"], moldau_topic)
    number, is_open, _ = folder.session_note.read()
    assert not is_open
    assert attach_session("moldau", server_address(shared), moldau_topic, number) is None, (
        "it is closed"
    )
    assert ids_in(tmp_path / "orders") == list(range(CHUNK))


@pytest.mark.real
def test_a_query_that_a_killed_runner_left_ends_before_its_checkpoint_is_removed(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, shared: Path
) -> None:
    need_spark()
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(CHUNK))
    more = {"spark.deploy": "shared-local", "trigger": "processing 1 second"}
    config = orders_lake(moldau_topic, tmp_path, **more, **{"checkpoint.cleanup": "true"})
    _kill_in_mid_query(moldau_broker, moldau_topic, config)
    folder = CheckpointFolder(config["checkpoint.location"], moldau_topic)
    number, is_open, server = folder.session_note.read()
    assert (is_open, server) == (True, "shared-local")

    SparkSinkConnector().removed({**config, "name": moldau_topic})

    assert attach_session("moldau", server_address(shared), moldau_topic, number) is None, (
        "it is closed"
    )
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ, "a worker starts runners of any kind"
    active = import_module("pyspark.sql.connect.session").SparkSession.getActiveSession()
    assert active is None, "no client stays that would look for its server when this process ends"
    assert list((tmp_path / "checkpoints").iterdir()) == []
    send(moldau_broker, moldau_topic, orders(CHUNK, CHUNK))
    elsewhere = {"checkpoint.location": str(tmp_path / "other"), "trigger": "available-now",
                 "sink.path": str(tmp_path / "elsewhere")}  # fmt: skip
    with running(moldau_broker, f"{moldau_topic}-2", {**config, **elsewhere}) as events:
        events.until("finished")
        session = CheckpointFolder(str(tmp_path / "other"), f"{moldau_topic}-2").session_note.read()
        assert session.is_open
    assert ids_in(tmp_path / "elsewhere") == list(range(2 * CHUNK))
    assert ids_in(tmp_path / "orders") == list(range(CHUNK)), "the query has ended"
    assert list((tmp_path / "checkpoints").iterdir()) == []
    closed = CheckpointFolder(str(tmp_path / "other"), f"{moldau_topic}-2").session_note.read()
    assert not closed.is_open


def _kill_in_mid_query(broker: SyncEmbeddedBroker, topic: str, config: dict[str, str]) -> None:
    with running(broker, topic, config) as events:
        events.until("progress")
        events.process.kill()


def _kill_server(shared: Path) -> None:
    pid = found_server(shared)["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)


def _remote(config: dict[str, str], shared: Path) -> dict[str, str]:
    """The address of the server, as a user writes it; all that is left in one batch."""
    changed = {"spark.deploy": "remote", "spark.remote": server_address(shared),
               "trigger": "available-now"}  # fmt: skip
    return {**config, **changed, **ONE_BATCH}


@pytest.mark.real
def test_a_cluster_loses_a_worker_and_goes_on_when_only_the_key_is_changed_to_submit(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    need_spark()
    make_topic(moldau_broker, moldau_topic, 2)
    send(moldau_broker, moldau_topic, orders(CHUNK))
    send(moldau_broker, moldau_topic, orders(CHUNK, CHUNK), partition=1)
    with standalone_cluster(tmp_path) as cluster:
        more = {"max.offsets.per.trigger": "100", **cluster.conf()}
        config = orders_lake(moldau_topic, tmp_path, **more)
        with running(moldau_broker, moldau_topic, config) as events:
            events.until("progress")
            cluster.workers[0].kill()
            events.until("finished")
        assert ids_in(tmp_path / "orders") == list(range(2 * CHUNK))

        send(moldau_broker, moldau_topic, orders(CHUNK, 2 * CHUNK))
        submitted = {**config, **ONE_BATCH, "spark.deploy": "submit"}
        with running(moldau_broker, moldau_topic, submitted) as events:
            assert events.until("session")["deploy"] == "submit"
            assert b"--deploy-mode" in Path(f"/proc/{events.process.pid}/cmdline").read_bytes()
            events.until("finished")
    assert ids_in(tmp_path / "orders") == list(range(3 * CHUNK))
