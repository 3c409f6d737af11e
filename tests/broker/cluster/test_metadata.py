"""The metadata of three controllers: a late one reads a snapshot, all of them know the same."""

from __future__ import annotations

from moldau.client import Admin, NewTopic
from moldau.runtime import Runtime
from tests.broker.cluster.world import SimulatedBrokers, new_world


def test_a_node_that_was_away_for_long_takes_a_snapshot() -> None:
    with new_world(3) as world:
        brokers = SimulatedBrokers(
            world,
            metadata_log_max_record_bytes_between_snapshots="4000",
            metadata_max_retention_bytes="1",
            internal_metadata_log_segment_bytes="10000",
            internal_metadata_delete_delay_millis="0",
        )
        brokers.await_up()
        late = next(each for each in brokers.nodes if each != brokers.controller())
        brokers.kill(late)
        world.run_for(5)

        async def create(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                for number in range(40):
                    await admin.create_topics([NewTopic(f"t{number}", 2, 2)])

        brokers.run(create, within=120)
        leading = brokers.running[brokers.controller()]
        assert leading._controller is not None
        assert leading._controller.quorum.log_start_offset > 0, "the log begins later"
        brokers.start(late)
        brokers.await_up()
        world.run_for(3)
        assert any("took a snapshot" in line for line in brokers.lines[late])
        images = [each.node.image for each in brokers.running.values()]
        assert len(images) == 3
        assert images[0] == images[1] == images[2]
        assert not brokers.failures


def test_all_killed_at_once_come_back_with_what_they_had() -> None:
    with new_world(4) as world:
        brokers = SimulatedBrokers(world)
        brokers.await_up()

        async def create(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await admin.create_topics([NewTopic("t", 3, 3)])

        brokers.run(create)
        for number in brokers.nodes:
            brokers.kill(number)
        world.run_for(1)
        for number in brokers.nodes:
            brokers.start(number)
        brokers.await_up()
        for index in range(3):
            world.run_until(lambda at=index: brokers.leader_of("t", at) > 0, within=60)  # type: ignore[misc]
            brokers.await_in_sync("t", {1, 2, 3}, index)
