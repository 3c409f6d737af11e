"""A share group that reads only committed records, on a whole cluster."""

from __future__ import annotations

import asyncio
from random import Random

from moldau.broker.share.piece import AcknowledgeType
from moldau.client import Admin, NewTopic, Producer, Resource, ResourceType
from moldau.errors.codes import KafkaError
from moldau.records import iter_records
from moldau.runtime import Runtime
from moldau.runtime.simulated import Options, Simulation
from tests.broker.cluster.queues.wire import GROUP, Said, Wire
from tests.broker.cluster.world import SimulatedBrokers

TOPIC = "paid"
PLACE = (TOPIC, 0)
QUIET_S = 3.0


class Reader:
    """A member that accepts all that it is given."""

    def __init__(self, wire: Wire, topic_id: bytes) -> None:
        self._wire = wire
        self._ids = {TOPIC: topic_id}
        self._names = {topic_id: TOPIC}

    async def read(self, until: int) -> list[bytes]:
        """Read that many values, and whatever comes in the seconds after."""
        loop, wire = asyncio.get_running_loop(), self._wire
        values: list[bytes] = []
        quiet_at = loop.time() + QUIET_S
        while len(values) < until or loop.time() < quiet_at:
            try:
                await wire.beat([TOPIC], self._names)
                for leader, places in wire.places_by_leader().items():
                    answer = await wire.fetch(leader, places, {}, self._ids)
                    for row in (row for each in answer.responses for row in each.partitions):
                        taken = [
                            offset
                            for run in row.acquired_records
                            for offset in range(run.first_offset, run.last_offset + 1)
                        ]
                        values += _values(row.records, set(taken))
                        if taken:
                            said = [Said(each, AcknowledgeType.ACCEPT) for each in taken]
                            await wire.acknowledge(leader, {PLACE: said}, self._ids)
                            quiet_at = loop.time() + QUIET_S
            except KafkaError:
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.05)
        return values


def _values(records: bytes, taken: set[int]) -> list[bytes]:
    return [
        bytes(record.value or b"") for record in iter_records(records) if record.offset in taken
    ]


def test_aborted_records_never_come_and_an_open_transaction_holds_the_rest_back() -> None:
    with Simulation(11, Options()) as world:
        brokers = SimulatedBrokers(world, 3)
        brokers.await_up(within=60)

        async def main(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await admin.create_topic(NewTopic(TOPIC, 1, 3))
                values = {
                    "share.auto.offset.reset": "earliest",
                    "share.isolation.level": "read_committed",
                }
                await admin.alter_configs(Resource(ResourceType.GROUP, GROUP), set_to=values)
            topic = next(iter(brokers.running.values())).node.image.topics.by_name(TOPIC)
            assert topic is not None
            wire = Wire(runtime, brokers, "reader", Random(1))
            reader = Reader(wire, topic.topic_id)
            async with (
                Producer(runtime=runtime, bootstrap_servers=servers) as plain,
                Producer(
                    runtime=runtime, bootstrap_servers=servers, transactional_id="till"
                ) as producer,
            ):
                async with producer.transaction():
                    await producer.send(TOPIC, b"kept")
                try:
                    async with producer.transaction():
                        await producer.send(TOPIC, b"gone")
                        raise ZeroDivisionError
                except ZeroDivisionError:
                    pass
                async with producer.transaction():
                    await (await producer.send(TOPIC, b"open"))
                    await plain.send_and_wait(TOPIC, b"after")
                    assert await reader.read(1) == [b"kept"]
                assert await reader.read(2) == [b"open", b"after"]
            await wire.aclose()

        brokers.run(main, within=300)
