"""Transactions with a marker above the high watermark stay unstable, though the producer state is
that of a snapshot behind the marker."""

from __future__ import annotations

import pytest

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_state import Origin
from moldau.broker.log.recovery import Opening
from tests.broker.log.machine import DIRECTORY, NOW, Machine
from tests.broker.log.producing import data_batch, marker_batch

CONFIG = LogConfig(segment_index_bytes=1200, index_interval_bytes=100, retention_ms=-1)


def ended_above_the_high_watermark() -> tuple[Machine, PartitionLog]:
    """A transaction at 0 and 1 with its marker at 3, one that is open at 2; replicated up to 2."""
    machine = Machine(config=CONFIG)
    log = machine.open()
    for producer, count in ((1, 2), (2, 1)):
        data = data_batch(producer, 0, 0, count, transactional=True).data
        log.append_as_leader(bytearray(data), 0, NOW)
    log.update_high_watermark(2)
    marker = bytearray(marker_batch(1, 0).data)
    log.append_as_leader(marker, 0, NOW, origin=Origin.COORDINATOR)
    assert (log.log_end_offset, log.last_stable_offset) == (4, 0)
    return machine, log


def reopened(machine: Machine) -> PartitionLog:
    opening = Opening(NOW, is_clean=True, high_watermark=2)
    return PartitionLog.open(machine.files, DIRECTORY, CONFIG, opening)


def check(log: PartitionLog) -> None:
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0
    log.update_high_watermark(4)
    assert log.last_stable_offset == 2, "the other transaction is still open"


def roll(log: PartitionLog) -> None:
    """Begin a segment behind the marker, which writes a snapshot, and append to it."""
    log.rolling.roll(NOW)
    log.append_as_leader(bytearray(data_batch(3, 0, 0).data), 0, NOW)


@pytest.mark.parametrize("is_rolled", [False, True])
def test_a_clean_restart_keeps_it_unstable(is_rolled: bool) -> None:
    machine, log = ended_above_the_high_watermark()
    if is_rolled:
        roll(log)
    log.close()
    check(reopened(machine))


def test_a_truncation_to_a_snapshot_keeps_it_unstable() -> None:
    _, log = ended_above_the_high_watermark()
    roll(log)
    log.truncate_to(4)
    assert log.log_end_offset == 4
    check(log)


def test_a_truncation_of_the_marker_opens_it_again() -> None:
    _, log = ended_above_the_high_watermark()
    log.truncate_to(3)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0
