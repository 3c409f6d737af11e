"""The JDBC sink connector: it checks its settings, and every task writes what it is given."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

from moldau.connect.api import Problem, SinkConnector, Task
from moldau.connectors.jdbc.connecting import connection_problems
from moldau.connectors.jdbc.sink_settings import SinkConfig
from moldau.connectors.jdbc.sink_task import JdbcSinkTask
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
        """What the config promises, and why."""
        config = SinkConfig.read(props)
        if config.exactly_once:
            return promised(EXACTLY_ONCE, "offsets are in the transaction of the rows", props)
        if config.insert_mode.needs_key:
            return promised(AT_LEAST_ONCE, "a repeated record overwrites its own row", props)
        why = "rows may come twice after a crash, unless exactly.once=true"
        return promised(AT_LEAST_ONCE, why, props)

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        return connection_problems(SinkConfig.read(props))
