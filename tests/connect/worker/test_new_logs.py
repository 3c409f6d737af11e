"""Sinks and a topic that is deleted and made again. Those that promise exactly-once never take its
records for old ones with the same offsets; all others tell what they miss, and read it all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.worker.scene import Scene, content
from tests.connect.worker.task_failure import JSON, cause

pytestmark = pytest.mark.real

PLAIN = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


def produce(bootstrap: dict[str, str], topic: str, ids: range) -> None:
    with Producer(bootstrap) as producer:
        for each in ids:
            producer.send(topic, f'{{"id": {each}}}'.encode())


def ids_in(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        try:
            return [row[0] for row in connection.execute("SELECT id FROM target ORDER BY id")]
        except sqlite3.OperationalError:
            return []


def fails_and_goes_on(worker: Worker, name: str, repair: str) -> None:
    """The task says what happened and what to do."""
    wait_until(lambda: "begins anew at offset 0" in cause(worker, name), f"{name} fails")
    assert repair in cause(worker, name)


def test_rows_of_a_topic_that_was_made_again_are_not_dropped(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene, path = Scene(moldau_broker, moldau_topic, {}), tmp_path / "target.db"
    name = f"{scene.name}-again"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    config = {"connector.class": "JdbcSink", "connection.url": f"jdbc:sqlite:{path}",
              "topics": name, "table.name.format": "target", "auto.create": "true",
              "connection.user": "nobody", "exactly.once": "true",
              "errors.restart.backoff.ms": "600000", **PLAIN}  # fmt: skip
    with scene.worker(task_isolation="thread") as worker, Admin(bootstrap) as admin:
        produce(bootstrap, name, range(5))
        worker.create(name, config)
        wait_until(lambda: ids_in(path) == [*range(5)], "all rows are there")
        admin.delete_topics([name])
        produce(bootstrap, name, range(10, 12))
        fails_and_goes_on(worker, name, "__connect_offsets")

        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DELETE FROM __connect_offsets")
            connection.commit()
        worker.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
        wait_until(lambda: ids_in(path) == [*range(5), 10, 11], "the new rows are there, too")


def test_lines_of_a_topic_that_was_made_again_are_not_dropped(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene = Scene(moldau_broker, moldau_topic, {})
    name, folder = f"{scene.name}-rolled", tmp_path / "out"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    config = {"connector.class": "FileStreamSink", "directory": str(folder), "format": "jsonl",
              "flush.size": "2", "topics": name, "errors.restart.backoff.ms": "600000",
              **PLAIN}  # fmt: skip
    with scene.worker(task_isolation="thread") as worker, Admin(bootstrap) as admin:
        produce(bootstrap, name, range(4))
        worker.create(name, config)
        wait_until(lambda: len([*folder.rglob("*.jsonl")]) == 2, "all lines are there")
        admin.delete_topics([name])
        produce(bootstrap, name, range(10, 12))
        fails_and_goes_on(worker, name, "move the topic's files")


def waits_for(worker: Worker, name: str) -> str:
    """What the only task of a connector waits for, as `moldau connect status` shows it."""
    tasks = worker.ask("GET", "/v1/connectors")[1][name]["tasks"]
    return tasks[0].get("waits_for", "") if tasks else ""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_sink_names_a_deleted_topic_and_reads_all_of_a_new_one(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, protocol: str
) -> None:
    scene, out = Scene(moldau_broker, moldau_topic, {}), tmp_path / "out"
    name = f"{scene.name}-plain"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    config = {"connector.class": "FileStreamSink", "topics": name, "file": str(out),
              "consumer.override.allow.auto.create.topics": "false",
              "consumer.override.group.protocol": protocol}  # fmt: skip
    with scene.worker(task_isolation="thread") as worker, Admin(bootstrap) as admin:
        worker.create(name, config)
        told = f"the topic {name} does not exist"
        wait_until(lambda: told in waits_for(worker, name), "it waits for its topic")
        produce(bootstrap, name, range(5))
        wait_until(lambda: content(out) == lines_of(range(5)), "it has read the first topic")
        wait_until(lambda: waits_for(worker, name) == "", "it waits for nothing")

        admin.delete_topics([name])
        wait_until(lambda: told in waits_for(worker, name), "it waits for its topic again")
        assert "create it" in waits_for(worker, name)
        assert worker.states(name) == ["RUNNING", "RUNNING"]
        admin.create_topics([NewTopic(name, 1, 1)])
        produce(bootstrap, name, range(10, 20))
        wanted = lines_of([*range(5), *range(10, 20)])
        wait_until(lambda: content(out) == wanted, "it has read all of the new topic")
        wait_until(lambda: waits_for(worker, name) == "", "it waits for nothing again")

        admin.delete_topics([name])  # and no time to see it
        admin.create_topics([NewTopic(name, 1, 1)])
        produce(bootstrap, name, range(100, 150))
        wanted += lines_of(range(100, 150))
        wait_until(lambda: content(out) == wanted, "it has read all of a topic made at once")


def lines_of(ids: Iterable[int]) -> list[str]:
    return [f'{{"id": {each}}}' for each in ids]


def test_a_sink_says_that_no_topic_matches(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene, out = Scene(moldau_broker, moldau_topic, {}), tmp_path / "out"
    name = f"{scene.name}-matching"
    bootstrap = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    config = {"connector.class": "FileStreamSink", "topics.regex": f"{name}-[0-9]+",
              "file": str(out), "consumer.override.metadata.max.age.ms": "200"}  # fmt: skip
    with scene.worker(task_isolation="thread") as worker:
        worker.create(name, config)
        wait_until(lambda: "no topic matches" in waits_for(worker, name), "it says so")
        produce(bootstrap, f"{name}-1", range(3))
        wait_until(lambda: content(out) == lines_of(range(3)), "it reads one that came")
        wait_until(lambda: waits_for(worker, name) == "", "it waits for nothing")


def test_a_source_names_a_topic_that_no_broker_creates(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_text("one\ntwo\n")
    config = {"connector.class": "FileStreamSource", "topic": "not-there", "file": str(source)}
    with SyncEmbeddedBroker({"auto.create.topics.enable": "false"}) as broker:
        bootstrap = {"bootstrap.servers": broker.bootstrap_servers}
        with (
            Scene(broker, "source", {}).worker(task_isolation="thread") as worker,
            Admin(bootstrap) as admin,
        ):
            worker.create("reader", config)
            told = "no broker knows the topic not-there"
            wait_until(lambda: told in waits_for(worker, "reader"), "it says so")
            admin.create_topics([NewTopic("not-there", 1, 1)])
            wait_until(lambda: waits_for(worker, "reader") == "", "it goes on")
            with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
                consumer.subscribe("not-there")
                found = [each.value for _, each in zip(range(2), consumer, strict=False)]
                assert len(found) == 2
