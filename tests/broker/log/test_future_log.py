"""Copies of logs with gaps: they keep what lies behind those, and miss no tail that a loss of power
took. (Moves as a whole: tests/broker/replication/test_moves_stop.py.)"""

from __future__ import annotations

import pytest

from moldau.broker.log.future_log import CopyLocation, FutureLog
from moldau.broker.log.log import Owner, PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.recovery import Opening
from tests.broker.log.gapped_log import (
    COMPACTED,
    RECORDS,
    append,
    bases,
    mark_of,
    opened_by_kafka,
    shorten,
)
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, contents

COPY = "/data/orders-0.0a-future"
TOPIC_ID = bytes(15) + b"\x01"


def copy(log: PartitionLog, pieces: int, opening: Opening | None = None) -> FutureLog:
    future = FutureLog(log, CopyLocation(COPY, TOPIC_ID, opening))
    future.open(NOW)
    while pieces and (piece := future.next_piece()) is not None:
        future.copy(piece, NOW)
        pieces -= 1
    return future


def move(log: PartitionLog, config: LogConfig) -> PartitionLog:
    """Copy the log, and let the copy take its place; its topic has other settings by then."""
    future = copy(log, 100)
    future.catch_up(NOW)
    future.settle()
    log.configure(config)
    log.move(f"{DIRECTORY}.0b-delete")
    future.rename(DIRECTORY)
    future.take_over(Owner(), NOW)
    return future.log


def ends_in_a_gap(machine: Machine) -> int:
    """A log whose last segment is empty, and the one before it cleaned by Kafka; its end."""
    log = machine.open()
    append(log, 20)
    log.rolling.roll(NOW)
    log.close()
    machine.kill()
    opened_by_kafka(machine)
    shorten(machine, bases(log)[-2])
    return log.log_end_offset


@pytest.mark.parametrize("config", [SMALL, COMPACTED])
def test_a_copy_that_ends_in_a_gap_keeps_what_comes_behind(config: LogConfig) -> None:
    machine = Machine(config=COMPACTED)
    end = ends_in_a_gap(machine)
    machine.open()
    machine.kill()
    machine.config = config
    source = machine.open()
    log = move(source, COMPACTED)
    assert log.log_end_offset == end
    assert mark_of(machine) == end
    append(log, 10)
    log.flush()
    expected = contents(log)
    machine.lose_power()
    machine.config = COMPACTED
    log = machine.open()
    assert (contents(log), log.notes) == (expected, [])


def test_a_copy_may_not_miss_a_tail_when_its_topic_became_compacted_meanwhile() -> None:
    machine = Machine()
    log = machine.open()
    append(log, 40)
    log.flush()
    expected = contents(log)
    future = copy(log, 100)
    starts = bases(future.log)
    machine.kill()
    shorten(machine, starts[1], directory=COPY)
    machine.config = COMPACTED
    future = copy(machine.open(), 0, Opening(NOW))
    assert future.log.log_end_offset == starts[2] - RECORDS
    machine.kill()
    future = copy(machine.open(), 100, Opening(NOW))
    assert contents(future.log) == expected
