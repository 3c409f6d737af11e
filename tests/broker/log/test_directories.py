"""Log directories: found again after each kind of end, kept apart, failing alone."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from moldau.broker.log import names
from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.meta_properties import MetaProperties, write_meta_properties
from moldau.broker.log.names import TopicPartition
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.records import Producer
from tests.broker.log.machine import NOW, SMALL, Machine, batch, contents
from tests.broker.log.two_directories import BILLS, CLUSTER, ORDERS, PATHS, TOPIC_ID, UNIQUE, Node


def fill(node: Node, opened: LogDirectories, *partitions: TopicPartition) -> None:
    for partition in partitions:
        log = opened.create(partition, TOPIC_ID, SMALL, NOW)
        for _ in range(12):
            log.append_as_leader(batch(), 0, NOW)
        log.update_high_watermark(30)


def test_new_logs_go_where_the_fewest_are() -> None:
    opened = Node().open()
    fill(Node(), opened, ORDERS, BILLS)
    assert [len(each.logs) for each in opened.directories] == [1, 1]
    chosen = TopicPartition("chosen", 0)
    opened.create(chosen, TOPIC_ID, SMALL, NOW, directory_id=bytes(15) + b"\x02")
    assert opened.directory_of(chosen) is opened.directories[1]
    assert opened.directories[0].logs[ORDERS].size_bytes > 1000


def test_a_clean_end_is_found_as_it_was() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS, BILLS)
    before = {partition: contents(log) for partition, log in opened.logs()}
    opened.close(broker_epoch=77)
    node.lose_power()
    again = node.open()
    assert {partition: contents(log) for partition, log in again.logs()} == before
    for directory in again.directories:
        assert directory.was_clean
        assert directory.broker_epoch == 77
        assert directory.notes == []
    log = again.log(ORDERS)
    assert log is not None
    assert (log.high_watermark, log.flushed_end_offset) == (30, 36)
    assert again.directories[0].topic_ids == {ORDERS: TOPIC_ID}


@pytest.mark.parametrize("seed", range(40))
def test_after_power_loss_what_was_flushed_is_there(seed: int) -> None:
    node = Node(seed)
    opened = node.open()
    fill(node, opened, ORDERS, BILLS)
    log = opened.log(ORDERS)
    assert log is not None
    log.flush()
    before = contents(log)
    opened.checkpoint()
    log.append_as_leader(batch(), 0, NOW)
    node.lose_power()
    again = node.open()
    assert not again.directories[0].was_clean
    found = again.log(ORDERS)
    assert found is not None
    assert contents(found)[:12] == before
    assert found.high_watermark == 30


def test_a_directory_is_had_by_one_process() -> None:
    node = Node()
    node.open()
    with pytest.raises(ConfigError, match="another process"):
        LogDirectories.open(node.files, PATHS, CLUSTER, 1)


@pytest.mark.parametrize(("cluster", "node_id"), [("other", 1), (CLUSTER, 2)])
def test_somebody_elses_directory_is_refused_and_let_go(cluster: str, node_id: int) -> None:
    node = Node()
    with pytest.raises(ConfigError):
        LogDirectories.open(node.files, PATHS, cluster, node_id)
    node.open()


def test_a_directory_that_is_not_formatted_is_refused() -> None:
    node = Node()
    with pytest.raises(ConfigError, match="not formatted"):
        LogDirectories.open(node.files, ["/c"], CLUSTER, 1)


def test_two_directories_of_one_id_are_refused() -> None:
    node = Node()
    write_meta_properties(node.files, "/b", MetaProperties(CLUSTER, 1, bytes(15) + b"\x01"))
    with pytest.raises(ConfigError, match="one id"):
        LogDirectories.open(node.files, PATHS, CLUSTER, 1)


def test_a_partition_in_two_directories_is_refused() -> None:
    node = Node()
    node.files.make_dirs("/a/orders-0")
    node.files.make_dirs("/b/orders-0")
    opened = LogDirectories.open(node.files, PATHS, CLUSTER, 1)
    with pytest.raises(ConfigError, match="two directories"):
        opened.load(lambda partition, topic_id: SMALL, NOW)


def test_a_directory_that_cannot_be_opened_leaves_the_other() -> None:
    node = Node()
    node.disk.fail_next("write", path_part="/a/.lock")
    node.disk.fail_next("read", path_part="/a/meta.properties")
    opened = LogDirectories.open(node.files, PATHS, CLUSTER, 1)
    assert list(opened.unopened) == ["/a"]
    assert [each.path for each in opened.directories] == ["/b"]


def test_a_deleted_log_is_gone_at_once_and_its_files_later() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS)
    node.disk.put(f"/a/orders-0/{0:020d}.log.lost", b"what recovery set aside")
    directory = opened.directories[0]
    directory.partitions.delete(ORDERS, UNIQUE, NOW)
    assert opened.log(ORDERS) is None
    marked = f"/a/orders-0.{UNIQUE.hex()}-delete"
    assert node.files.exists(marked)
    assert opened.remove_deleted(NOW + 999) == 0
    assert opened.remove_deleted(NOW + 1000) == 1
    assert not node.files.exists(marked)


def test_a_deletion_that_a_crash_interrupted_is_finished() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS)
    opened.directories[0].partitions.delete(ORDERS, UNIQUE, NOW)
    opened.directories[0].partitions.sync_names()
    node.lose_power()
    again = node.open()
    assert again.log(ORDERS) is None
    assert again.remove_deleted(NOW) == 1
    assert [name for name in node.files.list("/a") if "orders" in name] == []


def test_a_new_log_does_not_inherit_the_points_of_an_old_one() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS)
    log = opened.log(ORDERS)
    assert log is not None
    log.flush()
    log.increment_log_start_offset(20)
    opened.checkpoint()
    opened.directories[0].partitions.delete(ORDERS, UNIQUE, NOW)
    other: Uuid = bytes(15) + b"\x09"
    new = opened.create(ORDERS, other, SMALL, NOW, directory_id=bytes(15) + b"\x01")
    new.append_as_leader(batch(), 0, NOW)
    new.flush()
    node.lose_power()
    found = node.open().log(ORDERS)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, 3)


def test_a_stray_log_is_set_aside_and_stays() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS)
    opened.directories[0].partitions.set_aside(ORDERS, UNIQUE)
    opened.close()
    node.lose_power()
    again = node.open()
    assert again.log(ORDERS) is None
    assert any("-stray" in note for note in again.directories[0].notes)
    assert node.files.exists(f"/a/orders-0.{UNIQUE.hex()}-stray/{0:020d}.log")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_an_error_of_the_disk_takes_one_directory_out_of_service(code: int) -> None:
    node = Node()
    opened = node.open()
    more = TopicPartition("more", 0)
    fill(node, opened, ORDERS, BILLS, more)
    heard: list[LogDirectory] = []
    opened.on_failure(heard.append)
    log = opened.log(ORDERS)
    assert log is not None
    node.disk.fail_next("write", code, path_part="orders-0")
    for attempt in range(2):
        with pytest.raises(KafkaError) as error:
            log.append_as_leader(batch(), 0, NOW)
        assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR, attempt
    assert [each.path for each in heard] == ["/a"]
    assert [each.path for each in opened.in_service()] == ["/b"]
    neighbour, other = opened.log(more), opened.log(BILLS)
    assert neighbour is not None
    assert other is not None
    with pytest.raises(KafkaError):
        neighbour.append_as_leader(batch(), 0, NOW)
    other.append_as_leader(batch(), 0, NOW)
    with pytest.raises(KafkaError):
        opened.directories[0].partitions.create(TopicPartition("new", 0), TOPIC_ID, SMALL, NOW)
    opened.create(TopicPartition("new", 0), TOPIC_ID, SMALL, NOW).flush()
    opened.close()
    assert not node.files.exists(f"/a/{names.CLEAN_SHUTDOWN}")
    assert node.files.exists(f"/b/{names.CLEAN_SHUTDOWN}")


def test_a_failed_sync_is_never_tried_again() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS)
    log = opened.log(ORDERS)
    assert log is not None
    node.disk.fail_next("sync", path_part="orders-0")
    for _ in range(2):
        with pytest.raises(KafkaError):
            log.flush()
    assert log.flushed_end_offset == 0
    assert opened.in_service() == [opened.directories[1]]


def test_a_damaged_checkpoint_means_looking_at_everything() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS)
    log = opened.log(ORDERS)
    assert log is not None
    log.flush()
    opened.checkpoint()
    node.lose_power()
    node.disk.put(f"/a/{names.RECOVERY_POINTS}", b"0\n7\n")
    again = node.open()
    found = again.log(ORDERS)
    assert found is not None
    assert found.log_end_offset == 36
    assert any("cut short" in note for note in again.directories[0].notes)


def test_one_damaged_log_keeps_no_other_from_its_retention() -> None:
    config = replace(SMALL, retention_ms=1000)
    machine = Machine()

    def opened() -> LogDirectory:
        directory = LogDirectory.open(machine.files, "/d")
        directory.load(lambda partition, topic_id: config, NOW)
        return directory

    directory = opened()
    places = [TopicPartition(each, 0) for each in "abc"]
    for place in places:
        log = directory.partitions.create(place, None, config, NOW)
        for _ in range(40):
            log.append_as_leader(batch(3), 0, NOW)
    first = directory.logs[places[1]].segments[0].base_offset
    directory.close()
    machine.kill()
    path = f"/d/b-0/{first:020d}"
    data = bytearray(machine.disk.contents(f"{path}.log"))
    data[300:420] = bytes(120)
    machine.disk.put(f"{path}.log", bytes(data))
    machine.disk.drop(f"{path}.timeindex")  # so that somebody looks
    directory = opened()
    for log in directory.logs.values():
        log.update_high_watermark(log.log_end_offset)
    directory.retention.delete_old_segments(NOW + 10**9)
    assert directory.logs[places[0]].log_start_offset == directory.logs[places[0]].log_end_offset
    assert directory.logs[places[2]].log_start_offset == directory.logs[places[2]].log_end_offset
    assert directory.failure is None


def test_housekeeping_reaches_every_log() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS, BILLS)
    for _, log in opened.logs():
        log.increment_log_start_offset(30)
        log.flush()
    assert opened.delete_old_segments(NOW) >= 2
    assert opened.remove_deleted(NOW + 1000) >= 2


def test_idle_producers_are_forgotten() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS)
    log = opened.log(ORDERS)
    assert log is not None
    log.append_as_leader(batch(timestamp=NOW, producer=Producer(5, 0, 0)), 0, NOW)
    assert opened.expire_producers(NOW + SMALL.producer_expiration_ms - 1) == 0
    assert opened.expire_producers(NOW + SMALL.producer_expiration_ms + 3) == 1
    assert not log.producers.entries


def test_a_partition_that_a_crash_left_twice_is_one_again() -> None:
    """Both directories have a log of the name: the mark tells, else the metadata do."""
    homes: list[tuple[bool, Uuid | None, str]] = [
        (True, None, "/b"),
        (False, bytes(15) + b"\x01", "/a"),
        (False, bytes(15) + b"\x02", "/b"),
    ]
    for is_marked, home, left in homes:

        def home_of(place: TopicPartition, home: Uuid | None = home) -> Uuid | None:
            return home if place == ORDERS else None

        node = Node()
        opened = node.open()
        for number in (1, 2):
            log = opened.directories[number - 1].partitions.create(ORDERS, TOPIC_ID, SMALL, NOW)
            log.append_as_leader(batch(), 0, NOW)
            log.flush()
        if is_marked:
            node.files.write_text_atomic(f"/b/orders-0/{names.TAKES_OVER}", "1\n")
        node.lose_power()
        again = LogDirectories.open(node.files, ["/a", "/b"], CLUSTER, 1)
        again.load(lambda partition, topic_id: SMALL, NOW, home_of)
        assert [each.path for each in again.directories if ORDERS in each.logs] == [left]
        node.lose_power()


def test_torn_metadata_of_an_empty_log_harm_nobody() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, BILLS)
    opened.directories[0].partitions.create(ORDERS, TOPIC_ID, SMALL, NOW)
    opened.close()
    node.disk.put("/a/orders-0/partition.metadata", b"versi")
    again = node.open()
    assert again.directories[0].failure is None
    assert again.directories[0].was_clean
    assert ORDERS not in again.directories[0].topic_ids
    node.lose_power()
    found = next(
        path for path in ("/a", "/b") if f"{path}/{BILLS}/{0:020d}.log" in node.disk.paths()
    )
    node.disk.put(f"{found}/{BILLS}/partition.metadata", b"versi")
    node.disk.put(f"{found}/.kafka_cleanshutdown", b"")
    torn = node.open()
    assert [each.path for each in torn.directories if each.failure is not None] == [found]


def test_logs_that_are_closed_in_shares_are_durable_behind_the_marker() -> None:
    node = Node()
    opened = node.open()
    places = [TopicPartition(f"topic{number}", 0) for number in range(15)]
    fill(node, opened, *places)
    before = {each: contents(log) for each in places if (log := opened.log(each)) is not None}
    assert len(before) == 15
    closings = opened.closings()
    assert len(closings) > 1, "their syncs are asked for at the same time"
    for close in closings:
        close()
    opened.close(7)
    assert all(node.files.exists(f"{path}/{names.CLEAN_SHUTDOWN}") for path in PATHS)
    node.lose_power()
    again = node.open()
    found = {each: again.log(each) for each in places}
    assert {each: contents(log) for each, log in found.items() if log is not None} == before


def test_a_share_that_fails_leaves_no_marker_in_its_directory() -> None:
    node = Node()
    opened = node.open()
    fill(node, opened, ORDERS, BILLS)
    node.disk.fail_next("sync", errno.EIO, path_part="orders-0")
    for close in opened.closings():
        close()
    opened.close()
    assert not node.files.exists(f"/a/{names.CLEAN_SHUTDOWN}")
    assert node.files.exists(f"/b/{names.CLEAN_SHUTDOWN}")
