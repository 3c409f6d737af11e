"""JDBC tasks that are started for a test, without a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.connect.api import SourceRecord
from moldau.connectors.jdbc.selection import TABLES_KEY, tables_to_text
from moldau.connectors.jdbc.sink_task import JdbcSinkTask
from moldau.connectors.jdbc.source import JdbcSourceConnector
from moldau.connectors.jdbc.source_task import JdbcSourceTask
from tests.connectors.contexts import Offsets, SinkContext, SourceContext, VirtualPace, WatchContext
from tests.databases import TestDatabase


def source_task(
    database: TestDatabase, offsets: Offsets | None = None, /, **settings: str
) -> JdbcSourceTask:
    """A started source task that reads all the tables its settings choose."""
    props = _props(database, {"topic.prefix": "db-", **settings})
    connector = JdbcSourceConnector()
    connector.initialize(WatchContext())
    connector.start(props)
    try:
        configs = connector.task_configs(1)
    finally:
        connector.stop()
    task = JdbcSourceTask(VirtualPace())
    task.initialize(SourceContext(offsets or Offsets()))
    task.start(configs[0] if configs else {**props, TABLES_KEY: tables_to_text([])})
    return task


def sink_task(
    database: TestDatabase, context: SinkContext | None = None, /, **settings: str
) -> JdbcSinkTask:
    """A started sink task."""
    task = JdbcSinkTask(VirtualPace())
    task.initialize(context or SinkContext())
    task.start(_props(database, {"name": "sink", **settings}))
    return task


def _props(database: TestDatabase, settings: Mapping[str, str]) -> dict[str, str]:
    return {"connection.url": database.url, "connection.attempts": "1", **settings}


def drained(task: JdbcSourceTask, polls: int = 20) -> list[SourceRecord]:
    """Poll until there is nothing more for a while."""
    records: list[SourceRecord] = []
    for _ in range(polls):
        found = task.poll()
        if found is None:
            break
        records += found
    return records


def values(records: Iterable[SourceRecord], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(record.value[name] for name in names) for record in records]
