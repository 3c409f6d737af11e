"""Brokers that share a store are killed, moved and wiped while they are written to."""

from __future__ import annotations

import os
from functools import partial
from random import Random

import pytest

from tests import suites
from tests.broker.tiered.mixed_traffic import ALL_RECORDS, COMMITTED, MixedTraffic
from tests.broker.tiered.tiered_cluster import (
    ALL,
    METADATA_PARTITIONS,
    NAME,
    WITHIN_S,
    TieredBrokers,
    TopicShape,
    tiered_brokers,
)
from tests.broker.tiered.tiered_house import METADATA

SEEDS = (18, 33, *range(1, 1 + int(os.environ.get("MOLDAU_TIERED_SEEDS", "3"))))
"""18 and 33: power failed before the leader epochs of what was remote were durable."""
FAULTS = 6
PARTITIONS = 2


def strike(brokers: TieredBrokers, random: Random) -> None:
    """One fault. All replicas are in sync when it begins, and it is healed by the next one."""
    number = random.choice(ALL)
    match random.choice(("kill", "power", "stop", "lead", "disk", "isolate", "pause")):
        case "kill":
            brokers.kill(number)
        case "power":
            brokers.power_loss(number)
        case "stop":
            brokers.stop(number)
        case "lead":
            brokers.lead(number)
        case "disk":
            brokers.lose_disk(number)
        case "isolate":
            brokers.isolate(number)
        case "pause":
            brokers.pause(number)
    brokers.world.run_for(random.uniform(0.1, 12))
    brokers.heal()
    brokers.await_up()
    brokers.await_whole(within=120)
    for index in range(METADATA_PARTITIONS):
        brokers.await_in_sync(METADATA, ALL, index, within=120)


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=1))
def test_nothing_is_lost_by_faults(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    skips = str(random.random() < 0.5).lower()
    given = {"follower_fetch_last_tiered_offset_enable": skips}
    with tiered_brokers(
        monkeypatch, seed=seed, settings=given, topic=TopicShape(PARTITIONS)
    ) as brokers:
        traffic = MixedTraffic(brokers.bootstrap_servers, NAME, PARTITIONS, seed)
        traffic.pause_s = 0.05
        writers = [
            brokers.start_program(traffic.produce, "plain"),
            brokers.start_program(traffic.transact, "transactional"),
        ]
        brokers.await_cut()
        brokers.store.badness = random.choice((0.0, 0.1))
        brokers.store.lateness = random.choice((0.0, 0.1))
        for _ in range(FAULTS):
            brokers.store.put_s = random.choice((0.0, 0.0, 3.0))
            strike(brokers, random)
        brokers.store.badness = brokers.store.lateness = brokers.store.put_s = 0.0
        brokers.store.land(float("inf"))
        acknowledged = traffic.acknowledged
        brokers.world.run_until(lambda: traffic.acknowledged > acknowledged, within=WITHIN_S)
        traffic.is_ending = True
        brokers.world.run_until(lambda: all(each.is_done for each in writers), within=180)
        brokers.await_cut()
        for number in ALL:
            brokers.lead(number)
            for isolation in (COMMITTED, ALL_RECORDS):
                read = partial(traffic.read_all, rack=f"r{number}", isolation=isolation)
                brokers.run(read, within=120)
        traffic.check()
        brokers.check()
