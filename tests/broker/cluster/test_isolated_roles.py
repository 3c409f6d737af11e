"""Controllers that are nothing else, and brokers that are no controllers, in virtual time."""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from moldau.client import Admin, NewTopic
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world, program

SEEDS = range(1, 1 + int(os.environ.get("MOLDAU_ROLES_SEEDS", "2")))


class Maker:
    """Makes topics one after the other, and remembers which were promised."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.made: list[str] = []
        self.slowest_s = 0.0
        self.is_ending = False

    async def make(self, runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        async with Admin(runtime=runtime, bootstrap_servers=self.servers) as admin:
            number = 0
            while not self.is_ending:
                name, began = f"made-{number}", loop.time()
                number += 1
                try:
                    result = (await admin.create_topics([NewTopic(name, 1, 1)]))[name]
                except KafkaError:
                    continue  # it may be there or not
                if not isinstance(result, KafkaError):
                    self.made.append(name)
                else:
                    # Asked again after an answer that was lost.
                    assert result.retriable or result.code == ErrorCode.TOPIC_ALREADY_EXISTS
                self.slowest_s = max(self.slowest_s, loop.time() - began)
                await asyncio.sleep(0.05)

    async def check(self, runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=self.servers) as admin:
            known = {each.name for each in await admin.list_topics()}
        missing = set(self.made) - known
        assert not missing, f"promised and not there: {sorted(missing)}"


def strike(world: Simulation, brokers: SimulatedBrokers, random: Random) -> None:
    number = random.choice([*brokers.controller_ids, *brokers.broker_ids])
    name = f"b{number}"
    match random.randrange(5):
        case 0 | 1:
            active = brokers.controller()
            victim = active if active > 0 else number
            if brokers.nodes[victim].is_alive:
                brokers.kill(victim)
        case 2:
            if brokers.nodes[number].is_alive:
                brokers.kill(number)
        case 3:
            world.network.isolate(name)
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


@pytest.mark.parametrize("controllers", [1, 3])
def test_brokers_follow_metadata_that_they_do_not_vote_on(controllers: int) -> None:
    with new_world(1) as world:
        brokers = SimulatedBrokers(world, 2, controllers=controllers)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        maker = Maker(brokers.bootstrap_servers)
        made = program(world, "maker", maker.make)
        world.run_for(3)
        maker.is_ending = True
        world.run_until(lambda: made, within=30)
        assert len(maker.made) > 10
        quorum = next(iter(brokers.keeping.values())).controller.quorum
        assert quorum.voters.ids == tuple(brokers.controller_ids)
        active = brokers.keeping[brokers.controller()].controller
        assert set(active.raft.core.leader.observers) == set(brokers.broker_ids)  # type: ignore[union-attr]
        assert not active.is_alone
        for node in brokers.keeping.values():
            assert set(node.image.brokers.by_id) == set(brokers.broker_ids)
            assert set(node.image.brokers.controllers) == set(brokers.controller_ids)
        assert not traffic.acknowledged
        assert not brokers.failures


def test_the_active_controller_dies_with_requests_under_way() -> None:
    with new_world(3) as world:
        brokers = SimulatedBrokers(world, 2, controllers=3)
        brokers.await_up()
        maker = Maker(brokers.bootstrap_servers)
        made = program(world, "maker", maker.make)
        world.run_for(2)
        for _ in range(4):
            before, victim = len(maker.made), brokers.controller()
            brokers.kill(victim)
            world.run_for(4)
            assert brokers.controller() not in (-1, victim)
            assert len(maker.made) > before
            brokers.start(victim)
            world.run_for(3)
        maker.is_ending = True
        world.run_until(lambda: made, within=60)
        world.run_for(2)  # until every broker has heard of the last topic
        checked = program(world, "auditor", maker.check)
        world.run_until(lambda: checked, within=30)
        assert maker.slowest_s < 4
        assert not brokers.failures


def run(seed: int) -> tuple[Traffic, Maker]:
    random = Random(seed)
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world, 3, controllers=3)
        traffic, maker = Traffic(brokers.bootstrap_servers), Maker(brokers.bootstrap_servers)
        brokers.await_up()
        created = program(world, "admin", traffic.create)
        world.run_until(lambda: created, within=60)
        produced = program(world, "producer", traffic.produce)
        made = program(world, "maker", maker.make)
        world.run_for(1)
        for _ in range(6):
            strike(world, brokers, random)
            world.run_for(random.uniform(0.1, 8))
            if random.random() < 0.6:
                heal(world, brokers)
                world.run_for(random.uniform(0.5, 8))
        heal(world, brokers)
        brokers.await_up(within=120)
        world.run_until(lambda: brokers.isr_of(TOPIC) == {1, 2, 3}, within=120)
        known = len(traffic.acknowledged), len(maker.made)
        world.run_until(
            lambda: len(traffic.acknowledged) > known[0] + 10 and len(maker.made) > known[1] + 5,
            within=120,
        )
        traffic.is_ending = maker.is_ending = True
        world.run_until(lambda: produced and made, within=180)
        world.run_for(2)
        for name, check in (("auditor", traffic.check), ("counter", maker.check)):
            checked = program(world, name, check)
            world.run_until(lambda checked=checked: checked, within=120)  # type: ignore[misc]
        world.run_for(2)
        assert len(set(brokers.logs_of(TOPIC).values())) == 1, "replicas differ"
        assert not brokers.failures, brokers.failures
    return traffic, maker


@pytest.mark.parametrize("seed", SEEDS)
def test_isolated_roles_under_faults(seed: int) -> None:
    traffic, maker = run(seed)
    assert len(traffic.acknowledged) > 50
    assert len(maker.made) > 10
