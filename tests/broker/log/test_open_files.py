"""Files that a process may open: promised to logs, kept back, left to connections, or run out."""

from __future__ import annotations

import errno
import os

import pytest

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets
from moldau.broker.log.checkpoint_job import RETRIES, RETRY_SECONDS, CheckpointWriter
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.open_files import (
    KEPT_BACK_MAX,
    LOG_FILES_MAX,
    advice,
    connections_max,
    controller_connections_max,
    is_shortage,
    kept_back,
    log_files_max,
    refusal_of_logs,
)
from moldau.broker.log.rounds import rest
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.files import OpenFiles
from moldau.runtime.real_files import RealFiles
from moldau.runtime.simulated.node import Node
from tests.broker.log.keeping import UPKEEP, Keeper, simulate
from tests.broker.log.machine import SMALL, batch
from tests.broker.server.broken_disk import BrokenFiles

ORDERS = TopicPartition("orders", 0)
TOPIC_ID: Uuid = bytes(15) + b"\x07"
HIGH_WATERMARKS = names.HIGH_WATERMARKS


def test_logs_connections_and_what_is_kept_back_are_never_more_than_there_are() -> None:
    for limit in (10, 256, 1024, 4096, 20_000, 1 << 20):
        shares = log_files_max(limit) + connections_max(limit) + kept_back(limit)
        assert shares == limit
        assert connections_max(limit) >= log_files_max(limit) // 2 > 0
        assert controller_connections_max(limit) <= connections_max(limit) // 8
    assert kept_back(1 << 20) == KEPT_BACK_MAX
    assert log_files_max(1 << 20) == LOG_FILES_MAX


def test_a_log_is_refused_only_if_no_file_is_left_to_make_it() -> None:
    assert refusal_of_logs(OpenFiles(900, 1000)) is None
    refusal = refusal_of_logs(OpenFiles(999, 1000))
    assert refusal is not None
    assert all(word in refusal for word in ("999 of the 1000 files", "ulimit -n"))


def test_this_process_knows_what_it_has_open() -> None:
    files = RealFiles()
    before = files.open_files()
    if before is None:
        pytest.skip("nothing limits the files of this process")
    assert before.limit == files.open_files_max()
    descriptors = [os.open("/", os.O_RDONLY) for _ in range(7)]
    try:
        after = files.open_files()
    finally:
        for each in descriptors:
            os.close(each)
    assert after is not None
    assert after.opened == before.opened + 7


def test_what_to_do_depends_on_what_is_wrong() -> None:
    for code in (errno.EMFILE, errno.ENFILE):
        assert is_shortage(OSError(code, "many"))
        assert "ulimit" in advice(OSError(code, "many"))
    assert not is_shortage(OSError(errno.EIO, "broken"))
    assert "disk" in advice(OSError(errno.EIO, "broken"))


def short_of_files(runtime: Runtime, code: int = errno.EMFILE) -> BrokenFiles:
    """The runtime's files, where a test says which cannot be opened."""
    files = BrokenFiles(runtime.files, code)
    runtime.files = files.as_files()
    return files


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT])
def test_a_checkpoint_that_cannot_be_written_now_is_written_later(code: int) -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        files = short_of_files(runtime, code)
        keeper = Keeper.open(runtime)
        log = keeper.log("orders")
        log.append_as_leader(batch(), 0, runtime.clock.wall_ms())
        log.update_high_watermark(log.log_end_offset)
        keeper.upkeep.start(UPKEEP)
        files.broken.add(HIGH_WATERMARKS)
        await rest(RETRY_SECONDS * RETRIES / 2 + UPKEEP.high_watermarks_interval / 1000)
        directory = keeper.directories.directories[0]
        assert directory.failure is None
        told = [line for line in keeper.lines if "tried again" in line]
        assert len(told) == 1, "once, not each time"
        assert read_offsets(runtime.files, f"/a/{HIGH_WATERMARKS}").get(ORDERS) is None

        files.broken.clear()
        await rest(2 * RETRY_SECONDS + UPKEEP.high_watermarks_interval / 1000)
        assert read_offsets(runtime.files, f"/a/{HIGH_WATERMARKS}")[ORDERS] == log.high_watermark
        assert directory.failure is None
        await keeper.aclose()

    simulate(main)


def test_one_that_never_can_be_written_takes_the_directory_out_of_service() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        files = short_of_files(runtime)
        keeper = Keeper.open(runtime)
        keeper.log("orders")
        files.broken.add(HIGH_WATERMARKS)
        writer = CheckpointWriter(runtime, Loggers(runtime.clock, lambda line: None).get("test"))
        began = runtime.clock.monotonic()
        directory = keeper.directories.directories[0]
        await writer.write(directory, HIGH_WATERMARKS)
        assert isinstance(directory.failure, OSError)
        assert directory.failure.errno == errno.EMFILE
        waited = runtime.clock.monotonic() - began
        assert RETRIES * RETRY_SECONDS <= waited < RETRIES * RETRY_SECONDS + 5
        files.broken.clear()
        await keeper.aclose()

    simulate(main)


def test_a_broken_disk_is_not_waited_for() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        files = short_of_files(runtime, errno.EIO)
        keeper = Keeper.open(runtime)
        keeper.log("orders")
        files.broken.add(HIGH_WATERMARKS)
        writer = CheckpointWriter(runtime, Loggers(runtime.clock, lambda line: None).get("test"))
        began = runtime.clock.monotonic()
        directory = keeper.directories.directories[0]
        await writer.write(directory, HIGH_WATERMARKS)
        assert directory.failure is not None
        assert runtime.clock.monotonic() - began < RETRY_SECONDS
        files.broken.clear()
        await keeper.aclose()

    simulate(main)


def test_a_log_that_cannot_be_made_for_want_of_files_costs_the_others_nothing() -> None:
    async def main(runtime: Runtime, node: Node) -> None:
        files = short_of_files(runtime)
        keeper = Keeper.open(runtime)
        other = keeper.log("other")
        directory = keeper.directories.directories[0]
        now_ms = runtime.clock.wall_ms()
        files.broken.add("orders-0/")
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                directory.partitions.create(ORDERS, TOPIC_ID, SMALL, now_ms)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "ulimit" in str(caught.value)
        assert directory.failure is None
        assert ORDERS not in directory.logs
        assert ORDERS not in directory.topic_ids
        other.append_as_leader(batch(), 0, now_ms)

        files.broken.clear()
        log = directory.partitions.create(ORDERS, TOPIC_ID, SMALL, now_ms)
        log.append_as_leader(batch(), 0, now_ms)
        assert directory.topic_ids[ORDERS] == TOPIC_ID
        await keeper.aclose()

    simulate(main)


def test_no_new_log_gets_the_points_of_one_that_is_gone() -> None:
    """A checkpoint must be written before, and cannot be: then the log is not made."""

    async def main(runtime: Runtime, node: Node) -> None:
        files = short_of_files(runtime)
        keeper = Keeper.open(runtime)
        keeper.log("gone")
        directory = keeper.directories.directories[0]
        now_ms = runtime.clock.wall_ms()
        directory.partitions.delete(TopicPartition("gone", 0), bytes(16), now_ms)
        files.broken.add(names.RECOVERY_POINTS)
        with pytest.raises(KafkaError, match="ulimit"):
            directory.partitions.create(ORDERS, TOPIC_ID, SMALL, now_ms)
        assert directory.failure is None
        assert not runtime.files.exists(directory.state.home_of(ORDERS))
        files.broken.clear()
        directory.partitions.create(ORDERS, TOPIC_ID, SMALL, now_ms)
        await keeper.aclose()

    simulate(main)
