"""The shell of a source task: poll, transform, convert, produce; store offsets of what is durable.

What is done when is decided by `SourceCore`, which has the invariants. After a crash the source
continues from the last stored offset: at least once. With `exactly.once.source.support=enabled`
records and their offsets are in one transaction, and a record that the cluster rejects always fails
the task (see `transactions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.client.sync import Producer
from moldau.connect.api import (
    OffsetStorageReader,
    SourcePart,
    SourceRecord,
    SourceTask,
    SourceTaskContext,
)
from moldau.connect.api.task import TransactionContext
from moldau.connect.config.exactly_once import is_exactly_once
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.task.batch_times import BatchTimes
from moldau.connect.task.boundaries import Boundaries, Ready
from moldau.connect.task.offsets import AskedOffsets, OffsetWriter
from moldau.connect.task.parts import Parts, make_parts
from moldau.connect.task.runner import TaskRunner, in_order
from moldau.connect.task.settings import whole
from moldau.connect.task.source_batches import ConvertedRecords, SourceBatches, refused
from moldau.connect.task.source_core import Delivery, SourceCore, SourceReady
from moldau.connect.task.spans import SourceSpans, end_all, task_traces, traces_of
from moldau.connect.task.submitted import SubmittedRecord
from moldau.connect.task.tolerance import Failure, Skipped, Stage
from moldau.connect.task.topic_creation import TopicCreation
from moldau.connect.task.transactions import TaskTransactions, boundaries_of, transactional
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.client import Sent
    from moldau.records import HeadersGiven
    from moldau.tracing import Span

MAKE_TOPIC: Final = "create it, or let the connector do so with topic.creation.default.*"


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

    _task: SourceTask
    _batches: SourceBatches
    _producer: Producer
    _writer: OffsetWriter | TaskTransactions
    _core: SourceCore

    def open(self) -> None:
        self._is_started = False
        self._is_clean = True
        self._topics: set[str] = set()
        self._poll_times = BatchTimes("poll-batch")
        self._counts = {"polled": 0, "written": 0, "commits": 0, "commit_failures": 0}
        self._opened: list[tuple[str, Callable[[], object]]] = []
        self._spans: SourceSpans | None = None
        self._made: Parts | None = None
        self._made = make_parts(self)
        self._opened.append(("converters", self._parts.close))
        self.secrets |= self._parts.secrets
        config, worker = self._parts.config, self._parts.worker
        self._grace_ms = whole(worker, "task.shutdown.graceful.timeout.ms", 5_000)
        self._creation = TopicCreation(config, worker, self._parts.client("admin"))
        self._opened.append(("admin", self._creation.close))
        boundaries = None
        if is_exactly_once(worker):
            boundaries = boundaries_of(config, worker, self.now_ms())
        self._core = SourceCore(
            whole(worker, "offset.flush.interval.ms", 60_000),
            self.now_ms(),
            boundaries,
            is_paused=self.is_paused,
            tolerates_loss=self._parts.tolerance.settings.tolerates,
        )
        self._open_producer(boundaries)
        if self.link.is_stopping:
            return
        task = self._parts.new_task()
        if not isinstance(task, SourceTask):
            raise ConnectError("the task class of a source connector must be a SourceTask")
        self._task = task
        wishes = None if boundaries is None else boundaries.wishes
        self._batches = SourceBatches(
            self._parts,
            task,
            self._producer,
            sets_boundaries=wishes is not None,
            spans=self._spans,
        )
        stored = AskedOffsets.over(self.link)
        self._task.initialize(_Context(config, stored, self.report_cause, wishes))
        self._is_started = True
        in_order(lambda: self._task.start(self._parts.task_config), "the start of the task")

    @property
    def _parts(self) -> Parts:
        assert self._made is not None, "the task is opened first"
        return self._made

    def _open_producer(self, boundaries: Boundaries | None) -> None:
        worker = self._parts.worker
        settings: dict[str, object] = {
            "client.id": f"connector-producer-{self.spec.id}",
            "acks": "all",
            "delivery.timeout.ms": "2147483647",
            "max.block.ms": "120000",
            **self._parts.client("producer"),
        }
        if boundaries is None:
            flush_s = whole(worker, "offset.flush.timeout.ms", 5_000) / 1000
            self._writer = OffsetWriter(self.link, flush_s, self.log)
        else:
            topic = worker["offset.storage.topic"]
            self._writer = TaskTransactions(self.spec, self.link, self, topic)
            settings = transactional(settings, self.spec, boundaries)
        if (traces := traces_of(worker)) is not None:
            tracing = task_traces(traces, self.spec)
            self._opened.append(("traces", tracing.close))
            self._spans = SourceSpans(tracing.tracer, self.spec.connector)
        producer = self._producer = Producer(settings)
        self._opened.append(("producer", lambda: producer.close(abort=not self._is_clean)))
        self._writer.start(producer)

    def work(self) -> None:
        if self._settle().polls:
            self._poll()
        self.rest(self._settle().rest_s)

    def on_paused(self) -> None:
        self._core.is_paused = self.is_paused

    # What the core wants

    def _settle(self) -> SourceReady:
        """Do what there is to be done, until nothing is left."""
        while ready := self._ready():
            self._act(ready)
        return ready

    def _ready(self) -> SourceReady:
        for entry, places, error in self._batches.arrivals():
            self._core.on_delivered(entry, places, error)
        return self._core.ready(self.now_ms())

    def _act(self, ready: SourceReady) -> None:
        if ready.rejected is not None:
            raise without_frames(ready.rejected)
        self._report(ready.delivered)
        if ready.notifies:
            self._counts["commits"] += 1
            self._task.commit()
        if ready.flush_ms:
            self._flush(ready.flush_ms)
        if ready.end:
            self._finish(ready.end)

    def _report(self, delivered: Sequence[Delivery]) -> None:
        """Tell the connector which records are durable, or dropped."""
        for entry, sent in delivered:
            self._counts["written"] += 0 if sent is None else entry.count
            if isinstance(entry.subject, SourcePart):
                self._task.commit_part(entry.subject, sent)
            elif entry.subject is not None:
                self._task.commit_record(entry.subject, sent)

    def _flush(self, flush_ms: int) -> None:
        """Wait for sent records, so that a restart repeats little."""
        try:
            self._producer.flush(timeout_s=flush_ms / 1000)
        except (KafkaError, TimeoutError) as error:
            self.log.warn("not all records were acknowledged at the stop", error=str(error))
        self._core.on_flushed()

    def _finish(self, end: Ready) -> None:
        try:
            is_finished = self._writer.finish(end)
        except ConnectError as failure:
            self._counts["commit_failures"] += 1
            raise self._ready().rejected or failure from None
        if is_finished:
            self._core.on_finished(end)
        else:
            self._counts["commit_failures"] += 1

    # Records

    def _poll(self) -> None:
        began_ms = self.now_ms()
        try:
            records = self._task.poll() or ()
        except RetriableError as error:
            self.log.warn("the source is polled again", error=self._shown(error))
            self._parts.tolerance.counts.retries += 1
            self.report_waiting(error)
            self._core.on_poll_failed()
            return
        self.report_waiting(None)
        if records:
            self._poll_times.note(began_ms, self.now_ms())
            self._counts["polled"] += len(records)
            batches = self._batches.made(records)
            if batches is None:
                self._send_each(records)
            for each in batches or ():
                self._send_batch(each)
        self._core.on_polled(len(records))

    def _send_batch(self, batch: ConvertedRecords | SourcePart) -> None:
        self._creation.ensure(batch.topic)
        self._note_topic(batch.topic)
        partition = None if batch.source_partition is None else dict(batch.source_partition)
        subject = batch if isinstance(batch, SourcePart) else None
        self._writer.begin()
        entry = SubmittedRecord(partition, batch.last_offset, subject, len(batch))
        self._core.on_submitted(entry)
        self._batches.send(batch, entry)
        self._core.on_sent(entry)

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

    def _send_each(self, records: Sequence[SourceRecord]) -> None:
        """Send the records one by one. If the worker stops the task before the last, what they
        belong to is not stored."""
        entries = [SubmittedRecord(r.source_partition, r.source_offset, r) for r in records]
        for entry in entries:
            self._core.on_submitted(entry)
        for record, entry in zip(records, entries, strict=True):
            if self.link.is_stopping:
                self._core.on_cut()
                return
            self._writer.begin()
            self._produce(record, entry)
            if self._core.has_end:
                self._settle()

    def _produce(self, record: SourceRecord, entry: SubmittedRecord) -> None:
        """Transform, convert and send a record, or drop it."""
        try:
            made = self._parts.chain.transformed(record, record)
            if made is not None:
                key, value, headers = self._parts.chain.source_bytes(made)
                self._creation.ensure(made.topic)
        except Skipped:
            made = None
        if made is None:
            self._core.on_dropped(entry)
            return
        self._note_topic(made.topic)
        more: dict[str, Any] = {"partition": made.kafka_partition}
        if made.timestamp is not None:
            more["timestamp_ms"] = made.timestamp
        sent: HeadersGiven = headers
        spans: Sequence[Span] = ()
        if self._spans is not None:
            sent, spans = self._spans.begin(made.topic, headers)
        told = partial(self._on_delivery, made.topic, entry, spans)
        try:
            self._producer.send(made.topic, value, key=key, headers=sent, on_delivery=told, **more)
        except KafkaError as error:
            if self._spans is not None:
                end_all(self._spans.tracer, spans, error)
            self._refused(error, record, entry)
        else:
            self._core.on_sent(entry)

    def _on_delivery(
        self,
        topic: str,
        entry: SubmittedRecord,
        spans: Sequence[Span],
        sent: Sent | None,
        error: KafkaError | None,
    ) -> None:
        """Note the result of a delivery. Called on the client's thread, so it does nothing else."""
        if self._spans is not None:
            end_all(self._spans.tracer, spans, error)
        failure = None if error is None else refused(topic, error)
        self._core.on_delivered(entry, sent, failure)

    def _refused(self, error: KafkaError, record: SourceRecord, entry: SubmittedRecord) -> None:
        if not self._core.tolerates_loss:
            raise refused(record.topic, error) from error
        failure = Failure(Stage.KAFKA_PRODUCE, "moldau.client.Producer", error, record)
        with suppress(Skipped):
            self._parts.tolerance.settle(failure, lambda: None)
        self._core.on_dropped(entry)

    # The end

    def close(self, *, is_clean: bool) -> None:
        self._is_clean = is_clean
        if self._is_started:
            self._core.on_stop(self.now_ms(), self._grace_ms, is_clean=is_clean)
            self.guarded("store offsets", self._settle)
            self.guarded("stop", self._task.stop)
        for what, close in reversed(self._opened):
            self.guarded(f"close {what}", close)

    def metrics(self) -> dict[str, float]:
        found = {
            "source-record-poll-total": float(self._counts["polled"]),
            "source-record-write-total": float(self._counts["written"]),
            "source-offset-commit-completion-total": float(self._counts["commits"]),
            "source-offset-commit-failure-total": float(self._counts["commit_failures"]),
            "source-record-active-count": 0.0,
        }
        if self._made is not None and self._is_started:
            found["source-record-active-count"] = float(self._core.active)
            found |= self._poll_times.figures(self.now_ms()) | self._made.error_metrics()
        return found
