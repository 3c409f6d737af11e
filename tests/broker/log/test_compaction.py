"""Rounds of cleaning over whole logs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moldau.broker.log.compaction import Compaction, Replacement
from moldau.broker.log.compaction_choice import CompactionPolicy
from moldau.broker.log.compaction_offsets import SLOT_BYTES, OffsetMap
from moldau.broker.log.log import Owner, PartitionLog
from moldau.broker.log.recovery import Opening
from moldau.errors import CorruptRecord
from moldau.records import ControlType
from moldau.runtime.simulated.incarnation import NodeKilled
from tests import suites
from tests.broker.log.cleaning import (
    CONFIG,
    DAY_MS,
    Writer,
    clean,
    committed,
    facts,
    folded,
    job_of,
    markers_of,
    newest,
    open_log,
    pairs_of,
    put_in_place,
    random_work,
    records_of,
)
from tests.broker.log.producing import NOW
from tests.broker.log.simulated_node import SimulatedNode


@pytest.fixture
def writer() -> Writer:
    made = Writer(open_log(SimulatedNode().files))
    made.log.state.is_everywhere = True
    return made


def test_of_each_key_the_newest_record_stays(writer: Writer) -> None:
    writer.write(("a", "1"), ("b", "1"), ("a", "2"))
    writer.write(("b", "2"), ("c", "1"))
    writer.roll()
    writer.write(("a", "3"))
    compaction = clean(writer.log, NOW)
    assert pairs_of(writer.log) == [(2, "a", "2"), (3, "b", "2"), (4, "c", "1"), (5, "a", "3")]
    assert compaction.end_offset == 5
    assert compaction.statistics.bytes_read > compaction.statistics.bytes_kept > 0


def test_records_without_key_go(writer: Writer) -> None:
    writer.log.configure(replace(CONFIG, is_compacted=False))
    writer.write((None, "1"), ("a", "1"), (None, None))
    writer.roll()
    writer.log.configure(CONFIG)
    clean(writer.log, NOW)
    assert pairs_of(writer.log) == [(1, "a", "1")]


def test_the_active_segment_is_not_touched(writer: Writer) -> None:
    writer.write(("a", "1"), ("a", "2"))
    clean(writer.log, NOW)
    assert len(pairs_of(writer.log)) == 2


def test_a_tombstone_stays_for_its_time_and_then_goes(writer: Writer) -> None:
    log = writer.log
    writer.write(("a", "1"), ("b", "1"))
    writer.write(("a", None))
    writer.roll()
    first = clean(log, NOW + 7)
    assert pairs_of(log) == [(1, "b", "1"), (2, "a", None)]
    horizons = [batch.header.delete_horizon_ms for batch in log.batches(0)]
    assert horizons == [None, NOW + 7 + DAY_MS]
    for now, left in ((NOW + 6 + DAY_MS, 2), (NOW + 7 + DAY_MS, 1)):
        clean(log, now, cleaned_offset=first.end_offset)
        assert len(pairs_of(log)) == left
    assert pairs_of(log) == [(1, "b", "1")]


def test_a_log_without_word_of_its_replicas_keeps_tombstones() -> None:
    writer = Writer(open_log(SimulatedNode().files))
    writer.write(("a", None))
    writer.roll()
    for now in (NOW, NOW + DAY_MS, NOW + 2 * DAY_MS):
        clean(writer.log, now)
    assert pairs_of(writer.log) == [(0, "a", None)]


def test_a_tombstone_still_deletes_what_older_segments_hold(writer: Writer) -> None:
    writer.write(("a", "1"))
    writer.roll()
    first = clean(writer.log, NOW)
    writer.write(("a", None))
    writer.roll()
    clean(writer.log, NOW, cleaned_offset=first.end_offset)
    assert pairs_of(writer.log) == [(1, "a", None)]


def test_aborted_records_go_and_do_not_hide_older_ones(writer: Writer) -> None:
    log = writer.log
    writer.write(("a", "1"))
    writer.write(("a", "2"), producer=1, transactional=True)
    marker = writer.end(1, abort=True)
    writer.write(("z", "1"), producer=1)
    writer.roll()
    clean(log, NOW)
    assert pairs_of(log) == [(0, "a", "1"), (3, "z", "1")]
    assert [each.offset for each in markers_of(log)] == [marker]
    first = log.segments[0].transaction_index.all()
    assert [(each.first_offset, each.last_offset) for each in first] == [(1, 2)]


def test_a_marker_goes_when_its_transaction_and_its_time_are_over(writer: Writer) -> None:
    log = writer.log
    for abort in (False, True):
        writer.write(("a", "1"), producer=1, transactional=True)
        writer.end(1, abort=abort)
    writer.write(("a", "2"), producer=1)
    writer.roll()
    seen = []
    for now in (NOW, NOW, NOW + DAY_MS - 1, NOW + DAY_MS):
        cleaned = clean(log, now)
        seen.append([each.type for each in markers_of(log)])
    # The first two rounds still find batches: the records of one, an emptied one of the other.
    assert seen[0] == [ControlType.COMMIT, ControlType.ABORT]
    assert seen[-1] == []
    assert all(not each.transaction_index.all() for each in log.segments)
    assert cleaned.end_offset == log.log_end_offset


def test_an_aborted_transaction_over_segments_is_cleaned_as_a_whole(writer: Writer) -> None:
    log = writer.log
    writer.write(("a", "0"))
    writer.write(("a", "1"), producer=1, transactional=True)
    writer.roll()
    writer.write(("b", "1"), producer=1, transactional=True)
    writer.write(("b", "2"), producer=2)
    writer.roll()
    writer.end(1, abort=True)
    writer.roll()
    clean(log, NOW)
    assert pairs_of(log) == [(0, "a", "0"), (3, "b", "2")]


def test_an_open_transaction_holds_the_cleaner_back(writer: Writer) -> None:
    log = writer.log
    writer.write(("a", "1"), ("a", "2"))
    writer.roll()
    writer.write(("a", "3"), producer=1, transactional=True)
    writer.roll()
    writer.write(("a", "4"))
    writer.roll()
    assert clean(log, NOW).end_offset == 2
    assert pairs_of(log) == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]


def test_each_new_segment_ends_where_the_old_ones_did(writer: Writer) -> None:
    log = writer.log
    for index in range(12):
        writer.write(("a", f"{index}" * 80), producer=1, transactional=True)
        writer.roll()
        writer.end(1, abort=index % 2 == 0)
    writer.roll()
    ends = {segment.next_offset for segment in log.segments}
    clean(log, NOW)
    assert len(log.segments) > 3
    assert {segment.next_offset for segment in log.segments} <= ends
    nobodys = [batch for batch in log.batches(0) if not batch.header.has_producer_id]
    assert nobodys
    for batch in nobodys:
        batch.check_crc()
        assert (batch.header.record_count, batch.header.attributes) == (0, 0)


def test_an_earlier_abort_of_the_same_producer_is_not_this_one(writer: Writer) -> None:
    log = writer.log
    writer.write(("a", "0"))
    writer.write(("a", "1"), producer=1, transactional=True)
    writer.end(1, abort=True)
    writer.roll()
    first = clean(log, NOW)
    writer.write(("a", "2"), producer=1, transactional=True)
    writer.end(1)
    writer.roll()
    clean(log, NOW, cleaned_offset=first.end_offset)
    assert pairs_of(log) == [(3, "a", "2")]


def test_the_last_batch_of_each_producer_stays_be_it_empty(writer: Writer) -> None:
    log = writer.log
    writer.write(("a", "1"), ("a", "2"), producer=1)
    writer.write(("a", "3"), producer=2)
    writer.write(("a", "4"))
    writer.roll()
    clean(log, NOW)
    headers = [(each.header.producer_id, each.header.record_count) for each in log.batches(0)]
    assert headers == [(1, 0), (2, 0), (-1, 1)]
    log.close()
    again = open_log(log.files, cleaned_offset=4)
    assert [again.producers.entries[each].last_sequence for each in (1, 2)] == [1, 0]


def test_small_neighbours_become_one_segment(writer: Writer) -> None:
    log = writer.log
    for index in range(8):
        writer.write((f"k{index}", "v"))
        writer.roll()
    writer.write(("k0", "w"))
    writer.roll()
    assert len(log.segments) == 10
    clean(log, NOW)
    assert len(log.segments) == 3
    assert [record.offset for record in records_of(log)] == list(range(1, 9))


def test_a_full_map_leaves_the_rest_for_the_next_round(writer: Writer) -> None:
    log = writer.log
    for index in range(20):
        writer.write((f"k{index % 10}", f"{index}"))
        writer.roll()
    cleaned = None
    rounds = 0
    while cleaned is None or cleaned < log.log_end_offset:
        before = cleaned or 0
        compaction = clean(log, NOW, cleaned_offset=cleaned, memory_bytes=6 * SLOT_BYTES)
        cleaned = compaction.end_offset
        assert before < cleaned
        rounds += 1
    assert rounds == 4
    assert [record.offset for record in records_of(log)] == list(range(10, 20))


def test_a_batch_larger_than_the_map_is_taken_anyway(writer: Writer) -> None:
    writer.write(*((f"k{index % 15}", "v") for index in range(30)))
    writer.roll()
    assert clean(writer.log, NOW, memory_bytes=SLOT_BYTES).end_offset == 30
    assert len(records_of(writer.log)) == 15


def test_damage_ends_the_round_and_is_not_given_a_right_checksum() -> None:
    node = SimulatedNode()
    log = open_log(node.files)
    writer = Writer(log)
    writer.write(("a", "1"), ("a", "2"))
    writer.roll()
    node.disk.rot("/p/t-0/00000000000000000000.log", 8 * 65)
    before = pairs_of_raw(log)
    job = job_of(log)
    compaction = Compaction(job, OffsetMap(1024), NOW)
    with pytest.raises(CorruptRecord):
        list(compaction.steps())
    compaction.abandon()
    assert pairs_of_raw(log) == before
    assert not [name for name in node.files.list("/p/t-0") if name.endswith(".cleaned")]


def test_damage_in_the_clean_part_is_found_as_well() -> None:
    node = SimulatedNode()
    log = open_log(node.files)
    writer = Writer(log)
    writer.write(("a", "1"), ("a", "2"))
    writer.roll()
    first = clean(log, NOW)
    last_bit = 8 * log.segments[0].size_bytes - 1  # of a header's value: only the checksum tells
    node.disk.rot("/p/t-0/00000000000000000000.log", last_bit)
    writer.write(("a", "3"))
    writer.roll()
    with pytest.raises(CorruptRecord):
        clean(log, NOW, cleaned_offset=first.end_offset)


def pairs_of_raw(log: PartitionLog) -> list[bytes]:
    return [bytes(batch.data) for batch in log.batches(0)]


def test_what_left_the_log_meanwhile_is_not_replaced(writer: Writer) -> None:
    log = writer.log
    writer.write(("a", "1"), ("a", "2"))
    writer.roll()
    job = job_of(log)
    steps = Compaction(job, OffsetMap(1024), NOW).steps()
    replacement = next(step for step in steps if isinstance(step, Replacement))
    log.truncate_fully_and_start_at(9)
    assert not put_in_place(log, replacement, NOW)
    assert not [name for name in log.files.list("/p/t-0") if name.endswith(".cleaned")]


@pytest.mark.parametrize("seed", range(60))
def test_whatever_was_written_a_reader_ends_up_with_the_same(seed: int) -> None:
    random = Random(seed)
    log = open_log(SimulatedNode(seed).files)
    writer = random_work(log, random, 60)
    kept_ms = random.choice((0, DAY_MS))
    policy = CompactionPolicy(min_cleanable_dirty_ratio=0.0, delete_retention_ms=kept_ms)
    cleaned = None
    for _ in range(3):
        before = {record.offset: record for record in records_of(log)}
        table = newest(committed(log))
        producers = facts(log.producers.entries)
        memory = random.choice((20 * SLOT_BYTES, 1 << 16))
        compaction = clean(
            log, writer.now_ms, cleaned_offset=cleaned, policy=policy, memory_bytes=memory
        )
        cleaned = compaction.end_offset
        left = records_of(log)
        assert [each.offset for each in left] == sorted(each.offset for each in left)
        assert all(before[each.offset] == each for each in left)
        assert newest(committed(log)) == table
        assert folded(log) == producers
        writer.now_ms += 1
        random_work_on(writer, random)


def lived_through(seed: int, operations: int | None, *, loses_power: bool) -> bool:
    """A round that ends with the process after so many operations of the disk; whether it did.

    Afterwards a start must find what there was: the same newest records and the same producers.
    """
    node = SimulatedNode(seed)
    random = Random(seed)
    points: list[int] = []
    owner = Owner(persist_points=lambda: points.append(log.recovery_point))
    log = open_log(node.files, owner=owner)
    writer = random_work(log, random, 40)
    log.flush()
    points.append(log.recovery_point)
    log.state.persisted_recovery_point = log.recovery_point
    log.update_high_watermark(log.log_end_offset)
    before, producers = newest(committed(log)), facts(log.producers.entries)
    stable = log.last_stable_offset
    node.die_after(operations)
    died = False
    try:
        clean(log, writer.now_ms)
    except NodeKilled:
        died = True
    if loses_power:
        node.power_loss()
    else:
        node.kill()
    opening = Opening(now_ms=writer.now_ms, recovery_point=points[-1], high_watermark=stable)
    again = PartitionLog.open(node.files, "/p/t-0", CONFIG, opening)
    again.update_high_watermark(again.log_end_offset)
    assert newest(committed(again)) == before
    assert facts(again.producers.entries) == producers
    assert again.log_end_offset == log.log_end_offset
    left = [name for name in node.files.list("/p/t-0") if name.endswith((".cleaned", ".swap"))]
    assert not left
    clean(again, writer.now_ms)
    assert newest(committed(again)) == before
    return died


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("seed", suites.seeds(range(6), quick=3))
def test_a_crash_at_any_moment_loses_nothing(seed: int, loses_power: bool) -> None:
    operations = 1
    while lived_through(seed, operations, loses_power=loses_power):
        operations += 1 + operations // 12
    assert operations > 60


def random_work_on(writer: Writer, random: Random) -> None:
    for _ in range(random.randrange(10)):
        writer.write((f"k{random.randrange(12)}", random.choice((None, "new"))))
    writer.roll()
