"""Three brokers replicate, elect and fail over: nothing acknowledged is lost, in virtual time."""

from __future__ import annotations

import pytest

from tests import suites
from tests.broker.cluster.faults import check
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world


@pytest.mark.parametrize("victim", ["leader", "controller"])
@pytest.mark.parametrize("seed", suites.seeds((1, 2), quick=1))
def test_a_killed_node_costs_a_moment_and_no_record(victim: str, seed: int) -> None:
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        brokers.run(traffic.create)
        produced = brokers.start_program(traffic.produce, "producer")
        world.run_for(3)
        for _ in range(3):
            number = brokers.leader_of(TOPIC) if victim == "leader" else brokers.controller()
            brokers.kill(number)
            world.run_for(8)
            before = traffic.acknowledged
            brokers.start(number)
            brokers.await_up()
            brokers.await_in_sync(TOPIC, {1, 2, 3})
            world.run_for(2)
            assert traffic.acknowledged > before
        traffic.is_ending = True
        world.run_until(lambda: produced.is_done, within=60)
        check(brokers, traffic)
        assert traffic.slowest_s < 5
