"""`SparkSinkConnector`: topics to files, tables and databases through Spark.

It makes exactly one task: Spark divides the work. The task starts a runner process, which has the
Spark session, and tells the worker what the runner tells.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from moldau.client import TopicPartition
from moldau.client.offsets import EARLIEST
from moldau.connect.api import Problem, SelfReadingSinkTask, SinkConnector, Task
from moldau.connect.errors import ConnectError
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.config import SparkSinkConfig, guarantee, topics_of
from moldau.connectors.spark.messages import PAUSE, RESUME, START, STOP, Message, lag_of
from moldau.connectors.spark.process import RunnerProcess
from moldau.errors import ConfigError
from moldau.spark.java import find_java
from moldau.spark.ranges import from_checkpoint, to_checkpoint

LOG: Final = logging.getLogger("moldau.connectors.spark")
_NEWS_S: Final = 0.5
_STOP_S: Final = 4.0


class SparkSinkConnector(SinkConnector):
    """Checks the config, and gives it to one task."""

    config_model = SparkSinkConfig

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        SparkSinkConfig.of(props)
        topics_of(props)

    def task_class(self) -> type[Task]:
        return SparkSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)]

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        """Settings that do not go together, and a machine without Java."""
        config = SparkSinkConfig.read(props)
        problems = list(config.check())
        if config.deploy != "remote":
            try:
                find_java()
            except ConfigError as error:
                problems.append(Problem("spark.deploy", str(error)))
        return problems

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Begins a new generation of checkpoints, for Spark's own cannot be edited. Partitions that
        are not named go on where they were. None is the earliest offset; if all are None the query
        begins as a new one does."""
        config = SparkSinkConfig.of(props)
        folder = CheckpointFolder(config.checkpoint_location, props["name"])
        starting = from_checkpoint(folder.reached())
        starting |= {where: EARLIEST if each is None else each for where, each in offsets.items()}
        is_reset = all(each == EARLIEST for each in starting.values())
        folder.begin_anew({} if is_reset else to_checkpoint(starting))
        return True


class SparkSinkTask(SelfReadingSinkTask):
    """The connector's one task: a runner, and what it told last."""

    def __init__(self) -> None:
        self._runner: RunnerProcess | None = None
        self._metrics: dict[str, float] = {}
        self._rows = 0

    def start(self, props: Mapping[str, str]) -> None:
        """Returns at once: a session takes seconds, and `poll_status` tells how it went."""
        config = SparkSinkConfig.of(props)
        runner = RunnerProcess()
        self._runner = runner
        runner.send(
            {
                "type": START,
                "name": self.context.connector,
                "config": dict(props),
                "clients": _reading(self.context.clients),
                "group": self.context.group,
                "is_paused": self.context.is_paused,
            }
        )
        LOG.info("%s: %s", self.context.connector, guarantee(config))

    def poll_status(self) -> Mapping[str, float]:
        assert self._runner is not None
        message = self._runner.take(_NEWS_S)
        if message is None:
            return self._metrics
        if message["type"] in ("stopped", "end"):
            code = self._runner.exit_code
            raise ConnectError("the Spark runner ended: look at the worker's log", exit_code=code)
        self._hear(message)
        return self._metrics

    def _hear(self, message: Message) -> None:
        name = self.context.connector
        match message["type"]:
            case "failed":
                LOG.debug("%s: %s", name, message["trace"])
                raise ConnectError(message["cause"])
            case "progress":
                self._on_progress(message)
            case "started":
                LOG.info("%s: query %s, %s", name, message["query"], message["guarantee"])
            case "finished":
                LOG.info("%s: all that was there is written: %s records", name, self._rows)
                self._metrics = {**self._metrics, "spark-query-active": 0.0}
            case _:
                LOG.debug("%s: %s", name, message)

    def _on_progress(self, message: Message) -> None:
        if str(message["query"]).endswith("-dlq"):
            return
        self._rows += int(message["rows"])
        found: dict[str, Any] = {
            "sink-record-read-total": self._rows,
            "sink-record-lag": lag_of(message),
            "spark-query-active": 1,
            "spark-batch-id": message["batch"],
            "spark-input-rows-per-second": message["input_rows_per_second"],
            "spark-processed-rows-per-second": message["processed_rows_per_second"],
            "spark-batch-duration-ms": message["duration_ms"].get("triggerExecution"),
        }
        self._metrics = {name: float(each) for name, each in found.items() if each is not None}

    def pause(self) -> None:
        self._send(PAUSE)

    def resume(self) -> None:
        self._send(RESUME)

    def _send(self, kind: str) -> None:
        if self._runner is not None:
            self._runner.send({"type": kind})

    def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.send({"type": STOP})
            runner.end(_STOP_S)


def _reading(clients: Mapping[str, str]) -> dict[str, str]:
    """A consumer's settings without those that Spark decides about."""
    own = {"group.id", "client.id", "auto.offset.reset", "enable.auto.commit", "group.instance.id"}
    return {name: text for name, text in clients.items() if name not in own}
