"""Three simulated brokers with tiered storage, a topic of small segments, and its clients."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

from moldau.broker.log import names
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.offset_lookup import EARLIEST
from moldau.broker.server import remote_storage
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.client.admin.configs import Resource, ResourceType
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid, format_uuid
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.records import encode_batch
from moldau.records.builder import Producer as ProducerOfBatch
from moldau.runtime import Runtime
from moldau.testing.simulated_cluster import PORT
from tests.broker.cluster.world import SimulatedBrokers, new_world
from tests.broker.server.wire import PRODUCE_VERSION, wired
from tests.broker.tiered.shared_store import WHERE, SharedStore
from tests.broker.tiered.tiered_house import METADATA, remote_of
from tests.broker.tiered.tiered_settings import SETTINGS, TOPIC

NAME: Final = "t"
PLACE: Final = TopicPartition(NAME, 0)
ALL: Final = (1, 2, 3)
NEVER: Final = 1 << 62
WITHIN_S: Final = 60.0
METADATA_PARTITIONS: Final = 2
NODE: Final[Mapping[str, str]] = {
    **SETTINGS,
    "remote_storage": WHERE,
    "rlmm_config_remote_log_metadata_topic_num_partitions": str(METADATA_PARTITIONS),
    "replica_selector_class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto_leader_rebalance_enable": "false",
}
SAFE: Final[Mapping[str, str]] = MappingProxyType({"flush.messages": "1", "retention.ms": "-1"})
"""Settings with which the topic of remote segments loses nothing."""
_CONFIGS: Final = {name.replace("_", "."): value for name, value in TOPIC.items()}


class TopicShape(NamedTuple):
    """What the topic is like."""

    partitions: int = 1
    configs: Mapping[str, str] = MappingProxyType({})
    metadata_replicas: Mapping[int, list[int]] = MappingProxyType({})
    """The replicas of the topic of remote segments, if that was made before."""
    metadata_configs: Mapping[str, str] = SAFE
    """Its settings then."""


ONE_PARTITION: Final = TopicShape()


class TieredBrokers(SimulatedBrokers):
    """The cluster; broker N is in rack `rN`."""

    def __init__(
        self, seed: int, store: SharedStore, given: Mapping[str, str], partitions: int = 1
    ) -> None:
        self.store = store
        self.partitions = range(partitions)
        self.written: list[bytes] = []
        """The values that were acknowledged, in their order."""
        self.start_offset = 0
        """Below it readers of the first partition get nothing any more."""
        self._world = new_world(seed)
        self._tiered = {name.replace("_", "."): value for name, value in {**NODE, **given}.items()}
        super().__init__(self._world, 3)

    def settings_of(self, number: int) -> dict[str, str]:
        return {**super().settings_of(number), **self._tiered, "broker.rack": f"r{number}"}

    # Clients.

    def ask(self, action: Callable[[Admin], Coroutine[Any, Any, Any]]) -> Any:
        """Let an administrator do something."""

        async def main(runtime: Runtime) -> Any:
            async with Admin(runtime=runtime, bootstrap_servers=self.bootstrap_servers) as admin:
                return await action(admin)

        return self.run(main, within=WITHIN_S)

    def create(self, *replicas: int, **configs: str) -> None:
        """Make the topic, and wait until all brokers know. Of the first partition the first replica
        leads, and of the next ones the next replicas."""
        order = list(replicas or ALL)
        turned = {
            index: order[index % len(order) :] + order[: index % len(order)]
            for index in self.partitions
        }
        own = {name.replace("_", "."): value for name, value in configs.items()}
        topic = NewTopic(NAME, assignments=turned, configs={**_CONFIGS, **own})
        self.ask(lambda admin: admin.create_topic(topic))
        self.world.run_until(
            lambda: all(self.running[each].node.image.topics.by_name(NAME) for each in self.up),
            within=WITHIN_S,
        )

    def create_other(
        self, name: str, assignments: Mapping[int, list[int]], configs: Mapping[str, str]
    ) -> None:
        """Make another topic."""
        topic = NewTopic(name, assignments=assignments, configs=configs)
        self.ask(lambda admin: admin.create_topic(topic))

    def configure(self, topic: str = NAME, /, **configs: str) -> ErrorCode:
        """Change settings of the topic, or of another one."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        resource = Resource(ResourceType.TOPIC, topic)

        async def change(admin: Admin) -> ErrorCode:
            try:
                await admin.alter_configs(resource, set_to=named)
            except KafkaError as error:
                return ErrorCode(error.code)
            return ErrorCode.NONE

        code: ErrorCode = self.ask(change)
        return code

    def delete(self) -> None:
        """Delete the topic, and wait until all brokers know."""
        self.ask(lambda admin: admin.delete_topic(NAME))
        self.world.run_until(
            lambda: not any(self.running[each].node.image.topics.by_name(NAME) for each in self.up),
            within=WITHIN_S,
        )

    def delete_records(self, offset: int) -> None:
        """Delete the records of the first partition before the offset."""
        found = self.ask(lambda admin: admin.delete_records({PLACE: offset}))
        assert found == {PLACE: offset}
        self.start_offset = offset

    def beginning(self) -> int:
        """Return where clients find the beginning of the first partition."""
        found = self.ask(lambda admin: admin.list_offsets({PLACE: EARLIEST}))
        offset: int = found[PLACE].offset
        return offset

    def fill(self, count: int = 40) -> None:
        """Write records to the first partition, each in a batch of its own."""

        async def main(runtime: Runtime) -> None:
            async with Producer(
                runtime=runtime, bootstrap_servers=self.bootstrap_servers, linger_ms=0
            ) as producer:
                for _ in range(count):
                    value = f"{len(self.written):08}".encode() * 25
                    await (await producer.send(NAME, value, partition=0))
                    self.written.append(value)

        self.run(main, within=WITHIN_S)

    def new_producer_id(self) -> int:
        """Have a number for a producer that is idempotent."""

        async def main(runtime: Runtime) -> int:
            async with wired(runtime, f"b{self.leader_of(NAME)}", PORT) as wire:
                request = InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=60_000
                )
                answer = await wire.ask(request, InitProducerIdResponse)
                assert answer.error_code == ErrorCode.NONE
                return answer.producer_id

        return self.run(main, within=WITHIN_S)

    def send_first_batch(self, producer_id: int) -> int:
        """Send the first batch of a producer, or send it again, and return its offset."""
        value = b"first" * 40

        async def main(runtime: Runtime) -> int:
            producer = ProducerOfBatch(producer_id, 0, 0)
            batch = encode_batch([(runtime.clock.wall_ms(), None, value, ())], producer=producer)
            data = PartitionProduceData(index=0, records=batch)
            request = ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[TopicProduceData(name=NAME, partition_data=[data])],
            )
            async with wired(runtime, f"b{self.leader_of(NAME)}", PORT) as wire:
                answer = await wire.ask(request, ProduceResponse, PRODUCE_VERSION)
                row = answer.responses[0].partition_responses[0]
                assert row.error_code == ErrorCode.NONE, ErrorCode(row.error_code)
                return row.base_offset

        offset = self.run(main, within=WITHIN_S)
        if offset == len(self.written):
            self.written.append(value)
        return offset

    def kept(self) -> list[bytes]:
        """Return what readers must get."""
        return self.written[self.start_offset :]

    def read_all(self, rack: str = "") -> list[bytes]:
        """Read as many records as are kept, from the first one on."""

        async def main(runtime: Runtime) -> list[bytes]:
            found: list[bytes] = []
            async with Consumer(
                runtime=runtime,
                bootstrap_servers=self.bootstrap_servers,
                auto_offset_reset="none",
                client_rack=rack,
            ) as consumer:
                consumer.assign([PLACE])
                consumer.seek(PLACE, self.start_offset)
                while len(found) < len(self.kept()):
                    for part in await consumer.poll(0.2):
                        found += [bytes(each.value or b"") for each in part.records]
            return found

        return self.run(main, within=WITHIN_S)

    def lead(self, number: int) -> None:
        """Let a broker lead the topic: it becomes the preferred one."""
        others = [each for each in ALL if each != number]
        places = [TopicPartition(NAME, index) for index in self.partitions]

        async def move(admin: Admin) -> None:
            await admin.alter_partition_reassignments({each: [number, *others] for each in places})

        async def elect(admin: Admin) -> None:
            await admin.elect_leaders(places)

        self.ask(move)
        self.await_whole()
        self.ask(elect)
        self.world.run_until(
            lambda: all(self.leader_of(NAME, index) == number for index in self.partitions),
            within=WITHIN_S,
        )

    def await_whole(self, within: float = WITHIN_S) -> None:
        """Wait until all replicas of the topic are in sync."""
        for index in self.partitions:
            self.await_in_sync(NAME, ALL, index, within=within)

    # Nodes.

    def lose_disk(self, number: int) -> None:
        """Kill a node, and let its next start find an empty disk."""
        self.kill(number)
        self.nodes[number].lose_disk()

    def lose_epochs(self, number: int) -> None:
        """Kill a node, and damage the file with the leader epochs of the topic."""
        self.kill(number)
        self.nodes[number].disk.put(f"/data/{NAME}-0/{names.LEADER_EPOCHS}", b"torn")

    def lose_starts(self, number: int) -> None:
        """Kill a node, and take away where its logs begin, and the leader epochs of the topic."""
        self.lose_epochs(number)
        self.nodes[number].disk.put(f"/data/{names.LOG_STARTS}", b"0\n0\n")

    # What is where.

    @property
    def topic_id(self) -> Uuid:
        topic = self.running[min(self.up)].node.image.topics.by_name(NAME)
        assert topic is not None
        return topic.topic_id

    def log_of(self, number: int, index: int = 0) -> PartitionLog:
        return self.logs(NAME, index)[number]

    def leading_log(self, index: int = 0) -> PartitionLog:
        return self.log_of(self.leader_of(NAME, index), index)

    def remote(self, number: int, index: int = 0) -> RemotePartition:
        """What a broker has of the topic of remote segments."""
        return remote_of(self.running[number], self.topic_id, index)

    def is_cut(self, number: int) -> bool:
        """Whether only the active segments are left on a broker's disk, and others were there."""
        return all(self._is_cut(number, index) for index in self.partitions)

    def _is_cut(self, number: int, index: int) -> bool:
        log = self.logs(NAME, index).get(number)
        if log is None:
            return False
        segments = log.segments
        base = segments.active.base_offset
        return base > 0 and log.local_log_start_offset == segments[0].base_offset == base

    def await_cut(self, numbers: Iterable[int] = ALL) -> None:
        wanted = tuple(numbers)
        self.world.run_until(lambda: all(map(self.is_cut, wanted)), within=WITHIN_S)

    def check(self) -> None:
        """What is remote has no hole from the log's start on, and no object is without its
        segment."""
        for index in self.partitions:
            log = self.leading_log(index)
            remote = self.remote(self.leader_of(NAME, index), index)
            start, end = log.log_start_offset, log.local_log_start_offset
            for found in remote.ranges(log.leader_epochs, start, end):
                start = found.end_offset
            assert start >= end, (index, start, end)
        self.await_no_orphans()
        assert not self.failures, self.failures

    def segments(self) -> int:
        """Return how many segments the topic has in the remote tier, whatever their state."""
        return sum(
            len(self.remote(self.leader_of(NAME, index), index)) for index in self.partitions
        )

    def objects_of(self, topic_id: Uuid) -> set[str]:
        """Return the objects of a topic that may be deleted."""
        folder = f"{NAME}-{format_uuid(topic_id)}/"
        return {name for name in self.store.segment_objects() if name.startswith(folder)}

    def oldest_remote(self) -> int:
        """Return where the oldest segment ends that the first partition has in the remote tier."""
        segments = self.remote(self.leader_of(NAME)).segments()
        return min((each.end_offset for each in segments), default=NEVER)

    def await_no_orphans(self) -> None:
        """Wait until each object is of a segment, and each segment has its objects."""
        self.world.run_until(
            lambda: len(self.objects_of(self.topic_id)) == 2 * self.segments(), within=WITHIN_S
        )


@contextmanager
def tiered_brokers(
    monkeypatch: pytest.MonkeyPatch,
    replicas: Sequence[int] = ALL,
    seed: int = 1,
    *,
    absent: Sequence[int] = (),
    settings: Mapping[str, str] | None = None,
    topic: TopicShape = ONE_PARTITION,
) -> Iterator[TieredBrokers]:
    """A cluster that is up, and has the topic. Those that are absent went down before that."""
    store = SharedStore()
    monkeypatch.setattr(remote_storage, "ObstoreBucket", store.open)
    brokers = TieredBrokers(seed, store, settings or {}, topic.partitions)
    with brokers.world:
        brokers.await_up()
        for number in absent:
            brokers.stop(number)
        if topic.metadata_replicas:
            brokers.create_other(METADATA, topic.metadata_replicas, topic.metadata_configs)
        brokers.create(*replicas, **topic.configs)
        yield brokers
