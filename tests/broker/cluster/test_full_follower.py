"""A follower whose disk is nearly full copies nothing until there is room, and then goes on."""

from __future__ import annotations

from dataclasses import replace

from moldau.client import Admin, NewTopic, Producer
from moldau.runtime import Runtime
from tests.broker.cluster.world import SimulatedBrokers, new_world

TOPIC = "t"
RECORDS = 10
SIZE = 500_000


def test_a_follower_whose_disk_is_nearly_full_copies_nothing_until_there_is_room() -> None:
    with new_world(11) as world:
        brokers = SimulatedBrokers(world, replica_lag_time_max_ms="2000")
        brokers.await_up()
        servers = brokers.bootstrap_servers

        async def fill(runtime: Runtime) -> None:
            async with Producer(runtime=runtime, bootstrap_servers=servers, acks="all") as producer:
                for _ in range(RECORDS):
                    await (await producer.send(TOPIC, bytes(SIZE), partition=0))

        async def create(runtime: Runtime) -> None:
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await admin.create_topics([NewTopic(TOPIC, 1, 3)])

        def ends() -> dict[int, int]:
            return {number: log.log_end_offset for number, log in brokers.logs(TOPIC).items()}

        brokers.run(create, within=60)
        brokers.run(fill, within=60)
        others = {brokers.leader_of(TOPIC), brokers.controller()}
        full = next(number for number in (3, 2, 1) if number not in others)
        disk = world.nodes[f"b{full}"].disk
        usual = disk.faults
        disk.faults = replace(usual, capacity_bytes=disk.used_bytes() * 26 // 25)
        world.run_for(3)
        brokers.run(fill, within=60)
        world.run_for(5)
        assert {end for number, end in ends().items() if number != full} == {2 * RECORDS}
        assert ends()[full] == RECORDS
        brokers.await_in_sync(TOPIC, {1, 2, 3} - {full})
        disk.faults = usual
        brokers.await_in_sync(TOPIC, {1, 2, 3})
        assert set(ends().values()) == {2 * RECORDS}
        assert not brokers.failures
