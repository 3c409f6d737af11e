"""Makes the logs of new replicas in threads, while the event loop serves requests.

A round: the loop chooses the directories of a few logs, threads make the files, and the loop puts
the logs into service. After `aclose` no round begins: the next start of the node makes the logs
that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.log.names import TopicPartition
from moldau.broker.log.rounds import ended
from moldau.broker.replication.wanted_replicas import WantedReplica, WantedReplicas
from moldau.errors import without_frames
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.log.checkpoint_job import CheckpointWriter
    from moldau.broker.log.directories import LogDirectories
    from moldau.broker.log.directory import LogDirectory
    from moldau.broker.log.new_log import NewLog
    from moldau.runtime import Runtime

THREADS: Final = 2
"""The threads that make the logs of a round. Most of the time they wait for the file system."""


class MakeableLog(NamedTuple):
    """A log of the present round."""

    directory: LogDirectory
    new: NewLog


DirectoryOf = Callable[[WantedReplica], "LogDirectory"]
"""Returns the directory for the log of a replica. Raises KafkaError if there is none."""
MadeLog = tuple[WantedReplica, "MakeableLog | KafkaError"]
"""A replica, and its log after `NewLog.make`, or the reason why it has no log."""
OnRound = Callable[[Sequence[MadeLog]], None]


class LogMaker:
    """The task that makes logs; see the module. `wanted` has the replicas that wait."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        writer: CheckpointWriter,
        directory_of: DirectoryOf,
        on_round: OnRound,
    ) -> None:
        self.wanted = WantedReplicas()
        self._runtime = runtime
        self._directories = directories
        self._writer = writer
        self._directory_of = directory_of
        self._on_round = on_round
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    def may_make_at_once(self) -> bool:
        """Whether the next log may be made on the loop. It may not if checkpoints must be synced
        before, or if enough were made in this turn."""
        if any(each.checkpoints.are_stale for each in self._directories.in_service()):
            return False
        if not self.wanted.may_be_made_at_once():
            return False
        self._start()
        return True

    def want(self, wanted: WantedReplica) -> None:
        """Make the log of this replica in a thread, after those that wait already."""
        self.wanted.want(wanted)
        self._start()

    async def idle(self) -> None:
        """Wait until no log is being made, and none waits."""
        while self._task is not None and not self._task.done():
            await ended(self._task)

    async def aclose(self) -> None:
        """Wait for the round under way, and begin no more."""
        self._is_closing = True
        if self._task is not None:
            await ended(self._task)

    def _start(self) -> None:
        if (self._task is None or self._task.done()) and not self._is_closing:
            self._task = self._runtime.spawn(self._run(), name="new-logs")

    async def _run(self) -> None:
        wanted = self.wanted
        wanted.on_turn()
        while wanted and not self._is_closing:
            for directory in self._directories.in_service():
                await self._writer.forget_departed(directory)
            if any(each.checkpoints.are_stale for each in self._directories.in_service()):
                continue  # a log has left while another directory was written
            begun = [(each, self._begun(each)) for each in wanted.begin_round()]
            await self._make([log for _, log in begun if isinstance(log, MakeableLog)])
            self._on_round(begun)
            wanted.on_turn()

    def _begun(self, wanted: WantedReplica) -> MakeableLog | KafkaError:
        place = TopicPartition(*wanted.name)
        topic_id, config = wanted.leadership.topic_id, wanted.config.log
        try:
            directory = self._directory_of(wanted)
            now_ms = self._runtime.clock.wall_ms()
            return MakeableLog(
                directory, directory.partitions.begin(place, topic_id, config, now_ms)
            )
        except KafkaError as error:
            return without_frames(error)

    async def _make(self, logs: Sequence[MakeableLog]) -> None:
        shares = [logs[start::THREADS] for start in range(min(len(logs), THREADS))]
        made = [
            self._runtime.run_blocking(_make_all, [each.new for each in share]) for share in shares
        ]
        for each in made:
            await each


def _make_all(logs: Sequence[NewLog]) -> None:
    """Make the logs, in a thread."""
    for log in logs:
        log.make()
