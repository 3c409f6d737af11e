"""Checkpoints written in a thread: never older over newer, never ahead of the logs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets
from moldau.broker.log.checkpoint_job import POINTS
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.log import PartitionLog
from tests.broker.log.machine import NOW, SMALL, batch
from tests.broker.log.two_directories import ORDERS, TOPIC_ID, UNIQUE, Node


def opened(node: Node) -> tuple[LogDirectory, PartitionLog]:
    directory = node.open().directories[0]
    log = directory.partitions.create(ORDERS, TOPIC_ID, SMALL, NOW)
    for _ in range(12):
        log.append_as_leader(batch(), 0, NOW)
    log.update_high_watermark(30)
    log.flush()
    return directory, log


def said(node: Node, name: str) -> int | None:
    return read_offsets(node.files, f"/a/{name}").get(ORDERS)


def test_all_steps_make_it_durable() -> None:
    node = Node()
    directory, log = opened(node)
    job = directory.checkpoints.begin((*POINTS, names.HIGH_WATERMARKS))
    job.write()
    assert said(node, names.HIGH_WATERMARKS) is None
    assert directory.checkpoints.put(job)
    job.sync()
    assert log.persisted_recovery_point == 0, "it does not count before it is durable"
    directory.checkpoints.end(job)
    assert log.persisted_recovery_point == log.recovery_point > 0
    node.lose_power()
    assert said(node, names.HIGH_WATERMARKS) == 30
    assert said(node, names.RECOVERY_POINTS) == log.recovery_point


def test_what_was_overtaken_is_dropped() -> None:
    node = Node()
    directory, log = opened(node)
    job = directory.checkpoints.begin(POINTS)
    job.write()
    log.increment_log_start_offset(20)
    directory.checkpoints.persist_points()
    assert not directory.checkpoints.put(job)
    assert said(node, names.LOG_STARTS) == 20
    assert [name for name in node.files.list("/a") if name.endswith(".new")] == []
    # The same between its taking place and its end: what the other said stays true.
    again = directory.checkpoints.begin(POINTS)
    again.write()
    assert directory.checkpoints.put(again)
    log.truncate_to(21)
    assert log.persisted_recovery_point <= 21
    again.sync()
    directory.checkpoints.end(again)
    assert log.persisted_recovery_point <= 21
    assert (said(node, names.RECOVERY_POINTS) or 0) <= 21


def test_a_deleted_log_does_not_come_back_into_a_checkpoint() -> None:
    node = Node()
    directory, _ = opened(node)
    job = directory.checkpoints.begin((names.HIGH_WATERMARKS,))
    job.write()
    directory.partitions.delete(ORDERS, UNIQUE, NOW)
    assert not directory.checkpoints.put(job)
    new = directory.partitions.create(ORDERS, bytes(15) + b"\x09", SMALL, NOW)
    assert said(node, names.HIGH_WATERMARKS) is None
    assert new.high_watermark == 0


def test_a_new_log_does_not_inherit_how_far_an_old_one_was_cleaned() -> None:
    node = Node()
    directory, _ = opened(node)
    directory.cleaned_offsets[ORDERS] = 24
    directory.checkpoints.write()
    assert said(node, names.CLEANED_OFFSETS) == 24
    directory.partitions.delete(ORDERS, UNIQUE, NOW)
    directory.partitions.create(ORDERS, bytes(15) + b"\x09", SMALL, NOW)
    node.lose_power()
    assert node.open().directories[0].cleaned_offsets == {}


def test_how_far_logs_are_clean_is_known_again() -> None:
    node = Node()
    directory, _ = opened(node)
    directory.cleaned_offsets[ORDERS] = 24
    job = directory.checkpoints.begin((names.CLEANED_OFFSETS,))
    job.write()
    assert directory.checkpoints.put(job)
    job.sync()
    directory.checkpoints.end(job)
    node.lose_power()
    assert node.open().directories[0].cleaned_offsets == {ORDERS: 24}


@pytest.mark.parametrize("seed", range(60))
def test_power_that_fails_at_any_step_leaves_one_of_them(seed: int) -> None:
    """What follows a truncation is looked at again, whichever checkpoint the disk kept."""
    node = Node(seed)
    directory, log = opened(node)
    job = directory.checkpoints.begin(POINTS)
    steps: list[Callable[[], object]] = [
        job.write,
        lambda: directory.checkpoints.put(job),
        job.sync,
        lambda: directory.checkpoints.end(job),
    ]
    for step in steps[: seed % 5]:
        step()
    log.truncate_to(10)
    for _ in range(6):
        log.append_as_leader(batch(timestamp=NOW + 7), 1, NOW)
    node.lose_power()
    again = node.open().directories[0].logs[ORDERS]
    assert again.log_end_offset >= 9
    for each in again.batches(0):
        each.check_crc()
        is_new = each.header.base_offset >= 9
        assert each.header.partition_leader_epoch == int(is_new)
