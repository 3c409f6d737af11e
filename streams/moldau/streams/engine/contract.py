"""The contract between a task and what runs it (the test driver, a worker).

A task decides and never waits: it takes fetched records and the time, and returns records to send
and changes to log. A commit has these steps, in this order:

1. `flush()`: emit what caches hold back, write rows to the backings, return the changelogs.
2. `take_outputs()`: send these, and the changes, and wait until they are written.
3. Commit `positions()` with `metadata()` as the text of each offset.

A batch with async functions that waits, for them or for the pause of a `retry`, is *unfinished*:
the steps in front of the wait have run for all its records, and the positions stand before it. Then
stores and outputs hold more than the positions say, so a task is committed only between batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from moldau.streams.engine.batches import Chunk, Outputs
from moldau.streams.engine.construction import Store
from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.state.changes import ChangelogRecords


class EmitsPending(Exception):
    """An emit of a commit has failed and is due again at `due_ms`. Call `punctuate` then, and
    `flush` again. Nothing was flushed."""

    def __init__(self, due_ms: int) -> None:
        super().__init__(f"tried again at {due_ms}")
        self.due_ms = due_ms


class RunsPartition(Protocol):
    """One program on one partition. Made as Task(program, partition, backings, ...)."""

    may_pause: bool
    """Whether a batch may stay unfinished when all its calls have ended, for a `retry`."""

    def add(self, topic: str, chunk: Chunk) -> None:
        """Buffer fetched records of `topic`."""

    def set_at_end(self, topic: str, is_at_end: bool) -> None:
        """Set whether everything in the log of `topic` has been added. It decides on waiting."""

    def process(self, now_ms: int, limit: int = 500) -> int:
        """Run up to `limit` buffered records, lowest time first; return how many were run.

        0 means that nothing can run now. A limit of 0 continues an unfinished batch and begins no
        other. Raise RecordFailed if a record fails and its policy is to fail.
        """

    def punctuate(self, now_ms: int) -> None:
        """Run what is due by the wall clock: idle windows and punctuators."""

    def take_outputs(self) -> list[Outputs]:
        """Return the records made since the last call, one batch for each topic."""

    def flush(self) -> Mapping[str, ChangelogRecords]:
        """Emit what caches hold back, write all rows, return the changes of each logged store.
        Raise EmitsPending if that has to wait for another attempt. Only between batches."""

    def is_unfinished(self) -> bool:
        """Whether a batch has begun and is not done."""

    def wants_commit(self) -> bool:
        """Whether an operator has requested a commit since the last one."""

    def has_timer_fired(self) -> bool:
        """Whether a timer of the wall clock was called since the last commit."""

    def close(self) -> None:
        """End the operators, after the last commit: what they emit is dropped."""

    def restore(self, store: str, changes: ChangelogRecords) -> None:
        """Apply changelog records of a store. Only before the first `process`."""

    def expire_restored(self, *, is_last: bool = False) -> None:
        """Delete restored rows that are out of retention, by the times of what was restored and by
        those that were kept with the offsets, as a commit of the task that wrote them does. The
        last time before the task runs, histories are left to its commits."""

    def positions(self) -> Mapping[str, int]:
        """Return, for each input topic read so far, the offset to read next after a restart."""

    def metadata(self) -> str:
        """Return the text to keep with the offsets: the stream time of each operator."""

    def buffered(self, topic: str) -> int:
        """Return how many records of `topic` are buffered. If too many, pause its fetching."""

    def store(self, name: str) -> Store:
        """Return a store of the task, to be read between two calls of `process`."""

    def counters(self) -> Mapping[str, int]:
        """Return how many records were left out so far: by policies, and late ones by operator."""

    def limit_cache(self, size_bytes: int) -> None:
        """Set how much memory the cache of each store may take from now on."""

    def unflushed_bytes(self) -> int:
        """Estimate how much has changed in the task's stores since the last flush."""

    def take_calls(self) -> Sequence[AsyncCall]:
        """Return the coroutines of async functions. Await them, in any order and as many at a time
        as you like, and `finish` each. Until all are finished, `process` returns 0."""
