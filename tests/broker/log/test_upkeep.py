"""The periodic work: that it is done, when, in which order, and what a bad disk means to it."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_settings import UpkeepOptions
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.rounds import rest
from moldau.records import Producer
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import Node
from tests.broker.log.keeping import PATHS, UPKEEP, Keeper, simulate
from tests.broker.log.machine import SMALL, batch

T = TopicPartition("t", 0)


def fill(keeper: Keeper, log: PartitionLog, count: int = 12) -> None:
    """Batches of now, replicated."""
    now_ms = keeper.runtime.clock.wall_ms()
    for _ in range(count):
        log.append_as_leader(batch(timestamp=now_ms), 0, now_ms)
    log.update_high_watermark(log.log_end_offset)


def said(keeper: Keeper, name: str, path: str = "/a") -> int | None:
    return read_offsets(keeper.runtime.files, f"{path}/{name}").get(T)


def test_what_is_too_old_goes_and_its_files_after_it() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        config = replace(SMALL, retention_ms=15_000, file_delete_delay_ms=5_000)
        log = keeper.log("t", config)
        fill(keeper, log)
        keeper.upkeep.start(UPKEEP)
        await rest(10.5)
        assert log.log_start_offset == 0, "too young in the first round"
        await rest(20)
        assert log.log_start_offset == log.log_end_offset == 36
        assert said(keeper, names.LOG_STARTS) == 36
        listed = runtime.files.list("/a/t-0")
        assert any(name.endswith(".log.deleted") for name in listed)
        await rest(7)
        left = [each for each in runtime.files.list("/a/t-0") if ".log" in each]
        assert left == [f"{36:020d}.log"]
        assert any("let go of old segments" in line for line in keeper.lines)
        await keeper.aclose()

    simulate(main)


def test_a_sweep_makes_one_call_for_each_log_without_work() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper, count, calls = Keeper.open(runtime), 40, 0
        for number in range(count):
            keeper.log(f"t{number}", SMALL)
        await keeper.upkeep._sweep()  # makes the names durable

        def note(frame: FrameType, event: str, _: Any) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await keeper.upkeep._sweep()
        finally:
            sys.setprofile(before)
        assert count <= calls < 2 * count
        await keeper.aclose()

    simulate(main)


def test_time_makes_a_flush_due_whatever_the_scheduler_says() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        quiet = keeper.log("quiet", replace(SMALL, segment_bytes=1 << 20))
        log = keeper.log("t", replace(SMALL, segment_bytes=1 << 20, flush_ms=5_000))
        keeper.upkeep.start(UPKEEP)
        fill(keeper, log, 1)
        fill(keeper, quiet, 1)
        await rest(4.9)
        assert log.flushed_end_offset == 0
        await rest(1.2)
        assert log.flushed_end_offset == 3
        assert quiet.flushed_end_offset == 0
        await keeper.aclose()

    simulate(main)


def test_a_full_segment_is_made_durable_soon() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = keeper.log("t")
        keeper.upkeep.start(UPKEEP)
        fill(keeper, log)
        assert log.recovery_point == 0
        await rest(2.5)  # the epochs' file is durable with the second flush
        assert log.recovery_point == log.segments.active.base_offset > 0
        await keeper.aclose()

    simulate(main)


def test_points_and_high_watermarks_are_written_at_their_intervals() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = keeper.log("t")
        fill(keeper, log)
        keeper.upkeep.start(UPKEEP)
        await rest(4.5)
        assert said(keeper, names.HIGH_WATERMARKS) is None
        await rest(1)
        assert said(keeper, names.HIGH_WATERMARKS) == 36
        assert said(keeper, names.RECOVERY_POINTS) is None
        await rest(6)
        assert said(keeper, names.RECOVERY_POINTS) == log.persisted_recovery_point > 0
        fill(keeper, log)
        await rest(30)
        assert log.persisted_recovery_point < log.recovery_point
        # Other intervals count at once.
        keeper.upkeep.configure(UpkeepOptions(points_interval=1000))
        await rest(1.5)
        assert log.persisted_recovery_point == log.recovery_point
        await keeper.aclose()

    simulate(main)


def test_a_deleted_log_frees_its_room() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        fill(keeper, keeper.log("t"))
        keeper.upkeep.start(UPKEEP)
        used = node.disk.used_bytes()
        keeper.directories.directories[0].partitions.delete(T, bytes(16), runtime.clock.wall_ms())
        await rest(3)
        assert [name for name in runtime.files.list("/a") if name.startswith("t-0")] == []
        assert node.disk.used_bytes() < used
        await keeper.aclose()

    simulate(main)


def test_producers_that_were_idle_for_long_are_forgotten() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = keeper.log("t", replace(SMALL, producer_expiration_ms=10_000))
        now_ms = runtime.clock.wall_ms()
        log.append_as_leader(batch(timestamp=now_ms, producer=Producer(5, 0, 0)), 0, now_ms)
        keeper.upkeep.start(replace(UPKEEP, producers_interval=6_000))
        await rest(7)
        assert 5 in log.producers.entries
        await rest(6)
        assert not log.producers.entries
        await keeper.aclose()

    simulate(main)


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        ("sync", "/a/t-0/0000"),
        ("write", "/a/recovery-point"),
        ("sync", "/a/replication-offset"),
        ("write", ".deleted"),
    ],
)
def test_a_disk_that_refuses_ends_one_directory_and_not_the_work(operation: str, part: str) -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        config = replace(SMALL, retention_ms=15_000, file_delete_delay_ms=0)
        bad, good = keeper.log("t", config), keeper.log("u", config, "/b")
        for log in (bad, good):
            fill(keeper, log)
        node.disk.fail_next(operation, path_part=part)  # type: ignore[arg-type]
        keeper.upkeep.start(UPKEEP)
        await rest(60)
        if operation == "sync" and part.endswith("offset"):
            # Names that cannot be made durable end the whole journal.
            assert keeper.directories.directories[0].failure is not None
        else:
            assert [each.path for each in keeper.directories.in_service()] == ["/b"]
            fill(keeper, good)
            await rest(100)
            assert good.log_start_offset == 72
            assert good.persisted_recovery_point == 72
        await keeper.aclose()

    simulate(main)


def test_both_directories_are_kept() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        for topic, path in zip("tu", PATHS, strict=True):
            fill(keeper, keeper.log(topic, path=path))
        keeper.upkeep.start(UPKEEP)
        await rest(15)
        for path in PATHS:
            marks = read_offsets(runtime.files, f"{path}/{names.HIGH_WATERMARKS}")
            assert list(marks.values()) == [36]
        await keeper.aclose()
        keeper.directories.close()

    simulate(main)
