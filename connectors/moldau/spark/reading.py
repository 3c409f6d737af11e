"""Read topics in Spark, as a batch or as a stream. The driver plans ranges; executors fetch them.

Invariants: A reader pickles without connections; each process opens its own when it needs them. A
batch of a stream has the same records whenever Spark replays it. `latestOffset` returns its start
if there is nothing new.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from moldau.client import TopicPartition
from moldau.errors import ConfigError, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.real import RealClock
from moldau.spark.lookups import Lookups
from moldau.spark.options import ReadOptions
from moldau.spark.ranges import (
    PARTITION_DELETED,
    TOPIC_RECREATED,
    BatchIds,
    Checkpoint,
    Loss,
    OffsetRange,
    available_count,
    from_checkpoint,
    ids_from_checkpoint,
    is_first_start,
    limited_end,
    ranges_and_losses,
    recreated_topics,
    split_ranges,
    starts_of_batch,
    to_checkpoint,
    with_start,
)

LOG: Final = logging.getLogger("moldau.spark")
COMMIT_PAUSE_S: Final = 30.0


class RangePartition(InputPartition):  # type: ignore[misc]
    """The input of one Spark task: a range of one partition, or None for no rows."""

    def __init__(self, wanted: OffsetRange | None) -> None:
        super().__init__(wanted)


def _read_range(options: ReadOptions, schema: Any, partition: Any) -> Iterator[Any]:
    """Fetch the range of one task in an executor, and yield its records as Arrow batches."""
    from moldau.spark.fetching import fetch
    from moldau.spark.rows import RowFormat, to_batch
    from moldau.spark.values import key_column, value_column

    wanted = partition.value
    if wanted is None:
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    row_format = RowFormat(
        key_column(options, arrow.field("key").type),
        value_column(options, arrow.field("value").type),
        options.value_mode,
    )
    for part, count in fetch(
        options.settings,
        OffsetRange(*wanted),
        fails_on_loss=options.fail_on_data_loss,
        timeout_ms=options.poll_timeout_ms,
    ):
        yield to_batch(part, count, row_format, arrow)


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads all records between the start and the end of the read.

    The driver looks up both once, when it plans the tasks."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.schema = schema
        self.lookups = Lookups(options)

    def partitions(self) -> list[RangePartition]:
        """Plan one task for each range. Spark calls this once, on the driver."""
        try:
            ranges = self._ranges()
        finally:
            self.lookups.close()
        pieces = split_ranges(
            ranges, self.options.min_partitions, self.options.max_records_per_partition
        )
        return [RangePartition(each) for each in pieces] or [RangePartition(None)]

    def _ranges(self) -> list[OffsetRange]:
        found = self.lookups.partitions()
        # Ids before offsets: see `_look_up_latest`.
        ids = BatchIds(end=self.lookups.topic_ids(found))
        starts = self.lookups.resolve(self.options.starting, found)
        ends = self.lookups.resolve(self.options.ending, found, is_end=True)
        earliest = self.lookups.earliest(found)
        self._check_bounds(starts, ends)
        ranges, lost = ranges_and_losses(starts, ends, earliest, ids)
        _report_losses(lost, fails=self.options.fail_on_data_loss)
        return ranges

    def _check_bounds(
        self, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> None:
        """Raise ConfigError if the read starts after its end. Spark's own source does so too."""
        wrong = sorted(where for where, end in ends.items() if starts[where] > end)
        if wrong:
            raise ConfigError(
                "a read cannot start after its end: correct one of the two options",
                start=self.options.starting.text or "earliest",
                end=self.options.ending.text or "latest",
                partitions="; ".join(
                    f"{where}: from {starts[where]} to {ends[where]}" for where in wrong
                ),
            )

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read_range(self.options, self.schema, partition)


class FilteringReader(BatchReader):
    """Reads only the partitions and offsets that the query's filters select.

    The option `pushFilters=true` chooses this reader. Spark rejects it unless
    `spark.sql.python.filterPushdown.enabled` is true."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        super().__init__(options, schema)
        self.filters: list[Any] = []
        self.since_ms: int | None = None

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take over filters of topic, partition and offset; yield those that Spark must apply too.

        For a list of offsets only its minimum and maximum are used here, so Spark applies it too.
        A lower bound of the timestamp makes the read begin later. Spark applies it too, because
        timestamps in a log need not rise."""
        for each in filters:
            name = each.attribute[0] if hasattr(each, "attribute") else ""
            if name in ("topic", "partition", "offset") and isinstance(each, _PUSHED_FILTERS):
                self.filters.append(each)
                if name != "offset" or not isinstance(each, In):
                    continue
            if name == "timestamp" and isinstance(each, GreaterThan | GreaterThanOrEqual):
                self._raise_start_time(each.value)
            yield each

    def _raise_start_time(self, value: object) -> None:
        """Begin the read at this time, unless another filter makes it begin later."""
        if isinstance(value, datetime) and value.tzinfo is not None:
            since = int(value.timestamp() * 1000)
            self.since_ms = since if self.since_ms is None else max(since, self.since_ms)

    def _ranges(self) -> list[OffsetRange]:
        ranges = [
            each
            for each in (_apply_filters(each, self.filters) for each in super()._ranges())
            if each is not None
        ]
        if self.since_ms is None or not ranges:
            return ranges
        since = self.lookups.offsets_for_times({each.where: self.since_ms for each in ranges})
        return [
            each._replace(start=max(each.start, since[each.where]))
            for each in ranges
            if 0 <= since[each.where] < each.end
        ]


_PUSHED_FILTERS: Final = (EqualTo, In, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


def _apply_filters(wanted: OffsetRange, filters: list[Any]) -> OffsetRange | None:
    """Return the part of a range that the filters select, or None if that is empty."""
    where, start, end, _ = wanted
    for each in filters:
        if each.attribute[0] == "offset":
            low, high = _offset_interval(each)
            start, end = max(start, low), min(end, high)
        elif not _matches(each, getattr(where, each.attribute[0])):
            return None
    return wanted._replace(start=start, end=end) if start < end else None


def _offset_interval(each: Any) -> tuple[int, int]:
    """Return the start and the end of the offsets that a filter selects. The end is excluded.

    For `In` the interval may have more offsets than the list. A null selects nothing."""
    endless = 2**63 - 1
    if isinstance(each, EqualTo):
        return each.value, each.value + 1
    if isinstance(each, In):
        known = [value for value in each.value if value is not None]
        return (min(known), max(known) + 1) if known else (0, 0)
    if isinstance(each, GreaterThan):
        return each.value + 1, endless
    if isinstance(each, GreaterThanOrEqual):
        return each.value, endless
    return 0, each.value + (0 if isinstance(each, LessThan) else 1)


def _matches(each: Any, value: Any) -> bool:
    """Whether a filter selects this topic or partition."""
    if isinstance(each, EqualTo):
        return bool(value == each.value)
    if isinstance(each, In):
        return value in each.value
    if isinstance(each, GreaterThan):
        return bool(value > each.value)
    if isinstance(each, GreaterThanOrEqual):
        return bool(value >= each.value)
    return bool(value < each.value if isinstance(each, LessThan) else value <= each.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads micro-batches of a stream.

    For the whole life of the query it is in one Python process beside the driver."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.schema = schema
        self.lookups = Lookups(options)
        self.available_now_end: dict[TopicPartition, int] | None = None
        """Where the query ends if its trigger is `availableNow`."""
        self.last_batch_at_s = float("-inf")
        self.commit_after_s = float("-inf")
        """No offsets are stored before this time, because storing them has just failed."""
        self.latest_offsets: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, str] = {}
        """The ids of the topics in `latest_offsets`."""
        self.logged_codes: set[ErrorCode] = set()
        """Errors of `commit` that the log has already."""
        self.missing_partitions: set[TopicPartition] = set()
        self.initial_offsets: Checkpoint | None = None
        self.stored_offsets: Checkpoint | None = None
        """The offsets that need not be stored for the group: it has them, or they are where a new
        query begins."""

    def initialOffset(self) -> Checkpoint:
        """Return where a new query begins.

        Spark does not store the answer. It asks when it chooses the end of the first batch, again
        when it plans that batch, and again after each restart until the batch is committed. In one
        process the answer stays the same. After a restart the start in the batch's end counts."""
        if self.initial_offsets is not None:
            return self.initial_offsets
        found = self.lookups.partitions()
        ids = self._topic_ids(found)
        begun = to_checkpoint(self.lookups.resolve(self.options.starting, found), ids)
        self.initial_offsets = self.stored_offsets = with_start(begun, begun)
        if self.available_now_end is not None:
            # Spark has fixed the end first, and the logs may have grown since: the start may be
            # after it.
            self.available_now_end = self._look_up_latest()
        return self.initial_offsets

    def getDefaultReadLimit(self) -> Any:
        limit = self.options.max_offsets
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the query: it reads the records that exist now, and no later ones."""
        self.available_now_end = self._look_up_latest()

    def _look_up_latest(self) -> dict[TopicPartition, int]:
        """Look up where the logs end, and the ids of their topics.

        The ids come first. If a topic is made again in between, the batch then ends in the old
        topic, and a later check reports that. In the other order nothing would report it."""
        found = self.lookups.partitions()
        self.topic_ids = self._topic_ids(found)
        return self.lookups.latest(found)

    def _topic_ids(self, found: list[TopicPartition]) -> dict[str, str]:
        """Return the ids that the offsets of a batch have, by topic."""
        return self.lookups.topic_ids(found) if self.options.has_topic_ids else {}

    def latestOffset(self, start: Checkpoint, limit: Any) -> Checkpoint:
        """Return where the next batch ends, or `start` if there is no next batch yet.

        Everything below `start` is finished, so its offsets are stored for the group here. Spark
        itself calls `commit` only when another batch begins, and on an idle topic never."""
        self.commit(start)
        starts = from_checkpoint(start)
        ids = ids_from_checkpoint(start) if self.options.has_topic_ids else {}
        self.latest_offsets = (
            self._look_up_latest()
            if self.available_now_end is None
            else dict(self.available_now_end)
        )
        self._check_missing_partitions(starts)
        recreated = self._recreated_topics(ids)
        # Offsets of the old topic must not stay beside the id of the new one.
        starts = {where: each for where, each in starts.items() if where.topic not in recreated}
        starts |= self._starts_of_new_partitions(starts)
        if not self._is_batch_due(starts):
            return start
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = limited_end(starts, self.latest_offsets, rows)
        if end == from_checkpoint(start) and not recreated:
            return start
        chosen = to_checkpoint(end, ids | self.topic_ids)
        return with_start(chosen, start) if is_first_start(start) else chosen

    def _recreated_topics(self, ids: dict[str, str]) -> set[str]:
        """Return the topics that were made again. Report them if losses must fail.

        They are read from their beginning."""
        found = recreated_topics(ids, self.topic_ids)
        if self.options.fail_on_data_loss:
            partitions = sorted(where for where in self.latest_offsets if where.topic in found)
            _report_losses([Loss(where, TOPIC_RECREATED) for where in partitions], fails=True)
        return found

    def _check_missing_partitions(self, starts: dict[TopicPartition, int]) -> None:
        """Report partitions that no longer exist, each set of them once.

        A pattern does not match a topic that was deleted, so no request about it fails."""
        missing = starts.keys() - self.latest_offsets.keys()
        if missing == self.missing_partitions:
            return
        self.missing_partitions = missing
        lost = [Loss(where, PARTITION_DELETED) for where in sorted(missing)]
        _report_losses(lost, fails=self.options.fail_on_data_loss)

    def _starts_of_new_partitions(
        self, starts: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the first offsets of partitions that the query has not read yet."""
        return self.lookups.earliest(self.latest_offsets.keys() - starts.keys())

    def _is_batch_due(self, starts: dict[TopicPartition, int]) -> bool:
        """Whether there are enough records for a batch, or the longest delay is over."""
        least = self.options.min_offsets
        now = RealClock.monotonic()
        if least is not None and self.available_now_end is None:
            waited_ms = (now - self.last_batch_at_s) * 1000
            if (
                available_count(starts, self.latest_offsets) < least
                and waited_ms < self.options.max_delay_ms
            ):
                return False
        self.last_batch_at_s = now
        return True

    def reportLatestOffset(self) -> Checkpoint:
        """Return the last known ends of the logs. Spark's progress shows the lag with them."""
        return to_checkpoint(self.latest_offsets)

    def partitions(self, start: Checkpoint, end: Checkpoint) -> list[RangePartition]:
        """Plan the tasks of a batch. A partition without a start is new, so it begins at 0."""
        start = starts_of_batch(start, end)
        ends = from_checkpoint(end)
        earliest, present = self.lookups.earliest_of_existing(ends)
        ids = BatchIds(ids_from_checkpoint(start), ids_from_checkpoint(end), present)
        starts = dict.fromkeys(ends, 0) | from_checkpoint(start)
        moved = {
            where: each
            for where, each in ends.items()
            if each != starts[where] or ids.is_recreated(where.topic)
        }
        ranges, lost = ranges_and_losses(starts, moved, earliest, ids)
        _report_losses(lost, fails=self.options.fail_on_data_loss)
        pieces = split_ranges(
            ranges, self.options.min_partitions, self.options.max_records_per_partition
        )
        return [RangePartition(each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read_range(self.options, self.schema, partition)

    def commit(self, end: Checkpoint) -> None:
        """Store the offsets for the group, if the options name one, so that tools show the lag.

        The query continues at its checkpoint, not at these offsets. So a failure is only logged,
        each error code once, and repeated after a pause."""
        group, now = self.options.group, RealClock.monotonic()
        if group is None or end == self.stored_offsets or now < self.commit_after_s:
            return
        try:
            self.lookups.commit(group, from_checkpoint(end))
            self.stored_offsets = end
        except MoldauError as error:
            self.commit_after_s = now + COMMIT_PAUSE_S
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            if code not in self.logged_codes:
                self.logged_codes.add(code)
                LOG.warning(
                    "cannot store the offsets of group %s, so tools show a wrong lag: %s",
                    group,
                    error,
                )

    def stop(self) -> None:
        self.lookups.close()


def _report_losses(lost: list[Loss], *, fails: bool) -> None:
    """Raise MoldauError if there are losses and they must fail; otherwise log them."""
    if not lost:
        return
    facts = "; ".join(f"{each.where}: {each.reason}" for each in lost)
    if fails:
        raise MoldauError(
            "records were lost before they were read: set failOnDataLoss=false to continue without "
            "them",
            lost=facts,
        )
    LOG.warning("records were lost before they were read, continuing without them: %s", facts)
