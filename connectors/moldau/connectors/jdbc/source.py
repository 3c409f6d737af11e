"""The JDBC source connector: finds tables, divides them among tasks, watches for new ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from sqlalchemy.engine import Connection

from moldau.connect.api import (
    ConnectError,
    ExactlyOnceSupport,
    Problem,
    RetriableError,
    SourceConnector,
    Task,
)
from moldau.connectors.jdbc.catalog import list_tables
from moldau.connectors.jdbc.columns import TableId
from moldau.connectors.jdbc.connecting import connection_problems, open_database
from moldau.connectors.jdbc.criteria import query_problems, table_problems
from moldau.connectors.jdbc.database import Database, PoisonError
from moldau.connectors.jdbc.progress import BadOffset, from_offset
from moldau.connectors.jdbc.query import Mode
from moldau.connectors.jdbc.selection import TABLES_KEY, divided, missing, selected, tables_to_text
from moldau.connectors.jdbc.settings import database_files
from moldau.connectors.jdbc.source_settings import SourceConfig
from moldau.connectors.jdbc.source_task import JdbcSourceTask
from moldau.connectors.pace import Pace, Patrol
from moldau.connectors.promise import AT_LEAST_ONCE, promised

_log = logging.getLogger(__name__)


_LATE = "rows that commit late are lost"
_DELAYED = f"{_LATE}, unless timestamp.delay.interval.ms is longer"


class JdbcSourceConnector(SourceConnector):
    """Reads tables or a query of a database into topics."""

    task_modules = ("moldau.connectors.jdbc.source_task",)
    config_model = SourceConfig
    java_names: ClassVar[tuple[str, ...]] = (
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "io.aiven.connect.jdbc.JdbcSourceConnector",
    )

    @classmethod
    def named_files(cls, props: Mapping[str, str]) -> Mapping[str, str]:
        return database_files(props)

    _patrol: Patrol | None = None
    _database: Database | None = None
    _tables: tuple[TableId, ...] = ()
    _missing: str | None = None

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self._config = SourceConfig.of(props)
        for note in self._config.address().notes:
            _log.warning("%s", note)
        if self._config.query_text:
            return
        pace = Pace()
        self._database = open_database(self._config, pace)
        self._tables = self._find_tables()
        self._report_missing()
        self._patrol = Patrol(self._look, self._config.table_poll_ms / 1000, pace)
        self._patrol.start()

    def stop(self) -> None:
        if self._patrol is not None:
            self._patrol.stop()
        if self._database is not None:
            self._database.close()

    def task_class(self) -> type[Task]:
        return JdbcSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self._config.query_text:
            return [{**self.props, TABLES_KEY: ""}]
        return [
            {**self.props, TABLES_KEY: tables_to_text(group)}
            for group in divided(self._tables, max_tasks)
        ]

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """Return the delivery guarantee of the config, with the reason."""
        config = SourceConfig.read(props)
        if config.mode is Mode.BULK:
            return promised(AT_LEAST_ONCE, "bulk reads every row at each interval", props)
        if config.loses_late_commits:
            assert config.mode is not None
            late = _DELAYED if config.mode.uses_timestamp else _LATE
            return promised(AT_LEAST_ONCE, f"rows may come twice after a crash; {late}", props)
        return promised(AT_LEAST_ONCE, "rows may come twice after a crash", props)

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        return self._problems(SourceConfig.read(props), is_dry_run=False)

    def dry_run(self, props: Mapping[str, str]) -> list[Problem]:
        """Return also temporary problems: a database that is down, missing tables."""
        return self._problems(SourceConfig.read(props), is_dry_run=True)

    @staticmethod
    def _problems(config: SourceConfig, *, is_dry_run: bool) -> list[Problem]:
        def look(connection: Connection) -> list[Problem]:
            if config.query_text:
                return query_problems(config, connection)
            if any(True for _ in config.check()):  # a bad expression selects no tables
                return []
            tables = list_tables(connection, config.schema_pattern, config.table_types)
            chosen = selected(config, tables)
            cause = missing(config, chosen) if is_dry_run else None
            if cause is not None:
                key = "table.whitelist" if config.whitelist else "connection.url"
                return [Problem(key, cause)]
            return table_problems(config, connection, chosen, is_dry_run=is_dry_run)

        return connection_problems(config, is_dry_run=is_dry_run, look=look)

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return SUPPORTED if each row has a place of its own to continue from, and comes into its
        place. A bulk reads all rows again, and rows of one timestamp are read again if a kill comes
        between them. A row that is skipped because it commits late comes not once."""
        config = SourceConfig.read(props)
        has_places = config.mode in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)
        if has_places and config.loses_late_commits:
            has_places = False
        return ExactlyOnceSupport.SUPPORTED if has_places else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        for partition, offset in offsets:
            if set(partition) not in ({"protocol", "table"}, {"table"}, {"query"}):
                raise ConnectError(
                    f"{partition} is no partition of a JDBC source: use "
                    '{"protocol": "1", "table": "db.schema.table"} or {"query": "query"}'
                )
            try:
                from_offset(offset)
            except BadOffset as error:
                raise ConnectError(f"{partition}: {error}") from None
        return True

    def _find_tables(self) -> tuple[TableId, ...]:
        assert self._database is not None
        try:
            with self._database.transaction() as connection:
                config = self._config
                found = list_tables(connection, config.schema_pattern, config.table_types)
        finally:
            # Until the next look an idle connection may be lost, and that look would fail for it.
            self._database.close()
        return tuple(selected(self._config, found))

    def _look(self) -> None:
        """Request new tasks if tables were added or dropped. A lost connection changes nothing."""
        try:
            found = self._find_tables()
        except RetriableError as error:
            _log.warning("cannot look for tables now: %s", error)
            self.context.report_waiting(f"cannot look for tables now: {error}")
        except (ConnectError, PoisonError) as error:
            self.context.raise_error(error)
        else:
            is_new, self._tables = found != self._tables, found
            self._report_missing()
            if is_new:
                self.context.request_task_reconfiguration()

    def _report_missing(self) -> None:
        """Show missing tables in the status until they exist."""
        cause = missing(self._config, self._tables)
        if cause is not None and cause != self._missing:
            _log.warning("%s", cause)
        self._missing = cause
        self.context.report_waiting(cause)
