"""docs/sync.md: every program in it, in order, against a real broker; and the clients against
Apache Kafka.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

from moldau.client import NewTopic, TopicPartition
from moldau.client.sync import Admin, Consumer, Producer
from tests.client.choices import GroupProtocol
from tests.client.guides import forget_topics, programs
from tests.client.serdes.served_registry import served_registry
from tests.client.sync.topic_contents import in_threads, read
from tests.peers.either_broker import Broker
from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

GUIDE = "sync.md"
ADDRESS = "localhost:9092"
REGISTRY = "http://localhost:8081"

pytestmark = pytest.mark.real


def test_the_guide_has_programs_that_are_run() -> None:
    assert len(programs(GUIDE)) == 5
    assert all(ADDRESS in program for program in programs(GUIDE))


def test_the_guides_programs_run(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    forget_topics(broker.bootstrap_servers, ("sales", "receipts"))
    with served_registry() as registry:
        for number, program in enumerate(programs(GUIDE)):
            run(program.replace(REGISTRY, registry.url), broker, number)
    told = capsys.readouterr().out
    assert "Sent(topic='sales'" in told
    assert "1001 records" in told
    assert "reads now ['sales-0', 'sales-1', 'sales-2', 'sales-3']" in told
    assert "1\nBill(id=1, total=2.5)\nBill(id=2, total=7.0)\n" in told
    assert sum(map(len, read(broker.bootstrap_servers, "sales").values())) == 1004


def run(program: str, broker: Broker, number: int) -> None:
    whole = program.replace(ADDRESS, broker.bootstrap_servers)
    module = ModuleType(f"guide_{number}")
    sys.modules[module.__name__] = module  # a dataclass asks for it
    exec(compile(whole, f"sync.md, program {number + 1}", "exec"), vars(module))  # noqa: S102
    shared = vars(module).get("shared")
    if isinstance(shared, Producer):
        shared.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_threads_write_and_a_group_of_threads_reads(
    broker: Broker, moldau_topic: str, protocol: GroupProtocol
) -> None:
    where = broker.bootstrap_servers
    with Admin(bootstrap_servers=where) as admin:
        admin.create_topic(NewTopic(moldau_topic, partitions=4))
    with Producer(bootstrap_servers=where, compression_type="lz4") as producer:
        in_threads(
            4,
            lambda thread: [
                producer.send(moldau_topic, b"%d:%d" % (thread, number), key=b"%d" % number)
                for number in range(500)
            ],
        )
    seen: list[bytes] = []
    enough = threading.Event()

    def work(_: int) -> None:
        with Consumer(
            bootstrap_servers=where,
            group_id=moldau_topic,
            group_protocol=protocol,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe(moldau_topic)
            while not enough.is_set():
                for part in consumer.poll(0.2):
                    seen.extend(record.value or b"" for record in part.records)
                if len(set(seen)) == 2000:
                    enough.set()

    in_threads(2, work)

    assert len(set(seen)) == 2000
    with Admin(bootstrap_servers=where) as admin:
        offsets = admin.group_offsets(moldau_topic)
    assert sum(each.offset for each in offsets.values()) == 2000
    assert offsets.keys() <= {TopicPartition(moldau_topic, index) for index in range(4)}
