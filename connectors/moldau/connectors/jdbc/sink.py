"""The JDBC sink connector: it checks its settings, and every task writes the records it gets."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

from sqlalchemy.engine import Connection

from moldau.client import TopicPartition
from moldau.connect.api import Problem, SinkConnector, Task
from moldau.connectors.jdbc.catalog import read_table
from moldau.connectors.jdbc.connecting import connection_problems, open_database
from moldau.connectors.jdbc.settings import database_files
from moldau.connectors.jdbc.sink_settings import SinkConfig
from moldau.connectors.jdbc.sink_task import JdbcSinkTask
from moldau.connectors.jdbc.stored_offsets import StoredOffsets
from moldau.connectors.pace import Pace
from moldau.connectors.promise import AT_LEAST_ONCE, EXACTLY_ONCE, promised

_log = logging.getLogger(__name__)


class JdbcSinkConnector(SinkConnector):
    """Writes topics into tables of a database."""

    task_modules = ("moldau.connectors.jdbc.sink_task",)
    config_model = SinkConfig
    java_names: ClassVar[tuple[str, ...]] = (
        "io.confluent.connect.jdbc.JdbcSinkConnector",
        "io.aiven.connect.jdbc.JdbcSinkConnector",
    )

    @classmethod
    def named_files(cls, props: Mapping[str, str]) -> Mapping[str, str]:
        return database_files(props)

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        for note in SinkConfig.of(props).address().notes:
            _log.warning("%s", note)

    def task_class(self) -> type[Task]:
        return JdbcSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props) for _ in range(max_tasks)]

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """Return the delivery guarantee of the config, with the reason."""
        config = SinkConfig.read(props)
        if config.exactly_once:
            return promised(EXACTLY_ONCE, "offsets are in the transaction of the rows", props)
        if config.insert_mode.needs_key:
            return promised(AT_LEAST_ONCE, "a repeated record overwrites its own row", props)
        why = "rows may come twice after a crash, unless exactly.once=true"
        return promised(AT_LEAST_ONCE, why, props)

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        return connection_problems(SinkConfig.read(props))

    def dry_run(self, props: Mapping[str, str]) -> list[Problem]:
        """Return also a database that is down, and missing tables that are not created."""
        config = SinkConfig.read(props)
        topics = [each.strip() for each in props.get("topics", "").split(",") if each.strip()]

        def look(connection: Connection) -> list[Problem]:
            if config.auto_create:
                return []
            found = []
            for topic in topics:
                try:
                    table = config.table_of(topic)
                except ValueError as error:
                    found.append(Problem("table.name.format", f"{topic}: {error}"))
                    continue
                if read_table(connection, table) is None:
                    text = f"there is no table {table} -> create it, or set auto.create=true"
                    found.append(Problem("table.name.format", text))
            return found

        return connection_problems(config, is_dry_run=True, look=look)

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """With exactly.once, change the offsets in the database too; {} deletes all of them."""
        config = SinkConfig.of(props)
        if not config.exactly_once:
            return True
        database = open_database(config, Pace())
        try:
            StoredOffsets(database, props.get("name", "connector")).alter(offsets)
        finally:
            database.close()
        return True
