"""The task of the JDBC sink: records become rows, in transactions of `batch.size` records.

A temporary error rolls back and requests the same records again; the transactions before it are not
repeated. A value that the database rejects
is found by halving the batch: the good halves are written, the bad record is reported (or fails the
task, with its topic, partition and offset). With exactly.once the offsets are written in the same
transactions, and the offsets committed to Kafka follow them.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.connect.api import (
    ColumnSinkTask,
    ConnectError,
    DataError,
    RetriableError,
    SinkColumns,
    SinkRecord,
)
from moldau.connectors.jdbc.change_events import ChangeEvents
from moldau.connectors.jdbc.columns import ColumnType, Table, TableId
from moldau.connectors.jdbc.columnwise import (
    COLUMN_TRIES,
    Column,
    RowPlan,
    UnsortableError,
    are_alike,
    columns_of,
    columns_of_part,
    last_rows,
)
from moldau.connectors.jdbc.connecting import open_database
from moldau.connectors.jdbc.database import Database, PoisonError
from moldau.connectors.jdbc.inference import type_of_schema
from moldau.connectors.jdbc.mysql_catalog import mysql_has_unique
from moldau.connectors.jdbc.reduction import Change, TableChanges, last_of_each_key, plain
from moldau.connectors.jdbc.shapes import RowShape, ShapeColumn, Shapes, row_columns
from moldau.connectors.jdbc.sink_settings import InsertMode, KeyMode, SinkConfig
from moldau.connectors.jdbc.stored_offsets import StoredOffsets
from moldau.connectors.jdbc.structure import Structure
from moldau.connectors.jdbc.values import Conversions, Convert
from moldau.connectors.jdbc.writing import TableWriter, TargetTable, writer_for
from moldau.connectors.pace import Pace

T = TypeVar("T")

_log = logging.getLogger(__name__)


_Entry = tuple[SinkRecord, TargetTable | None, Change | None]
"""A record with its row; None instead of a row for a record that was reported."""


class JdbcSinkTask(ColumnSinkTask):
    """Writes records into tables."""

    java_name = "io.confluent.connect.jdbc.sink.JdbcSinkTask"

    _database: Database | None = None
    _offsets: StoredOffsets | None = None

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = SinkConfig.of(props)
        self._database = open_database(config, self._pace)
        self._database.report_waiting = self.context.report_waiting
        self._events = ChangeEvents()
        self._shapes = Shapes(config)
        self._structure = Structure(
            self._database,
            auto_create=config.auto_create,
            auto_evolve=config.auto_evolve,
            or_else="leave the field out with fields.whitelist",
        )
        self._conversions = Conversions(self._database.dialect.name, config.zone())
        self._writer: TableWriter = writer_for(self._database)
        self._prepared: dict[RowShape, RowPlan] = {}
        self._version = 0
        self._looked_for_key: set[TableId] = set()
        self._retries = config.max_retries
        self._progress: dict[TopicPartition, int] = {}
        """The offsets after what an unfinished call has written: a retry goes on there."""
        self._written: list[list[SinkRecord]] = []
        """What the current call of `put` has written."""
        if config.exactly_once:
            self._offsets = StoredOffsets(self._database, props.get("name", "connector"))
        self._database.connection()

    def stop(self) -> None:
        self._pace.stop()
        if self._database is not None:
            self._database.close()

    def open(self, partitions: Collection[TopicPartition]) -> None:
        if self._offsets is not None:
            stored = self._offsets.open(partitions)
            if stored:
                self.context.offset(stored)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._progress.pop(partition, None)
        if self._offsets is not None:
            self._offsets.close(partitions)

    def pre_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the offsets: what was put is written. With exactly.once, first move the stored
        offsets over records that were rejected before `put`, so that a restart does not reject them
        again."""
        assert self._database is not None
        if self._offsets is not None:
            offsets = self._stored(offsets)
        self._database.release()
        return offsets

    def _stored(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        assert self._offsets is not None
        self._pass_rejected(offsets)
        committed = {}
        for partition, offset in offsets.items():
            stored = self._offsets.next_of(partition)
            if stored is not None:
                committed[partition] = OffsetAndMetadata(min(stored, offset.offset))
        return committed

    def _pass_rejected(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        assert self._offsets is not None
        assert self._database is not None
        behind = {
            partition: offset.offset
            for partition, offset in offsets.items()
            if self._offsets.is_behind(partition, offset.offset)
        }
        if behind:
            with self._database.transaction() as connection:
                self._offsets.store(connection, behind)
            self._offsets.stored(behind)

    def on_log_began_anew(self, partition: TopicPartition, offset: int, expected: int) -> None:
        self._progress.pop(partition, None)
        if self._offsets is not None:
            raise ConnectError(
                f"{partition.topic}-{partition.partition} begins anew at offset {offset}, the "
                f"database expects {expected}: the topic was deleted and made again, or lost its "
                "end -> to write all its records, delete the topic's rows from __connect_offsets "
                "and restart the connector"
            )

    def put(self, records: list[SinkRecord]) -> None:
        if records:
            self._retried(lambda: self._put(records))

    def put_columns(self, part: SinkColumns) -> int:
        return self._retried(lambda: self._put_columns(part))

    def _retried(self, write: Callable[[], T]) -> T:
        """Call `write`; after a temporary error ask for another call, `max.retries` times."""
        try:
            found = write()
        except RetriableError as error:
            self._structure.forget()
            for records in self._written:
                self._progress.update(_next_offsets(records))
            self._written.clear()
            if self._retries <= 0:
                raise ConnectError(f"{error} (max.retries={self._config.max_retries})") from error
            self._retries -= 1
            self.context.timeout(self._config.retry_backoff_ms)
            raise
        self._retries = self._config.max_retries
        self._progress.clear()
        self._written.clear()
        return found

    def _put(self, records: list[SinkRecord]) -> None:
        if self._offsets is not None:
            records = [record for record in records if not self._is_stored(record)]
        if self._progress:
            records = [record for record in records if not self._is_written(record)]
        size = self._config.batch_size
        for start in range(0, len(records), size):
            batch = records[start : start + size]
            if not self._write_columns(batch):
                self._write(self._entries(batch))

    def _is_stored(self, record: SinkRecord) -> bool:
        assert self._offsets is not None
        stored = self._offsets.next_of(_partition(record))
        return stored is not None and record.original_offset < stored

    def _is_written(self, record: SinkRecord) -> bool:
        return record.original_offset < self._progress.get(_partition(record), 0)

    # --- records to rows ----------------------------------------------------------------------

    def _entries(self, records: list[SinkRecord]) -> list[_Entry]:
        """Return each record with its row. First make the tables fit."""
        shaped: list[tuple[SinkRecord, RowShape | None]] = []
        groups: dict[RowShape, list[SinkRecord]] = {}
        last: RowShape | None = None
        of_last: list[SinkRecord] = []
        for each in records:
            record = each
            try:
                record = self._events.opened(each)
                shape = self._shapes.of(record)
            except DataError as error:
                self._report(record, error)
                shaped.append((record, None))
                continue
            shaped.append((record, shape))
            if shape is not last:
                last, of_last = shape, groups.setdefault(shape, [])
            of_last.append(record)
        self._prepare(groups)
        return [self._entry(record, shape) for record, shape in shaped]

    def _prepare(self, groups: Mapping[RowShape, list[SinkRecord]]) -> None:
        """Make the tables fit these shapes, and prepare the conversions."""
        for shape, group in groups.items():
            self._structure.fit(row_columns(shape, group))
        if self._structure.version != self._version:
            self._version = self._structure.version
            self._prepared.clear()
            self._writer.forget()
        for shape in groups:
            if shape not in self._prepared:
                self._prepared[shape] = self._preparation(shape)

    def _entry(self, record: SinkRecord, shape: RowShape | None) -> _Entry:
        if shape is None:
            return record, None, None
        prepared = self._prepared[shape]
        try:
            key = shape.key_of(record)
            if prepared.key_converts:
                key = _converted(key, prepared.key_converts)
            if record.value is None:
                return record, prepared.target, (key, (), None)
            others = shape.others_of(record)
            if prepared.kept is not None:
                others = tuple([others[index] for index in prepared.kept])
            if prepared.converts:
                others = _converted(others, prepared.converts)
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:
            self._report(record, DataError(f"cannot write the record: {error}"))
            return record, None, None
        return record, prepared.target, (key, prepared.names, others)

    def _preparation(self, shape: RowShape) -> RowPlan:
        table = self._structure.table(shape.table)
        kept = [i for i, part in enumerate(shape.others) if part.name in table.by_name]
        others = [shape.others[index] for index in kept]
        target = TargetTable(shape.table, shape.key_names, self._config.insert_mode)
        self._warn_of_no_unique_key(target)
        return RowPlan(
            target,
            tuple(part.name for part in others),
            self._converts(shape.key, table),
            self._converts(others, table),
            None if len(kept) == len(shape.others) else kept,
        )

    def _warn_of_no_unique_key(self, target: TargetTable) -> None:
        """Warn once of a table in which MySQL would insert a row for each upsert. Other databases
        refuse that."""
        assert self._database is not None
        table = target.table
        is_upsert = target.mode is InsertMode.UPSERT and self._database.dialect.name == "mysql"
        if not is_upsert or table in self._looked_for_key:
            return
        self._looked_for_key.add(table)
        with self._database.transaction() as connection:
            is_unique = mysql_has_unique(connection, table, target.key)
        if not is_unique:
            _log.warning(
                "table %s has no primary key or unique index on %s: MySQL inserts a row for each "
                "record, and again for a repeated one -> create one",
                table,
                ", ".join(target.key),
            )

    def _converts(self, parts: Collection[ShapeColumn], table: Table) -> list[tuple[int, Convert]]:
        found = []
        for index, part in enumerate(parts):
            convert = self._convert(part, table.by_name[part.name].type)
            if convert is not None:
                found.append((index, convert))
        return found

    def _convert(self, part: ShapeColumn, target: ColumnType) -> Convert | None:
        if part.name in self._config.timestamp_fields:
            unit_ns = 1000 if self._config.timestamp_precision == "microseconds" else 1
            return self._conversions.since_epoch(target, unit_ns)
        if part.schema is None:
            return self._conversions.untyped(target)
        return self._conversions.typed(type_of_schema(part.schema), target)

    # --- columns to the database --------------------------------------------------------------

    def _write_columns(self, records: list[SinkRecord]) -> bool:
        """Write records of one known shape at once. Return False, with nothing written, if they are
        of another kind or one of them is bad."""
        if not self._writer.takes_columns:
            return False
        shape = self._shape_of_all(records)
        prepared = None if shape is None else self._prepared[shape]
        if shape is None or prepared is None or prepared.tries_left == 0:
            return False
        prepared.tries_left -= 1
        columns = columns_of(records, shape, prepared, is_keyed=self._is_keyed)
        if columns is None:
            return False
        offsets = _next_offsets(records) if self._offsets is not None else {}
        names = prepared.target.key + prepared.names
        assert self._database is not None
        try:
            with self._database.transaction() as connection:
                if not self._writer.write_columns(connection, prepared.target, names, columns):
                    return False
                if self._offsets is not None:
                    self._offsets.store(connection, offsets)
        except PoisonError:
            self._writer.forget()
            return False
        if self._offsets is not None:
            self._offsets.stored(offsets)
        self._written.append(records)
        prepared.tries_left = COLUMN_TRIES
        return True

    def _put_columns(self, part: SinkColumns) -> int:
        """Write records that came as columns. Return how many of the first ones are written."""
        where, size = TopicPartition(part.topic, part.partition), self._config.batch_size
        begin = bisect_left(part.offsets, self._progress.get(where, 0))
        shape = self._shape_of_part(part)
        if shape is None:
            return begin
        prepared = self._prepared[shape]
        columns = columns_of_part(part, shape, prepared)
        if not columns:
            return begin
        for start in range(begin, len(part), size):
            end = min(start + size, len(part))
            batch = columns if end - start == len(part) else [each[start:end] for each in columns]
            offsets = {where: part.offsets[end - 1] + 1}
            try:
                if self._is_keyed:
                    batch = last_rows(batch, len(shape.key))
                self._transact_batch(prepared, batch, offsets)
            except (PoisonError, UnsortableError):
                self._writer.forget()
                return start
            self._progress.update(offsets)
        return len(part)

    def _transact_batch(
        self, prepared: RowPlan, columns: list[Column], offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Write columns in one transaction, as rows where the writer takes no columns."""
        assert self._database is not None
        with self._database.transaction() as connection:
            self._writer.write_batch(connection, prepared.target, prepared.names, columns)
            if self._offsets is not None:
                self._offsets.store(connection, offsets)
        if self._offsets is not None:
            self._offsets.stored(offsets)

    def _shape_of_part(self, part: SinkColumns) -> RowShape | None:
        """Return the shape of these records, and make their table fit; None if they have none, or
        some of them are stored already."""
        first = part.first
        shape = self._shape_as_it_is(first)
        if shape is None or (self._offsets is not None and self._is_stored(first)):
            return None
        if shape not in self._prepared or self._structure.version != self._version:
            if part.value.schema is None:
                return None  # the types of new columns come from the values of all records
            self._prepare({shape: [first]})
        return shape if self._structure.is_fit(shape.table, shape.names) else None

    def _shape_of_all(self, records: list[SinkRecord]) -> RowShape | None:
        """Return the shape that all records have, if their table is known to fit it."""
        if not records or self._structure.version != self._version or not are_alike(records):
            return None
        shape = self._shape_as_it_is(records[0])
        if shape is None or shape not in self._prepared:
            return None
        return shape if self._structure.is_fit(shape.table, shape.names) else None

    def _shape_as_it_is(self, record: SinkRecord) -> RowShape | None:
        """Return the shape of a record; None if the record is rejected, or is a change event."""
        try:
            return self._shapes.of(record) if self._events.opened(record) is record else None
        except DataError:
            return None

    # --- rows to the database -----------------------------------------------------------------

    def _write(self, entries: list[_Entry]) -> None:
        """Write a part of a batch in one transaction, or its halves if a value is rejected."""
        try:
            self._transact(entries)
        except PoisonError as error:
            if len(entries) == 1:
                record = entries[0][0]
                self._report(record, DataError(str(error)))
                self._transact([(record, None, None)])
                return
            middle = len(entries) // 2
            self._write(entries[:middle])
            self._write(entries[middle:])

    def _transact(self, entries: list[_Entry]) -> None:
        assert self._database is not None
        changes: dict[TargetTable, list[Change]] = {}
        last: TargetTable | None = None
        of_last: list[Change] = []
        for _, target, change in entries:
            if change is not None and target is not None:
                if target is not last:
                    last, of_last = target, changes.setdefault(target, [])
                of_last.append(change)
        stored = self._offsets is not None
        offsets = _next_offsets([entry[0] for entry in entries]) if stored else {}
        if not changes and not offsets:
            self._written.append([entry[0] for entry in entries])
            return
        with self._database.transaction() as connection:
            for target, of_target in changes.items():
                for step in self._steps(of_target):
                    self._writer.write(connection, target, step)
            if self._offsets is not None:
                self._offsets.store(connection, offsets)
        if self._offsets is not None:
            self._offsets.stored(offsets)
        self._written.append([entry[0] for entry in entries])

    def _steps(self, changes: list[Change]) -> list[TableChanges]:
        return last_of_each_key(changes) if self._is_keyed else plain(changes)

    @property
    def _is_keyed(self) -> bool:
        """Whether only the last write of each key matters."""
        changes = self._config.insert_mode in (InsertMode.UPSERT, InsertMode.UPDATE)
        return changes and self._config.key_mode is not KeyMode.NONE

    def _report(self, record: SinkRecord, error: DataError) -> None:
        where = f"{record.original_topic}-{record.original_partition}@{record.original_offset}"
        reporter = self.context.errant_record_reporter
        if reporter is None:
            raise DataError(f"record {where}: {error}") from error
        _log.warning("record %s is bad: %s", where, error)
        reporter.report(record, error)


def _converted(values: tuple[Any, ...], converts: list[tuple[int, Convert]]) -> tuple[Any, ...]:
    changed = list(values)
    for index, convert in converts:
        value = changed[index]
        if value is not None:
            changed[index] = convert(value)
    return tuple(changed)


def _partition(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic, record.original_partition)


def _next_offsets(records: Iterable[SinkRecord]) -> dict[TopicPartition, int]:
    return {_partition(record): record.original_offset + 1 for record in records}
