"""How a task's part of a batch gets into its topics: in one transaction, or at least once.

An attempt of a task that writes exactly once works in this order:

1. It opens a producer with the transactional id of the task, `APP-spark-PROGRAM_PARTITION`, which
   fences earlier attempts (`moldau.executors.transactions`).
2. It reads what the last transaction of the task has recorded. If that is this batch, an earlier
   attempt has committed it: the attempt writes nothing, and the version of that one counts. If a
   later driver has taken over, or the app has begun a later checkpoint or moved to the embedded
   engine, the attempt fails.
3. It writes its outputs, then the files of its stores, and commits. The transaction also records
   the version, as the text of the offsets of a group of the app, `APP-spark`.

The files are written before the commit, so a version that is recorded can be read. A driver that
dies between the commits of its tasks runs the batch again, and the tasks that have committed do
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.client.sync import Admin, Deliveries, Producer
from moldau.deferred import dataclass
from moldau.executors.clients import cached_client
from moldau.executors.transactions import fencing_producer, record_offsets, recorded_offsets
from moldau.streams.engine.batches import Outputs
from moldau.streams.spark.recorded import (
    begun_text,
    check_may_write,
    recorded_text,
    recorded_version,
    taken_text,
)
from moldau.streams.spark.versions import Version

TaskTexts = Mapping[str, tuple[int, str]]
"""What is recorded of a task: the offset and the text of each input."""


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """A task's part of a batch. `checkpoint` is the id of the checkpoint that numbers the batches,
    `run` that of the driver among those that have held it."""

    app: str
    program: int
    partition: int
    checkpoint: str
    run: int
    batch: int

    @property
    def group(self) -> str:
        return group_of(self.app)

    @property
    def transactional_id(self) -> str:
        return transactional_id_of(self.app, self.program, self.partition)


def group_of(app: str) -> str:
    """Return the group that has the offsets of all tasks."""
    return f"{app}-spark"


def transactional_id_of(app: str, program: int, partition: int) -> str:
    """Return the transactional id of a task."""
    return f"{group_of(app)}-{program}_{partition}"


class Delivery(Protocol):
    """What an attempt of a task does with its outputs."""

    def committed(self, inputs: tuple[str, ...], before: Version) -> Version | None:
        """Return the version that counts, if an earlier attempt has committed this batch.
        `before` is the version that the batch begins with."""

    def transaction(self) -> AbstractContextManager[object]:
        """Return a block at whose end all outputs are acknowledged, and count."""

    def send(self, outputs: Outputs) -> None:
        """Send outputs, in the block."""

    def record(self, before: Version, after: Version) -> None:
        """Record the version `after`, with its offsets, beside the outputs, in the block."""


@contextmanager
def at_least_once(settings: Mapping[str, str]) -> Iterator[Delivery]:
    """Yield a delivery without transactions: a batch that runs again is written again."""
    yield _AtLeastOnce(cached_client(Producer, settings))


@contextmanager
def exactly_once(
    producer: Mapping[str, str], admin: Mapping[str, str], batch: TaskBatch
) -> Iterator[Delivery]:
    """Yield a delivery in one transaction. Its producer fences those of earlier attempts."""
    with fencing_producer(producer, batch.transactional_id) as opened:
        yield _ExactlyOnce(batch, opened, cached_client(Admin, admin))


def record_beginning(
    producer: Mapping[str, str], admin: Admin, batch: TaskBatch, offsets: Mapping[str, int]
) -> None:
    """Record that the checkpoint has begun for a task. Earlier attempts are fenced before, and
    later ones of older checkpoints find it. Raise TransactionError if one comes between, StateError
    if a newer checkpoint has begun meanwhile."""
    with fencing_producer(producer, batch.transactional_id) as opened:
        _recorded(admin, batch, offsets)
        text = begun_text(batch.checkpoint, batch.run)
        with opened.transaction():
            _record(opened, batch, {topic: (offset, text) for topic, offset in offsets.items()})


def take_task(
    producer: Mapping[str, str], admin: Admin, batch: TaskBatch, offsets: Mapping[str, int]
) -> TaskTexts:
    """Return what the last attempt of a task has recorded, and fence all attempts of earlier runs,
    for good. `offsets` are those of the task's inputs in the checkpoint. Raise StreamsError if
    another run has the task, TransactionError if an attempt comes between."""
    with fencing_producer(producer, batch.transactional_id) as opened:
        recorded = _recorded(admin, batch, offsets)
        unknown = {topic: (max(offset, 0), "") for topic, offset in offsets.items()}
        taken = {
            topic: (offset, taken_text(text, batch.checkpoint, batch.run))
            for topic, (offset, text) in {**unknown, **recorded}.items()
        }
        with opened.transaction():
            _record(opened, batch, taken)
    return recorded


class _AtLeastOnce:
    def __init__(self, producer: Producer[Any, Any]) -> None:
        self._producer = producer
        self._sent: list[Deliveries] = []

    def committed(self, inputs: tuple[str, ...], before: Version) -> Version | None:
        return None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield
        for each in self._sent:
            each.result()

    def send(self, outputs: Outputs) -> None:
        self._sent.append(_send(self._producer, outputs))

    def record(self, before: Version, after: Version) -> None:
        pass


class _ExactlyOnce:
    def __init__(self, batch: TaskBatch, producer: Producer[Any, Any], admin: Admin) -> None:
        self._batch = batch
        self._producer = producer
        self._admin = admin

    def committed(self, inputs: tuple[str, ...], before: Version) -> Version | None:
        batch = self._batch
        recorded = _recorded(self._admin, batch, inputs)
        return recorded_version(recorded, batch.checkpoint, batch.batch, before)

    def transaction(self) -> AbstractContextManager[object]:
        return self._producer.transaction()

    def send(self, outputs: Outputs) -> None:
        _send(self._producer, outputs)  # the commit waits for all records

    def record(self, before: Version, after: Version) -> None:
        batch = self._batch
        text = recorded_text(batch.checkpoint, batch.run, before, after)
        found = {topic: (offset, text) for topic, offset in after.offsets.items()}
        _record(self._producer, batch, found)


def _recorded(admin: Admin, batch: TaskBatch, inputs: Iterable[str]) -> TaskTexts:
    """Return what is recorded of a task. Raise StateError if its batch must not be written."""
    wanted = [TopicPartition(topic, batch.partition) for topic in inputs]
    # Not those of other tasks: an executor that was lost may have left some undecided.
    offsets = recorded_offsets(admin, batch.group, wanted)
    found = {where.topic: (each.offset, each.metadata) for where, each in offsets.items()}
    check_may_write((text for _, text in found.values()), batch.checkpoint, batch.run)
    return found


def _record(producer: Producer[Any, Any], batch: TaskBatch, recorded: TaskTexts) -> None:
    found = {
        TopicPartition(topic, batch.partition): OffsetAndMetadata(offset, metadata=text)
        for topic, (offset, text) in recorded.items()
    }
    record_offsets(producer, batch.group, found)


def _send(producer: Producer[Any, Any], outputs: Outputs) -> Deliveries:
    partitions = outputs.partitions
    if outputs.partitioning is not None:
        partitions = outputs.chosen(len(producer.partitions(outputs.topic)))
    return producer.send_many(
        outputs.topic,
        outputs.values,
        keys=outputs.keys,
        headers=outputs.headers or None,
        timestamps_ms=outputs.timestamps,
        partition=partitions or None,
    )
