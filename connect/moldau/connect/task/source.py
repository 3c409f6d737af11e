"""A source task: poll, transform, convert, produce; store offsets of what is durable.

Invariants: an offset is stored only when its record and all before it of its source partition are
acknowledged, skipped on purpose or dropped by a transform; a record that the cluster rejects fails
the task (or is skipped, if errors are tolerated), so nothing is lost silently. After a crash the
source continues from the last stored offset: at least once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.client.sync import Producer
from moldau.connect.api import OffsetStorageReader, SourceRecord, SourceTask, SourceTaskContext
from moldau.connect.api.task import TransactionContext
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.task.offsets import AskedOffsets
from moldau.connect.task.parts import Parts, make_parts
from moldau.connect.task.runner import TaskRunner, in_order
from moldau.connect.task.settings import whole
from moldau.connect.task.source_batches import SourceBatches
from moldau.connect.task.submitted import Offsets, Submitted, SubmittedRecords, merged
from moldau.connect.task.tolerance import Failure, Skipped, Stage
from moldau.connect.task.topic_creation import TopicCreation
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.client import Sent

IDLE_S: Final = 0.1
RETRY_MS: Final = 1_000
FLUSH_PART: Final = 0.5
"""The part of the time for a graceful stop that the last flush may take."""


class _Context(SourceTaskContext):
    def __init__(
        self,
        config: dict[str, str],
        offsets: OffsetStorageReader,
        tell: Callable[[str | None], None],
    ) -> None:
        self._config = config
        self._offsets = offsets
        self._tell = tell

    def tell_waiting(self, cause: str | None) -> None:
        self._tell(cause)

    @property
    def configs(self) -> dict[str, str]:
        return dict(self._config)

    @property
    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._offsets

    @property
    def transaction_context(self) -> TransactionContext | None:
        return None


class SourceRunner(TaskRunner):
    """Runs one source task."""

    _parts: Parts
    _task: SourceTask
    _producer: Producer

    def open(self) -> None:
        self._is_started = False
        self._submitted = SubmittedRecords()
        self._unstored: Offsets = []
        self._failed: tuple[KafkaError, SourceRecord] | None = None
        self._delivered: deque[tuple[SourceRecord, Sent | None]] = deque()
        self._topics: set[str] = set()
        self._counts = {"polled": 0, "written": 0, "commits": 0, "commit_failures": 0}
        self._opened: list[tuple[str, Any]] = []
        self._parts = make_parts(self, reporters=[])
        self.secrets |= self._parts.secrets
        config, worker = self._parts.config, self._parts.worker
        self._interval_ms = whole(worker, "offset.flush.interval.ms", 60_000)
        self._grace_ms = whole(worker, "task.shutdown.graceful.timeout.ms", 5_000)
        self._flush_timeout_s = whole(worker, "offset.flush.timeout.ms", 5_000) / 1000
        self._commit_ms = self.now_ms() + self._interval_ms
        settings: dict[str, object] = {
            "client.id": f"connector-producer-{self.spec.id}",
            "acks": "all",
            "delivery.timeout.ms": "2147483647",
            "max.block.ms": "120000",
            **self._parts.client("producer"),
        }
        self._producer = Producer(settings)
        self._producer.start()
        self._opened.append(("producer", self._producer))
        self._creation = TopicCreation(config, worker, self._parts.client("admin"))
        task = self._parts.new_task()
        if not isinstance(task, SourceTask):
            raise ConnectError("the task class of a source connector must be a SourceTask")
        self._task = task
        self._batches = SourceBatches(self._parts, task, self._producer)
        self._task.initialize(_Context(config, AskedOffsets(self._ask_offsets), self.tell_cause))
        self._is_started = True
        in_order(lambda: self._task.start(self._parts.task_config), "the start of the task")

    def _ask_offsets(self, partitions: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        found: list[dict[str, Any] | None] = self.link.ask("offsets.read", partitions=partitions)
        return found

    def work(self) -> None:
        self._check_delivered()
        if self.is_paused:
            self._commit_if_due()
            self.rest(1.0)
            return
        records = self._poll()
        if not self._send_batch(records):
            for record in records or ():
                if self.link.is_stopping:
                    return  # unsent records are polled again after a restart
                self._send(record)
        self._commit_if_due()
        if not records:
            self.rest(IDLE_S)

    def _poll(self) -> Sequence[SourceRecord] | None:
        try:
            records = self._task.poll()
        except RetriableError as error:
            self.log.warn("the source is polled again", error=self._shown(error))
            self._parts.tolerance.counts.retries += 1
            self.tell_waiting(error)
            self.wait_ms(RETRY_MS)
            return None
        self.tell_waiting(None)
        self._counts["polled"] += len(records or ())
        return records

    def _send_batch(self, records: Sequence[SourceRecord] | None) -> bool:
        """Send the records as one batch. Return False if they have to be sent one by one."""
        converted = self._batches.convert(records)
        if converted is None:
            return False
        self._creation.ensure(converted.topic)
        self._note_topic(converted.topic)
        partition = converted.source_partition
        place = None if partition is None else dict(partition)
        self._batches.send(converted, partial(self._submitted.submit, place, converted.last_offset))
        return True

    def _note_topic(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            self.link.tell("topics", topics=[topic])

    def _send(self, record: SourceRecord) -> None:
        entry = self._submitted.submit(record.source_partition, record.source_offset)
        try:
            made = self._parts.chain.transformed(record, record)
            if made is None:
                self._drop(record, entry)
                return
            key, value, headers = self._parts.chain.source_bytes(made)
            self._creation.ensure(made.topic)
        except Skipped:
            self._drop(record, entry)
            return
        self._note_topic(made.topic)
        more: dict[str, Any] = {"partition": made.kafka_partition}
        if made.timestamp is not None:
            more["timestamp_ms"] = made.timestamp
        try:
            self._producer.send(
                made.topic,
                value,
                key=key,
                headers=headers,
                on_delivery=partial(self._on_delivery, record, entry),
                **more,
            )
        except KafkaError as error:
            self._refused(error, record, entry)

    def _drop(self, record: SourceRecord, entry: Submitted) -> None:
        entry.acknowledge()
        self._task.commit_record(record, None)

    def _on_delivery(
        self, record: SourceRecord, entry: Submitted, sent: Sent | None, error: KafkaError | None
    ) -> None:
        """Note the result of a delivery. Called on the client's thread, so it does nothing else."""
        if error is None:
            entry.acknowledge()
            self._delivered.append((record, sent))
        elif self._parts.tolerance.settings.tolerates:
            entry.acknowledge()
            self._delivered.append((record, None))
        elif self._failed is None:
            self._failed = (error, record)

    def _refused(self, error: KafkaError, record: SourceRecord, entry: Submitted) -> None:
        failure = Failure(Stage.KAFKA_PRODUCE, "moldau.client.Producer", error, record)
        try:
            self._parts.tolerance.settle(failure, lambda: None)
        except Skipped:
            self._drop(record, entry)

    def _check_delivered(self) -> None:
        """Tell the connector which records are durable. Raise ConnectError for a rejected one."""
        self._note_delivered()
        if self._failed is not None:
            error, record = self._failed
            raise ConnectError(
                "the cluster refused a record", topic=record.topic, error=str(error)
            ) from error

    def _note_delivered(self) -> None:
        while self._delivered:
            record, sent = self._delivered.popleft()
            self._counts["written"] += sent is not None
            self._task.commit_record(record, sent)
        self._counts["written"] += self._batches.settle()

    # Offsets

    def _commit_if_due(self) -> None:
        if self.now_ms() >= self._commit_ms:
            self._commit_offsets()

    def _commit_offsets(self) -> bool:
        """Store the offsets of durable records. If that fails, keep them for the next time."""
        self._commit_ms = self.now_ms() + self._interval_ms
        self._unstored = merged(self._unstored, self._submitted.committable())
        if not self._unstored:
            return True
        try:
            self.link.ask("offsets.write", timeout_s=self._flush_timeout_s, offsets=self._unstored)
        except ConnectError as error:
            self._counts["commit_failures"] += 1
            self.log.warn("offsets could not be stored, trying later", error=str(error))
            return False
        self._unstored = []
        self._counts["commits"] += 1
        self._task.commit()
        return True

    # The end

    def close(self, *, is_clean: bool) -> None:
        if self._is_started:
            self.guarded("flush", self._flush)
            self.guarded("stop", self._task.stop)
        for what, client in reversed(self._opened):
            self.guarded(f"close {what}", client.close if is_clean else partial(_abort, client))
        if hasattr(self, "_creation"):
            self.guarded("close admin", self._creation.close)
        if hasattr(self, "_parts"):
            self.guarded("close converters", self._parts.close)

    def _flush(self) -> None:
        """Wait for sent records, then store offsets, so that a restart repeats little."""
        try:
            self._producer.flush(timeout_s=self._grace_ms * FLUSH_PART / 1000)
        except (KafkaError, TimeoutError) as error:
            self.log.warn("not all records were acknowledged at the stop", error=str(error))
        self._note_delivered()
        self._commit_offsets()

    def _active(self) -> int:
        """Return the number of records that are not durable yet."""
        return self._submitted.count + (self._batches.waiting if self._is_started else 0)

    def metrics(self) -> dict[str, float]:
        counts = self._parts.tolerance.counts if hasattr(self, "_parts") else None
        return {
            "source-record-poll-total": float(self._counts["polled"]),
            "source-record-write-total": float(self._counts["written"]),
            "source-record-active-count": float(self._active()),
            "source-offset-commit-completion-total": float(self._counts["commits"]),
            "source-offset-commit-failure-total": float(self._counts["commit_failures"]),
            **({} if counts is None else self._parts.error_metrics()),
        }


def _abort(producer: Producer) -> None:
    producer.close(abort=True)
