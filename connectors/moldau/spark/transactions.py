"""Write one task's part of a batch in one transaction: a batch that runs again adds nothing.

Each task has a transaction of its own. Its transactional id is that of the query, with the number
of the task's partition, so it is the same when Spark runs the batch again. The transaction also
commits the number of the batch, as the offset of a consumer group that has the same name. Brokers
keep both or neither. A task works in this order:

1. It opens a producer with that id, which fences earlier attempts of the task
   (`moldau.executors.transactions`).
2. It reads the number of the last committed batch. If that is this batch or a later one, the task
   writes nothing.
3. It writes its rows, adds the number of the batch, and commits.

Readers may see the rows of one task before those of another one, and see each row once.

A batch that runs again must have the same rows in the same tasks. Spark's checkpoint has the
offsets of a batch, so that holds unless the split changes: another number of cores for a source of
files, another `minPartitions`, another number of shuffle partitions. Then a task could leave out
rows that no transaction has. So a commit also has the number of its rows, and a task that finds
another number there fails instead of leaving rows out. The content is not compared: a function such
as `uuid()` may return something else each time, and each row is still written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyspark import TaskContext

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.client.settings.rows import OF_PRODUCERS_AND_CONSUMERS
from moldau.client.sync import Admin, Producer
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.executors.clients import cached_client
from moldau.executors.transactions import fencing_producer, record_offsets, recorded_offsets

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_ROWS: Final = "rows="
"""Stands before the number of rows in what a commit says about itself."""


@dataclass(frozen=True)
class TaskBatch:
    """One task's part of one batch. `batch` is larger in each later batch of the writer."""

    writer: str
    partition: int
    batch: int

    @property
    def id(self) -> str:
        """The transactional id, and the group that has the number of the last batch."""
        return f"moldau-spark-{self.writer}-{self.partition}"


def current_task(name: str | None, batch: int | None) -> TaskBatch:
    """Return the part of the batch that the task writes which calls this.

    A stream has a name and numbers of its own. Others, such as `foreachBatch`, give both.
    """
    context = TaskContext.get()
    assert context is not None, "only tasks write"
    if name is not None and batch is not None:
        return TaskBatch(name, context.partitionId(), batch)
    query, number = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    assert query is not None, "Spark gives these to each task of a stream"
    assert number is not None
    return TaskBatch(query, context.partitionId(), int(number))


@dataclass
class Attempt:
    """One attempt at a task's part of a batch. The caller counts its rows before the end."""

    producer: Producer[Any, Any] | None
    """In a transaction; None if an earlier attempt has committed the batch."""
    rows: int = 0


@contextmanager
def committed_once(settings: Mapping[str, str], task: TaskBatch, topic: str) -> Iterator[Attempt]:
    """Yield an attempt, whose transaction is committed with the batch's number at the end.

    If the batch is committed already, the attempt has no producer: then count the rows and write
    nothing. The number is stored under partition 0 of `topic`, which must exist. Raise
    TransactionError if another attempt of the task has taken over; nothing of this one is read
    then. Raise ConfigError if the committed rows cannot be those of this batch.
    """
    with fencing_producer(settings, task.id) as producer:
        last = _last_commit(settings, task)
        if last is not None and last.offset >= task.batch:
            done = Attempt(None)
            yield done
            _check_committed(task, last, done.rows)
            return
        with producer.transaction():
            attempt = Attempt(producer)
            yield attempt
            note = OffsetAndMetadata(task.batch, metadata=f"{_ROWS}{attempt.rows}")
            record_offsets(producer, task.id, {TopicPartition(topic, 0): note})


def _check_committed(task: TaskBatch, last: OffsetAndMetadata, rows: int) -> None:
    """Raise ConfigError unless the rows that were committed are those of this batch."""
    if last.offset > task.batch:
        raise ConfigError(
            "the query has written a later batch than its checkpoint knows of: use the checkpoint "
            "that it had, or a new one. exactlyOnce=false writes the batch again (connector: "
            "exactly.once=off)",
            batch=task.batch,
            written=last.offset,
            group=task.id,
        )
    if last.metadata != f"{_ROWS}{rows}":
        raise ConfigError(
            "a part of this batch is written, with other rows in this task: start the query with "
            "the options and the number of cores that it had. exactlyOnce=false writes the whole "
            "batch again (connector: exactly.once=off)",
            batch=task.batch,
            task=task.partition,
            rows=rows,
            written=last.metadata,
            group=task.id,
        )


def _last_commit(settings: Mapping[str, str], task: TaskBatch) -> OffsetAndMetadata | None:
    """Return the number of the task's last committed batch, and how many rows that had."""
    known = {
        name: each for name, each in settings.items() if name not in OF_PRODUCERS_AND_CONSUMERS
    }
    found = recorded_offsets(cached_client(Admin, known), task.id)
    return max(found.values(), default=None)
