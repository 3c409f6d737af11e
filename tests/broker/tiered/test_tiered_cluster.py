"""Three brokers share a store: each record is read from every replica, whoever leads."""

from __future__ import annotations

import pytest

from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.errors.codes import ErrorCode
from tests import suites
from tests.broker.tiered.tiered_cluster import (
    ALL,
    METADATA_PARTITIONS,
    NAME,
    SAFE,
    WITHIN_S,
    TopicShape,
    tiered_brokers,
)
from tests.broker.tiered.tiered_house import METADATA


def test_all_replicas_cut_their_logs_and_each_serves_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tiered_brokers(monkeypatch) as brokers:
        brokers.fill()
        brokers.await_cut()
        assert brokers.leader_of(NAME) == 1
        for number in ALL:
            before = brokers.store.reads[f"b{number}"]
            assert brokers.read_all(f"r{number}") == brokers.written
            assert brokers.store.reads[f"b{number}"] > before
        assert {node for node, _ in brokers.store.puts} == {"b1"}
        assert set(brokers.store.copies().values()) == {1}
        brokers.check()


@pytest.mark.parametrize("how", ["elected", "stopped", "killed", "power"])
def test_a_new_leader_goes_on_copying(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The old one has a copy under way that takes long."""
    with tiered_brokers(monkeypatch) as brokers:
        world, store = brokers.world, brokers.store
        brokers.fill()
        world.run_until(lambda: len(store.copies()) >= 3, within=WITHIN_S)
        store.put_s = 5.0
        begun = len(store.puts)
        world.run_until(lambda: len(store.puts) > begun, within=WITHIN_S)
        store.put_s = 0.0
        match how:
            case "elected":
                brokers.lead(2)
            case "stopped":
                brokers.stop(1)
            case "killed":
                brokers.kill(1)
            case "power":
                brokers.power_loss(1)
        world.run_until(lambda: brokers.leader_of(NAME) not in (1, -1), within=WITHIN_S)
        successor = brokers.leader_of(NAME)
        brokers.fill()
        if how != "elected":
            brokers.await_cut({2, 3})
            brokers.start(1)
            brokers.await_up()
        brokers.await_cut()
        for number in ALL:
            assert brokers.read_all(f"r{number}") == brokers.written
        assert {node for node, _ in store.puts} == {"b1", f"b{successor}"}
        copies = store.copies()
        assert sum(copies.values()) <= len(copies) + 1
        brokers.check()


@pytest.mark.parametrize("skips", ["false", "true"])
def test_a_replica_without_its_disk_begins_behind_what_is_remote(
    monkeypatch: pytest.MonkeyPatch, skips: str
) -> None:
    given = {"follower_fetch_last_tiered_offset_enable": skips}
    with tiered_brokers(monkeypatch, settings=given) as brokers:
        producer_id = brokers.new_producer_id()
        offset = brokers.send_first_batch(producer_id)
        brokers.fill()
        brokers.await_cut()
        brokers.lose_disk(3)
        brokers.fill(5)
        brokers.start(3)
        brokers.await_up()
        brokers.await_in_sync(NAME, ALL)
        assert brokers.log_of(3).segments[0].base_offset > 0
        brokers.fill(5)
        brokers.lead(3)
        for number in ALL:
            assert brokers.read_all(f"r{number}") == brokers.written
        count = len(brokers.written)
        assert brokers.send_first_batch(producer_id) == offset
        brokers.fill()
        brokers.await_cut()
        assert len(brokers.written) == count + 40 == brokers.log_of(3).log_end_offset
        assert brokers.read_all() == brokers.written
        brokers.check()


@pytest.mark.parametrize("skips", ["false", "true"])
def test_a_broker_that_gets_the_partition_begins_behind_what_is_remote(
    monkeypatch: pytest.MonkeyPatch, skips: str
) -> None:
    given = {"follower_fetch_last_tiered_offset_enable": skips}
    with tiered_brokers(monkeypatch, (1, 2), settings=given) as brokers:
        producer_id = brokers.new_producer_id()
        offset = brokers.send_first_batch(producer_id)
        brokers.fill()
        brokers.await_cut({1, 2})
        brokers.lead(3)
        assert brokers.log_of(3).segments[0].base_offset > 0
        for number in ALL:
            assert brokers.read_all(f"r{number}") == brokers.written
        count = len(brokers.written)
        assert brokers.send_first_batch(producer_id) == offset
        brokers.fill()
        brokers.await_cut()
        assert len(brokers.written) == count + 40 == brokers.log_of(3).log_end_offset
        assert brokers.read_all() == brokers.written
        brokers.check()


@pytest.mark.parametrize("absent", [(), (3,)])
def test_the_topic_of_remote_segments_has_a_replica_on_each_broker(
    monkeypatch: pytest.MonkeyPatch, absent: tuple[int, ...]
) -> None:
    """The brokers start one after the other, and one may be down when the topic is created."""
    with tiered_brokers(monkeypatch, (1, 2), absent=absent) as brokers:
        brokers.fill()
        brokers.await_cut({1, 2})
        for number in absent:
            brokers.start(number)
        for index in range(METADATA_PARTITIONS):
            brokers.await_in_sync(METADATA, ALL, index)


@pytest.mark.parametrize("seed", suites.seeds(range(1, 7), quick=2))
def test_a_loss_of_power_everywhere_takes_nothing_that_is_remote(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """What was written last may be lost: no disk was asked to keep it."""
    with tiered_brokers(monkeypatch, seed=seed) as brokers:
        brokers.fill()
        brokers.await_cut()
        cut = max(brokers.log_of(number).local_log_start_offset for number in ALL)
        kept = brokers.store.segment_objects()
        for number in ALL:
            brokers.power_loss(number)
        for number in ALL:
            brokers.start(number)
        brokers.await_up()
        brokers.await_whole()
        end = brokers.leading_log().log_end_offset
        assert cut <= end
        del brokers.written[end:]
        for number in ALL:
            brokers.lead(number)
            assert brokers.read_all(f"r{number}") == brokers.written
        assert brokers.store.segment_objects() >= kept
        brokers.check()


def test_a_topic_of_remote_segments_with_few_replicas_is_one_line_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a cluster that has grown from one broker."""
    with tiered_brokers(
        monkeypatch, topic=TopicShape(metadata_replicas={0: [1], 1: [2]})
    ) as brokers:
        brokers.fill()
        brokers.await_cut()
        lines = [line for number in ALL for line in brokers.lines[number] if "few replicas" in line]
        (line,) = lines
        assert "moldau reassign plan __remote_log_metadata --replicas 3" in line


@pytest.mark.parametrize(
    ("configs", "command"),
    [
        ({}, "flush.messages=1 retention.ms=-1"),
        ({**SAFE, "flush.messages": "2"}, "flush.messages=1"),
        ({**SAFE, "cleanup.policy": "compact"}, "cleanup.policy=delete"),
        ({**SAFE, "retention.ms": "100000000"}, "retention.ms=-1"),
        ({**SAFE, "retention.bytes": "100000000"}, "retention.bytes=-1"),
    ],
)
def test_nothing_goes_while_the_topic_of_remote_segments_may_lose_records(
    monkeypatch: pytest.MonkeyPatch, configs: dict[str, str], command: str
) -> None:
    """It was made by hand. Each broker says so once, with the command that makes it safe."""
    shape = TopicShape(metadata_replicas={0: [1, 2, 3], 1: [2, 3, 1]}, metadata_configs=configs)
    with tiered_brokers(monkeypatch, topic=shape) as brokers:
        brokers.fill()
        brokers.world.run_for(10)
        assert not brokers.store.puts
        assert all(brokers.log_of(number).local_log_start_offset == 0 for number in ALL)
        said = f"moldau config set topic {METADATA} {command}"
        for number in ALL:
            (line,) = [each for each in brokers.lines[number] if "moldau config set topic" in each]
            assert said in line
        safe = dict(each.split("=") for each in command.split())
        named = {name.replace(".", "_"): value for name, value in safe.items()}
        assert brokers.configure(METADATA, **named) is ErrorCode.NONE
        brokers.await_cut()
        brokers.check()
        brokers.configure(METADATA, flush_messages="5")
        brokers.world.run_for(10)
        begun = len(brokers.store.puts)
        brokers.fill()
        brokers.world.run_for(10)
        assert len(brokers.store.puts) == begun
        assert brokers.read_all() == brokers.written


def test_a_log_that_has_lost_its_start_begins_where_its_remote_records_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tiered_brokers(monkeypatch) as brokers:
        brokers.fill()
        brokers.await_cut()
        brokers.delete_records(20)
        brokers.fill()
        brokers.await_cut()
        brokers.world.run_until(lambda: brokers.oldest_remote() > 20, within=WITHIN_S)
        for number in ALL:
            brokers.lose_starts(number)
        for number in ALL:
            brokers.start(number)
        brokers.await_up()
        brokers.world.run_until(lambda: brokers.leader_of(NAME) in ALL, within=WITHIN_S)
        brokers.await_whole()
        brokers.world.run_until(
            lambda: brokers.leading_log().log_start_offset == 20, within=WITHIN_S
        )
        brokers.fill()
        brokers.await_cut()
        for number in ALL:
            brokers.lead(number)
            assert brokers.read_all(f"r{number}") == brokers.kept()
        brokers.check()


def test_a_replica_without_the_epochs_of_remote_records_has_them_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tiered_brokers(monkeypatch) as brokers:
        brokers.fill()
        brokers.await_cut()
        brokers.lose_epochs(3)
        brokers.world.run_until(lambda: brokers.isr_of(NAME) == {1, 2}, within=WITHIN_S)
        brokers.start(3)
        brokers.await_up()
        brokers.await_in_sync(NAME, ALL)
        brokers.lead(3)
        assert brokers.read_all() == brokers.written
        brokers.check()


def test_leaders_without_the_epochs_of_remote_records_delete_none_and_have_them_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that is remote would look like another history, and its start like the local one."""
    with tiered_brokers(monkeypatch) as brokers:
        brokers.fill()
        brokers.await_cut()
        brokers.check()
        kept = brokers.store.segment_objects()
        for number in ALL:
            brokers.lose_epochs(number)
        for number in ALL:
            brokers.start(number)
        brokers.await_up()
        brokers.world.run_until(lambda: brokers.leader_of(NAME) in ALL, within=WITHIN_S)
        brokers.await_whole()
        assert brokers.beginning() == 0
        for number in ALL:
            assert brokers.read_all(f"r{number}") == brokers.written
        assert brokers.store.segment_objects() >= kept
        brokers.fill()
        brokers.await_cut()
        for number in ALL:
            brokers.lead(number)
            assert brokers.read_all(f"r{number}") == brokers.written
        brokers.check()


def test_a_leader_that_cannot_know_its_epochs_says_so_and_keeps_what_is_remote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A segment of another history has the last record, and so is not told from the log's own."""
    with tiered_brokers(monkeypatch) as brokers:
        brokers.fill()
        brokers.await_cut()
        known = RemotePartition.epochs_at
        monkeypatch.setattr(
            RemotePartition, "epochs_at", lambda remote, offset: [*known(remote, offset), 99]
        )
        kept = brokers.store.segment_objects()
        for number in ALL:
            brokers.lose_epochs(number)
        for number in ALL:
            brokers.start(number)
        brokers.await_up()
        leader = brokers.leader_of(NAME)
        brokers.world.run_until(
            lambda: any("let another replica lead" in line for line in brokers.lines[leader]),
            within=WITHIN_S,
        )
        brokers.world.run_for(5)
        assert brokers.leading_log().log_start_offset == 0
        assert brokers.store.segment_objects() >= kept
