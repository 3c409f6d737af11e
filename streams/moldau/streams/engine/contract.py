"""The contract between a task and what runs it (the test driver, a worker).

A task decides and never waits: it is given fetched records and the time, and hands out records to
send and changes to log. A commit is, in this order:

1. `flush()`: emit what caches hold back, write rows to the backings, return the changelogs.
2. `take_outputs()`: send these, and the changes, and wait until they are written.
3. Commit `positions()` with `metadata()` as the text of each offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from moldau.streams.engine.batches import Chunk, Outputs
from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.engine.parts import Store
from moldau.streams.state.changes import Changes


class EmitsPending(Exception):
    """What a commit must emit has failed and is tried again at `due_ms`: `punctuate` then, and
    `flush` again. Nothing was flushed."""

    def __init__(self, due_ms: int) -> None:
        super().__init__(f"tried again at {due_ms}")
        self.due_ms = due_ms


class RunsPartition(Protocol):
    """One program on one partition. Made as Task(program, partition, backings, ...)."""

    def add(self, topic: str, chunk: Chunk) -> None:
        """Buffer fetched records of `topic`."""
        ...

    def set_at_end(self, topic: str, is_at_end: bool) -> None:
        """Whether everything in the log of `topic` has been added: decides about waiting."""
        ...

    def process(self, now_ms: int, limit: int = 500) -> int:
        """Run up to `limit` buffered records, lowest time first; return how many were run.

        0 means: nothing to do now. Raises RecordFailed if a record fails and its policy is to fail.
        """
        ...

    def punctuate(self, now_ms: int) -> None:
        """Run what is due by the wall clock: idle windows and punctuators."""
        ...

    def take_outputs(self) -> list[Outputs]:
        """Hand over what was made since the last call, a batch a topic."""
        ...

    def flush(self) -> Mapping[str, Changes]:
        """Emit what caches hold back, write all rows, return the changes of each logged store.

        EmitsPending if that has to wait for another attempt."""
        ...

    def wants_commit(self) -> bool:
        """Whether an operator has asked for a commit since the last one."""
        ...

    def close(self) -> None:
        """Tell the operators that it is over, after the last commit: what they emit is dropped."""
        ...

    def restore(self, store: str, changes: Changes) -> None:
        """Apply changelog records of a store. Only before the first `process`."""
        ...

    def positions(self) -> Mapping[str, int]:
        """For each input topic read from so far: the offset to read next after a restart."""
        ...

    def metadata(self) -> str:
        """What must be kept with the offsets: the stream time of each operator."""
        ...

    def buffered(self, topic: str) -> int:
        """How many records of `topic` wait: pause its fetching when there are too many."""
        ...

    def store(self, name: str) -> Store:
        """One of its stores, to be read between two calls of `process`."""
        ...

    def counters(self) -> Mapping[str, int]:
        """What was left out so far: by policies, and late records by operator."""
        ...

    def limit_cache(self, size_bytes: int) -> None:
        """How much memory the caches of each of its stores may take from now on."""
        ...

    def unflushed_bytes(self) -> int:
        """About how much has changed in its stores since the last flush."""
        ...

    def take_calls(self) -> Sequence[AsyncCall]:
        """Coroutines of async functions: await them, in any order and as many at a time as you
        like, and `finish` each. Until all are finished, `process` returns 0."""
        ...
