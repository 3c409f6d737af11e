"""Three brokers share a store: what retention, DeleteRecords, deleted topics, changed settings and
unclean elections do to the remote part, while leaders change and the store fails."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from moldau.broker.replication.partition import Partition
from moldau.errors.codes import ErrorCode
from tests import suites
from tests.broker.tiered.tiered_cluster import (
    ALL,
    NAME,
    WITHIN_S,
    TieredBrokers,
    TopicShape,
    tiered_brokers,
)

SEEDS = (3, 1, 2, 4)
"""3: a deposed leader went on with a copy, and left its objects."""


def spoil(brokers: TieredBrokers, random: Random) -> None:
    """Let the store fail as the seed says."""
    store = brokers.store
    store.badness = random.choice((0.0, 0.1))
    store.lateness = random.choice((0.0, 0.1))
    store.put_s = random.choice((0.0, 1.0))


def mend(brokers: TieredBrokers) -> None:
    """Let the store work. What is late arrives now, before the last elections: leaders look for
    objects without a segment when they are elected."""
    store = brokers.store
    store.badness = store.lateness = store.put_s = 0.0
    store.land(float("inf"))


def replace_leader(brokers: TieredBrokers, random: Random) -> None:
    """Kill the leader, or cut its power, and let it come back when another one leads."""
    old = brokers.leader_of(NAME)
    random.choice((brokers.kill, brokers.power_loss))(old)
    brokers.world.run_until(lambda: brokers.leader_of(NAME) not in (old, -1), within=WITHIN_S)
    brokers.world.run_for(random.choice((0.0, 2.0)))
    brokers.start(old)
    brokers.await_up()
    brokers.await_whole()


def is_led_by_another(brokers: TieredBrokers, number: int) -> bool:
    return brokers.leader_of(NAME) not in (number, -1)


def check_everywhere(brokers: TieredBrokers) -> None:
    """Each replica serves all that is kept, under each leader."""
    for number in ALL:
        brokers.lead(number)
        assert brokers.read_all(f"r{number}") == brokers.kept()
    brokers.check()


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=1))
def test_what_is_deleted_by_an_administrator_stays_deleted(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    with tiered_brokers(monkeypatch, seed=seed) as brokers:
        brokers.fill()
        brokers.await_cut()
        spoil(brokers, random)
        for _ in range(3):
            start = brokers.start_offset
            offset = random.randint(start, brokers.leading_log().local_log_start_offset)
            brokers.delete_records(offset)
            replace_leader(brokers, random)
            assert brokers.beginning() == offset
            brokers.fill(10)
        mend(brokers)
        check_everywhere(brokers)
        assert brokers.oldest_remote() > 0


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=1))
@pytest.mark.parametrize("kind", ["retention_bytes", "retention_ms"])
def test_retention_counts_over_both_tiers_whoever_leads(
    monkeypatch: pytest.MonkeyPatch, seed: int, kind: str
) -> None:
    random = Random(seed)
    kept = {"retention_bytes": "6000", "retention_ms": "60000"}[kind]
    with tiered_brokers(monkeypatch, seed=seed, topic=TopicShape(configs={kind: kept})) as brokers:
        spoil(brokers, random)
        for _ in range(3):
            brokers.fill(30)
            replace_leader(brokers, random)
        mend(brokers)
        if kind == "retention_ms":
            brokers.world.run_for(70)
        brokers.await_cut()
        log = brokers.leading_log
        brokers.world.run_until(
            lambda: brokers.oldest_remote() >= log().log_start_offset > 0, within=WITHIN_S
        )
        if kind == "retention_ms":
            assert log().log_start_offset == log().local_log_start_offset
        else:
            sizes = sum(
                each.size_bytes for each in brokers.remote(brokers.leader_of(NAME)).segments()
            )
            assert 4000 <= sizes <= 8000
        brokers.start_offset = log().log_start_offset
        check_everywhere(brokers)


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=1))
def test_a_topic_that_is_deleted_while_copies_run_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """One broker is down meanwhile, and a topic of the same name is made at once."""
    random = Random(seed)
    with tiered_brokers(monkeypatch, seed=seed) as brokers:
        world, store = brokers.world, brokers.store
        brokers.fill()
        world.run_until(lambda: len(store.copies()) >= 2, within=WITHIN_S)
        absent = random.choice(ALL)
        brokers.kill(absent)
        spoil(brokers, random)
        store.put_s = 3.0
        begun = len(store.puts)
        world.run_until(lambda: len(store.puts) > begun, within=WITHIN_S)
        old_id = brokers.topic_id
        brokers.delete()
        if random.random() < 0.5:
            world.run_for(random.uniform(0.0, 5.0))
        brokers.create()
        assert brokers.topic_id != old_id
        brokers.written.clear()
        brokers.fill(20)
        brokers.start(absent)
        brokers.await_up()
        brokers.fill(20)
        mend(brokers)
        brokers.await_cut()
        world.run_until(lambda: not brokers.objects_of(old_id), within=3 * WITHIN_S)
        check_everywhere(brokers)


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=1))
def test_remote_storage_goes_off_and_on_again(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    with tiered_brokers(monkeypatch, seed=seed) as brokers:
        world = brokers.world
        brokers.fill()
        brokers.await_cut()
        assert brokers.configure(remote_storage_enable="false") is ErrorCode.INVALID_CONFIG
        spoil(brokers, random)
        brokers.configure(
            remote_storage_enable="false",
            remote_log_delete_on_disable="true",
            local_retention_bytes="-2",
        )
        if random.random() < 0.5:
            replace_leader(brokers, random)
        brokers.fill(20)
        mend(brokers)
        world.run_until(lambda: not brokers.store.segment_objects(), within=WITHIN_S)
        brokers.start_offset = brokers.beginning()
        assert 0 < brokers.start_offset <= 40
        assert brokers.read_all() == brokers.kept()
        spoil(brokers, random)
        brokers.configure(remote_storage_enable="true", local_retention_bytes="1")
        brokers.fill(20)
        mend(brokers)
        brokers.await_cut()
        check_everywhere(brokers)
        assert brokers.beginning() == brokers.start_offset


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=1))
def test_an_unclean_election_serves_no_record_of_the_lost_history(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A broker goes on alone, copies and cuts, and is gone when another one is elected."""
    random = Random(seed)
    unclean = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
    held: list[int] = []
    bound = Partition.fetch_bound

    def fetch_bound(partition: Partition, isolation_level: int, is_follower: bool) -> int:
        """Give followers of the topic nothing, as long as one is to go on alone."""
        end = bound(partition, isolation_level, is_follower)
        return 0 if is_follower and held and partition.topic == NAME else end

    monkeypatch.setattr(Partition, "fetch_bound", fetch_bound)
    shape = TopicShape(configs=unclean)
    lag = {"replica_lag_time_max_ms": "2000"}
    with tiered_brokers(monkeypatch, seed=seed, topic=shape, settings=lag) as brokers:
        world = brokers.world
        brokers.fill(30)
        brokers.await_cut()
        spoil(brokers, random)
        for _ in range(2):
            alone = brokers.leader_of(NAME)
            held.append(alone)
            brokers.fill(random.choice((5, 25)))
            assert brokers.isr_of(NAME) == {alone}
            world.run_for(random.choice((0.0, 5.0)))
            brokers.kill(alone)
            held.clear()
            world.run_until(partial(is_led_by_another, brokers, alone), within=WITHIN_S)
            end = brokers.leading_log().log_end_offset
            assert end < len(brokers.written)
            del brokers.written[end:]
            brokers.fill(random.choice((5, 25)))
            brokers.start(alone)
            brokers.await_up()
            brokers.await_whole()
        mend(brokers)
        brokers.fill(20)
        brokers.await_cut()
        check_everywhere(brokers)
