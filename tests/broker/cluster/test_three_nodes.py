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


def test_a_producer_goes_on_as_soon_as_there_is_a_new_leader() -> None:
    """It asks for metadata when it loses the leader, and the answer names the new one, so that it
    waits for no timer of its own. The request comes before the old leader is fenced."""
    with new_world(8) as world:
        brokers = SimulatedBrokers(world)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        brokers.run(traffic.create)
        brokers.start_program(traffic.produce, "producer")
        world.run_for(2)
        leader = brokers.leader_of(TOPIC)
        assert leader != brokers.controller(), "its end would cost an election of a controller"
        before, traffic.slowest_s = traffic.acknowledged, 0.0
        brokers.kill(leader)
        world.run_for(1)
        assert traffic.acknowledged > before
        assert traffic.slowest_s < 0.04
        assert not brokers.failures
