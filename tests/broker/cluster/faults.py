"""Random faults of a cluster, and how a run under them ends: everything heals and is checked."""

from __future__ import annotations

from random import Random

from moldau.runtime.simulated.node import NodeState
from tests.broker.cluster.traffic import TOPIC, Maker, Traffic
from tests.broker.cluster.world import SimulatedBrokers

WITHIN_S = 120.0


def strike(brokers: SimulatedBrokers, random: Random) -> None:
    """One fault, until it is healed. Several nodes may be down at once."""
    number = random.choice(brokers.node_ids)
    active = brokers.controller()
    if active in brokers.controller_ids and len(brokers.node_ids) > 3 and random.random() < 0.3:
        number = active
    match random.randrange(5):
        case 0 | 1:
            if brokers.is_alive(number):
                brokers.kill(number)
        case 2:
            brokers.isolate(number)
        case 3:
            other = random.choice([each for each in brokers.node_ids if each != number])
            brokers.world.network.block(f"b{number}", f"b{other}")
        case 4:
            if brokers.nodes[number].state is NodeState.RUNNING:
                brokers.pause(number)


def suffer(brokers: SimulatedBrokers, random: Random, faults: int, *, heals: float = 0.6) -> None:
    """So many faults, some of them healed before the next one; all of them at the end."""
    for _ in range(faults):
        strike(brokers, random)
        brokers.world.run_for(random.uniform(0.1, 8))
        if random.random() < heals:
            brokers.heal()
            brokers.world.run_for(random.uniform(0.5, 8))
    brokers.heal()
    brokers.await_up(within=WITHIN_S)


def await_more(brokers: SimulatedBrokers, traffic: Traffic | None, maker: Maker | None) -> None:
    """Everybody gets something done."""
    records = 0 if traffic is None else traffic.acknowledged + 10
    topics = 0 if maker is None else len(maker.made) + 5
    brokers.world.run_until(
        lambda: (
            (traffic is None or traffic.acknowledged >= records)
            and (maker is None or len(maker.made) >= topics)
        ),
        within=WITHIN_S,
    )


def check(brokers: SimulatedBrokers, traffic: Traffic) -> None:
    """All that was acknowledged is there, once and in order, and the replicas are equal."""
    brokers.run(traffic.read_all, "auditor", within=WITHIN_S)
    # A follower with a severed connection hears of that when its fetch times out.
    logs = [brokers.logs(TOPIC, index) for index in range(traffic.partitions)]
    brokers.world.run_until(
        lambda: all(len({log.log_end_offset for log in each.values()}) == 1 for each in logs),
        within=WITHIN_S,
    )
    traffic.check({index: brokers.digests_of(TOPIC, index) for index in range(traffic.partitions)})
    assert not brokers.failures, brokers.failures
