"""Write snapshots of the metadata, and remove old ones, without a stall of the event loop.

Order of one snapshot: write its batches to the page cache, one a turn of the event loop -> sync it
and give it its name on a thread -> let it count -> remove the snapshots that it replaces on a
thread -> delete the log before the oldest that is left.

Invariants: one piece of work runs at a time. A crash at any point leaves the old snapshots and log,
or the new snapshot beside them: a file counts once it is complete and durable, and the log loses no
record that is not in a snapshot on the disk. After `aclose` nothing touches the files.

Why the batches are made on the event loop: encoding is work of the interpreter. A thread would also
take the interpreter from the event loop, for longer turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.log.rounds import ended, rest
from moldau.errors import MoldauError, without_frames

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.raft.quorum import Quorum, SnapshotJob
    from moldau.broker.raft.snapshots import SnapshotId
    from moldau.runtime import Runtime

Work: TypeAlias = Callable[[], Awaitable[None]]
OnEnd: TypeAlias = Callable[["Exception | None"], None]


class SnapshotKeeper:
    """Writes and removes the snapshots of one quorum."""

    def __init__(self, runtime: Runtime, quorum: Quorum) -> None:
        self._runtime = runtime
        self._quorum = quorum
        self._running: asyncio.Task[Exception | None] | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether work is running, so that no other can begin."""
        return self._running is not None

    def write_soon(self, end_offset: int, batches: Iterable[bytearray], on_end: OnEnd) -> None:
        """Start to write a snapshot of all below `end_offset`, then remove old ones. `batches` are
        made one by one while other work runs, from data that does not change meanwhile. `on_end` is
        called at the end, with the error if there was one, but not after `aclose`."""
        self._run(partial(self._write, end_offset, batches), on_end)

    def clean_soon(self, on_end: OnEnd) -> None:
        """Start to remove the snapshots that the retention allows to remove."""
        self._run(self._clean, on_end)

    async def store(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Store a snapshot of the leader beside the log, after the running work. Nothing is stored
        if the quorum ended meanwhile. Raise the errors of `Quorum.store_snapshot`."""
        while self._running is not None:
            await self.idle()
        if self._is_over():
            return
        running = self._run(partial(self._store, snapshot_id, data), lambda failure: None)
        await ended(running)
        failure = running.result()
        if failure is not None:
            raise failure

    async def idle(self) -> None:
        """Wait until no work is running."""
        if self._running is not None:
            await ended(self._running)

    async def aclose(self) -> None:
        """Discard an unfinished snapshot. No work is running on return, and none begins."""
        self._is_closed = True
        await self.idle()

    def _is_over(self) -> bool:
        return self._is_closed or self._quorum.log.failure is not None

    def _run(self, work: Work, on_end: OnEnd) -> asyncio.Task[Exception | None]:
        assert self._running is None, "one after the other"
        running = self._runtime.spawn(self._end(work, on_end), name="metadata-snapshot")
        self._running = running
        return running

    async def _end(self, work: Work, on_end: OnEnd) -> Exception | None:
        failure: Exception | None = None
        try:
            await work()
        except (OSError, MoldauError) as error:
            failure = without_frames(error)
        finally:
            self._running = None
        if not self._is_closed:
            on_end(failure)
        return failure

    async def _store(self, snapshot_id: SnapshotId, data: bytes) -> None:
        await self._runtime.run_blocking(self._quorum.store_snapshot, snapshot_id, data)

    async def _write(self, end_offset: int, batches: Iterable[bytearray]) -> None:
        if self._is_over():
            return
        quorum, runtime = self._quorum, self._runtime
        job = quorum.begin_snapshot(end_offset, runtime.clock.wall_ms())
        if job is None or not await self._fill(job, batches):
            return
        await runtime.run_blocking(job.file.finish)
        if self._is_over():
            return
        if quorum.is_superseded(job):
            await runtime.run_blocking(quorum.remove, (job.snapshot_id,))
            return
        quorum.end_snapshot(job)
        await self._clean()

    async def _fill(self, job: SnapshotJob, batches: Iterable[bytearray]) -> bool:
        """Write the batches. Return whether all are in the file; if not, it is removed."""
        is_whole = False
        try:
            for batch in batches:
                job.file.append(batch)
                await rest(0)
                if self._is_over() or self._quorum.is_superseded(job):
                    return False
            is_whole = True
        finally:
            if not is_whole:
                job.file.discard()
        return True

    async def _clean(self) -> None:
        if self._is_over():
            return
        quorum, runtime = self._quorum, self._runtime
        needless = quorum.take_needless(runtime.clock.wall_ms())
        if needless:
            try:
                await runtime.run_blocking(quorum.remove, needless)
            except OSError:
                quorum.put_back(needless)
                raise
        if not self._is_over():
            quorum.trim(runtime.clock.wall_ms())
