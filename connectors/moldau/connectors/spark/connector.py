"""`SparkSinkConnector`: topics to files, tables and databases through Spark.

It makes exactly one task: Spark divides the work. The task starts a runner process, which has the
Spark session, and tells the worker what the runner tells.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.client import EARLIEST, TopicPartition
from moldau.connect.api import Problem, SelfReadingSinkTask, SinkConnector, Task
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.config import SparkSinkConfig, guarantee, topics_of
from moldau.connectors.spark.following import Following, client_options
from moldau.connectors.spark.messages import SINK, START
from moldau.errors import ConfigError
from moldau.spark.java import find_java
from moldau.spark.ranges import from_checkpoint, to_checkpoint

LOG: Final = logging.getLogger("moldau.connectors.spark")


def java_problems(config: SparkConfig) -> Iterable[Problem]:
    """A machine without Java, where one is needed."""
    if config.deploy != "remote":
        try:
            find_java()
        except ConfigError as error:
            yield Problem("spark.deploy", str(error))


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
        return [*config.check(), *java_problems(config)]

    @staticmethod
    def guarantee(props: Mapping[str, str]) -> str:
        """What status and `moldau connect plan` show."""
        return guarantee(SparkSinkConfig.read(props))

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
    """The connector's one task."""

    _following: Following | None = None

    def start(self, props: Mapping[str, str]) -> None:
        config = SparkSinkConfig.of(props)
        context = self.context
        self._following = Following(context.connector, SINK)
        self._following.start(
            {
                "type": START,
                "kind": SINK,
                "name": context.connector,
                "config": dict(props),
                "clients": client_options(context.clients),
                "group": context.group,
                "is_paused": context.is_paused,
            }
        )
        LOG.info("%s: %s", context.connector, guarantee(config))

    def poll_status(self) -> Mapping[str, float]:
        assert self._following is not None
        return self._following.poll()

    def pause(self) -> None:
        if self._following is not None:
            self._following.pause()

    def resume(self) -> None:
        if self._following is not None:
            self._following.resume()

    def stop(self) -> None:
        if self._following is not None:
            self._following.stop()
