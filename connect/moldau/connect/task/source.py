"""A source task: poll, transform, convert, produce; store offsets of what is durable.

Invariants: an offset is stored only when its record and all before it of its source partition are
acknowledged, skipped on purpose or dropped by a transform; a record that the cluster rejects fails
the task (or is skipped, if errors are tolerated), so nothing is lost silently. After a crash the
source continues from the last stored offset: at least once.

With `exactly.once.source.support=enabled` records and their offsets are in one transaction, and a
record that the cluster rejects always fails the task (see `transactions`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.client.sync import Producer
from moldau.connect.api import OffsetStorageReader, SourceRecord, SourceTask, SourceTaskContext
from moldau.connect.api.task import TransactionContext
from moldau.connect.config.exactly_once import is_exactly_once
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.task.batch_times import BatchTimes
from moldau.connect.task.offsets import AskedOffsets
from moldau.connect.task.parts import Parts, make_parts
from moldau.connect.task.raw_parts import RawParts
from moldau.connect.task.runner import TaskRunner, in_order
from moldau.connect.task.settings import whole
from moldau.connect.task.source_batches import SourceBatches
from moldau.connect.task.spans import SourceSpans, end_all, task_traces, traces_of
from moldau.connect.task.submitted import Offsets, SubmittedRecord, SubmittedRecords, merged
from moldau.connect.task.tolerance import Failure, Skipped, Stage
from moldau.connect.task.topic_creation import TopicCreation
from moldau.connect.task.transactions import TaskTransactions, boundaries_of
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.client import Sent
    from moldau.link.telemetry.traces import ThreadTraces
    from moldau.records import HeadersGiven
    from moldau.tracing import Span

IDLE_S: Final = 0.1
RETRY_MS: Final = 1_000
OFFSETS_S: Final = 160.0
"""How long the offsets may take: until open transactions of killed tasks are aborted."""
MAKE_TOPIC: Final = "create it, or let the connector do so with topic.creation.default.*"
FLUSH_PART: Final = 0.5
"""The part of the time for a graceful stop that the last flush may take."""


class _Context(SourceTaskContext):
    def __init__(
        self,
        config: dict[str, str],
        offsets: OffsetStorageReader,
        tell: Callable[[str | None], None],
        transaction: TransactionContext | None,
    ) -> None:
        self._config = config
        self._offsets = offsets
        self._tell = tell
        self._transaction = transaction

    def report_waiting(self, cause: str | None) -> None:
        self._tell(cause)

    @property
    def configs(self) -> dict[str, str]:
        return dict(self._config)

    @property
    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._offsets

    @property
    def transaction_context(self) -> TransactionContext | None:
        return self._transaction


class SourceRunner(TaskRunner):
    """Runs one source task."""

    _parts: Parts
    _task: SourceTask
    _producer: Producer
    _transactions: TaskTransactions | None = None
    _tracing: ThreadTraces | None = None

    def open(self) -> None:
        self._is_started = False
        self._submitted = SubmittedRecords()
        self._unstored: Offsets = []
        self._failed: tuple[KafkaError, SourceRecord] | None = None
        self._delivered: deque[tuple[SourceRecord, Sent | None]] = deque()
        self._topics: set[str] = set()
        self._poll_times = BatchTimes("poll-batch")
        self._counts = {"polled": 0, "written": 0, "commits": 0, "commit_failures": 0}
        self._opened: list[tuple[str, Any]] = []
        self._spans: SourceSpans | None = None
        self._parts = make_parts(self, reporters=[])
        self.secrets |= self._parts.secrets
        config, worker = self._parts.config, self._parts.worker
        self._interval_ms = whole(worker, "offset.flush.interval.ms", 60_000)
        self._grace_ms = whole(worker, "task.shutdown.graceful.timeout.ms", 5_000)
        self._flush_timeout_s = whole(worker, "offset.flush.timeout.ms", 5_000) / 1000
        self._commit_ms = self.now_ms() + self._interval_ms
        self._open_producer()
        self._creation = TopicCreation(config, worker, self._parts.client("admin"))
        if self.link.is_stopping:
            return
        task = self._parts.new_task()
        if not isinstance(task, SourceTask):
            raise ConnectError("the task class of a source connector must be a SourceTask")
        self._task = task
        context = None if self._transactions is None else self._transactions.context
        sets_boundaries = context is not None
        self._batches = SourceBatches(
            self._parts,
            task,
            self._producer,
            sets_boundaries=sets_boundaries,
            spans=self._spans,
        )
        self._raw = RawParts(self._parts, task, self._producer, sets_boundaries=sets_boundaries)
        stored = AskedOffsets(self._ask_offsets)
        self._task.initialize(_Context(config, stored, self.report_cause, context))
        self._is_started = True
        in_order(lambda: self._task.start(self._parts.task_config), "the start of the task")

    def _open_producer(self) -> None:
        config, worker = self._parts.config, self._parts.worker
        settings: dict[str, object] = {
            "client.id": f"connector-producer-{self.spec.id}",
            "acks": "all",
            "delivery.timeout.ms": "2147483647",
            "max.block.ms": "120000",
            **self._parts.client("producer"),
        }
        if is_exactly_once(worker):
            boundaries = boundaries_of(config, worker, self.now_ms())
            self._transactions = TaskTransactions(
                self.spec, self.link, boundaries, worker["offset.storage.topic"]
            )
            settings = self._transactions.settings(settings)
        if (traces := traces_of(worker)) is not None:
            tracing = task_traces(traces, self.spec)
            self._tracing = tracing
            self._spans = SourceSpans(tracing.tracer, self.spec.connector)
        self._producer = Producer(settings)
        self._opened.append(("producer", self._producer))
        if self._transactions is None:
            self._producer.start()
        else:
            self._transactions.start(self._producer, self)

    def _ask_offsets(self, partitions: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        found: list[dict[str, Any] | None] = self.link.ask(
            "offsets.read", timeout_s=OFFSETS_S, partitions=partitions
        )
        return found

    def work(self) -> None:
        self._check_delivered()
        if self.is_paused:
            self._commit_if_due()
            self.rest(1.0)
            return
        records = self._poll()
        is_sent = self._send_parts(records) or self._send_batch(records)
        if not is_sent and not self._send_each(records or ()):
            return  # unsent records are polled again after a restart
        if records and self._transactions is not None:
            self._transactions.boundaries.on_poll()
            self._end_transaction()
        self._commit_if_due()
        if not records:
            self.rest(IDLE_S)

    def _poll(self) -> Sequence[SourceRecord] | None:
        began_ms = self.now_ms()
        try:
            records = self._task.poll()
        except RetriableError as error:
            self.log.warn("the source is polled again", error=self._shown(error))
            self._parts.tolerance.counts.retries += 1
            self.report_waiting(error)
            self.wait_ms(RETRY_MS)
            return None
        self.report_waiting(None)
        if records:
            self._poll_times.note(began_ms, self.now_ms())
            self._counts["polled"] += len(records)
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
        if self._transactions is None:
            submit = partial(self._submitted.submit, place, converted.last_offset)
            self._batches.send(converted, submit)
            return True
        self._transactions.begin()
        self._batches.send(converted, partial(SubmittedRecord, converted.last_offset))
        self._transactions.boundaries.on_sent(len(converted.values))
        self._transactions.boundaries.on_offset(place, converted.last_offset)
        return True

    def _send_parts(self, records: Sequence[SourceRecord] | None) -> bool:
        """Send the columns of the records as they are. Return False if that is not possible."""
        parts = self._raw.taken(records)
        for part in parts or ():
            self._creation.ensure(part.topic)
            self._note_topic(part.topic)
            place = dict(part.source_partition)
            if self._transactions is None:
                self._raw.send(part, self._submitted.submit(place, part.last_offset))
                continue
            self._transactions.begin()
            self._raw.send(part, SubmittedRecord(part.last_offset))
            self._transactions.boundaries.on_sent(len(part))
            self._transactions.boundaries.on_offset(place, part.last_offset)
        return parts is not None

    def _note_topic(self, topic: str) -> None:
        """Tell of a new topic. Wait for it, and say so meanwhile: a producer waits in silence."""
        if topic in self._topics:
            return
        self.report_cause(f"no broker knows the topic {topic} yet: {MAKE_TOPIC}")
        try:
            self._producer.partitions(topic)
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise ConnectError(f"the topic {topic} does not exist", hint=MAKE_TOPIC) from error
            # The record that is sent there meets the error, and errors.tolerance.
        self.report_cause(None)
        self._topics.add(topic)
        self.link.notify("topics", topics=[topic])

    def _send_each(self, records: Sequence[SourceRecord]) -> bool:
        """Send the records one by one. Return False if the worker stops the task before the last:
        what they belong to is not stored then."""
        transactions = self._transactions
        if transactions is None:
            submit = self._submitted.submit
            entries = [submit(each.source_partition, each.source_offset) for each in records]
        else:
            entries = [SubmittedRecord(each.source_offset) for each in records]
        for record, entry in zip(records, entries, strict=True):
            if self.link.is_stopping:
                if transactions is not None:
                    transactions.boundaries.on_cut()
                return False
            if transactions is None:
                self._produce(record, entry)
            else:
                self._send(transactions, record, entry)
        return True

    def _send(
        self, transactions: TaskTransactions, record: SourceRecord, entry: SubmittedRecord
    ) -> None:
        transactions.begin()
        self._produce(record, entry)
        transactions.boundaries.on_offset(record.source_partition, record.source_offset)
        transactions.boundaries.on_record(record)
        self._end_transaction()

    def _produce(self, record: SourceRecord, entry: SubmittedRecord) -> None:
        """Transform, convert and send a record, or drop it."""
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
        sent: HeadersGiven = headers
        spans: Sequence[Span] = ()
        if self._spans is not None:
            sent, spans = self._spans.begin(made.topic, headers)
        try:
            self._producer.send(
                made.topic,
                value,
                key=key,
                headers=sent,
                on_delivery=partial(self._on_delivery, record, entry, spans),
                **more,
            )
        except KafkaError as error:
            if self._spans is not None:
                end_all(self._spans.tracer, spans, error)
            self._refused(error, record, entry)
        else:
            if self._transactions is not None:
                self._transactions.boundaries.on_sent()

    def _drop(self, record: SourceRecord, entry: SubmittedRecord) -> None:
        entry.acknowledge()
        if self._transactions is None:
            self._task.commit_record(record, None)
        else:
            self._delivered.append((record, None))  # told with the commit

    def _on_delivery(
        self,
        record: SourceRecord,
        entry: SubmittedRecord,
        spans: Sequence[Span],
        sent: Sent | None,
        error: KafkaError | None,
    ) -> None:
        """Note the result of a delivery. Called on the client's thread, so it does nothing else."""
        if self._spans is not None:
            end_all(self._spans.tracer, spans, error)
        if error is None:
            entry.acknowledge()
            self._delivered.append((record, sent))
        elif self._tolerates_loss():
            entry.acknowledge()
            self._delivered.append((record, None))
        elif self._failed is None:
            self._failed = (without_frames(error), record)

    def _tolerates_loss(self) -> bool:
        """Whether a record may be lost that the cluster rejects: never in a transaction, unless
        the task itself aborts it."""
        if self._transactions is not None:
            return self._transactions.is_aborting
        return self._parts.tolerance.settings.tolerates

    def _refused(self, error: KafkaError, record: SourceRecord, entry: SubmittedRecord) -> None:
        if self._transactions is not None:
            raise _rejected(error, record)
        failure = Failure(Stage.KAFKA_PRODUCE, "moldau.client.Producer", error, record)
        try:
            self._parts.tolerance.settle(failure, lambda: None)
        except Skipped:
            self._drop(record, entry)

    def _check_delivered(self) -> None:
        """Tell the connector which records are durable. Raise ConnectError for a rejected one."""
        if self._transactions is None:
            self._note_delivered()
        if self._failed is not None:
            raise _rejected(*self._failed)

    def _note_delivered(self) -> None:
        while self._delivered:
            record, sent = self._delivered.popleft()
            self._counts["written"] += sent is not None
            self._task.commit_record(record, sent)
        self._counts["written"] += self._batches.settle() + self._raw.settle()

    # Offsets

    def _commit_if_due(self) -> None:
        if self._transactions is not None:
            self._transactions.boundaries.on_time(self.now_ms())
            self._end_transaction()
        elif self.now_ms() >= self._commit_ms:
            self._commit_offsets()

    def _end_transaction(self) -> None:
        """Commit or abort, if it is time, then tell the connector what is committed."""
        transactions = self._transactions
        assert transactions is not None
        ready = transactions.boundaries.ready()
        if not ready:
            return
        try:
            is_committed = transactions.finish(ready)
        except ConnectError:
            self._counts["commit_failures"] += 1
            self._check_delivered()  # both say more if the cluster has rejected a record
            self._batches.settle()
            self._raw.settle(is_committed=False)
            raise
        if ready.is_read_again:
            self._delivered.clear()
            return
        if ready.aborts:
            self._delivered = deque((record, None) for record, _ in self._delivered)
        self._note_delivered()
        if is_committed:
            self._counts["commits"] += 1
            self._task.commit()

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
            if self._transactions is None:
                self.guarded("flush", self._flush)
            elif is_clean:
                self._transactions.boundaries.on_stop()
                self.guarded("commit", self._end_transaction)
            self.guarded("stop", self._task.stop)
        for what, client in reversed(self._opened):
            self.guarded(f"close {what}", client.close if is_clean else partial(_abort, client))
        if self._tracing is not None:
            self.guarded("close traces", self._tracing.close)
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
        if self._transactions is not None:
            return self._transactions.boundaries.sent
        if not self._is_started:
            return self._submitted.count
        return self._submitted.count + self._batches.waiting + self._raw.waiting

    def metrics(self) -> dict[str, float]:
        counts = self._parts.tolerance.counts if hasattr(self, "_parts") else None
        return {
            "source-record-poll-total": float(self._counts["polled"]),
            **({} if counts is None else self._poll_times.figures(self.now_ms())),
            "source-record-write-total": float(self._counts["written"]),
            "source-record-active-count": float(self._active()),
            "source-offset-commit-completion-total": float(self._counts["commits"]),
            "source-offset-commit-failure-total": float(self._counts["commit_failures"]),
            **({} if counts is None else self._parts.error_metrics()),
        }


def _rejected(error: KafkaError, record: SourceRecord) -> ConnectError:
    made = ConnectError("the cluster refused a record", topic=record.topic, error=str(error))
    made.__cause__ = error
    return made


def _abort(producer: Producer) -> None:
    producer.close(abort=True)
