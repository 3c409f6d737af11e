"""Readers of the data source: batch and stream. Driver side plans, executor side fetches.

Invariants: a reader pickles as its options (connections are opened where they are needed); a stream
batch is the same records whenever it is replayed; `latestOffset` gives its start back when there is
nothing new.
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
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.real import RealClock
from moldau.spark.lookups import Lookups
from moldau.spark.options import ReadOptions
from moldau.spark.ranges import (
    REMADE,
    BatchIds,
    Checkpoint,
    Loss,
    Range,
    available,
    from_checkpoint,
    ids_in,
    limited,
    losses,
    made_again,
    split,
    to_checkpoint,
)

LOG: Final = logging.getLogger("moldau.spark")


class RangePartition(InputPartition):  # type: ignore[misc]
    """One task: a range of one partition, or nothing."""

    def __init__(self, wanted: Range | None) -> None:
        super().__init__(wanted)


def _read(options: ReadOptions, schema: Any, partition: Any) -> Iterator[Any]:
    """In an executor: the range as Arrow batches."""
    from moldau.spark.fetching import fetch
    from moldau.spark.rows import Typed, to_batch
    from moldau.spark.values import key_column, value_column

    wanted = partition.value
    if wanted is None:
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    typed = Typed(
        key_column(options, arrow.field("key").type),
        value_column(options, arrow.field("value").type),
        options.value_mode,
    )
    for part, count in fetch(
        options.settings,
        Range(*wanted),
        fails_on_loss=options.fail_on_data_loss,
        timeout_ms=options.poll_timeout_ms,
    ):
        yield to_batch(part, count, typed, arrow)


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """All records between two bounds that are looked up once."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.schema = schema
        self.lookups = Lookups(options)

    def partitions(self) -> list[RangePartition]:
        """One task a range; Spark calls it once, on the driver."""
        try:
            ranges = self._ranges()
        finally:
            self.lookups.close()
        pieces = split(ranges, self.options.min_partitions, self.options.max_records_per_partition)
        return [RangePartition(each) for each in pieces] or [RangePartition(None)]

    def _ranges(self) -> list[Range]:
        found = self.lookups.partitions()
        ids = BatchIds(end=self.lookups.ids(found))  # before the offsets, as in `_look`
        starts = self.lookups.resolve(self.options.starting, found)
        ends = self.lookups.resolve(self.options.ending, found, is_end=True)
        earliest = self.lookups.earliest(found)
        moved = {where: max(end, starts[where]) for where, end in ends.items()}
        ranges, lost = losses(starts, moved, earliest, ids)
        _tell(lost, fails=self.options.fail_on_data_loss)
        return ranges

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self.options, self.schema, partition)


class FilteringReader(BatchReader):
    """Leaves out partitions and offsets that the query does not want. Chosen by the option
    `pushFilters=true`; Spark refuses it unless `spark.sql.python.filterPushdown.enabled` is true.
    """

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        super().__init__(options, schema)
        self.wanted: list[Any] = []
        self.since_ms: int | None = None

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Takes what is about topic, partition and offset, but Spark has to look again at a list
        of offsets, of which only the ends are used here. A bound of the timestamp lets the read
        begin later, and Spark filters all the same: timestamps need not rise."""
        for each in filters:
            name = each.attribute[0] if hasattr(each, "attribute") else ""
            if name in ("topic", "partition", "offset") and isinstance(each, _TAKEN):
                self.wanted.append(each)
                if name != "offset" or not isinstance(each, In):
                    continue
            if name == "timestamp" and isinstance(each, GreaterThan | GreaterThanOrEqual):
                self._since(each.value)
            yield each

    def _since(self, value: object) -> None:
        if isinstance(value, datetime) and value.tzinfo is not None:
            since = int(value.timestamp() * 1000)
            self.since_ms = since if self.since_ms is None else max(since, self.since_ms)

    def _ranges(self) -> list[Range]:
        ranges = [
            each
            for each in (_narrowed(each, self.wanted) for each in super()._ranges())
            if each is not None
        ]
        if self.since_ms is None or not ranges:
            return ranges
        since = self.lookups.at_times({each.where: self.since_ms for each in ranges})
        return [
            each._replace(start=max(each.start, since[each.where]))
            for each in ranges
            if 0 <= since[each.where] < each.end
        ]


_TAKEN: Final = (EqualTo, In, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


def _narrowed(wanted: Range, filters: list[Any]) -> Range | None:
    """What the filters leave of a range; None where nothing."""
    where, start, end, _ = wanted
    for each in filters:
        if each.attribute[0] == "offset":
            low, high = _interval(each)
            start, end = max(start, low), min(end, high)
        elif not _fits(each, getattr(where, each.attribute[0])):
            return None
    return wanted._replace(start=start, end=end) if start < end else None


def _interval(each: Any) -> tuple[int, int]:
    """The offsets that a filter lets through, the end excluded. For `In` also some between."""
    endless = 2**63 - 1
    if isinstance(each, EqualTo):
        return each.value, each.value + 1
    if isinstance(each, In):
        return min(each.value), max(each.value) + 1
    if isinstance(each, GreaterThan):
        return each.value + 1, endless
    if isinstance(each, GreaterThanOrEqual):
        return each.value, endless
    return 0, each.value + (0 if isinstance(each, LessThan) else 1)


def _fits(each: Any, value: Any) -> bool:
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
    """Micro-batches. Lives in a process of its own on the driver for as long as the query."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.schema = schema
        self.lookups = Lookups(options)
        self.target: dict[TopicPartition, int] | None = None
        self.begun_at = float("-inf")
        self.newest: dict[TopicPartition, int] = {}
        self.ids: dict[str, str] = {}
        """Of the topics that `newest` is about."""
        self.told: set[ErrorCode] = set()
        self.gone: set[TopicPartition] = set()
        self.stored: Checkpoint | None = None
        """The offsets that the group has, or that no batch has moved yet."""

    def initialOffset(self) -> Checkpoint:
        """Where a new query begins; Spark keeps it in the checkpoint and does not ask again."""
        found = self.lookups.partitions()
        ids = self.lookups.ids(found)
        self.stored = to_checkpoint(self.lookups.resolve(self.options.starting, found), ids)
        return self.stored

    def getDefaultReadLimit(self) -> Any:
        limit = self.options.max_offsets
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is read, in batches, and nothing that comes later."""
        self.target = self._look()

    def _look(self) -> dict[TopicPartition, int]:
        """Where the logs end. Ids come first: if a topic is made again in between, the batch ends
        in a topic that is gone, and that is noticed; the other way round it would not be."""
        found = self.lookups.partitions()
        self.ids = self.lookups.ids(found)
        return self.lookups.latest(found)

    def latestOffset(self, start: Checkpoint, limit: Any) -> Checkpoint:
        """Where the next batch ends. What is below `start` is done, and is stored for the group
        here: Spark calls `commit` only when another batch begins, on an idle topic never."""
        self.commit(start)
        begun, ids = from_checkpoint(start), ids_in(start)
        self.newest = self._look() if self.target is None else dict(self.target)
        self._look_for_gone(begun)
        remade = self._remade(ids)
        begun |= self._new_starts(begun) | self.lookups.earliest(remade)
        if not self._is_due(begun):
            return start
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = limited(begun, self.newest, rows)
        if end == from_checkpoint(start) and not remade:
            return start
        return to_checkpoint(end, ids | self.ids)

    def _remade(self, ids: dict[str, str]) -> list[TopicPartition]:
        """The partitions of topics that were made again: they are read from their beginning."""
        again = made_again(ids, self.ids)
        found = sorted(where for where in self.newest if where.topic in again)
        if self.options.fail_on_data_loss:
            _tell([Loss(where, REMADE) for where in found], fails=True)
        return found

    def _look_for_gone(self, begun: dict[TopicPartition, int]) -> None:
        """A pattern does not name a topic that was deleted, so no question about it fails."""
        gone = begun.keys() - self.newest.keys()
        if gone == self.gone:
            return
        self.gone = gone
        lost = [Loss(where, "the partition is gone") for where in sorted(gone)]
        _tell(lost, fails=self.options.fail_on_data_loss)

    def _new_starts(self, begun: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Partitions that came after the query began are read from their beginning."""
        return self.lookups.earliest(self.newest.keys() - begun.keys())

    def _is_due(self, begun: dict[TopicPartition, int]) -> bool:
        least = self.options.min_offsets
        now = RealClock.monotonic()
        if least is not None and self.target is None:
            waited_ms = (now - self.begun_at) * 1000
            if available(begun, self.newest) < least and waited_ms < self.options.max_delay_ms:
                return False
        self.begun_at = now
        return True

    def reportLatestOffset(self) -> Checkpoint:
        """The ends of the logs as of the last look: Spark's progress shows the lag by them."""
        return to_checkpoint(self.newest)

    def partitions(self, start: Checkpoint, end: Checkpoint) -> list[RangePartition]:
        """The tasks of a batch."""
        ends = from_checkpoint(end)
        earliest, present = self.lookups.existing(ends)
        ids = BatchIds(ids_in(start), ids_in(end), present)
        starts = from_checkpoint(start)
        for where in ends.keys() - starts.keys():
            starts[where] = earliest.get(where, ends[where])
        moved = {
            where: each
            for where, each in ends.items()
            if each != starts[where] or ids.is_made_again(where.topic)
        }
        ranges, lost = losses(starts, moved, earliest, ids)
        _tell(lost, fails=self.options.fail_on_data_loss)
        pieces = split(ranges, self.options.min_partitions, self.options.max_records_per_partition)
        return [RangePartition(each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self.options, self.schema, partition)

    def commit(self, end: Checkpoint) -> None:
        """Stores the offsets for the group, if one is named: tools then show the query's lag. The
        checkpoint is what counts, so a failure is logged and the query goes on."""
        group = self.options.group
        if group is None or end == self.stored:
            return
        self.stored = end
        try:
            self.lookups.commit(group, from_checkpoint(end))
        except MoldauError as error:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            if code not in self.told:
                self.told.add(code)
                LOG.warning("offsets of group %s are not stored, lag looks wrong: %s", group, error)

    def stop(self) -> None:
        self.lookups.close()


def _tell(lost: list[Loss], *, fails: bool) -> None:
    if not lost:
        return
    facts = "; ".join(f"{each.where}: {each.reason}" for each in lost)
    if fails:
        raise MoldauError(
            "records are gone: set failOnDataLoss=false to go on without them", lost=facts
        )
    LOG.warning("records are gone, going on without them: %s", facts)
