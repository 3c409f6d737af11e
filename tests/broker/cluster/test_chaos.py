"""Three brokers under random crashes, cuts and pauses: what was acknowledged stays."""

from __future__ import annotations

from random import Random

import pytest

from tests import suites
from tests.broker.cluster.faults import await_more, check, suffer
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world

SEEDS = (2, 1, 3)
BAD_SEEDS = (48,)
"""Each found a bug once: 48 a voter that followed its leader again and fetched no more."""
FAULTS = 8


@pytest.mark.parametrize("seed", [*suites.seeds(SEEDS, quick=1), *BAD_SEEDS])
def test_what_was_acknowledged_survives_and_the_cluster_heals(seed: int) -> None:
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        brokers.run(traffic.create)
        produced = brokers.start_program(traffic.produce, "producer")
        brokers.start_program(traffic.read, "reader")
        world.run_for(1)
        suffer(brokers, Random(seed), FAULTS)
        brokers.await_in_sync(TOPIC, {1, 2, 3}, within=120)
        await_more(brokers, traffic, None)
        traffic.is_ending = True
        world.run_until(lambda: produced.is_done, within=180)
        check(brokers, traffic)
    assert traffic.acknowledged > 100
