"""The source's settings: Confluent's keys, and Aiven's names for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from moldau.connect.api import Problem, key
from moldau.connectors.jdbc.address import Address
from moldau.connectors.jdbc.layout import Granularity, Mapping, NumericMapping
from moldau.connectors.jdbc.query import Mode
from moldau.connectors.jdbc.settings import DatabaseConfig

_ISOLATION = {
    "read_uncommitted": "READ UNCOMMITTED", "read_committed": "READ COMMITTED",
    "repeatable_read": "REPEATABLE READ", "serializable": "SERIALIZABLE",
    "sql_server_snapshot": "SNAPSHOT",
}  # fmt: skip


class SourceConfig(DatabaseConfig):
    """The settings of the JDBC source."""

    mode: Mode | None = key(
        "mode", doc="How new rows are found.", importance="high", group="Mode", width="medium"
    )
    topic_prefix: str = key(
        "topic.prefix",
        doc="Put before a table's name to make its topic; with `query` it is the whole topic.",
        importance="high", group="Connector",
    )  # fmt: skip
    catalog_pattern: str | None = key(
        "catalog.pattern", None, doc="Accepted: a connection sees one catalog.", group="Connection"
    )
    schema_pattern: str | None = key(
        "schema.pattern", None, doc="Which schemas to read, with % and _.", group="Connection"
    )
    whitelist: list[str] = key(
        "table.whitelist", [], doc="Tables to read.", importance="medium", group="Connection"
    )
    blacklist: list[str] = key(
        "table.blacklist", [], doc="Tables not to read.", importance="medium", group="Connection"
    )
    include: list[str] = key(
        "table.include.list", [], doc="Regular expressions of the full names of tables to read.",
        group="Connection",
    )  # fmt: skip
    exclude: list[str] = key(
        "table.exclude.list", [],
        doc="Regular expressions of the full names of tables not to read.", group="Connection",
    )  # fmt: skip
    table_types: list[str] = key(
        "table.types", ["TABLE"], doc="TABLE, VIEW, MATERIALIZED VIEW.", group="Connection"
    )
    query: str = key(
        "query", "", doc="A query to run instead of reading tables.", group="Mode", width="long"
    )
    query_masked: str | None = key(
        "query.masked", None, doc="The same as query, never shown.", group="Mode", kind="PASSWORD"
    )
    query_suffix: str = key(
        "query.suffix", "", doc="Text put at the end of each query.", importance="low", group="Mode"
    )
    incrementing_column: str = key(
        "incrementing.column.name", "",
        doc="The strictly growing column; empty finds the auto-increment column.", group="Mode",
    )  # fmt: skip
    incrementing_mapping: list[str] = key(
        "incrementing.column.mapping", [], doc="regex:column, for several tables.", group="Mode"
    )
    incrementing_initial: int | None = key(
        "incrementing.initial", None, doc="Read rows above this value at first; empty reads all.",
        group="Mode", kind="LONG",
    )  # fmt: skip
    timestamp_columns: list[str] = key(
        "timestamp.column.name", [],
        doc="Columns with the time of the last change; the first that is not NULL counts.",
        group="Mode",
    )  # fmt: skip
    timestamp_mapping: list[str] = key(
        "timestamp.columns.mapping", [], doc="regex:[c1|c2], for several tables.", group="Mode"
    )
    timestamp_initial: int | None = key(
        "timestamp.initial", None,
        doc="Begin after this time in ms since 1970; -1 is now; empty reads all.", importance="low",
        group="Mode", kind="LONG", also=("timestamp.initial.ms",),
    )  # fmt: skip
    timestamp_delay_ms: int = key(
        "timestamp.delay.interval.ms", 0,
        doc="How old a row must be, so that transactions that began earlier can commit first.",
        group="Connector", kind="LONG", ge=0,
    )  # fmt: skip
    late_commits_wait_ms: int = key(
        "late.commits.wait.ms", 300_000,
        doc="The longest wait for an open transaction, on PostgreSQL, MySQL and MariaDB: rows "
        "that it may still commit come first. 0 waits for none, and rows that commit late are "
        "lost.", group="Connector", kind="LONG", ge=0,
    )  # fmt: skip
    granularity: Granularity = key(
        "timestamp.granularity", Granularity.CONNECT_LOGICAL, doc="What timestamp columns become.",
        importance="low", group="Connector",
    )  # fmt: skip
    validate_non_null: bool = key(
        "validate.non.null", True, doc="Refuse columns for the mode that may be NULL.",
        importance="low", group="Mode",
    )  # fmt: skip
    poll_interval_ms: int = key(
        "poll.interval.ms", 5000, doc="Milliseconds between two readings of a table.",
        importance="high", group="Connector", ge=0,
    )  # fmt: skip
    poll_linger_ms: int = key(
        "poll.linger.ms", 5000, doc="Accepted: a batch is handed on as soon as it was read.",
        importance="low", group="Connector", kind="LONG", ge=0,
    )  # fmt: skip
    batch_max_rows: int = key(
        "batch.max.rows", 1000,
        doc="Rows in one batch, and rows fetched from the server's cursor at once.",
        importance="low", group="Connector", ge=1,
    )  # fmt: skip
    max_buffer_size: int = key(
        "max.buffer.size", 0, doc="Accepted: no more than one batch is held.", importance="low",
        group="Connector", ge=0,
    )  # fmt: skip
    table_poll_ms: int = key(
        "table.poll.interval.ms", 60_000,
        doc="Milliseconds between two looks for new and dropped tables.", importance="low",
        group="Connector", kind="LONG", ge=100,
    )  # fmt: skip
    table_startup_ms: int = key(
        "table.monitoring.startup.polling.limit.ms", 10_000,
        doc="Accepted: the tables are read once while the connector starts.", importance="low",
        group="Connector", kind="LONG", ge=0,
    )  # fmt: skip
    query_retries: int = key(
        "query.retry.attempts", -1, doc="How often a failed query is repeated; -1 for ever.",
        importance="low", group="Connector", ge=-1,
    )  # fmt: skip
    numeric_mapping: NumericMapping | None = key(
        "numeric.mapping", None, doc="What NUMERIC columns become.", importance="low", group="Types"
    )
    numeric_precision_mapping: bool = key(
        "numeric.precision.mapping", False, doc="Old name of numeric.mapping=precision_only.",
        importance="low", group="Types",
    )  # fmt: skip
    isolation_mode: Literal[
        "default",
        "read_uncommitted",
        "read_committed",
        "repeatable_read",
        "serializable",
        "sql_server_snapshot",
    ] = key(
        "transaction.isolation.mode", "default", doc="Isolation of the reading transactions.",
        importance="low", group="Connection",
    )  # fmt: skip
    qualify: bool = key(
        "table.names.qualify", True,
        doc="Aiven's key. Accepted: tables are read by their full names.", importance="low",
        group="Connector",
    )  # fmt: skip
    key_fields: list[str] = key(
        "key.fields", [], doc="Columns that make the record's key.", group="Connector"
    )
    key_from_primary_key: bool = key(
        "key.from.primary.key", False, doc="Make the record's key of the table's primary key.",
        group="Connector",
    )  # fmt: skip

    def address(self) -> Address:
        return super().address().for_reading()

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        if self.mode is None and "mode" not in self.wrong and self.originals.get("mode") == "":
            yield Problem("mode", "mode is empty: bulk, incrementing, timestamp or both")
        yield from self._check_selection()
        if self.mode is not None:
            yield from self._check_columns(self.mode)

    def warnings(self) -> Iterable[Problem]:
        if self.mode is None or not self.loses_late_commits:
            return
        if self.dialect().shows_transactions:
            yield Problem("late.commits.wait.ms", "0 means that rows that commit late are lost")
        elif self.mode is Mode.INCREMENTING:
            yield Problem(
                "mode",
                "rows that commit after a row with a higher number was read are lost -> take "
                "timestamp+incrementing with a timestamp.delay.interval.ms",
            )
        elif self.timestamp_delay_ms == 0:
            yield Problem(
                "timestamp.delay.interval.ms",
                "rows that commit after a later one was read are lost -> set it to more than the "
                "longest transaction takes",
            )

    def _check_selection(self) -> Iterable[Problem]:
        text = self.query_text
        tables = [self.whitelist, self.blacklist, self.include, self.exclude]
        if text and any(tables):
            yield Problem("query", "query reads no tables: remove table.* or remove query")
        if self.whitelist and self.blacklist:
            yield Problem("table.blacklist", "remove it, or table.whitelist: use only one")
        if (self.whitelist or self.blacklist) and (self.include or self.exclude):
            yield Problem(
                "table.include.list",
                "use either table.include.list and table.exclude.list or table.whitelist and "
                "table.blacklist",
            )
        if self.exclude and not self.include:
            yield Problem("table.exclude.list", "table.exclude.list needs table.include.list")
        for name, patterns in (
            ("table.include.list", self.include),
            ("table.exclude.list", self.exclude),
            ("incrementing.column.mapping", _patterns(self.incrementing_mapping)),
            ("timestamp.columns.mapping", _patterns(self.timestamp_mapping)),
        ):
            for pattern in patterns:
                try:
                    re.compile(pattern)
                except re.error as error:
                    yield Problem(name, f"{pattern!r} is no regular expression: {error}")

    def _check_columns(self, mode: Mode) -> Iterable[Problem]:
        if mode.uses_timestamp and not (self.timestamp_columns or self.timestamp_mapping):
            yield Problem("timestamp.column.name", f"mode {mode.value} needs a timestamp column")
        if mode.uses_incrementing and self.query_text and not self.incrementing_column:
            yield Problem(
                "incrementing.column.name", f"mode {mode.value} of a query needs a column's name"
            )
        if self.key_from_primary_key and (self.query_text or self.key_fields):
            yield Problem(
                "key.from.primary.key", "a query has no primary key, and key.fields excludes it"
            )

    @property
    def query_text(self) -> str:
        return (self.query or self.query_masked or "").strip().rstrip(";")

    @property
    def sees_late_commits(self) -> bool:
        """Whether reads wait for the transactions that are open in the database."""
        return self.late_commits_wait_ms > 0 and self.dialect().shows_transactions

    @property
    def loses_late_commits(self) -> bool:
        """Whether a row is skipped if a higher id or time was read before its commit."""
        if self.mode is None or self.mode is Mode.BULK:
            return False
        if self.wrong or any(True for _ in DatabaseConfig.check(self)):
            return False  # the address may be a reference that only a worker resolves
        return not (self.sees_late_commits or self.dialect().has_one_writer)

    def mapping(self, is_exact: bool) -> Mapping:
        numeric = self.numeric_mapping
        if numeric is None:
            old = self.numeric_precision_mapping
            numeric = NumericMapping.PRECISION_ONLY if old else NumericMapping.NONE
        return Mapping(numeric, self.granularity, self.zone(), is_exact)

    def isolation(self) -> str | None:
        return _ISOLATION.get(self.isolation_mode)

    def incrementing_of(self, table: str) -> str:
        """Return the incrementing column that the settings name for a table; "" to detect it."""
        for pattern, column in _pairs(self.incrementing_mapping):
            if re.fullmatch(pattern, table):
                return column
        return self.incrementing_column

    def timestamps_of(self, table: str) -> list[str]:
        for pattern, columns in _pairs(self.timestamp_mapping):
            if re.fullmatch(pattern, table):
                return columns.strip("[]").split("|")
        return self.timestamp_columns


def _pairs(mappings: Iterable[str]) -> list[tuple[str, str]]:
    """Split each `regex:column` at the last colon: the expression may contain colons."""
    return [(pattern, column) for pattern, _, column in (m.rpartition(":") for m in mappings)]


def _patterns(mappings: Iterable[str]) -> list[str]:
    return [pattern for pattern, _ in _pairs(mappings)]
