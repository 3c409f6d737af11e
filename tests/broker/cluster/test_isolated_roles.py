"""Controllers that are nothing else, and brokers that are no controllers, in virtual time."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests import suites
from tests.broker.cluster.faults import await_more, check, suffer
from tests.broker.cluster.traffic import TOPIC, Maker, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world

SEEDS = range(1, 1 + int(os.environ.get("MOLDAU_ROLES_SEEDS", "2")))


@pytest.mark.parametrize("controllers", [1, 3])
def test_brokers_follow_metadata_that_they_do_not_vote_on(controllers: int) -> None:
    with new_world(1) as world:
        brokers = SimulatedBrokers(world, 2, controllers=controllers)
        brokers.await_up()
        maker = Maker(brokers.bootstrap_servers)
        made = brokers.start_program(maker.make, "maker")
        world.run_for(3)
        maker.is_ending = True
        world.run_until(lambda: made.is_done, within=30)
        assert len(maker.made) > 10
        quorum = next(iter(brokers.keeping.values())).controller.quorum
        assert quorum.voters.ids == tuple(brokers.controller_ids)
        active = brokers.keeping[brokers.controller()].controller
        assert set(active.raft.core.leader.observers) == set(brokers.broker_ids)  # type: ignore[union-attr]
        assert not active.is_alone
        for node in brokers.keeping.values():
            assert set(node.image.brokers.by_id) == set(brokers.broker_ids)
            assert set(node.image.brokers.controllers) == set(brokers.controller_ids)
        assert not brokers.failures


def test_the_active_controller_dies_with_requests_under_way() -> None:
    with new_world(3) as world:
        brokers = SimulatedBrokers(world, 2, controllers=3)
        brokers.await_up()
        maker = Maker(brokers.bootstrap_servers)
        made = brokers.start_program(maker.make, "maker")
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
        world.run_until(lambda: made.is_done, within=60)
        world.run_for(2)  # until every broker has heard of the last topic
        brokers.run(maker.check, "auditor", within=30)
        assert maker.slowest_s < 4
        assert not brokers.failures


@pytest.mark.slow
@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=1))
def test_isolated_roles_under_faults(seed: int) -> None:
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world, 3, controllers=3)
        traffic, maker = Traffic(brokers.bootstrap_servers), Maker(brokers.bootstrap_servers)
        brokers.await_up()
        brokers.run(traffic.create)
        produced = brokers.start_program(traffic.produce, "producer")
        made = brokers.start_program(maker.make, "maker")
        world.run_for(1)
        suffer(brokers, Random(seed), 6)
        brokers.await_in_sync(TOPIC, {1, 2, 3}, within=120)
        await_more(brokers, traffic, maker)
        traffic.is_ending = maker.is_ending = True
        world.run_until(lambda: produced.is_done and made.is_done, within=180)
        world.run_for(2)
        brokers.run(maker.check, "counter", within=120)
        check(brokers, traffic)
    assert traffic.acknowledged > 50
    assert len(maker.made) > 10
