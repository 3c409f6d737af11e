"""The periodic work on all logs of a node.

    retention           delete segments that are too old, too many, or before the log's start
    sweep               do the flushes that time or a full segment makes due; remove deleted files
    points              write recovery points and log starts, so that a start has less to check
    high watermarks     write the high watermarks
    producers           forget idempotent producers that have been idle for long

Invariants: work that may stall (fsync, freeing large files) runs in a thread. All else runs on the
event loop, where the logs are used. A log start is durable before files below it are removed. A
disk error takes its directory out of service, and affects nothing else.

`flush.ms` applies independently of `log.flush.scheduler.interval.ms`. In Kafka that interval is
infinite by default, which makes `flush.ms` a setting without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.log import names
from moldau.broker.log.checkpoint_job import POINTS, CheckpointWriter
from moldau.broker.log.group_commit import GroupCommits
from moldau.broker.log.log_settings import UpkeepOptions
from moldau.broker.log.rounds import Rounds
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.broker.log.directories import LogDirectories
    from moldau.broker.log.directory import LogDirectory
    from moldau.broker.log.disk_room import DiskRoom
    from moldau.broker.log.names import TopicPartition
    from moldau.logging import Logger
    from moldau.runtime import Runtime

_SWEEP_MS: Final = 1000
_ROOM_MS: Final = 1000


class Upkeep:
    """Does the periodic work between `start` and `aclose`."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        commits: GroupCommits,
        writer: CheckpointWriter,
        log: Logger,
        on_log_starts: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        """`on_log_starts` is called after retention has moved the starts of these logs up."""
        self.options = UpkeepOptions()
        self._runtime = runtime
        self._directories = directories
        self._commits = commits
        self._writer = writer
        self._log = log
        self._on_log_starts = on_log_starts
        self._shortages: dict[DiskRoom, int] = {}
        """How many shortages of each disk the log has told of."""
        self._short: set[DiskRoom] = set()
        """The disks where produces are refused, as the log says."""
        self._rounds = [
            self._every("retention", self._retain, lambda: self.options.retention_interval),
            self._every("sweep", self._sweep, lambda: min(_SWEEP_MS, self.options.flush_interval)),
            self._every("points", self._write_points, lambda: self.options.points_interval),
            self._every(
                "high-watermarks",
                self._write_high_watermarks,
                lambda: self.options.high_watermarks_interval,
            ),
            self._every("producers", self._expire, lambda: self.options.producers_interval),
            self._every("room", self._measure_room, lambda: _ROOM_MS),
        ]

    def _every(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, bool]],
        interval_ms: Callable[[], int],
    ) -> Rounds:
        return Rounds(self._runtime, f"log-{name}", work, lambda: max(1, interval_ms()) / 1000)

    def start(self, options: UpkeepOptions) -> None:
        self.options = options
        delay = options.initial_delay / 1000
        retention, sweep, points, high_watermarks, producers, room = self._rounds
        retention.start(delay)
        sweep.start()
        points.start(delay)
        high_watermarks.start()
        producers.start()
        room.start(0)

    def configure(self, options: UpkeepOptions) -> None:
        """Use other intervals. They count from the previous round."""
        self.options = options
        for each in self._rounds:
            each.reconsider()

    async def aclose(self) -> None:
        """Start no more rounds, and wait for the running ones."""
        for each in self._rounds:
            each.end()
        for each in self._rounds:
            await each.aclose()
        self._report_room()

    # Rounds.

    async def _retain(self) -> bool:
        for directory in self._directories.in_service():
            now_ms = self._now_ms()
            expired = directory.retention.expire(now_ms)
            if not expired:
                continue
            self._on_log_starts(expired)
            for log in expired.values():
                if not log.retention.is_head_durable:
                    with suppress(KafkaError):  # a disk error fails the directory
                        await self._commits.of(directory).durable(log)
            await self._writer.write(directory, *POINTS)
            # The segments of a topic that was deleted meanwhile are gone with it.
            present = set(directory.logs.values())
            count = directory.retention.drop_expired(
                [each for each in expired.values() if each in present], now_ms
            )
            if count:
                self._log.info("let go of old segments", directory=directory.path, count=count)
        return False

    async def _sweep(self) -> bool:
        now_ms = self._now_ms()
        self._directories.limit_files(self._runtime.files)
        self._directories.pool.release_idle(now_ms)
        for directory in self._directories.in_service():
            for log in directory.logs.values():
                if log.flushing.is_due(now_ms):
                    self._commits.of(directory).submit(log, _heard)
            await self._sync_names(directory)
            await self._remove_deleted(directory, now_ms)
        return False

    async def _sync_names(self, directory: LogDirectory) -> None:
        """Make the deletions of logs durable."""
        if directory.partitions.are_names_stale:
            directory.partitions.are_names_stale = False
            try:
                await self._runtime.run_blocking(directory.files.sync_dir, directory.path)
            except OSError as error:
                directory.state.fail(error)

    async def _remove_deleted(self, directory: LogDirectory, now_ms: int) -> None:
        removal = directory.removals.take(now_ms)
        if removal:
            try:
                await self._runtime.run_blocking(removal.run)
            except OSError as error:
                directory.state.fail(error)

    async def _write_points(self) -> bool:
        for directory in self._directories.in_service():
            await self._writer.write(directory, *POINTS)
        return False

    async def _write_high_watermarks(self) -> bool:
        for directory in self._directories.in_service():
            await self._writer.write(directory, names.HIGH_WATERMARKS)
        return False

    async def _measure_room(self) -> bool:
        directories = self._directories
        directories.free_bytes_min = self.options.free_bytes_min
        directories.measure_room(self._now_ms())
        self._report_room()
        return False

    def _report_room(self) -> None:
        """Log each shortage and its end, also one that began and ended since the last look."""
        for room in [each.state.room for each in self._directories.in_service()]:
            if room.shortages > self._shortages.get(room, 0):
                self._shortages[room] = room.shortages
                self._short.add(room)
                self._log.warn(
                    "a disk is nearly full: until there is more room, produces are refused and "
                    "followers copy nothing; delete topics or records, shorten retention, or make "
                    "the disk larger",
                    **room.facts(),
                )
            if room in self._short and not room.is_short:
                self._short.discard(room)
                self._log.info(
                    "there is room again: produces are taken, and copies made", **room.facts()
                )

    async def _expire(self) -> bool:
        self._directories.expire_producers(self._now_ms())
        return False

    def _now_ms(self) -> int:
        return self._runtime.clock.wall_ms()


def _heard(error: KafkaError | None) -> None:
    """Ignore the result: no request waits, and an error has taken the directory out of service."""
