"""A sink task: consume, convert, transform, put; commit offsets of what the sink has made durable.

Invariants: an offset is committed only if the sink's `pre_commit` returned it and every record
before it was put, dropped by a transform, or is in the dead letter queue; after RetriableError the
same records are put again while the consumer is paused, so that the task stays in its group;
offsets of revoked partitions are committed before they go, except for lost ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from moldau.client import ConsumerRecord, RebalanceListener, TopicPartition
from moldau.client.base.columns import PartitionColumns
from moldau.client.consumer.records import PartitionRecords
from moldau.client.sync import Consumer, Producer
from moldau.connect.api import (
    ColumnSinkTask,
    ErrantRecordReporter,
    SinkColumns,
    SinkRecord,
    SinkTask,
    SinkTaskContext,
    ValueSinkTask,
)
from moldau.connect.errors import ConnectError, RetriableError
from moldau.connect.task.batch_times import BatchTimes
from moldau.connect.task.dead_letter import DeadLetters, FailureLog
from moldau.connect.task.link import Link
from moldau.connect.task.membership import (
    SinkMembership,
    StopFor,
    fenced,
    is_fenced,
    release,
    settings_with,
)
from moldau.connect.task.messages import TaskSpec
from moldau.connect.task.parts import Parts, make_parts
from moldau.connect.task.pending import Originals, Pending, Report
from moldau.connect.task.progress import SinkProgress
from moldau.connect.task.runner import TaskRunner, in_order
from moldau.connect.task.settings import ErrorSettings, whole
from moldau.connect.task.sink_schedule import SinkReady, SinkSchedule
from moldau.connect.task.spans import SinkSpans, task_traces, traces_of
from moldau.connect.task.subscription import missing_topics, subscription_of
from moldau.connect.task.tolerance import Failure, Reporter, Skipped, Stage, as_task_failure
from moldau.connect.task.topic_creation import ensure_dead_letter_topic
from moldau.errors.codes import KafkaError
from moldau.logging import Logger
from moldau.runtime.interface import Clock

COLUMN_TRIES: Final = 3
"""After this many polls in a row that could not be put as columns, no other is tried."""
VALUES_MAX: Final = 20_000
"""The most values that a poll returns, unless the config sets max.poll.records."""
_SEES_RECORDS: Final = frozenset({"interceptor.classes", "key.deserializer", "value.deserializer"})
"""Settings of a consumer that make it handle records one by one."""


class _Context(SinkTaskContext):
    def __init__(self, runner: SinkRunner, config: dict[str, str]) -> None:
        self._runner = runner
        self._config = config
        self.rewinds: dict[TopicPartition, int] = {}

    @property
    def configs(self) -> dict[str, str]:
        return dict(self._config)

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.rewinds.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        self._runner.schedule.on_timeout(timeout_ms)

    def report_waiting(self, cause: str | None) -> None:
        self._runner.report_cause(cause)

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._runner.schedule.assigned)

    def pause(self, *partitions: TopicPartition) -> None:
        self._runner.schedule.paused.update(partitions)
        self._runner.consumer.pause(list(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        schedule = self._runner.schedule
        schedule.paused.difference_update(partitions)
        if not schedule.is_held:
            self._runner.consumer.resume(list(partitions))

    def request_commit(self) -> None:
        self._runner.schedule.on_commit_request()

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return self._runner if self._runner.reports_errants else None


class _Listener(RebalanceListener):
    def __init__(self, runner: SinkRunner) -> None:
        self._runner = runner

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._runner.on_assigned(partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._runner.on_gone(partitions, is_lost=False)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._runner.on_gone(partitions, is_lost=True)


class SinkRunner(TaskRunner):
    """Runs one sink task."""

    consumer: Consumer
    _task: SinkTask
    _context: _Context
    _membership: SinkMembership
    _pattern: re.Pattern[str] | None

    def __init__(self, spec: TaskSpec, link: Link, clock: Clock, log: Logger) -> None:
        super().__init__(spec, link, clock, log)
        self._is_started = False
        self._is_subscribed = False
        self._has_joined = False
        self._has_left = False
        self._is_flush_failing = False
        self._missed_count = 0.0
        self._missing: ConnectError | None = None
        self._pending = Pending()
        self._progress = SinkProgress()
        self._originals = Originals()
        self._put_times = BatchTimes("put-batch")
        self._counts = {"read": 0, "send": 0, "put_batches": 0, "commits": 0, "commit_failures": 0}
        self._opened: list[tuple[str, Callable[[], None]]] = []
        self._dead_letters: DeadLetters | None = None
        self._topics: set[str] = set()
        self._spans: SinkSpans | None = None
        self.schedule = SinkSchedule(0, 0, is_paused=self.is_paused)
        self._made: Parts | None = None

    @property
    def _parts(self) -> Parts:
        assert self._made is not None, "the task is opened first"
        return self._made

    def open(self) -> None:
        self._made = make_parts(self)
        self.secrets |= self._parts.secrets
        worker = self._parts.worker
        interval_ms = whole(worker, "offset.flush.interval.ms", 60_000)
        self._flush_timeout_s = whole(worker, "offset.flush.timeout.ms", 5_000) / 1000
        self.schedule = SinkSchedule(interval_ms, self.now_ms(), is_paused=self.is_paused)
        self._open_reporters()
        task = self._parts.new_task()
        if not isinstance(task, SinkTask):
            raise ConnectError("the task class of a sink connector must be a SinkTask")
        self._task = task
        self._open_consumer()
        self._context = _Context(self, self._parts.task_config)
        self._task.initialize(self._context)
        self._is_started = True
        in_order(lambda: self._task.start(self._parts.task_config), "the start of the task")
        topics, self._pattern = subscription_of(self._parts.config)
        self.consumer.subscribe(topics, pattern=self._pattern, listener=_Listener(self))
        self._is_subscribed = True
        if self.is_paused:
            self.on_paused()

    def _open_reporters(self) -> None:
        errors = self._parts.tolerance.settings
        reporters: list[Reporter] = self._parts.reporters
        if errors.logs:
            owner = (self.spec.connector, self.spec.task)
            log = self.log
            reporters.append(FailureLog(log, owner, has_messages=errors.logs_messages))
        if errors.dead_letter_topic:
            reporters.append(self._open_dead_letters(errors))

    def _open_dead_letters(self, errors: ErrorSettings) -> DeadLetters:
        admin = self._parts.client("admin")
        ensure_dead_letter_topic(admin, errors.dead_letter_topic, errors.dead_letter_replicas)
        producer = Producer(
            {
                "client.id": f"connector-dlq-producer-{self.spec.id}",
                "acks": "all",
                **self._parts.client("producer"),
            }
        )
        producer.start()
        self._opened.append(("dead letter producer", producer.close))
        owner = (self.spec.connector, self.spec.task)
        letters = DeadLetters(
            producer, errors.dead_letter_topic, owner, has_context=errors.has_context_headers
        )
        letters.counts = self._parts.tolerance.counts
        self._dead_letters = letters
        return letters

    def _open_consumer(self) -> None:
        given = self._parts.client("consumer")
        membership = SinkMembership.of(self.spec.id, self.spec.cluster, given)
        settings: dict[str, object] = {
            "group.id": membership.group_id,
            "client.id": f"connector-consumer-{self.spec.id}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **given,
            "enable.auto.commit": "false",
        }
        self._membership = membership
        if (traces := traces_of(self._parts.worker)) is not None:
            tracing = task_traces(traces, self.spec)
            self._opened.append(("traces", tracing.close))
            self._spans = SinkSpans(tracing.tracer, membership.group_id, self.spec.connector)
        is_plain = self._parts.chain.is_plain and _SEES_RECORDS.isdisjoint(given)
        self._takes_values = is_plain and isinstance(self._task, ValueSinkTask)
        self._column_tries = 0
        if is_plain and isinstance(self._task, ColumnSinkTask) and self._parts.chain.reads_columns:
            self._column_tries = COLUMN_TRIES
        self._values_max = whole(given, "max.poll.records", VALUES_MAX)
        if membership.is_by_coordinator and membership.instance_id is not None:
            release(self._parts.client("admin"), membership)
        self.consumer = Consumer(settings_with(settings, membership))
        self.consumer.start()

        def close() -> None:
            leaves = membership.leaves(self._ending())
            self.consumer.close(leave_group=leaves)
            if leaves and self._has_joined:
                self.link.notify("left")

        self._opened.append(("consumer", close))

    def _ending(self) -> StopFor:
        """Return why the task ends. A failed task leaves the group, so that others read on."""
        return self.link.stop_for or StopFor.MOVE

    # Records

    def work(self) -> None:
        try:
            self._round()
        except KafkaError as error:
            if not is_fenced(error):
                raise
            raise fenced(self.spec.id, self._membership) from None

    def _round(self) -> None:
        self._rewind()
        wait_s = self._ready().poll_s
        if self._takes_values or self._column_tries > 0:
            polled = self.consumer.poll_batches(wait_s, max_records=self._values_max)
            taken = [self._take_columns(columns) for columns in polled]
            if not all(taken):
                self._column_tries -= 1
        else:
            for part in self.consumer.poll(wait_s):
                self._take(part)
        if self._ready().puts:
            self._put()
        ready = self._ready()
        if ready.looks:
            self._look_for_topics()
        if ready.commits:
            self.schedule.on_commit(self.now_ms())
            self._commit(self.schedule.assigned, is_last=False)

    def _ready(self) -> SinkReady:
        return self.schedule.ready(self.now_ms(), has_pending=bool(self._pending))

    def _look_for_topics(self) -> None:
        """Report topics that do not exist, in the status."""
        self.schedule.on_looked(self.now_ms())
        if self._pattern is None:
            missing = missing_topics(self.consumer.troubles(), None, ())
        else:
            config, matching = self._parts.config, self.consumer.subscription
            missing = missing_topics({}, config["topics.regex"].strip(), matching)
        if str(missing) != str(self._missing):
            self._missing = missing
            self._report_well()

    def _report_well(self) -> None:
        """Report that the task waits for nothing but missing topics, unless something fails."""
        if not self.schedule.is_held and not self._is_flush_failing:
            self.report_waiting(self._missing)

    def _take(self, part: PartitionRecords) -> None:
        """Convert the polled records of one partition."""
        if self._begins(part, part.records[0].offset):
            self._convert(part, part.records)
            self._reach(part, len(part.records))

    def _take_columns(self, part: PartitionColumns) -> bool:
        """Convert the polled columns of one partition as a whole; if that fails, to records, and
        return False."""
        if not self._begins(part, part.first_offset):
            return True
        found = None if self._pending.records else self._converted(part)
        if found is not None:
            self._pending.columns.append((part, found))
        else:
            for each in (*self._pending.take_columns(), part):
                self._convert(each, each.records())
        self._reach(part, len(part))
        return found is not None

    def _converted(self, part: PartitionColumns) -> list[Any] | SinkColumns | None:
        chain = self._parts.chain
        return chain.values_of(part) if self._takes_values else chain.columns_of(part)

    def _begins(self, part: PartitionRecords | PartitionColumns, offset: int) -> bool:
        """Whether the task has the partition. If so, check and note where its records begin."""
        where = TopicPartition(part.topic, part.partition)
        if where not in self.schedule.assigned:
            return False
        if part.topic not in self._topics:
            self._topics.add(part.topic)
            self.link.notify("topics", topics=[part.topic])
        if self._spans is not None:
            self._spans.begin(part)
        expected = self._progress.on_begin(where, offset)
        if expected is not None:
            self._on_log_began_anew(where, offset, expected)
        return True

    def _convert(
        self, part: PartitionRecords | PartitionColumns, records: Sequence[ConsumerRecord]
    ) -> None:
        topic, partition, kind = part.topic, part.partition, part.timestamp_type
        made = self._parts.chain.sink_record
        keeps = self.reports_errants
        for raw in records:
            try:
                record = made(topic, partition, raw, kind)
            except Skipped:
                continue
            if record is not None:
                self._pending.records.append(record)
                if keeps:
                    self._originals.keep(record, raw)

    def _reach(self, part: PartitionRecords | PartitionColumns, count: int) -> None:
        """Note the position after these polled records."""
        where = TopicPartition(part.topic, part.partition)
        self._counts["read"] += count
        self._progress.on_reached(where, part.next_offset)

    def _on_log_began_anew(self, where: TopicPartition, offset: int, expected: int) -> None:
        """Tell the task that an offset is lower than expected. Offsets only grow, unless this
        runner seeks; else the consumer was reset, because the partition has another log."""
        self.log.warn("the log begins anew", partition=str(where), offset=offset, expected=expected)
        if self._dead_letters is not None:
            self._dead_letters.forget([where])
        self._task.on_log_began_anew(where, offset, expected)

    def _put(self) -> None:
        """Put the pending records. After RetriableError they stay, and no others are read."""
        self.schedule.on_put_begins()
        count = left = len(self._pending)
        if count and not self.told.get("sink-record-lag"):
            self.report_metrics(is_due=True)  # the put may block: show the lag before it
        began_ms = self.now_ms()
        report = self.report if self._parts.tolerance.settings.tolerates else None
        try:
            if self._pending.columns and self._takes_values:
                task = cast(ValueSinkTask, self._task)
                refused = self._pending.put_values(task.put_values, tolerates=report is not None)
                for part in refused:
                    self._convert(part, part.records())
                if refused:
                    self._pending.put_records(self._task.put, report)
            elif self._pending.columns:
                left = self._put_columns(cast(ColumnSinkTask, self._task), report)
                if self._pending.columns:
                    return  # the task is stopping
            else:
                self._pending.put_records(self._task.put, report)
        except RetriableError as error:
            self._hold(error)
            return
        except Exception as error:
            if self._spans is not None:
                self._spans.end(error)
            failure = Failure(Stage.TASK_PUT, self._parts.connector_name, error, None)
            raise as_task_failure(failure) from error
        if self._spans is not None:
            self._spans.end()
        if count:
            self._counts["put_batches"] += 1
            self._put_times.note(began_ms, self.now_ms())
            self._counts["send"] += left
        self._pending.clear()
        self._progress.on_put()
        was_held = self.schedule.is_held
        self.schedule.on_put()
        if was_held:
            self._resume()
        if count:
            self._report_well()

    def _put_columns(self, task: ColumnSinkTask, report: Report | None) -> int:
        """Put the pending columns, until the task is stopping: each part that is written is done.
        If some cannot be put, put the records from there on. Return how many `put` got."""
        columns = self._pending.columns
        while columns and not self.link.is_stopping:
            part, found = columns[0]
            assert isinstance(found, SinkColumns)
            written = task.put_columns(found)
            where = TopicPartition(part.topic, part.partition)
            self._counts["send"] += written
            if written < len(part):
                self._column_tries -= 1
                if written:
                    self._progress.on_part(where, found.offsets[written])
                for each in self._pending.take_columns():
                    self._convert(each, each.records()[written if each is part else 0 :])
                count = len(self._pending.records)
                self._pending.put_records(task.put, report)
                return count
            self._progress.on_part(where, part.next_offset)
            self._column_tries = COLUMN_TRIES
            del columns[0]
        return 0

    def _hold(self, error: Exception) -> None:
        was_held = self.schedule.is_held
        wait_ms = self.schedule.on_refused(self.now_ms())
        self._parts.tolerance.counts.retries += 1
        self.log.warn("the records are put again", error=self._shown(error), in_ms=wait_ms)
        self.report_waiting(error)
        if not was_held:
            self.consumer.pause(sorted(self.schedule.assigned))

    def _resume(self) -> None:
        if self.schedule.reads:
            self.consumer.resume(sorted(self.schedule.assigned - self.schedule.paused))

    def on_paused(self) -> None:
        self.schedule.is_paused = self.is_paused
        if not self._is_subscribed:
            return
        if self.is_paused:
            self.consumer.pause(sorted(self.schedule.assigned))
        else:
            self._resume()

    # Errors of single records

    @property
    def reports_errants(self) -> bool:
        """Whether the sink may report records one by one (KIP-610)."""
        settings = self._parts.tolerance.settings
        return settings.tolerates or bool(settings.dead_letter_topic)

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Report a record that the sink rejects (`ErrantRecordReporter.report`)."""
        origin = self._originals.of(record)
        failure = Failure(Stage.TASK_PUT, self._parts.connector_name, error, origin)
        if not self._parts.tolerance.settings.tolerates:
            raise as_task_failure(failure) from error
        counts = self._parts.tolerance.counts
        counts.errors += 1
        self._parts.tolerance.report(failure)
        if self._dead_letters is not None:  # the sink may store an offset after it next
            self._dead_letters.settle()

    # Offsets

    def _rewind(self) -> None:
        rewinds, self._context.rewinds = self._context.rewinds, {}
        for where, offset in rewinds.items():
            if where in self.schedule.assigned:
                self._go_to(where, offset)

    def _go_to(self, where: TopicPartition, offset: int) -> None:
        self.consumer.seek(where, offset)
        self._pending.drop([where])
        if self._spans is not None:
            self._spans.drop([where])
        self._progress.on_seek(where, offset)

    def _commit(self, partitions: Iterable[TopicPartition], *, is_last: bool) -> None:
        done = self._progress.done(sorted(partitions))
        if self._dead_letters is not None:  # a sink may store its own offsets in pre_commit
            self._dead_letters.settle()
        try:
            allowed = self._task.pre_commit(dict(done))
        except Exception as error:
            self._counts["commit_failures"] += 1
            if is_last:
                raise
            self.log.warn("flush failed, going back to what is committed", error=self._shown(error))
            self._is_flush_failing = True
            self.report_waiting(error)
            for where in list(done):
                self._go_to(where, self._progress.start(where))
            return
        self._is_flush_failing = False
        self._report_well()
        possible = {
            where: offset
            for where, offset in (allowed or {}).items()
            if where in done and offset.offset <= done[where].offset
        }
        if self._dead_letters is not None:
            self._dead_letters.settle()
            starts = {where: self._progress.start(where) for where in done}
            possible = self._dead_letters.noted(possible, starts)
        self._originals.clear_if(not self._pending)
        wanted = self._progress.changed(possible)
        if not wanted:
            return
        try:
            self.consumer.commit(wanted, timeout_s=self._flush_timeout_s)
        except KafkaError as error:
            self._counts["commit_failures"] += 1
            if is_fenced(error):
                raise
            self.log.warn("offsets could not be committed, trying later", error=str(error))
            return
        self._counts["commits"] += 1
        self._progress.on_committed(wanted)

    # Partitions are assigned and revoked: inside `poll`, on the task's thread

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._has_joined = True
        self.schedule.on_assigned(partitions)
        if partitions:
            self._know_dead_letters(partitions)
            self._task.open(list(partitions))
        self._rewind()
        if not self.schedule.reads:
            self.consumer.pause(list(partitions))

    def _know_dead_letters(self, partitions: Sequence[TopicPartition]) -> None:
        """Load the committed dead letters of newly assigned partitions."""
        if self._dead_letters is None:
            return
        try:
            committed = self.consumer.committed(partitions, timeout_s=self._flush_timeout_s)
        except KafkaError as error:
            self.log.warn("bad records may come into the queue again", error=str(error))
            return
        self._dead_letters.know(committed)
        for where, each in committed.items():
            if each:
                self._progress.on_note(where, each.metadata)

    def on_gone(self, partitions: Sequence[TopicPartition], *, is_lost: bool) -> None:
        if self._has_left:
            return
        gone = set(partitions)
        if not is_lost:
            self._commit(gone, is_last=True)
        self._pending.drop(gone)
        self.schedule.on_gone(gone, is_empty=not self._pending)
        if self._spans is not None:
            self._spans.drop(gone)
        self._progress.on_gone(gone)
        if self._dead_letters is not None:
            self._dead_letters.forget(gone)
        if gone:
            self._task.close(list(gone))

    # The end

    def close(self, *, is_clean: bool) -> None:
        failure: Exception | None = None
        if self._is_subscribed:
            failure = self._leave(is_clean=is_clean)
        if self._is_started:
            self.guarded("stop", self._task.stop)
        for what, close in reversed(self._opened):
            self.guarded(f"close {what}", close)
        if self._made is not None:
            self.guarded("close converters", self._made.close)
        if failure is not None:
            raise failure

    def _leave(self, *, is_clean: bool) -> Exception | None:
        mine = set(self.schedule.assigned)
        self._has_left = True
        try:
            if is_clean and mine:
                self._commit(mine, is_last=True)
            elif mine and self._dead_letters is not None:
                # A failed task reads the same records again, and must not send them again.
                starts = self._progress.starts(mine)
                notes = partial(self._dead_letters.store_notes, self.consumer, starts)
                self.guarded("note dead letters", partial(notes, self._flush_timeout_s))
        except Exception as error:
            return error
        finally:
            if mine:
                self.guarded("close partitions", partial(self._task.close, sorted(mine)))
        return None

    def _missed(self) -> float:
        """Return how many records were deleted from their topics before the task read them."""
        if not self._has_left:
            fetching = self.consumer.metrics()["consumer-fetch-manager-metrics"]
            self._missed_count = fetching["records-missed-total"]
        return self._missed_count

    def metrics(self) -> dict[str, float]:
        if not self._is_subscribed:
            return {}
        mine = (
            set() if self._has_left else self.schedule.assigned
        )  # at the end the consumer is closed
        lags = [self.consumer.lag(where) for where in mine]
        known = [float(lag) for lag in lags if lag is not None]
        return {
            "sink-record-read-total": float(self._counts["read"]),
            "sink-record-send-total": float(self._counts["send"]),
            "put-batch-total": float(self._counts["put_batches"]),
            **self._put_times.figures(self.now_ms()),
            "offset-commit-completion-total": float(self._counts["commits"]),
            "offset-commit-failure-total": float(self._counts["commit_failures"]),
            "partition-count": float(len(mine)),
            "sink-record-lag": sum(known) + self._progress.uncommitted(mine),
            "sink-record-unread": sum(known),
            "sink-record-lag-max": max(known, default=0.0),
            "sink-record-missed-total": self._missed(),
            **self._parts.error_metrics(),
        }
