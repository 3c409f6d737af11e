"""The task of the JDBC source: one connection, and its tables read one after the other.

A table is read when its interval is over; its rows stay on the server until they are fetched. After
a temporary failure the table is read again from the last offset, so rows may come twice and none is
skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from moldau.connect.api import ConnectError, RetriableError, SourceBatch, SourceTask
from moldau.connectors.jdbc.catalog import read_table
from moldau.connectors.jdbc.columns import Column, ColumnKind, Table, TableId
from moldau.connectors.jdbc.connecting import open_database
from moldau.connectors.jdbc.criteria import (
    criteria_of,
    criteria_of_query,
    refused_columns,
    refused_query,
    refused_table,
)
from moldau.connectors.jdbc.database import Database, ResultRows
from moldau.connectors.jdbc.description import result_columns
from moldau.connectors.jdbc.dialects import Dialect
from moldau.connectors.jdbc.horizon import Horizon, SharedLooks, WaitReport
from moldau.connectors.jdbc.layout import EPOCH, RowLayout, from_instant
from moldau.connectors.jdbc.open_transactions import READER_SESSION
from moldau.connectors.jdbc.progress import (
    QUERY_PARTITION,
    ReadProgress,
    from_offset,
    known_partitions,
)
from moldau.connectors.jdbc.query import Criteria, Mode, Select, build_select
from moldau.connectors.jdbc.reading import Route, TableCursor
from moldau.connectors.jdbc.selection import TABLES_KEY, tables_from_text
from moldau.connectors.jdbc.source_settings import SourceConfig
from moldau.connectors.pace import Pace
from moldau.deferred import dataclass

_log = logging.getLogger(__name__)
# The longest wait of a poll without work, so that the worker can pause or stop the task.
_IDLE_S = 0.5
_EARLIEST = EPOCH.replace(year=1000)
_LOWEST = -(2**63)


@dataclass(slots=True)
class _Source:
    """A table (or the query) with its reading, and when to read it next."""

    reading: TableCursor
    table: Table | None
    due: float = 0.0
    failures: int = 0
    horizon: Horizon | None = None
    has_zone: bool = False


@dataclass(slots=True)
class _Running:
    """The result from which rows are being fetched."""

    source: _Source
    rows: ResultRows
    fetched: list[Any] = field(default_factory=list)


class JdbcSourceTask(SourceTask):
    """Reads the tables that the connector has assigned to it."""

    java_name = "io.confluent.connect.jdbc.source.JdbcSourceTask"

    _database: Database | None = None
    _running: _Running | None = None
    _is_warned = False

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._sources: list[_Source] = []

    def start(self, props: Mapping[str, str]) -> None:
        self._config = SourceConfig.of(props)
        assert self._config.mode is not None
        self._database = open_database(self._config, self._pace)
        self._database.report_waiting = self.context.report_waiting
        self._database.isolation = self._config.isolation()
        self._looks = SharedLooks(self._database, self._pace)
        if self._config.sees_late_commits:
            self._database.session += READER_SESSION.get(self._database.dialect.name, ())
        self._mapping = self._config.mapping(self._database.dialect.name == "postgresql")
        if self._config.query_text:
            self._sources = [self._query_source()]
        else:
            ids = tables_from_text(props.get(TABLES_KEY, ""))
            self._sources = [self._table_source(each) for each in ids]
            self._database.release()

    def stop(self) -> None:
        self._pace.stop()
        self._end_running()
        if self._database is not None:
            self._database.close()

    def poll(self) -> SourceBatch | None:
        """Return the next batch of the table that is due, or None after a short wait."""
        running = self._running
        if running is None:
            if not self._sources:
                self._pace.wait(_IDLE_S)
                return None
            source = min(self._sources, key=lambda each: each.due)
            wait = source.due - self._pace.monotonic()
            if wait > 0 and (self._pace.wait(min(wait, _IDLE_S)) or wait > _IDLE_S):
                return None
        else:
            source = running.source
        try:
            return self._read(source)
        except RetriableError as error:
            self._end_running()
            raise self._again(source, error) from error
        except ConnectError:
            self._end_running()
            raise

    def _end_running(self) -> None:
        """End the query that is being read. Rows may be on their way still."""
        running, self._running = self._running, None
        if running is not None:
            running.rows.close()

    def _read(self, source: _Source) -> SourceBatch | None:
        running = self._running or self._begin(source)
        if running is None:
            self._end_reading(source)
            return None
        rows = running.fetched or running.rows.fetch(self._config.batch_max_rows)
        running.fetched = []
        is_last = len(rows) < self._config.batch_max_rows
        records = source.reading.records(rows, is_last=is_last)
        source.failures = 0
        if is_last:
            self._end_running()
            self._end_reading(source)
        return records

    def _end_reading(self, source: _Source) -> None:
        assert self._database is not None
        source.failures = 0
        self._database.release()
        source.due = self._pace.monotonic() + self._config.poll_interval_ms / 1000

    def _begin(self, source: _Source) -> _Running | None:
        """Run the query of a table that is due. Return None if no row is ready to be read."""
        assert self._database is not None
        reading = source.reading
        if source.table is not None and _is_cast(self._database.dialect, source.table):
            self._look_again(source)
        try:
            parameters = self._parameters(source) if reading.select.bounds else ()
            if parameters is None:
                return None
            rows = self._database.stream(reading.select.text, parameters)
        except RetriableError:
            raise
        except ConnectError as error:
            refused = refused_query if source.table is None else refused_table
            raise ConnectError(refused(self._config, str(error))) from error
        running = self._running = _Running(source, rows)
        if source.table is not None:
            names = [column.name for column in source.table.columns]
            if rows.names != names:
                rows.close()
                source.table = self._table(source.table.id)
                rows = running.rows = self._database.stream(reading.select.text, parameters)
            columns: Sequence[Any] = source.table.columns
            name: str | None = source.table.id.name
        else:
            running.fetched = rows.fetch(self._config.batch_max_rows)
            backend = self._database.dialect.name
            columns, name = result_columns(backend, rows.description, running.fetched), None
            self._check_query(columns)
        layout = RowLayout(name, columns, self._mapping)
        reading.begin(layout)
        source.has_zone = self._has_zone(layout, reading.criteria)
        return running

    def _check_query(self, columns: Sequence[Column]) -> None:
        assert self._database is not None
        text = refused_columns(self._database.dialect, columns)
        if text is None:
            return
        if self._database.dialect.name != "mysql":
            raise ConnectError(text)
        if not self._is_warned:
            self._is_warned = True
            _log.warning("%s", text)

    def _parameters(self, source: _Source) -> tuple[Any, ...] | None:
        """Return the parameters of a query; None if no row is ready to be read."""
        assert self._database is not None
        reading, dialect = source.reading, self._database.dialect
        zone = self._mapping.zone
        begin = end = upto = None
        last = reading.progress.incrementing
        least = _LOWEST if last is None else last
        if reading.criteria.mode.uses_timestamp:
            now_us = int(self._database.scalar(dialect.now))
            until = now_us * 1000 - self._config.timestamp_delay_ms * 1_000_000
            since = reading.progress.timestamp_ns
            if since is None and self._config.timestamp_initial == -1:
                since = until
                reading.progress = ReadProgress(reading.progress.incrementing, since)
            if source.horizon is not None:
                ready_us = source.horizon.until(now_us, source.table)
                if ready_us is None or (since is not None and ready_us * 1000 <= since):
                    return None
                until = min(until, ready_us * 1000)
            begin_at = _EARLIEST if since is None else from_instant(since)
            begin = dialect.instant_parameter(begin_at, zone, has_zone=source.has_zone)
            end = dialect.instant_parameter(from_instant(until), zone, has_zone=source.has_zone)
        elif source.horizon is not None:
            upto = source.horizon.highest(least)
            if upto is None:
                return None
        return reading.parameters(begin, end, least, upto)

    @staticmethod
    def _has_zone(layout: RowLayout, criteria: Criteria) -> bool:
        kinds = {
            layout.columns[layout.position(name)].type.kind for name in criteria.timestamp_columns
        }
        return kinds == {ColumnKind.TIMESTAMP_TZ}

    def _table(self, table: TableId) -> Table:
        assert self._database is not None
        with self._database.transaction() as connection:
            found = read_table(connection, table)
        if found is None:
            raise ConnectError(
                f"table {table} does not exist any more -> create it, or wait until the connector "
                "looks for tables again (table.poll.interval.ms)"
            )
        return found

    def _table_source(self, table_id: TableId) -> _Source:
        assert self._database is not None
        config = self._config
        assert config.mode is not None
        table = self._table(table_id)
        criteria = criteria_of(config, table)
        keys = table.primary_key if config.key_from_primary_key else tuple(config.key_fields)
        partitions = known_partitions(table_id.catalog, table_id.schema, table_id.name)
        route = Route(config.topic_prefix + table_id.name, partitions[0], keys)
        reading = TableCursor(
            route, self._select(table, criteria), criteria, self._stored(partitions)
        )
        stamps = {table.by_name[name].type.kind for name in criteria.timestamp_columns}
        horizon = self._horizon(criteria, self._newest_of(table_id, criteria), str(table_id))
        return _Source(
            reading, table, horizon=horizon, has_zone=stamps == {ColumnKind.TIMESTAMP_TZ}
        )

    def _newest_of(self, table_id: TableId, criteria: Criteria) -> str:
        assert self._database is not None
        dialect, column = self._database.dialect, criteria.incrementing_column
        return f"SELECT {dialect.identifier(column or '')} FROM {dialect.table(table_id)}"

    def _horizon(self, criteria: Criteria, source: str, name: str) -> Horizon | None:
        """Return the limit of reads where the database shows what is open. A bulk needs none."""
        assert self._database is not None
        if criteria.mode is Mode.BULK or not self._config.sees_late_commits:
            return None
        reported = WaitReport(name, self.context.report_waiting)
        wait_ms = self._config.late_commits_wait_ms
        return Horizon(self._database, criteria, source, wait_ms, self._looks, reported)

    def _select(self, table: Table, criteria: Criteria) -> Select:
        """Return the query of a table. Without a column to cast, it also finds new columns."""
        assert self._database is not None
        dialect = self._database.dialect
        named = [dialect.reading(column) for column in table.columns]
        columns = ", ".join(named) if _is_cast(dialect, table) else "*"
        text = f"SELECT {columns} FROM {dialect.table(table.id)}"
        return self._built(text, criteria)

    def _built(self, text: str, criteria: Criteria) -> Select:
        assert self._database is not None
        dialect, config = self._database.dialect, self._config
        suffix = dialect.escape(config.query_suffix)
        return build_select(dialect, text, criteria, suffix, has_limit=config.sees_late_commits)

    def _look_again(self, source: _Source) -> None:
        """Read the columns of a table again, where the query names them."""
        assert source.table is not None
        table = self._table(source.table.id)
        if table != source.table:
            source.table = table
            source.reading.select = self._select(table, source.reading.criteria)

    def _query_source(self) -> _Source:
        assert self._database is not None
        config, dialect = self._config, self._database.dialect
        assert config.mode is not None
        criteria = criteria_of_query(config)
        route = Route(config.topic_prefix, QUERY_PARTITION, tuple(config.key_fields))
        text = dialect.escape(config.query_text)
        select, stored = self._built(text, criteria), self._stored([QUERY_PARTITION])
        reading = TableCursor(route, select, criteria, stored)
        return _Source(reading, None, horizon=self._horizon(criteria, text, "query"))

    def _stored(self, partitions: Sequence[Mapping[str, str]]) -> ReadProgress:
        """Return where to continue: the first stored offset among the partition's spellings."""
        offsets = self.context.offset_storage_reader.offsets(list(partitions))
        stored = next((offset for _, offset in offsets if offset), None)
        progress = from_offset(stored)
        initial = self._config.timestamp_initial
        if stored is None:
            since = initial * 1_000_000 if initial is not None and initial >= 0 else None
            return ReadProgress(self._config.incrementing_initial, since)
        return progress

    def _again(self, source: _Source, error: RetriableError) -> ConnectError:
        """Return the error after a temporary failure; a final one after query.retry.attempts."""
        source.failures += 1
        source.due = self._pace.monotonic() + self._config.backoff_ms / 1000
        limit = self._config.query_retries
        if 0 <= limit < source.failures:
            return ConnectError(f"{error} (query.retry.attempts={limit} is used up)")
        return RetriableError(str(error))


def _is_cast(dialect: Dialect, table: Table) -> bool:
    """Whether the query of a table has to name its columns, because some are not read as such."""
    return any(dialect.reading(each) != dialect.identifier(each.name) for each in table.columns)
