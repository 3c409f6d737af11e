"""One data directory, and Apache Kafka's broker and ours in turn: each finds what both wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.broker.main.processes import broker_process
from tests.broker.server.wire import Wire, wired
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import HOST, BrokerOptions, KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

TOPIC_RESOURCE = 2
PARTITIONS = 2


async def until_led(wire: Wire, topic: str) -> None:
    """Every partition has a leader, and the leader knows: it elects and learns one by one."""
    while True:
        found = (await wire.metadata(topic)).topics[0]
        codes = [
            (await wire.fetch_answer(topic, 0, partition, max_wait_ms=0)).error_code
            for partition in range(PARTITIONS)
        ]
        led = [each.leader_id == 1 for each in found.partitions]
        if led == [True] * PARTITIONS and set(codes) == {ErrorCode.NONE}:
            return


async def config_of(wire: Wire, topic: str, name: str) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
    )
    request = DescribeConfigsRequest(resources=[resource])
    answer = await wire.ask(request, DescribeConfigsResponse, 4)
    return answer.results[0].configs[0].value


class Shift:
    """What one broker finds, and what it adds, at a port where either of them listens."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.expected: dict[str, list[bytes]] = {}

    def work(self, name: str) -> None:
        """Everything is there; a topic of its own is added, and records to all of them."""
        run(lambda runtime: self._work(runtime, name))

    async def _work(self, runtime: Runtime, name: str) -> None:
        async with wired(runtime, HOST, self.port) as wire:
            found = {each.name for each in (await wire.metadata()).topics}
            assert found == set(self.expected)
            for topic, values in self.expected.items():
                await until_led(wire, topic)
                for partition in range(PARTITIONS):
                    assert await wire.fetch_all(topic, partition) == values
                assert await config_of(wire, topic, "retention.ms") == "77777777"
            code = await wire.create(name, PARTITIONS, retention_ms="77777777")
            assert code == ErrorCode.NONE
            self.expected[name] = []
            await until_led(wire, name)
            for topic, values in self.expected.items():
                added = [f"{name}-{number}".encode() for number in range(20)]
                for partition in range(PARTITIONS):
                    answer = await wire.produce(topic, added, partition)
                    assert answer.error_code == ErrorCode.NONE
                    assert answer.base_offset == len(values)
                values += added


def test_a_directory_goes_from_kafka_to_us_and_back(tmp_path: Path) -> None:
    kafka = KafkaBroker(fetch_or_skip(), tmp_path / "node", BrokerOptions())
    try:
        kafka.start()
        shift = Shift(kafka.port)
        shift.work("by-kafka")
        kafka.stop()

        file = str(kafka.folder / "server.properties")
        with broker_process(tmp_path, "--config", file) as broker:
            assert broker.port == kafka.port
            shift.work("by-moldau")
            assert broker.stop()[0] == 0

        kafka.start()
        shift.work("by-kafka-again")
        kafka.kill()

        with broker_process(tmp_path, "--config", file) as broker:
            shift.work("by-moldau-after-a-crash")
            broker.kill()

        kafka.start()
        shift.work("by-kafka-after-a-crash")
    finally:
        kafka.stop()
