"""The runner in a process of its own, with a real Spark and the embedded broker."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Consumer, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.connectors.spark.runners import ids_in, need_spark, orders, orders_lake, running
from tests.spark.topics import make_topic, send

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


def test_orders_become_a_lake_and_each_row_is_there_once(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, orders(400))
    send(moldau_broker, moldau_topic, orders(100, 400), partition=1)
    config = orders_lake(moldau_topic, tmp_path)

    with running(moldau_broker, moldau_topic, config) as events:
        started = events.until("started")
        events.until("finished")
    assert started["guarantee"].startswith("exactly once")
    assert events.rows == 500
    assert ids_in(tmp_path / "orders") == list(range(500))

    send(moldau_broker, moldau_topic, orders(50, 500))
    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")
    assert events.rows == 50
    assert ids_in(tmp_path / "orders") == list(range(550))


def records_of(broker: SyncEmbeddedBroker, topic: str, count: int) -> list[Any]:
    """At least so many records of partition 0."""
    found: list[Any] = []
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        while len(found) < count:
            found += [record for part in consumer.poll(20) for record in part.records]
    return found


def test_bad_values_go_to_the_dead_letter_topic(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    letters = f"{moldau_topic}-dlq"
    make_topic(moldau_broker, moldau_topic, 1)
    make_topic(moldau_broker, letters, 1)
    values: list[bytes | None] = [*orders(10), b"{broken", None, b'{"id":"text"}']
    send(moldau_broker, moldau_topic, values)
    config = orders_lake(
        moldau_topic,
        tmp_path,
        **{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters},
        **{"errors.log.enable": "true"},
    )

    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")

    assert ids_in(tmp_path / "orders") == list(range(10))
    skipped = [each["skipped"] for each in events.all if each.get("skipped")]
    assert skipped == [{"count": 2, "first": f"{moldau_topic}-0-10"}]
    found = records_of(moldau_broker, letters, 2)
    assert [each.value for each in found] == [b"{broken", b'{"id":"text"}']
    headers = dict(found[0].headers)
    assert headers["__connect.errors.topic"] == moldau_topic.encode()
    assert headers["__connect.errors.offset"] == b"10"


AVRO = {
    "type": "record", "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
}  # fmt: skip


def avro(number: int) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": number, "amount": number / 2})
    return out.getvalue()


def test_avro_values_and_json_keys_that_cannot_be_read_go_to_the_dead_letter_topic(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    letters = f"{moldau_topic}-dlq"
    make_topic(moldau_broker, moldau_topic, 1)
    make_topic(moldau_broker, letters, 1)
    sent = [
        (b'{"shop": 7}', avro(0)), (None, avro(1)), (b'{"shop": 8}', b"no avro"), (b"?", avro(3)),
        (b'{"shop": 9}', avro(4) + b"more"), (b'{"shop": 10}', None),
    ]  # fmt: skip
    with Producer(bootstrap_servers=moldau_broker.bootstrap_servers) as producer:
        keys, values = zip(*sent, strict=True)
        producer.send_many(moldau_topic, values, keys=keys, partition=0).result(30)
    more = {
        "value.format": "avro",
        "value.schema": json.dumps(AVRO),
        "key.format": "json",
        "key.schema": "shop BIGINT",
        "transforms.sql": "SELECT id, _key.shop AS shop FROM source",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
    }
    with running(
        moldau_broker, moldau_topic, orders_lake(moldau_topic, tmp_path, **more)
    ) as events:
        events.until("finished")

    assert ids_in(tmp_path / "orders") == [0, 1]
    found = records_of(moldau_broker, letters, 3)
    assert [(each.key, each.value) for each in found] == [sent[2], sent[3], sent[4]]
    stages = [dict(each.headers)["__connect.errors.stage"] for each in found]
    assert stages == [b"VALUE_CONVERTER", b"KEY_CONVERTER", b"VALUE_CONVERTER"]
    assert [dict(each.headers)["__connect.errors.offset"] for each in found] == [b"2", b"3", b"4"]


def test_a_bad_value_ends_the_connector_in_one_line(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, [*orders(3), b"{broken"])

    with running(moldau_broker, moldau_topic, orders_lake(moldau_topic, tmp_path)) as events:
        failed = events.until("failed")

    assert "a value does not fit value.schema" in failed["cause"]
    assert failed["cause"].endswith("errors.tolerance=all and a dead letter queue")
    assert f"topic {moldau_topic}, partition 0, offset 3: {{broken" in failed["cause"]
    assert "\n" not in failed["cause"]


def test_sql_and_pause_and_a_second_query_on_the_checkpoint(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(100))
    config = orders_lake(
        moldau_topic,
        tmp_path,
        **{
            "trigger": "processing 1 second",
            "transforms.sql": "SELECT id * 2 AS id, amount, _offset FROM source WHERE id < 50",
            "partition.by": "date(at)",
        },
    )
    config["transforms.sql"] = (
        "SELECT id * 2 AS id, amount, at, _offset FROM source WHERE id < 50 OR id >= 100"
    )

    with running(moldau_broker, moldau_topic, config, is_paused=True) as events:
        events.until("paused")
        events.process.send({"type": "resume"})
        while events.rows < 100:
            events.until("progress")
        with running(moldau_broker, moldau_topic, config) as second:
            failed = second.until("failed")
        assert "another query works on this checkpoint" in failed["cause"]
        events.process.send({"type": "pause"})
        events.until("paused")
        send(moldau_broker, moldau_topic, orders(10, 100))
        events.process.send({"type": "resume"})
        while events.rows < 110:
            events.until("progress")

    assert ids_in(tmp_path / "orders") == [*range(0, 100, 2), *range(200, 220, 2)]
    assert (tmp_path / "orders" / "date=2026-11-23").is_dir()


def test_delta_tables_have_each_batch_once(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    delta = pytest.importorskip("deltalake")
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, orders(300))
    config = orders_lake(
        moldau_topic, tmp_path, **{"sink.format": "delta", "max.offsets.per.trigger": "100"}
    )
    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")
    assert events.rows == 300

    # As after a crash between the table's commit and Spark's: Spark repeats its last batch.
    commits = tmp_path / "checkpoints" / moldau_topic / "gen-0" / "rows" / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")

    ids = delta.DeltaTable(str(tmp_path / "orders")).to_pyarrow_table().column("id").to_pylist()
    assert sorted(ids) == list(range(300))


def test_rows_become_records_of_another_topic(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    target = f"{moldau_topic}-out"
    make_topic(moldau_broker, moldau_topic, 1)
    make_topic(moldau_broker, target, 1)
    send(moldau_broker, moldau_topic, orders(5))
    more = {"sink.format": "topic", "sink.topic": target, "sink.keys": "id"}

    with running(
        moldau_broker, moldau_topic, orders_lake(moldau_topic, tmp_path, **more)
    ) as events:
        events.until("finished")

    with Consumer(bootstrap_servers=moldau_broker.bootstrap_servers) as consumer:
        consumer.assign([(target, 0)])
        consumer.seek((target, 0), 0)
        records = [each for part in consumer.poll(20) for each in part.records]
    assert json.loads(records[0].value)["amount"] == int(records[0].key) / 2
