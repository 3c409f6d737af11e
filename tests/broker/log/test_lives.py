"""What a log was, and what became of it: points, marks and marks of order outlive a life, and must
be true of the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.gaplessness import gapless_from, move_mark
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.names import INDEX, TIME_INDEX, TopicPartition
from moldau.broker.log.offset_lookup import OffsetAt
from moldau.broker.log.producer_state import Origin
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.records import Producer, encode_batch
from tests.broker.log.cleaning import clean, open_log
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, batch, contents
from tests.broker.log.producing import marker_batch

T = TopicPartition("t", 0)
TOPIC_ID = bytes(15) + b"\x07"
MANY_INDEX_ENTRIES = replace(SMALL, index_interval_bytes=100)
FAR = 1 << 31


def opened(machine: Machine, config: LogConfig = MANY_INDEX_ENTRIES) -> LogDirectory:
    directory = LogDirectory.open(machine.files, "/a")
    directory.load(lambda partition, topic_id: config, NOW)
    return directory


def filled(machine: Machine) -> list[int]:
    """A log that ended in order; where its segments begin."""
    directory = opened(machine)
    log = directory.partitions.create(T, TOPIC_ID, MANY_INDEX_ENTRIES, NOW)
    while len(log.segments) < 4 or log.segments.active.size_bytes < 600:
        log.append_as_leader(batch(3), 0, NOW)
    directory.cleaned_offsets[T] = log.log_end_offset
    bases = [each.base_offset for each in log.segments]
    directory.close()
    machine.kill()
    return bases


def damage(machine: Machine, base: int) -> None:
    path = f"/a/t-0/{base:020d}.log"
    data = machine.disk.contents(path)
    machine.disk.put(path, data[:200] + bytes(len(data) - 200))


@pytest.mark.parametrize("seed", range(10))
def test_what_was_recovered_though_it_had_ended_in_order_is_durable_when_it_ends_again(
    seed: int,
) -> None:
    machine = Machine(seed)
    bases = filled(machine)
    machine.lose_power()
    damage(machine, bases[-1])
    directory = opened(machine)
    log = directory.logs[T]
    expected, end = contents(log), log.log_end_offset
    directory.close()
    machine.lose_power()
    directory = opened(machine)
    assert directory.was_clean
    log = directory.logs[T]
    assert (contents(log), log.log_end_offset) == (expected, end)


def test_how_far_a_log_was_cleaned_is_forgotten_when_it_ends_before() -> None:
    """What is written there now was never looked at."""
    machine = Machine()
    bases = filled(machine)
    damage(machine, bases[-1])
    directory = opened(machine)
    assert bases[-1] <= directory.logs[T].log_end_offset
    assert T not in directory.cleaned_offsets


def test_a_mark_that_is_made_is_the_only_one() -> None:
    """A loss of power brings back one whose removal was not durable."""
    machine = Machine()
    machine.open()
    machine.disk.put(f"{DIRECTORY}/gapless-from-{6:020d}.deleted", b"")
    move_mark(machine.files, DIRECTORY, 9)
    assert gapless_from(machine.files.list(DIRECTORY)) == 9


def test_cleaning_makes_no_gap_of_offsets_that_are_far_apart() -> None:
    """A batch has place for 2**31 offsets, so what is farther from what stays before it goes to a
    segment of its own."""
    machine = Machine()
    log = open_log(machine.files)

    def put(base: int, key: bytes, value: bytes) -> None:
        made = encode_batch([(NOW, key, value, ())], base, leader_epoch=0)
        log.append_as_follower(made, NOW)
        log.update_high_watermark(log.log_end_offset)

    put(0, b"a", b"1")
    put(1, b"b", b"old")
    log.rolling.roll(NOW)
    put(FAR - 100, b"b", b"older")
    log.rolling.roll(NOW)
    put(FAR + 50, b"b", b"new")
    put(FAR + 51, b"c", b"3")
    log.rolling.roll(NOW)
    put(FAR + 52, b"d", b"4")
    log.flush()
    clean(log, NOW)
    expected = pairs(log)
    assert expected.keys() == set(b"a b c d".split())
    machine.kill()
    assert pairs(open_log(machine.files, cleaned_offset=FAR + 52)) == expected


def pairs(log: PartitionLog) -> dict[bytes | None, tuple[int, bytes | None]]:
    batches = log.batches(log.log_start_offset)
    return {each.key: (each.offset, each.value) for it in batches for each in it.records()}


def test_what_was_forgotten_of_cleaning_stays_forgotten_when_the_log_has_grown() -> None:
    machine = Machine()
    bases = filled(machine)
    damage(machine, bases[-1])
    log = opened(machine).logs[T]
    for _ in range(20):
        log.append_as_leader(batch(3), 0, NOW)
    log.flush()
    machine.kill()
    assert T not in opened(machine).cleaned_offsets


@pytest.mark.parametrize("ends_in_order", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_nothing_vouches_for_indexes_that_recovery_made_anew(
    seed: int, *, ends_in_order: bool
) -> None:
    machine = Machine(seed)
    directory = opened(machine)
    log = directory.partitions.create(T, TOPIC_ID, MANY_INDEX_ENTRIES, NOW)
    for number in range(20):
        producer = Producer(7, 0, 2 * number, True)
        log.append_as_leader(batch(2, producer=producer), 0, NOW)
        marker = marker_batch(7, 0, abort=True, timestamp=NOW)
        log.append_as_leader(marker.data, 0, NOW, origin=Origin.COORDINATOR)
    expected = aborted(log)
    directory.close()
    machine.lose_power()
    machine.disk.put("/a/t-0/leader-epoch-checkpoint", b"0\n1\n")
    directory = opened(machine)
    if ends_in_order:
        directory.close()
    machine.lose_power()
    assert aborted(opened(machine).logs[T]) == expected


def aborted(log: PartitionLog) -> list[AbortedTransaction]:
    return [each for segment in log.segments for each in segment.transaction_index.all()]


@pytest.mark.parametrize("ends_in_order", [False, True])
@pytest.mark.parametrize("number", [1, -1])
@pytest.mark.parametrize("kind", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("seed", range(10, 30))
def test_an_index_that_was_made_anew_is_durable_at_once(
    seed: int, kind: str, number: int, *, ends_in_order: bool
) -> None:
    """The newest record is not the last one, so nothing but the time index knows of it."""
    config = replace(MANY_INDEX_ENTRIES, segment_bytes=2700, segment_index_bytes=600)
    machine = Machine(seed)
    directory = opened(machine, config)
    log = directory.partitions.create(T, TOPIC_ID, config, NOW)
    for each in range(60):
        is_newest = each == 47
        log.append_as_leader(batch(2, timestamp=NOW + (5000 if is_newest else 10 * each)), 0, NOW)
    assert len(log.segments) > 2
    assert log.segments.active.base_offset <= 2 * 47
    expected = times(log)
    path = log.segments[number].path(kind)
    directory.close()
    machine.lose_power()
    machine.disk.drop(path)
    for _ in range(2):
        directory = opened(machine, config)
        assert times(directory.logs[T]) == expected
        if ends_in_order:
            directory.close()
        machine.lose_power()


def times(log: PartitionLog) -> list[OffsetAt | None]:
    return [log.reading.find_offset(NOW + each) for each in (*range(0, 600, 10), 5000)]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_no_offset_is_given_twice_where_a_log_is_shorter_than_its_time_index(lost: int) -> None:
    """Cut between two batches, behind the last that the offset index has."""
    config = replace(SMALL, segment_bytes=60_000, index_interval_bytes=1000)
    machine = Machine()
    directory = opened(machine, config)
    log = directory.partitions.create(T, TOPIC_ID, config, NOW)
    for number in range(23):
        log.append_as_leader(batch(10, size=4, timestamp=NOW + 100 * number), 0, NOW)
    segment = log.segments.active
    path, ends = segment.log_path, [each.end for each in segment.batches()]
    directory.close()
    machine.kill()
    machine.disk.put(path, machine.disk.contents(path)[: ends[-1 - lost]])
    log = opened(machine, config).logs[T]
    for _ in range(3):
        log.append_as_leader(batch(1, size=800, timestamp=NOW + 10_000), 0, NOW)
    bases = [base for base, _ in contents(log)]
    assert bases == [*range(0, 230 - 10 * lost, 10), *range(230 - 10 * lost, 233 - 10 * lost)]


def test_no_offset_is_given_twice_where_a_log_is_shorter_than_its_index() -> None:
    machine = Machine()
    path = f"/a/t-0/{filled(machine)[-1]:020d}.log"
    data = machine.disk.contents(path)
    machine.disk.put(path, data[: 12 + int.from_bytes(data[8:12], "big")])
    log = opened(machine).logs[T]
    log.append_as_leader(batch(3), 0, NOW)
    bases = [base for base, _ in contents(log)]
    assert bases == list(range(0, log.log_end_offset, 3))
