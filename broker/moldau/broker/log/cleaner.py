"""The running cleaner: choosing the next log, limiting the rate, setting aside damaged logs.

Invariants:
* A log is cleaned by one round at a time, and only while it is in service and compacted. If its
  topic is deleted, or is not compacted any more, the round ends between two steps.
* The segments to clean are durable before new segments replace them. None of their files is removed
  while a thread reads it, even if retention or a deletion of the topic changes the log meanwhile.
* `cleaner-offset-checkpoint` is never ahead of the segments that were put in place.
* A log that cannot be cleaned (damaged records) is set aside and logged once. It keeps its records,
  and the other logs are cleaned. A disk error takes its directory out of service.

Reading, writing and syncing run in threads, a step at a time. The event loop chooses the logs and
renames files. `log.cleaner.threads` rounds run in parallel. All of them share one rate and one
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.log import names
from moldau.broker.log.checkpoint_job import POINTS, CheckpointWriter
from moldau.broker.log.compaction import (
    Compaction,
    Replacement,
    begin_to_put_in_place,
    log_to_clean,
)
from moldau.broker.log.compaction_choice import Cleanable, LogEnds, choose, examine
from moldau.broker.log.compaction_offsets import SLOT_BYTES, OffsetMap
from moldau.broker.log.group_commit import GroupCommits
from moldau.broker.log.log_settings import CleanerOptions
from moldau.broker.log.rounds import Rounds, rest
from moldau.errors import BadData
from moldau.errors.codes import KafkaError
from moldau.records.codecs import LargeRecord
from moldau.runtime.process import short_turns

if TYPE_CHECKING:
    from moldau.broker.log.directories import LogDirectories
    from moldau.broker.log.directory import LogDirectory
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.log.names import TopicPartition
    from moldau.logging import Logger
    from moldau.runtime import Runtime

_NO_LAG_LIMIT: Final = (1 << 63) - 1


_SHORTEST_SECONDS: Final = 1e-6
LOOK_SECONDS: Final = 0.2
"""The longest time for which a wait for the throttle does not look at its rate."""


class Throttle:
    """Limits the rate of all rounds together, in bytes. Pure: time is an argument, in seconds.

    What is owed is kept in bytes and not as a time, so another rate counts at once for those that
    wait already.
    """

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._counted = 0.0
        self._paid = 0.0
        self._at = 0.0

    def count(self, size_bytes: int, now: float) -> float:
        """Count bytes that were read or written. Return the turn of the caller, which continues
        when there is nothing `left` of it."""
        self._pay(now)
        self._counted += size_bytes
        return self._counted

    def left(self, turn: float, now: float) -> float:
        """Return for how many seconds the caller must still wait at the present rate. Less than a
        microsecond is nothing, as a clock may not show it."""
        self._pay(now)
        seconds = (turn - self._paid) / max(self._bytes_per_second, 1.0)
        return seconds if seconds > _SHORTEST_SECONDS else 0.0

    def change(self, bytes_per_second: float, now: float) -> None:
        """Use another rate from now on."""
        self._pay(now)
        self._bytes_per_second = bytes_per_second

    def _pay(self, now: float) -> None:
        elapsed, self._at = now - self._at, now
        if elapsed > 0:
            paid = self._paid + elapsed * max(self._bytes_per_second, 1.0)
            self._paid = min(paid, self._counted)


class _Target(NamedTuple):
    """A log that is being cleaned."""

    directory: LogDirectory
    partition: TopicPartition
    log: PartitionLog

    @property
    def is_current(self) -> bool:
        """Whether the log is still its partition's log, in service, and compacted."""
        return (
            self.directory.failure is None
            and self.log.failure is None
            and self.directory.logs.get(self.partition) is self.log
            and self.log.config.is_compacted
            and self.partition not in self.directory.copies.departing
        )


class Cleaner:
    """Cleans logs between `start` and `aclose`."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        commits: GroupCommits,
        writer: CheckpointWriter,
        log: Logger,
    ) -> None:
        self.options = CleanerOptions()
        self.uncleanable: dict[PartitionLog, str] = {}
        """Logs that are set aside until the next start, with the reasons."""
        self._limits: dict[PartitionLog, int] = {}
        """Those of them with a larger record than their topic allows, and what it allowed. Such a
        log is tried again when the topic allows another size."""
        self._runtime = runtime
        self._directories = directories
        self._commits = commits
        self._writer = writer
        self._log = log
        self._rounds: list[Rounds] = []
        self._busy: set[PartitionLog] = set()
        self._throttle = Throttle(self.options.bytes_per_second_max)
        self._is_closing = False

    def start(self, options: CleanerOptions) -> None:
        self.configure(options)

    def configure(self, options: CleanerOptions) -> None:
        """Use other options. Running rounds continue, at the new rate."""
        self.options = options
        self._throttle.change(options.bytes_per_second_max, self._runtime.clock.monotonic())
        while len(self._rounds) > options.threads:
            self._rounds.pop().end()
        while len(self._rounds) < options.threads:
            name = f"log-cleaner-{len(self._rounds)}"
            rounds = Rounds(
                self._runtime, name, self.clean_next, lambda: self.options.backoff_ms / 1000
            )
            self._rounds.append(rounds)
            rounds.start()
        for each in self._rounds:
            each.reconsider()

    @property
    def busy_count(self) -> int:
        """The number of logs that are being cleaned."""
        return len(self._busy)

    async def aclose(self) -> None:
        """Let rounds end after their current step. Segments not yet in place are removed."""
        self._is_closing = True
        for each in self._rounds:
            each.end()
        for each in self._rounds:
            await each.aclose()

    async def clean_next(self) -> bool:
        """Clean the log that needs it most. Return whether any log needed it."""
        chosen = self._choose()
        if chosen is None or self._is_closing:
            return False
        target, cleanable = chosen
        log = target.log
        self._busy.add(log)
        self.uncleanable[log] = "the round ended in an unexpected way"
        segments = list(log.segments)
        try:
            await self._clean(target, cleanable)
            self.uncleanable.pop(log, None)
        except FileNotFoundError as error:
            # The round opens files by their names, in a thread, and retention renames them.
            self.uncleanable.pop(log, None)
            present = set(map(id, log.segments))
            if target.is_current and all(id(segment) in present for segment in segments):
                target.directory.state.fail(error)
        except OSError as error:
            self.uncleanable.pop(log, None)
            if target.is_current:
                target.directory.state.fail(error)
        except (BadData, KafkaError) as error:
            self.uncleanable.pop(log, None)
            if target.is_current:
                self._set_aside(target, error)
        finally:
            self._busy.discard(log)
        return True

    def _set_aside(self, target: _Target, error: BadData | KafkaError) -> None:
        self.uncleanable[target.log] = str(error)
        if isinstance(error, LargeRecord):
            self._limits[target.log] = target.log.config.max_decompressed_message_bytes
        self._log.failure(
            "a log cannot be compacted and is set aside; it grows until it is repaired",
            error,
            partition=str(target.partition),
            directory=target.log.directory,
        )

    # Choosing.

    def _choose(self) -> tuple[_Target, Cleanable] | None:
        now_ms = self._runtime.clock.wall_ms()
        found: dict[int, tuple[_Target, Cleanable]] = {}
        known: set[PartitionLog] = set()
        for directory in self._directories.in_service():
            known.update(directory.logs.values())
            for partition, log in directory.logs.items():
                if partition in directory.copies.departing:
                    continue
                if log.config.is_compacted and not self._is_excluded(log):
                    target = _Target(directory, partition, log)
                    cleanable = self._examined(target, now_ms)
                    if cleanable is not None:
                        found[len(found)] = target, cleanable
        for log in self.uncleanable.keys() - known:
            del self.uncleanable[log]
            self._limits.pop(log, None)
        key = choose(
            (key, cleanable, target.log.config.compaction)
            for key, (target, cleanable) in found.items()
        )
        return None if key is None else found[key]

    def _is_excluded(self, log: PartitionLog) -> bool:
        limit = self._limits.get(log)
        if limit is not None and limit != log.config.max_decompressed_message_bytes:
            del self._limits[log], self.uncleanable[log]
        return log in self._busy or log in self.uncleanable or log.failure is not None

    def _examined(self, target: _Target, now_ms: int) -> Cleanable | None:
        try:
            return self._examine(target, now_ms)
        except OSError as error:
            target.directory.state.fail(error)
        except BadData as error:
            self._set_aside(target, error)
        return None

    def _examine(self, target: _Target, now_ms: int) -> Cleanable:
        log, policy = target.log, target.log.config.compaction
        if policy.max_compaction_lag_ms != _NO_LAG_LIMIT:
            for segment in log.segments:
                segment.load_first_timestamp()
        ends = LogEnds(log.log_start_offset, log.last_stable_offset, log.log_end_offset)
        cleaned = target.directory.cleaned_offsets
        offset = cleaned.get(target.partition)
        cleanable = examine(log.segments, ends, offset, policy, now_ms)
        if cleanable.checkpoint_is_wrong:
            cleaned[target.partition] = cleanable.first_dirty_offset
        return cleanable

    # Cleaning.

    async def _clean(self, target: _Target, cleanable: Cleanable) -> None:
        log = target.log
        await self._make_durable(target)
        if not target.is_current:
            return
        job = log_to_clean(log, cleanable, log.config.compaction.delete_retention_ms)
        if not await self._make_last_batches_durable(target):
            return
        clock = self._runtime.clock
        compaction = Compaction(job, self._map_for(cleanable), clock.wall_ms())
        began = clock.monotonic()
        target.directory.removals.being_cleaned.add(log)
        try:
            if not await self._take_steps(target, compaction):
                return
        finally:
            compaction.abandon()
            target.directory.removals.being_cleaned.discard(log)
        target.directory.cleaned_offsets[target.partition] = compaction.end_offset
        await self._writer.write(target.directory, names.CLEANED_OFFSETS)
        statistics = compaction.statistics
        self._log.info(
            "compacted a log",
            partition=str(target.partition),
            first_dirty_offset=cleanable.first_dirty_offset,
            end_offset=compaction.end_offset,
            bytes_read=statistics.bytes_read,
            bytes_kept=statistics.bytes_kept,
            seconds=round(clock.monotonic() - began, 3),
        )

    async def _take_steps(self, target: _Target, compaction: Compaction) -> bool:
        """Carry out the steps of a round. Return False if it had to end early."""
        steps = compaction.steps()
        while True:
            step = await self._runtime.run_blocking(_next_step, steps)
            if step is None:
                return True
            if isinstance(step, Replacement):
                if not await self._put_in_place(target, step):
                    return False
            else:
                await self._wait(self._throttle.count(step, self._runtime.clock.monotonic()))
            if self._is_closing or not target.is_current:
                return False

    async def _wait(self, turn: float) -> None:
        """Wait for the throttle, whose rate may change meanwhile."""
        clock = self._runtime.clock
        while not self._is_closing and (left := self._throttle.left(turn, clock.monotonic())) > 0:
            await rest(min(left, LOOK_SECONDS))

    async def _put_in_place(self, target: _Target, replacement: Replacement) -> bool:
        log = target.log
        while target.is_current and not log.replacing.is_allowed(replacement.old):
            await self._make_durable(target)  # an index was rebuilt meanwhile
            await self._writer.write(target.directory, *POINTS)
        if not target.is_current:
            for segment in replacement.new:
                segment.remove()
            return False
        swap = begin_to_put_in_place(log, replacement, self._runtime.clock.wall_ms())
        if swap is None:
            return False
        while log.replacing.go_on(swap):  # always finish, even if the round must end
            await self._runtime.run_blocking(swap.sync)
        return True

    async def _make_last_batches_durable(self, target: _Target) -> bool:
        """Make the producers' last batches durable. They may lie in the active segment, and the
        round relies on them: earlier batches must not be removed while a power loss could still
        take the last ones. Return whether the round may continue."""
        if target.log.flushed_end_offset < target.log.log_end_offset:
            await self._commits.of(target.directory).durable(target.log)
        return target.is_current

    async def _make_durable(self, target: _Target) -> None:
        if any(not each.are_indexes_durable for each in list(target.log.segments)[:-1]):
            await self._commits.of(target.directory).durable(target.log)

    def _map_for(self, cleanable: Cleanable) -> OffsetMap:
        """Return a map large enough for the dirty part, within this round's share of the memory."""
        options = self.options
        load_factor = min(max(options.load_factor, 0.05), 0.95)
        offsets = cleanable.first_uncleanable_offset - cleanable.first_dirty_offset
        needed = (int(offsets / load_factor) + 2) * SLOT_BYTES
        share = options.dedupe_buffer_bytes // max(1, options.threads)
        return OffsetMap(min(needed, share), load_factor)


def _next_step(steps: Iterator[int | Replacement]) -> int | Replacement | None:
    """Take a step in a thread. Return None at the end of the round."""
    with short_turns():
        return next(steps, None)
