"""Which log files stay open: those that were used last, as many as the limit says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.appended import Owner
from moldau.broker.log.file_pool import IDLE_MS, FilePool
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.recovery import Opening
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import Node
from tests.broker.log.keeping import simulate
from tests.broker.log.machine import batch

SMALL_SEGMENTS = LogConfig(segment_bytes=600, segment_index_bytes=600, index_interval_bytes=60)


class Holder:
    """A holder that counts its uses."""

    def __init__(self, pool: FilePool) -> None:
        self.pool = pool
        self.uses = 0
        self.is_open = False

    def use(self) -> None:
        self.uses += 1
        self.pool.make_room()
        if not self.is_open:
            self.is_open = True
            self.pool.admit(self)

    def activity(self) -> int:
        return self.uses

    def release_files(self) -> None:
        self.is_open = False
        self.pool.discard(self)


def test_the_files_that_nobody_used_are_closed_after_a_while() -> None:
    pool = FilePool()
    idle, busy = Holder(pool), Holder(pool)
    pool.release_idle(1_000)
    idle.use()
    busy.use()
    open_after = []
    for now_ms in (IDLE_MS, 1_000 + IDLE_MS, 1_000 + 2 * IDLE_MS):
        if now_ms == IDLE_MS:
            busy.use()
        pool.release_idle(now_ms)
        open_after.append((idle.is_open, busy.is_open))
    assert open_after == [(True, True), (False, True), (False, False)]
    assert pool.count == 0


def test_what_was_used_since_it_was_opened_stays_longer() -> None:
    pool = FilePool(3)
    busy, other, third = (Holder(pool) for _ in range(3))
    for each in (busy, other, third):
        each.use()
    for _ in range(10):
        busy.use()
        Holder(pool).use()
    assert busy.is_open
    assert not other.is_open
    assert not third.is_open


@given(st.lists(st.integers(0, 19), max_size=200), st.integers(1, 8))
def test_the_pool_knows_the_open_holders_and_keeps_to_its_limit(uses: list[int], most: int) -> None:
    pool = FilePool(most)
    holders = [Holder(pool) for _ in range(20)]
    for each in uses:
        holders[each].use()
        assert holders[each].is_open
        assert sum(holder.is_open for holder in holders) == pool.count <= most + 1


def test_many_logs_of_many_segments_share_few_files() -> None:
    """Written, read and closed in turn with 4 files, they hold what logs with all files hold."""

    async def main(runtime: Runtime, node: Node) -> None:
        pool = FilePool(4)
        now_ms = runtime.clock.wall_ms()

        def opened(number: int) -> PartitionLog:
            path = f"/logs/orders-{number}"
            opening = Opening(now_ms)
            return PartitionLog.open(
                runtime.files, path, SMALL_SEGMENTS, opening, Owner(files=pool)
            )

        logs = [opened(number) for number in range(12)]
        assert pool.count == 0, "a log that is not used has no file open"
        for round in range(40):
            for log in logs:
                log.append_as_leader(batch(), 0, now_ms + round)
                log.update_high_watermark(log.log_end_offset)
                assert pool.count <= 4 + 3
            if round % 9 == 8:
                for log in logs:
                    log.flush()
        assert len(logs[0].segments) > 5
        for log in logs:
            read = list(log.batches(0))
            assert [each.header.base_offset for each in read] == list(
                range(0, log.log_end_offset, read[0].header.record_count)
            )
            for offset in range(0, log.log_end_offset, 7):
                part = log.read(offset, 1 << 20)
                assert len(part.read()) == len(part) > 0
                assert pool.count <= 4 + 3
            end = log.read(log.log_end_offset, 1 << 20)
            assert (len(end), end.read(), end.fileno()) == (0, b"", None)
        ends = [log.log_end_offset for log in logs]
        for log in logs[:6]:
            log.close()
        for log in logs[6:]:
            log.abandon()
        assert pool.count == 0
        assert [opened(number).log_end_offset for number in range(12)] == ends

    simulate(main)


def test_a_slice_outlives_the_open_file_of_its_segment() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        pool = FilePool(1)
        now_ms = runtime.clock.wall_ms()
        log = PartitionLog.open(
            runtime.files, "/logs/orders-0", SMALL_SEGMENTS, Opening(now_ms), Owner(files=pool)
        )
        log.append_as_leader(batch(), 0, now_ms)
        part = log.read(0, 1 << 20)
        before = part.read()
        log.segments.release_files()
        assert part.read() == before
        log.append_as_leader(batch(), 0, now_ms)
        assert log.read(0, 1 << 20).read()[: len(before)] == before
        log.configure(SMALL_SEGMENTS)
        log.segments.release_files()
        log.configure(SMALL_SEGMENTS)
        log.append_as_leader(batch(), 0, now_ms)
        log.close()

    simulate(main)
