"""Three brokers replicate, elect and fail over: nothing acknowledged is lost, in virtual time."""

from __future__ import annotations

import pytest

from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world, program


@pytest.mark.parametrize("victim", ["leader", "controller"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_node_costs_a_moment_and_no_record(victim: str, seed: int) -> None:
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        created = program(world, "admin", traffic.create)
        world.run_until(lambda: created, within=60)
        produced = program(world, "producer", traffic.produce)
        world.run_for(3)
        for _ in range(3):
            number = brokers.leader_of(TOPIC) if victim == "leader" else brokers.controller()
            brokers.kill(number)
            world.run_for(8)
            before = len(traffic.acknowledged)
            brokers.start(number)
            brokers.await_up()
            world.run_until(lambda: brokers.isr_of(TOPIC) == {1, 2, 3}, within=60)
            world.run_for(2)
            assert len(traffic.acknowledged) > before
        traffic.is_ending = True
        world.run_until(lambda: produced, within=60)
        checked = program(world, "auditor", traffic.check)
        world.run_until(lambda: checked, within=60)
        world.run_for(2)
        logs = set(brokers.logs_of(TOPIC).values())
        assert len(logs) == 1, "replicas differ"
        assert traffic.slowest_s < 5
        assert not brokers.failures
