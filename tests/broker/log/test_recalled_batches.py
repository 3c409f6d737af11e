"""A producer that pipelines and did not hear the answers repeats its last batches, also to a log
that was opened or cut meanwhile, and whose snapshot has only the last one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_state import BATCHES_KEPT
from moldau.broker.log.recovery import Opening
from moldau.errors.codes import ErrorCode, KafkaError
from tests.broker.log.machine import DIRECTORY, NOW, Machine, batch
from tests.broker.log.producing import data_batch

CONFIG = LogConfig(segment_index_bytes=1200, index_interval_bytes=100, retention_ms=-1)
BATCHES = 2 * BATCHES_KEPT
COUNT = 2
"""Records of a batch."""
PRODUCERS = (1, 2)


def send(log: PartitionLog, producer: int, number: int) -> int:
    """Send a batch of a producer, and return the first offset of the answer."""
    data = data_batch(producer, 0, number * COUNT, COUNT).data
    return log.append_as_leader(bytearray(data), 0, NOW).first_offset


def log_with_batches() -> tuple[Machine, PartitionLog, dict[tuple[int, int], int]]:
    """Two producers by turns, records of none between them; the offsets of their batches."""
    machine = Machine(config=CONFIG)
    log = machine.open()
    offsets = {}
    for number in range(BATCHES):
        for producer in PRODUCERS:
            offsets[producer, number] = send(log, producer, number)
        log.append_as_leader(batch(), 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    return machine, log, offsets


def opened_after_a_stop(machine: Machine, log: PartitionLog) -> PartitionLog:
    log.close()
    return PartitionLog.open(machine.files, DIRECTORY, CONFIG, Opening(NOW, is_clean=True))


def opened_after_a_kill(machine: Machine, log: PartitionLog) -> PartitionLog:
    """Behind a roll, whose snapshot is all that is left of the first segment."""
    log.rolling.roll(NOW)
    log.append_as_leader(batch(), 0, NOW)
    log.flush()
    machine.persist_points()
    machine.kill()
    return machine.open()


def cut_to_a_snapshot(machine: Machine, log: PartitionLog) -> PartitionLog:
    log.rolling.roll(NOW)
    end = log.log_end_offset
    for producer in PRODUCERS:
        send(log, producer, BATCHES)
    log.truncate_to(end)
    assert log.log_end_offset == end
    return log


Way = Callable[[Machine, PartitionLog], PartitionLog]
WAYS: list[Way] = [opened_after_a_stop, opened_after_a_kill, cut_to_a_snapshot]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_last_batches_are_known_again(way: Way) -> None:
    machine, log, offsets = log_with_batches()
    log = way(machine, log)
    end = log.log_end_offset

    for number in range(BATCHES - BATCHES_KEPT, BATCHES):
        for producer in PRODUCERS:
            assert send(log, producer, number) == offsets[producer, number]
    assert log.log_end_offset == end, "none is written again"
    with pytest.raises(KafkaError) as raised:
        send(log, 1, BATCHES - BATCHES_KEPT - 1)
    assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 1, BATCHES) == end, "the next batch follows"


def test_batches_of_an_older_epoch_are_not() -> None:
    machine, log, _ = log_with_batches()
    data = data_batch(1, 1, 0, COUNT).data
    first = log.append_as_leader(bytearray(data), 0, NOW).first_offset
    log = opened_after_a_stop(machine, log)

    assert log.append_as_leader(bytearray(data), 0, NOW).first_offset == first
    assert len(log.producers.entries[1].batches) == 1
    with pytest.raises(KafkaError) as raised:
        send(log, 1, BATCHES - 1)
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_log_that_was_not_written_to_for_long_is_not_read_for_it() -> None:
    machine, log, _ = log_with_batches()
    log.close()
    opening = Opening(NOW + 3_600_000, is_clean=True)

    log = PartitionLog.open(machine.files, DIRECTORY, CONFIG, opening)

    assert len(log.producers.entries[1].batches) == 1
