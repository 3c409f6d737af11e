"""What goes wrong at one connector is told in one line, shows no secret, and stops no other."""

from __future__ import annotations

import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moldau.client import TopicPartition
from moldau.client.sync import Admin, Consumer, Producer
from moldau.connect.errors import RetriableError
from moldau.connectors.file.sink import FileStreamSinkTask
from moldau.errors.codes import KafkaError
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.worker.scene import Scene, content
from tests.connect.worker.task_failure import JSON, SECRET, expect
from tests.connectors.contexts import SinkContext, record

JDBC = {"connector.class": "JdbcSink", "connection.attempts": "1", "connection.backoff.ms": "0"}
FULL = Path("/dev/full")


def create_bad_ones(worker: Worker, name: str, folder: Path) -> None:
    """A sink of each kind that cannot work."""
    with closing(sqlite3.connect(folder / "empty.db")):
        pass
    bad = f"{name}-bad"
    away = {**JDBC, "connection.url": "jdbc:postgresql://127.0.0.1:1/shop",
            "connection.user": "me", "connection.password": SECRET, "topics": bad}  # fmt: skip
    empty = {**JDBC, "connection.url": f"jdbc:sqlite:{folder}/empty.db", "topics": bad,
             "value.converter": JSON, "value.converter.schemas.enable": "false"}  # fmt: skip
    poison = {"connector.class": "FileStreamSink", "file": str(folder / "poison"),
              "topics": f"{name}-poison", "value.converter": JSON}  # fmt: skip
    worker.create(f"{name}-away", away)
    worker.create(f"{name}-empty", empty)
    worker.create(f"{name}-poison", poison)


@pytest.mark.real
def test_bad_connectors_fail_with_a_cause_and_the_others_work_on(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    scene = Scene(moldau_broker, moldau_topic, {})
    name, lines, out = scene.name, tmp_path / "lines", tmp_path / "out"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    lines.write_text("".join(f"line {number}\n" for number in range(1000)))
    with Producer(bootstrap) as producer:
        producer.send(f"{name}-bad", b'{"id": 1}').result()
        producer.send(f"{name}-poison", b"{").result()
    with scene.worker(errors_restart_backoff_ms="30000") as worker, Admin(bootstrap) as admin:
        worker.create("from", {"connector.class": "FileStreamSource", "file": str(lines),
                               "topic": name, "poll.interval.ms": "100"})  # fmt: skip
        worker.create(f"{name}-to", {"connector.class": "FileStreamSink", "file": str(out),
                                     "topics": f"{name},{name}-bad"})  # fmt: skip
        create_bad_ones(worker, name, tmp_path)

        expect(worker, f"{name}-away", "cannot connect to", "127.0.0.1:1")
        expect(worker, f"{name}-empty", f"{name}-bad", "auto.create")
        expect(worker, f"{name}-poison", f"{name}-poison", "offset=0", "JSON")
        admin.delete_topics([f"{name}-bad"])
        with lines.open("a") as file:
            file.write("".join(f"line {number}\n" for number in range(1000, 2000)))
        wanted = [f"line {number}" for number in range(2000)]
        wait_until(lambda: ours(out) == wanted, "the good ones work on")
        worker.wait_for(f"{name}-to", "RUNNING", "RUNNING")
        _, shown = worker.ask("GET", "/connectors?expand=status&expand=info")
        assert SECRET not in json.dumps(shown)
        for path in ("", "/config", "/tasks", "/tasks/0/status"):
            status, body = worker.ask("GET", f"/connectors/{name}-away{path}")
            assert (status, SECRET in json.dumps(body)) == (200, False)
        assert SECRET not in json.dumps(worker.ask("GET", "/v1/connectors"))
        assert SECRET not in worker.client.get("/metrics").text
    logged = capfd.readouterr().err
    assert "task failed" in logged
    assert SECRET not in logged


@pytest.mark.real
def test_a_source_goes_on_when_its_topic_was_deleted(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene = Scene(moldau_broker, moldau_topic, {})
    name, lines = scene.name, tmp_path / "lines"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    lines.write_text("before\n")
    with scene.worker(task_isolation="thread") as worker, Admin(bootstrap) as admin:
        worker.create("from", {"connector.class": "FileStreamSource", "file": str(lines),
                               "topic": name, "poll.interval.ms": "100"})  # fmt: skip
        wait_until(lambda: values(bootstrap, name) == ["before"], "the first line is there")
        admin.delete_topics([name])
        with lines.open("a") as file:
            file.write("after\n")

        wait_until(lambda: values(bootstrap, name) == ["after"], "it goes on in a new topic")
        worker.wait_for("from", "RUNNING", "RUNNING")


def values(bootstrap: dict[str, str], topic: str) -> list[str]:
    """All of the topic's only partition; none while there is no topic."""
    with Consumer({**bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        if topic not in {each.name for each in consumer.list_topics()}:
            return []
        consumer.assign([(topic, 0)])
        try:
            end = consumer.end_offsets([(topic, 0)])[TopicPartition(topic, 0)]
            found: list[str] = []
            while len(found) < end:
                for part in consumer.poll(1.0):
                    found += [bytes(raw.value or b"").decode() for raw in part.records]
        except KafkaError:
            return []
    return found


def ours(out: Path) -> list[str]:
    return [line for line in content(out) if line.startswith("line ")]


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_a_full_disk_is_waited_for() -> None:
    task = FileStreamSinkTask()
    task.initialize(SinkContext())
    task.start({"file": str(FULL), "topics": "t"})

    task.put([record("x")])
    with pytest.raises(RetriableError, match=r"cannot write /dev/full: .*No space left"):
        task.flush({})
    task.stop()


def test_a_database_that_never_answers_does_not_hide_the_connector(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    scene = Scene(moldau_broker, moldau_topic, {})
    with socket.create_server(("127.0.0.1", 0)) as silent, scene.worker() as worker:
        config = {
            "connector.class": "JdbcSource", "mode": "bulk", "topic.prefix": scene.name,
            "connection.url": f"jdbc:mysql://127.0.0.1:{silent.getsockname()[1]}/shop",
        }  # fmt: skip
        worker.create("silent", config)
        status, body = worker.ask("GET", "/connectors/silent/status")
        assert (status, body["connector"]["state"]) == (200, "UNASSIGNED")

        def cause() -> str:
            return str(worker.ask("GET", "/v1/connectors")[1]["silent"].get("waits_for"))

        wait_until(lambda: "does what it connects to answer" in cause(), "it says why")
        worker.ask("DELETE", "/connectors/silent")
