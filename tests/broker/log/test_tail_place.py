"""The last batch is found where it was written, whatever happened to its segment."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.scan import FoundBatch, find_batch
from moldau.records import stamp
from tests.broker.log.machine import NOW, SMALL, Machine, batch

ROOMY = replace(SMALL, segment_bytes=100_000, index_interval_bytes=200, segment_index_bytes=10_000)
STEPS = ("append", "append", "append", "follow", "skip", "truncate", "reopen", "crash", "roll")


def walked(log: PartitionLog, offset: int) -> FoundBatch | None:
    """By looking at every batch from the beginning of its segment."""
    segment = log.segments[log.segments.index_of(offset)]
    return find_batch(segment.log_file.source(), 0, offset, segment.size_bytes)


def step(machine: Machine, log: PartitionLog, what: str, number: int) -> PartitionLog:
    end = log.log_end_offset
    if what == "append":
        log.append_batch(memoryview(batch(number % 4 + 1)), 0, NOW)
    elif what in ("follow", "skip"):  # a compacted log has holes, and so has its follower
        data = bytearray()
        for each in range(number % 3 + 1):
            one = batch(2)
            stamp(one, end + 2 * each + (5 * each + 5 if what == "skip" else 0), 0)
            data += one
        log.append_as_follower(data, NOW)
    elif what == "truncate":
        log.truncate_to(max(0, end - number))
    elif what == "roll":
        log.rolling.roll(NOW)
    else:
        if what == "reopen":
            log.close()
        else:
            machine.kill()
        return machine.open(is_clean=what == "reopen")
    return log


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9)), max_size=25))
def test_every_offset_is_found_where_a_walk_finds_it(steps: list[tuple[str, int]]) -> None:
    machine = Machine(config=ROOMY)
    log = machine.open()
    for what, number in steps:
        log = step(machine, log, what, number)
        end = log.log_end_offset
        for offset in {*range(max(0, end - 12), end), 0} - {end}:
            segment = log.segments[log.segments.index_of(offset)]
            assert segment.find(offset) == walked(log, offset), (what, offset)
        assert log.segments.active.find(end) is None
    log.close()


def test_the_last_batch_is_found_without_a_look_at_the_file() -> None:
    log = Machine(config=ROOMY).open()
    for _ in range(5):
        log.append_batch(memoryview(batch()), 0, NOW)
    segment = log.segments.active
    log.close()  # neither log nor index can be read any more
    for offset in (12, 13, 14):
        found = segment.find(offset)
        assert found is not None
        assert (found.base_offset, found.last_offset) == (12, 14)
        assert found.position + found.size_bytes == segment.size_bytes
