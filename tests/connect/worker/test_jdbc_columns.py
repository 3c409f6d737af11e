"""A sink that gets columns: bad values go to the dead letter queue, and no other row is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.connect.worker.scene import Scene
from tests.databases import TestDatabase, postgresql_server
from tests.databases.fixtures import made

__all__ = ["postgresql_server"]

pytestmark = pytest.mark.real

COUNT = 2_000
BAD = {7, 1_500}
TABLE = "CREATE TABLE rows (id BIGINT PRIMARY KEY, name TEXT, size INT)"
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def target(
    request: pytest.FixtureRequest, tmp_path: Path, postgresql_server: str
) -> Iterator[TestDatabase]:
    yield from made("postgresql", request, tmp_path)


def record(number: int) -> bytes:
    fields = [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "name", "type": "string", "optional": True},
        {"field": "size", "type": "int64", "optional": False},
    ]
    payload: dict[str, Any] = {"id": number, "name": f"name {number}", "size": number}
    if number in BAD:
        payload["size"] = 2**40  # too much for the column
    schema = {"type": "struct", "fields": fields, "optional": False}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def test_bad_values_go_to_the_queue_and_all_other_rows_are_written(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, target: TestDatabase
) -> None:
    scene = Scene(moldau_broker, moldau_topic, {})
    target.run(TABLE)
    letters = f"{scene.name}-letters"
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(f"{scene.name}-rows", 2, 1), NewTopic(letters, 1, 1)])
    with Producer(bootstrap_servers=moldau_broker.bootstrap_servers) as producer:
        values = [record(number) for number in range(COUNT)]
        for partition in (0, 1):
            producer.send_many(
                f"{scene.name}-rows", values[partition::2], partition=[partition] * (COUNT // 2)
            )
        # A record of another kind between the others.
        producer.send(f"{scene.name}-rows", b"no JSON", partition=0)
    config = {
        "connector.class": "JdbcSinkConnector",
        "connection.url": target.url,
        "topics": f"{scene.name}-rows",
        "table.name.format": "rows",
        "value.converter": JSON,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
    }
    with scene.worker() as worker:
        worker.create(f"{scene.name}-sink", config)
        wait_until(
            lambda: target.rows("SELECT count(*) FROM rows")[0][0] == COUNT - len(BAD), "all rows"
        )
        worker.wait_for(f"{scene.name}-sink", "RUNNING", "RUNNING")
        with Consumer(
            bootstrap_servers=moldau_broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(consumer.partitions(letters))
            found: list[bytes | None] = []
            while len(found) < len(BAD) + 1:
                found += [each.value for part in consumer.poll(60) for each in part.records]
    assert sorted(map(bytes, filter(None, found))) == sorted([*map(record, BAD), b"no JSON"])
    assert target.rows("SELECT id FROM rows ORDER BY id") == [
        (number,) for number in range(COUNT) if number not in BAD
    ]
