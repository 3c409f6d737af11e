"""The cleaner by itself: which logs, how fast, how many, and what it leaves alone."""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random

import pytest

from moldau.broker.log import cleaner as cleaner_module
from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets
from moldau.broker.log.cleaner import Throttle
from moldau.broker.log.compaction import Compaction
from moldau.broker.log.compaction_choice import CompactionPolicy
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_settings import CleanerOptions
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.rounds import rest
from moldau.records import Codec, encode_batch
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import Node
from tests.broker.log.cleaning import Writer, committed, newest, random_work, records_of
from tests.broker.log.keeping import CLEANER, COMPACTED, Keeper, simulate

T = TopicPartition("t", 0)


def dirty(keeper: Keeper, topic: str = "t", seed: int = 1, path: str = "/a") -> PartitionLog:
    """A compacted log with much that can go."""
    log = keeper.log(topic, COMPACTED, path)
    random_work(log, Random(seed), 80)
    log.update_high_watermark(log.log_end_offset)
    return log


def stable_end(log: PartitionLog) -> int:
    """Where what can be cleaned ends: before the segment in which a transaction is open."""
    return log.segments[log.segments.index_of(log.last_stable_offset)].base_offset


def lines_with(keeper: Keeper, text: str) -> list[str]:
    return [line for line in keeper.lines if text in line]


def test_it_finds_what_is_dirty_and_notes_how_far_it_came() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = dirty(keeper)
        before, size = newest(committed(log)), log.size_bytes
        keeper.cleaner.start(CLEANER)
        await rest(0.9)
        assert log.size_bytes == size
        await rest(5)
        assert log.size_bytes < size / 2
        assert newest(committed(log)) == before
        end = stable_end(log)
        found = read_offsets(runtime.files, f"/a/{names.CLEANED_OFFSETS}")
        assert found == {T: end} == keeper.directories.directories[0].cleaned_offsets
        assert len(lines_with(keeper, "compacted a log")) == 1
        # Clean is clean: nothing is done again before something is new.
        reads = node.disk.used_bytes()
        await rest(60)
        assert node.disk.used_bytes() == reads
        assert len(lines_with(keeper, "compacted a log")) == 1
        await keeper.aclose()

    simulate(main)


def test_it_holds_itself_to_its_rate() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = dirty(keeper)
        size = log.size_bytes
        keeper.cleaner.start(replace(CLEANER, bytes_per_second_max=size / 100))
        began = runtime.clock.monotonic()
        while not lines_with(keeper, "compacted a log"):
            await rest(1)
        # Read twice (for keys, and to copy), and what stays is written.
        assert 180 < runtime.clock.monotonic() - began < 320
        await keeper.aclose()

    simulate(main)


def test_it_holds_nobody_up_while_the_disk_syncs() -> None:
    async def main(runtime: Runtime, node: Node) -> float:
        keeper = Keeper.open(runtime)
        dirty(keeper)
        node.disk.costs.sync_ns = 100_000_000
        keeper.cleaner.start(CLEANER)
        longest = 0.0
        while not lines_with(keeper, "compacted a log"):
            before = runtime.clock.monotonic()
            await rest(0.001)
            longest = max(longest, runtime.clock.monotonic() - before)
        await keeper.aclose()
        return longest

    assert simulate(main) < 0.1


@pytest.mark.parametrize("threads", [1, 3])
def test_so_many_at_the_same_time_and_never_one_log_twice(threads: int) -> None:
    async def main(runtime: Runtime, node: Node) -> int:
        keeper = Keeper.open(runtime)
        logs = [dirty(keeper, f"t{number}", number) for number in range(5)]
        expected = [newest(committed(log)) for log in logs]
        keeper.cleaner.start(replace(CLEANER, threads=threads, bytes_per_second_max=20_000.0))
        most = 0
        while len(lines_with(keeper, "compacted a log")) < 5:
            await rest(0.05)
            most = max(most, len(keeper.cleaner._busy))
        assert [newest(committed(log)) for log in logs] == expected
        assert not keeper.cleaner.uncleanable
        await keeper.aclose()
        return most

    assert simulate(main) == threads


def test_threads_come_and_go() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = dirty(keeper)
        size = log.size_bytes
        keeper.cleaner.start(replace(CLEANER, threads=0))
        await rest(30)
        assert log.size_bytes == size
        keeper.cleaner.configure(replace(CLEANER, threads=2))
        await rest(5)
        assert log.size_bytes < size
        keeper.cleaner.configure(replace(CLEANER, threads=0))
        other = dirty(keeper, "u")
        size = other.size_bytes
        await rest(30)
        assert other.size_bytes == size
        await keeper.aclose()

    simulate(main)


def test_a_damaged_log_is_set_aside_once_and_the_others_are_cleaned() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        bad, good = dirty(keeper), dirty(keeper, "good", 2)
        size, good_size = bad.size_bytes, good.size_bytes
        with runtime.files.open(bad.segments[0].log_path, "update") as file:
            file.write_at(100, bytes([file.read_at(100, 1)[0] ^ 1]))
        keeper.cleaner.start(CLEANER)
        await rest(60)
        assert list(keeper.cleaner.uncleanable) == [bad]
        assert (bad.size_bytes, good.size_bytes < good_size) == (size, True)
        (line,) = lines_with(keeper, "set aside")
        assert "partition=t-0" in line
        assert keeper.directories.directories[0].failure is None
        assert not [each for each in runtime.files.list("/a/t-0") if each.endswith(".cleaned")]
        # A deleted log is forgotten here as well.
        keeper.directories.directories[0].partitions.delete(T, bytes(16), runtime.clock.wall_ms())
        await rest(5)
        assert not keeper.cleaner.uncleanable
        await keeper.aclose()

    simulate(main)


def test_an_error_of_the_disk_is_the_directorys_and_not_the_logs() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        dirty(keeper)
        good = dirty(keeper, "good", 2, "/b")
        size = good.size_bytes
        node.disk.fail_next("write", path_part=".cleaned")
        keeper.cleaner.start(CLEANER)
        await rest(60)
        failed = [each.path for each in keeper.directories.directories if each.failure is not None]
        assert len(failed) == 1
        assert not keeper.cleaner.uncleanable
        assert (good.size_bytes < size) == (failed == ["/a"])
        await keeper.aclose()

    simulate(main)


def deleted_while_cleaned(seed: int, pause: float, rate: float) -> bool:
    """A topic is deleted and made anew `pause` after the cleaner began; whether it was at work."""

    async def main(runtime: Runtime, node: Node) -> bool:
        keeper = Keeper.open(runtime)
        dirty(keeper)
        keeper.cleaner.start(replace(CLEANER, bytes_per_second_max=rate))
        await rest(0.99)
        while not keeper.cleaner._busy:
            await rest(0.0005)
        await rest(pause)
        was_busy = bool(keeper.cleaner._busy)
        directory = keeper.directories.directories[0]
        directory.partitions.delete(T, bytes(16), runtime.clock.wall_ms())
        new = keeper.log("t", COMPACTED)
        writer = Writer(new, runtime.clock.wall_ms())
        for number in range(10):
            writer.write((f"n{number}", "1"))
        expected = records_of(new)
        await rest(60)
        assert records_of(new) == expected
        assert directory.failure is None
        assert not keeper.cleaner.uncleanable
        assert not [each for each in runtime.files.list("/a/t-0") if each.endswith(".cleaned")]
        await keeper.aclose()
        return was_busy

    return simulate(main, seed=seed)


def test_a_topic_that_is_deleted_and_made_anew_meanwhile_is_not_touched() -> None:
    slowly = [deleted_while_cleaned(seed, seed / 8, 5000.0) for seed in range(0, 25, 2)]
    assert all(slowly)
    in_threads = [deleted_while_cleaned(seed, seed * 0.006, 1e18) for seed in range(30)]
    assert 5 < in_threads.count(True) < 30


def test_a_topic_that_is_not_compacted_any_more_keeps_what_it_has() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = dirty(keeper)
        records = records_of(log)
        keeper.cleaner.start(replace(CLEANER, bytes_per_second_max=log.size_bytes / 10))
        await rest(5)
        assert keeper.cleaner._busy
        log.configure(replace(COMPACTED, is_compacted=False))
        await rest(60)
        assert records_of(log) == records
        assert not keeper.cleaner._busy
        assert keeper.directories.directories[0].cleaned_offsets == {}
        await keeper.aclose()

    simulate(main)


def test_closing_does_not_wait_for_a_whole_round() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = dirty(keeper)
        records = records_of(log)
        keeper.cleaner.start(replace(CLEANER, bytes_per_second_max=log.size_bytes / 10))
        await rest(3)
        assert keeper.cleaner._busy
        began = runtime.clock.monotonic()
        await keeper.aclose()
        assert runtime.clock.monotonic() - began < 15
        assert records_of(log) == records
        assert not [each for each in runtime.files.list("/a/t-0") if each.endswith(".cleaned")]

    simulate(main)


def test_a_small_memory_takes_more_rounds_to_the_same_end() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = dirty(keeper)
        expected = newest(committed(log))
        keeper.cleaner.start(replace(CLEANER, dedupe_buffer_bytes=200))
        await rest(120)
        assert newest(committed(log)) == expected
        assert len(lines_with(keeper, "compacted a log")) > 3
        offsets = keeper.directories.directories[0].cleaned_offsets
        assert offsets == {T: stable_end(log)}
        await keeper.aclose()

    simulate(main)


def test_old_records_are_compacted_however_clean_the_log_is_also_after_a_restart() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        policy = CompactionPolicy(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=3_600_000)
        config = replace(COMPACTED, compaction=policy)
        keeper = Keeper.open(runtime, config)
        log = keeper.log("t", config)
        random_work(log, Random(1), 40)
        log.update_high_watermark(log.log_end_offset)
        keeper.directories.close()
        again = Keeper.open(runtime, config)
        log = again.log("t")
        size = log.size_bytes
        again.cleaner.start(CLEANER)
        await rest(5)
        assert log.size_bytes < size, "its records are of 2023"
        await again.aclose()

    simulate(main)


def test_a_wrong_checkpoint_is_put_right() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = dirty(keeper)
        size = log.size_bytes
        directory = keeper.directories.directories[0]
        directory.cleaned_offsets[T] = log.log_end_offset + 1000
        keeper.cleaner.start(CLEANER)
        await rest(5)
        assert log.size_bytes < size
        assert directory.cleaned_offsets[T] == stable_end(log)
        await keeper.aclose()

    simulate(main)


def test_a_log_with_a_larger_record_than_is_allowed_waits_until_it_is_allowed() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = keeper.log("t", COMPACTED)
        now_ms = runtime.clock.wall_ms()
        for number in range(200):
            rows = [(now_ms, b"k", b"v" * (300 if number == 50 else 100), ())]
            log.append_batch(bytearray(encode_batch(rows, 0, codec=Codec.GZIP)), 0, now_ms)
        log.update_high_watermark(log.log_end_offset)
        size = log.size_bytes
        log.configure(replace(COMPACTED, max_decompressed_message_bytes=200))
        keeper.cleaner.start(CLEANER)
        await rest(30)
        assert list(keeper.cleaner.uncleanable) == [log]
        (line,) = lines_with(keeper, "set aside")
        assert "max.decompressed.message.bytes" in line
        assert log.size_bytes == size
        log.configure(replace(COMPACTED, max_decompressed_message_bytes=400))
        await rest(30)
        assert not keeper.cleaner.uncleanable
        assert log.size_bytes < size
        await keeper.aclose()

    simulate(main)


def test_a_bug_sets_the_log_aside_and_the_cleaner_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Compaction
    reported: list[object] = []

    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        bad = dirty(keeper)

        def breaks(job: object, *rest: object) -> object:
            if job.directory == bad.directory:  # type: ignore[attr-defined]
                raise ArithmeticError("a bug")
            return made(job, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(cleaner_module, "Compaction", breaks)
        with pytest.raises(ArithmeticError):
            await keeper.cleaner.clean_next()
        reported.append(keeper.cleaner.uncleanable[bad])
        good = dirty(keeper, "good", 2)
        size = good.size_bytes
        assert await keeper.cleaner.clean_next()
        assert not await keeper.cleaner.clean_next()
        assert good.size_bytes < size

    simulate(main)
    assert reported == ["the round ended in an unexpected way"]


@pytest.mark.parametrize("is_let_go", [True, False])
def test_a_file_that_retention_renames_meanwhile_ends_only_the_round(
    monkeypatch: pytest.MonkeyPatch, is_let_go: bool
) -> None:
    """The round opens a file by its name. One that is missing for no reason is the disk's fault."""

    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = dirty(keeper)

        def breaks(*arguments: object) -> object:
            if is_let_go:
                log.increment_log_start_offset(log.segments[1].base_offset)
                assert log.delete_old_segments(runtime.clock.wall_ms()) == 1
            raise FileNotFoundError(errno.ENOENT, "no such file", "00.log")

        monkeypatch.setattr(cleaner_module, "Compaction", breaks)
        assert await keeper.cleaner.clean_next()
        assert (keeper.directories.directories[0].failure is None) == is_let_go
        assert not keeper.cleaner.uncleanable
        await keeper.aclose()

    simulate(main)


def test_the_rate_is_shared_and_has_no_memory_of_idle_time() -> None:
    throttle = Throttle(100.0)

    def delay(size: int, now: float) -> float:
        return throttle.left(throttle.count(size, now), now)

    assert delay(50, 0.0) == 0.5
    assert delay(50, 0.0) == 1.0
    assert delay(50, 2.0) == 0.5
    assert delay(0, 50.0) == 0.0
    throttle.change(CleanerOptions().bytes_per_second_max, 60.0)
    assert delay(1 << 40, 60.0) < 1e-9


def test_another_rate_counts_for_those_that_wait() -> None:
    throttle = Throttle(10.0)
    first, second = throttle.count(100, 0.0), throttle.count(100, 0.0)
    assert (throttle.left(first, 5.0), throttle.left(second, 5.0)) == (5.0, 15.0)
    throttle.change(50.0, 5.0)
    assert (throttle.left(first, 5.0), throttle.left(second, 5.0)) == (1.0, 3.0)
    throttle.change(CleanerOptions().bytes_per_second_max, 6.0)
    assert throttle.left(second, 6.0) < 1e-9
    throttle.change(1.0, 7.0)
    assert throttle.left(second, 7.0) == 0.0, "what is paid stays paid"


def test_a_lifted_throttle_ends_the_wait_of_a_round() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        slowly_cleaned(keeper)
        await rest(20)
        assert keeper.cleaner.busy_count == 1
        began = runtime.clock.monotonic()
        keeper.cleaner.configure(CLEANER)
        while keeper.cleaner.busy_count:
            await rest(0.1)
        assert runtime.clock.monotonic() - began < 1
        await keeper.aclose()

    simulate(main)


def slowly_cleaned(keeper: Keeper) -> PartitionLog:
    """A log that a round of the cleaner is busy with for a hundred seconds."""
    log = dirty(keeper)
    keeper.cleaner.start(replace(CLEANER, bytes_per_second_max=log.size_bytes / 100))
    return log


def test_a_deleted_log_keeps_its_files_until_the_cleaner_has_let_go_of_it() -> None:
    """It is read by a thread: what it has open must not go under its hands."""

    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = slowly_cleaned(keeper)
        directory = keeper.directories.directories[0]
        await rest(20)
        assert keeper.cleaner.busy_count == 1
        directory.partitions.delete(T, bytes(16), runtime.clock.wall_ms())
        due_ms = runtime.clock.wall_ms() + log.config.file_delete_delay_ms
        assert directory.removals.run(due_ms) == 0
        assert runtime.files.exists(log.directory)
        while keeper.cleaner.busy_count:
            assert directory.removals.run(due_ms) == 0
            await rest(10)
        assert directory.removals.run(due_ms) == 1
        assert not runtime.files.exists(log.directory)
        await keeper.aclose()

    simulate(main)


def test_segments_that_are_let_go_keep_their_files_while_the_cleaner_reads() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        keeper = Keeper.open(runtime)
        log = slowly_cleaned(keeper)
        directory = keeper.directories.directories[0]
        await rest(20)
        assert keeper.cleaner.busy_count == 1
        now_ms = runtime.clock.wall_ms()
        log.increment_log_start_offset(log.segments[2].base_offset)
        assert log.delete_old_segments(now_ms) == 2
        due_ms = now_ms + log.config.file_delete_delay_ms
        assert directory.removals.run(due_ms) == 0
        assert not lines_with(keeper, "cannot be compacted")
        while keeper.cleaner.busy_count:
            await rest(10)
        assert directory.removals.run(runtime.clock.wall_ms() + due_ms) >= 2
        listed = runtime.files.list(log.directory)
        assert not [name for name in listed if names.parse_segment_file(name, names.DELETED)]
        await keeper.aclose()

    simulate(main)
