"""Flink's Kafka source and its sink with exactly-once, while the job fails on its way."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from moldau.client.sync import Admin, Consumer, NewTopic, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.peers.flink import flink_jars_or_skip, run_on_flink

pytestmark = [pytest.mark.real, pytest.mark.deep]
RECORDS = 3000
COPIER = Path(__file__).parent / "programs" / "FlinkCopier.java"


def values(
    servers: str, topic: str, isolation: Literal["read_uncommitted", "read_committed"]
) -> list[int]:
    """Everything up to the ends, in order."""
    found: list[int] = []
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        partitions = consumer.partitions(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            for part in consumer.poll(1.0):
                found += [int(each) for each in part.values()]
    return sorted(found)


def test_a_job_that_fails_twice_copies_each_record_once(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    flink_jars_or_skip()
    servers = moldau_broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 2, 1) for topic in ("flink-in", "flink-out")])
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_many("flink-in", [b"%d" % number for number in range(RECORDS)])
        producer.flush()

    said = run_on_flink(COPIER, tmp_path, servers, "flink-in", "flink-out", "copier")

    assert said.split("\n") == ["failure 1", "failure 2", "done", ""]
    assert values(servers, "flink-out", "read_committed") == list(range(RECORDS))
    # What it had written when it failed is there, and aborted.
    assert len(values(servers, "flink-out", "read_uncommitted")) > RECORDS
