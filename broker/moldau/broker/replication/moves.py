"""Moves of replicas from one log directory to another (AlterReplicaLogDirs, KIP-113).

    COPYING -> TAKING_OVER -> MOVED
       |            |
       +-> ENDED <--+       called off, or something failed: the replica stays where it is

Invariants:
* A replica moves to one directory at a time; a request for another directory cancels the first
  move.
* Clients notice only a pause of the acknowledgements while the copy, which has all records of the
  log, is made durable. Records that were acknowledged before are in both logs, later ones in the
  new log.
* A copy that does not take over is removed, unless the node stops or a disk failed: then the move
  continues when the partition is opened the next time.
* A disk that fails takes its own directory out of service, and not a replica on a healthy one. The
  only exception is a copy that already has the log's name and cannot be renamed back. Then the
  replica goes out of service too: the next start must not find two logs that both may have
  acknowledged records.

Threads read and write, a piece at a time, and all moves share one rate limit. `future_log`
describes the steps, and the files that a crash leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.log import names
from moldau.broker.log.checkpoint_job import POINTS, CheckpointWriter
from moldau.broker.log.cleaner import LOOK_SECONDS, Throttle
from moldau.broker.log.future_log import PIECE_BYTES, CopyLocation, FutureLog
from moldau.broker.log.group_commit import GroupCommits
from moldau.broker.log.log_settings import MoveOptions
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.rounds import ended, new_future, rest, slots
from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.log.copies import LeftDirectory
    from moldau.broker.log.directories import LogDirectories
    from moldau.broker.log.directory import LogDirectory
    from moldau.broker.replication.partition import Partition
    from moldau.logging import Logger
    from moldau.runtime import Runtime

_UNIQUE_BYTES: Final = 16

OnBegun: TypeAlias = Callable[[KafkaError | None], None]


class MoveState(Enum):
    """The states of a move; see the module."""

    COPYING = "the copy grows towards the log"
    TAKING_OVER = "the copy is made durable, nothing is acknowledged meanwhile"
    MOVED = "the copy is the log"
    ENDED = "there is no copy"


class Move:
    """The move of one replica."""

    def __init__(
        self, partition: Partition, source: LogDirectory, target: LogDirectory, future: FutureLog
    ) -> None:
        self.partition = partition
        self.place = TopicPartition(partition.topic, partition.index)
        self.source = source
        self.target = target
        self.future = future
        self.state = MoveState.COPYING
        self.is_called_off = False
        self.task: asyncio.Task[None] | None = None

    @property
    def is_current(self) -> bool:
        """Whether the replica is still in the source, and both directories are in service."""
        return (
            self.source.logs.get(self.place) is self.future.source
            and self.source.failure is None
            and self.target.failure is None
        )

    @property
    def is_wanted(self) -> bool:
        """Whether the move should continue."""
        return self.is_current and not self.is_called_off


class Moves:
    """All moves of a node. They run until `aclose`."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        commits: GroupCommits,
        writer: CheckpointWriter,
        log: Logger,
    ) -> None:
        self.on_moved: Callable[[Partition, LogDirectory], None] = lambda partition, to: None
        """Called when a replica has moved to another directory."""
        self._runtime = runtime
        self._directories = directories
        self._commits = commits
        self._writer = writer
        self._log = log
        self._moves: dict[TopicPartition, Move] = {}
        self._throttle = Throttle(MoveOptions().bytes_per_second_max)
        self._slots = slots(MoveOptions().at_a_time)
        self._is_closing = False

    async def idle(self) -> None:
        """Wait until no move is in progress."""
        while self._moves:
            await ended(next(task for each in self._moves.values() if (task := each.task)))

    async def settled(self, partition: Partition) -> None:
        """Wait while the replica's copy is taking over."""
        move = self._moves.get(_place(partition))
        if move is not None and move.task is not None and move.state is MoveState.TAKING_OVER:
            await ended(move.task)

    def configure(self, options: MoveOptions, *, is_start: bool = False) -> None:
        """Apply other options. The number of simultaneous moves is fixed at the start."""
        self._throttle.change(options.bytes_per_second_max, self._runtime.clock.monotonic())
        if is_start:
            self._slots = slots(options.at_a_time)

    def __len__(self) -> int:
        return len(self._moves)

    # Requests.

    def begin(self, partition: Partition, target: LogDirectory, on_begun: OnBegun) -> None:
        """Begin to move the replica to this directory, which `target_of` returned. `on_begun` is
        called with None when a copy exists that a restart would continue, or with the KafkaError.

        If the replica is in the directory already, only a running move of it is cancelled. If it is
        already moving there, nothing changes.
        """
        self._runtime.spawn(self._begin(partition, target, on_begun), name="move-begin")

    def target_of(self, topic: str, index: int, path: str) -> LogDirectory:
        """Return the directory of this path. Raise LOG_DIR_NOT_FOUND if it does not exist,
        KAFKA_STORAGE_ERROR if it is out of service, INVALID_REPLICA_ASSIGNMENT if it is cordoned
        (KIP-1066), INVALID_TOPIC_EXCEPTION if the topic's name leaves no room for a suffix."""
        directories = self._directories
        target = next((each for each in directories.directories if each.path == path), None)
        if target is None:
            code = ErrorCode.LOG_DIR_NOT_FOUND
            if path in directories.unopened:
                code = ErrorCode.KAFKA_STORAGE_ERROR
            raise KafkaError(code, directory=path)
        if target.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, directory=path)
        if target.directory_id in directories.cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "cordoned off", directory=path)
        place = TopicPartition(topic, index)
        name = names.marked_dir_name(place, bytes(_UNIQUE_BYTES), names.FUTURE_DIR)
        if len(name) > names.NAME_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "too long a name to move", topic=topic
            )
        return target

    async def _begin(self, partition: Partition, target: LogDirectory, on_begun: OnBegun) -> None:
        try:
            await self._begin_or_refuse(partition, target)
        except KafkaError as error:
            on_begun(error)
        else:
            on_begun(None)

    async def _begin_or_refuse(self, partition: Partition, target: LogDirectory) -> None:
        place = _place(partition)
        while (known := self._moves.get(place)) is not None:
            if known.target is target and known.is_wanted:
                return
            known.is_called_off = True
            assert known.task is not None
            await ended(known.task)
        source = self._source_of(partition)
        if source is target or self._is_closing:
            return
        target.checkpoints.forget_departed()
        unique = self._runtime.random.randbytes(_UNIQUE_BYTES)
        name = names.marked_dir_name(place, unique, names.FUTURE_DIR)
        found = CopyLocation(f"{target.path}/{name}", partition.topic_id)
        move = self._made(partition, source, target, found)
        begun = new_future()
        self._start(move, begun)
        await begun

    def _source_of(self, partition: Partition) -> LogDirectory:
        """Return the replica's directory. Raise KafkaError if it is out of service."""
        place = _place(partition)
        source = self._directories.directory_of(place)
        if source is None or source.logs[place] is not partition.log:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=place.topic)
        directories = self._directories
        if directories.unopened or len(directories.in_service()) < len(directories.directories):
            # A copy of the replica may be in a directory that cannot be read.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a log directory is out of service")
        return source

    def resume(self, partition: Partition) -> None:
        """Continue a move of an earlier run. Call it before the log grows in this run."""
        place = _place(partition)
        for target in self._directories.in_service():
            left = target.copies.left.pop(place, None)
            if left is None:
                continue
            source = self._directories.directory_of(place)
            if source is None or source is target or place in self._moves or self._is_closing:
                self._remove(left)
                continue
            found = CopyLocation(left.path, partition.topic_id, left.opening)
            try:
                self._start(self._made(partition, source, target, found), None)
            except KafkaError as error:
                self._report(place, target, error)

    def _made(
        self, partition: Partition, source: LogDirectory, target: LogDirectory, place: CopyLocation
    ) -> Move:
        future = FutureLog(partition.log, place)
        move = Move(partition, source, target, future)
        self._moves[move.place] = move
        source.copies.departing.add(move.place)
        target.copies.futures[move.place] = future
        return move

    def _start(self, move: Move, begun: asyncio.Future[None] | None) -> None:
        move.task = self._runtime.spawn(self._run(move, begun), name="move")

    def call_off(self, place: TopicPartition) -> None:
        """Cancel the move of a deleted replica, and remove a copy that an earlier run left."""
        move = self._moves.get(place)
        if move is not None:
            move.is_called_off = True
        for directory in self._directories.in_service():
            left = directory.copies.left.pop(place, None)
            if left is not None:
                self._remove(left)

    def call_off_unknown(self, is_known: Callable[[TopicPartition], bool]) -> None:
        """Remove an earlier run's copies of replicas that the cluster does not know any more."""
        for directory in self._directories.in_service():
            for place in list(directory.copies.left):
                if not is_known(place):
                    self._remove(directory.copies.left.pop(place))

    async def aclose(self) -> None:
        """Stop the moves between two steps. Their copies stay, and the next run continues them."""
        self._is_closing = True
        for move in list(self._moves.values()):
            if move.task is not None:
                await ended(move.task)

    # The moves.

    async def _run(self, move: Move, begun: asyncio.Future[None] | None) -> None:
        error: MoldauError | OSError | None = None
        try:
            try:
                await self._go(move, begun)
            except (MoldauError, OSError) as failure:
                error = without_frames(failure)
            await self._end(move, error)
        finally:
            move.partition.carry_on()
            del self._moves[move.place]
            if begun is not None and not begun.done():
                begun.set_exception(_refusal(move, error))

    async def _go(self, move: Move, begun: asyncio.Future[None] | None) -> None:
        await self._runtime.run_blocking(move.future.open, self._now_ms())
        if begun is not None and not begun.done():
            begun.set_result(None)
        async with self._slots:
            await self._copy(move)
            if move.is_wanted and not self._is_closing:
                await self._take_over(move)

    async def _copy(self, move: Move) -> None:
        """Copy until the copy has had all records of the log once, the records since then are at
        most one piece, and less than a piece is not durable yet."""
        future, run_blocking = move.future, self._runtime.run_blocking
        unsynced, was_level = PIECE_BYTES, False
        while move.is_wanted and not self._is_closing:
            piece = future.next_piece()
            if piece is None or (piece.is_last and was_level):
                if unsynced < PIECE_BYTES:
                    return
                await run_blocking(future.sync)
                unsynced = 0
                continue
            await run_blocking(future.copy, piece, self._now_ms())
            unsynced += len(piece.records)
            was_level = was_level or piece.is_last
            turn = self._throttle.count(len(piece.records), self._runtime.clock.monotonic())
            await self._wait(move, turn)

    async def _wait(self, move: Move, turn: float) -> None:
        """Wait for the throttle, whose rate may change meanwhile. A move that is to end does not
        wait."""
        clock = self._runtime.clock
        while move.is_wanted and not self._is_closing:
            left = self._throttle.left(turn, clock.monotonic())
            if left <= 0:
                return
            await rest(min(left, LOOK_SECONDS))

    async def _take_over(self, move: Move) -> None:
        future, run_blocking = move.future, self._runtime.run_blocking
        move.state = MoveState.TAKING_OVER
        move.partition.hold()
        try:
            future.catch_up(self._now_ms())
            await run_blocking(future.settle)
            move.target.copies.arriving[move.place] = future.log
            await self._writer.write(move.target, *POINTS)
            if not move.is_current:
                return
            copied_to = future.path
            await run_blocking(future.rename, move.target.state.home_of(move.place))
            try:
                self._switch(move)
            except (KafkaError, OSError):
                await self._rename_back(move, copied_to)
                raise
        finally:
            move.partition.carry_on()
        await self._bury(move)

    def _switch(self, move: Move) -> None:
        """Make the copy the log, from now on."""
        if not move.is_current:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition=str(move.place))
        source, target, place = move.source, move.target, move.place
        move.future.take_over(target.owner, self._now_ms())
        topic_id = source.topic_ids[place]
        cleaned_offset = source.cleaned_offsets.get(place)
        source.copies.depart(place)
        target.copies.arrive(place, topic_id, cleaned_offset)
        move.partition.move_to(move.future.log, self._commits.of(target))
        move.state = MoveState.MOVED

    async def _rename_back(self, move: Move, path: str) -> None:
        """Undo the copy's rename after a failed takeover, or take the log out of service."""
        with suppress(KafkaError):
            await self._runtime.run_blocking(move.future.rename, path)
            return
        reason = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "half moved", partition=str(move.place))
        move.future.source.state.take_out_of_service(reason)
        if move.is_current:
            move.partition.stop(ErrorCode.KAFKA_STORAGE_ERROR)

    async def _bury(self, move: Move) -> None:
        """Rename the old log for deletion, and then remove the mark that says which log counts."""
        old, source, run_blocking = move.future.source, move.source, self._runtime.run_blocking
        unique = self._runtime.random.randbytes(_UNIQUE_BYTES)
        name = names.marked_dir_name(move.place, unique, names.DELETE_DIR)
        try:
            old.disown()
            await run_blocking(old.move, f"{source.path}/{name}")
        except KafkaError:
            if isinstance(old.failure, OSError):
                source.state.fail(old.failure)
            return
        source.removals.bury(old, self._now_ms())
        await self._writer.write(move.target, *POINTS)
        try:
            await run_blocking(move.future.clear_mark)
        except OSError as error:
            move.target.state.fail(error)

    # The end of a move.

    async def _end(self, move: Move, error: MoldauError | OSError | None) -> None:
        """End the move. No copy is left that could be mistaken for a replica."""
        move.source.copies.departing.discard(move.place)
        if move.state is MoveState.MOVED:
            self._log.info("moved a replica", partition=str(move.place), directory=move.target.path)
            self.on_moved(move.partition, move.target)
            return
        move.state = MoveState.ENDED
        self._blame(move, error)
        if error is not None:
            self._report(move.place, move.target, error)
        if self._is_closing and error is None and not move.is_called_off:
            return  # the copy is closed with its directory
        move.target.copies.withdraw(move.place)
        if error is None or move.target.failure is None:
            await self._discard(move)

    def _blame(self, move: Move, error: MoldauError | OSError | None) -> None:
        """Take the directory out of service whose disk failed."""
        future = move.future
        if future.unreadable is not None:
            move.source.state.fail(future.unreadable)
        elif isinstance(future.failure, OSError):
            move.target.state.fail(future.failure)
        elif isinstance(error, OSError):
            move.target.state.fail(error)

    async def _discard(self, move: Move) -> None:
        """Remove the copy. Keep it for later if the disk of the replica itself has failed."""
        is_kept = not move.is_called_off and move.source.failure is not None
        future = move.future
        with suppress(KafkaError):
            try:
                await self._runtime.run_blocking(future.close if is_kept else future.discard)
            except OSError as error:
                move.target.state.fail(error)

    def _remove(self, left: LeftDirectory) -> None:
        self._runtime.spawn(self._remove_tree(left.path), name="move-remove")

    async def _remove_tree(self, path: str) -> None:
        try:
            await self._runtime.run_blocking(self._runtime.files.remove_tree, path)
        except OSError as error:
            self._log.failure("what is left of a copy cannot be removed", error, path=path)

    def _report(
        self, place: TopicPartition, target: LogDirectory, error: MoldauError | OSError
    ) -> None:
        self._log.failure(
            "a replica cannot move and stays where it is",
            error,
            partition=str(place),
            directory=target.path,
        )

    def _now_ms(self) -> int:
        return self._runtime.clock.wall_ms()


def _place(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.index)


def _refusal(move: Move, error: MoldauError | OSError | None) -> KafkaError:
    """Return the reason why there is no copy."""
    if isinstance(error, KafkaError):
        return error
    code = ErrorCode.KAFKA_STORAGE_ERROR
    return KafkaError(code, partition=str(move.place), directory=move.target.path)
