"""One data directory, and Apache Kafka's broker and ours in turn: each finds what both wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets
from moldau.broker.log.names import TopicPartition
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.records import encode_batch, walk
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.runtime.real_files import RealFiles
from tests.broker.main.processes import broker_process
from tests.broker.server.wire import Wire, wired
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.eventually import eventually
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


COMPACTED = "compacted"
KEYED = 1200
# Slow enough to be killed between two segments, of which there are more than ten.
SLOW_CLEANER = {
    "log.cleaner.io.max.bytes.per.second": "300000",
    "log.cleaner.backoff.ms": "1000",
}


def key_of(number: int) -> bytes:
    """Every third one is there only once, the others are written again and again."""
    return b"%d" % number if number % 3 == 0 else b"often %d" % (number % 5)


ONCE = {key_of(number) for number in range(0, KEYED, 3)}


async def write_keyed(wire: Wire) -> None:
    """A batch a record, all of them acknowledged: so cleaned segments end in gaps."""
    code = await wire.create(
        COMPACTED,
        PARTITIONS,
        cleanup_policy="delete",
        internal_segment_bytes="100000",
        min_cleanable_dirty_ratio="0.01",
    )
    assert code == ErrorCode.NONE
    await until_led(wire, COMPACTED)
    for number in range(KEYED):
        batch = encode_batch([(wire.runtime.clock.wall_ms(), key_of(number), b"x" * 1000, ())])
        partition = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(name=COMPACTED, partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        answer = await wire.ask(request, ProduceResponse, 12)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def let_it_be_cleaned(wire: Wire) -> None:
    """Now, so that one round has all of it to do."""
    config = AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=COMPACTED, configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await wire.ask(request, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE


async def keys_found(wire: Wire) -> tuple[set[bytes], int]:
    """Every key in the partition, and its end."""
    await until_led(wire, COMPACTED)
    found: set[bytes] = set()
    offset, end = 0, 1
    while offset < end:
        answer = await wire.fetch_answer(COMPACTED, offset)
        assert answer.error_code == ErrorCode.NONE
        end = answer.high_watermark
        for batch in walk(answer.records or b""):  # also those that cleaning has emptied
            found |= {bytes(each.key or b"") for each in batch.records()}
            offset = batch.header.next_offset
    return found, end


def write(port: int) -> None:
    async def work(runtime: Runtime) -> None:
        async with wired(runtime, HOST, port) as wire:
            await write_keyed(wire)
            await let_it_be_cleaned(wire)

    run(work)


def check(port: int) -> None:
    """Nothing that cleaning spares is missing."""

    async def work(runtime: Runtime) -> None:
        async with wired(runtime, HOST, port) as wire:
            found, end = await keys_found(wire)
            assert ONCE - found == set()
            assert end == KEYED

    run(work)


def sizes(data: Path) -> dict[int, int]:
    """Of its segments, by their first offsets."""
    found = {}
    for path in (data / f"{COMPACTED}-0").glob("*.log"):
        try:
            found[int(path.stem)] = path.stat().st_size
        except FileNotFoundError:  # cleaned at this moment
            continue
    return found


def until_midst_of_cleaning(data: Path) -> None:
    """Some segments are cleaned of which the checkpoint does not know, and others are yet to be."""
    before = sizes(data)

    def is_in_the_midst() -> bool:
        now = sizes(data)
        checkpoint = read_offsets(RealFiles(), str(data / names.CLEANED_OFFSETS))
        known = checkpoint.get(TopicPartition(COMPACTED, 0), 0)
        changed = [base for base in before if base >= known and now.get(base) != before[base]]
        return len(changed) >= 4 and max(changed) < sorted(before)[-3]

    eventually(is_in_the_midst, within_s=30)


def test_kafka_dies_while_it_cleans_and_we_have_all_that_it_acknowledged(tmp_path: Path) -> None:
    options = BrokerOptions(properties=SLOW_CLEANER)
    kafka = KafkaBroker(fetch_or_skip(), tmp_path / "node", options)
    try:
        kafka.start()
        write(kafka.port)
        until_midst_of_cleaning(kafka.data)
        kafka.kill()
        file = str(kafka.folder / "server.properties")
        for _ in range(2):
            with broker_process(tmp_path, "--config", file) as broker:
                check(broker.port)
                broker.kill()
    finally:
        kafka.stop()


def test_we_die_while_we_clean_and_kafka_has_all_that_we_acknowledged(tmp_path: Path) -> None:
    options = BrokerOptions(properties=SLOW_CLEANER)
    kafka = KafkaBroker(fetch_or_skip(), tmp_path / "node", options)
    try:
        kafka.start()
        kafka.stop()
        file = str(kafka.folder / "server.properties")
        with broker_process(tmp_path, "--config", file) as broker:
            write(broker.port)
            until_midst_of_cleaning(kafka.data)
            broker.kill()
        with broker_process(tmp_path, "--config", file) as broker:
            check(broker.port)
            broker.kill()
        assert list(kafka.data.glob(f"{COMPACTED}-0/gapless-from-*"))
        kafka.start()
        check(kafka.port)
        assert not list(kafka.data.glob(f"{COMPACTED}-0/gapless-from-*")), "Kafka took over"
    finally:
        kafka.stop()
