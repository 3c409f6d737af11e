"""Three brokers under random crashes, cuts and pauses: what was acknowledged stays."""

from __future__ import annotations

from random import Random

import pytest

from moldau.runtime.simulated import Simulation
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world, program

SEEDS = range(1, 5)
BAD_SEEDS = (48,)
"""Each found a bug once: 48 a voter that followed its leader again and fetched no more."""
FAULTS = 8


def strike(world: Simulation, brokers: SimulatedBrokers, random: Random) -> None:
    """One fault, for a while; several brokers may be down at once."""
    number = random.randrange(3) + 1
    name = f"b{number}"
    match random.randrange(5):
        case 0 | 1:
            if brokers.nodes[number].is_alive:
                brokers.kill(number)
        case 2:
            world.network.isolate(name)
        case 3:
            other = f"b{number % 3 + 1}"
            world.network.block(name, other)
        case 4:
            if brokers.nodes[number].is_alive:
                brokers.nodes[number].pause()


def heal(world: Simulation, brokers: SimulatedBrokers) -> None:
    world.network.heal()
    for number, node in brokers.nodes.items():
        if not node.is_alive:
            brokers.start(number)
        else:
            node.resume()


def run(seed: int) -> Traffic:
    random = Random(seed)
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        created = program(world, "admin", traffic.create)
        world.run_until(lambda: created, within=60)
        produced = program(world, "producer", traffic.produce)
        world.run_for(1)
        for _ in range(FAULTS):
            strike(world, brokers, random)
            world.run_for(random.uniform(0.1, 8))
            if random.random() < 0.6:
                heal(world, brokers)
                world.run_for(random.uniform(0.5, 8))
        heal(world, brokers)
        brokers.await_up(within=120)
        world.run_until(lambda: brokers.isr_of(TOPIC) == {1, 2, 3}, within=120)
        known = len(traffic.acknowledged)
        world.run_until(lambda: len(traffic.acknowledged) > known + 10, within=120)
        traffic.is_ending = True
        world.run_until(lambda: produced, within=180)
        checked = program(world, "auditor", traffic.check)
        world.run_until(lambda: checked, within=120)
        world.run_for(2)
        assert len(set(brokers.logs_of(TOPIC).values())) == 1, "replicas differ"
        assert not brokers.failures, brokers.failures
    return traffic


@pytest.mark.parametrize("seed", [*SEEDS, *BAD_SEEDS])
def test_what_was_acknowledged_survives_and_the_cluster_heals(seed: int) -> None:
    assert len(run(seed).acknowledged) > 100
