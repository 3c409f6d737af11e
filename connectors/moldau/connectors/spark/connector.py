"""`SparkSinkConnector`: topics to files, tables and databases through Spark."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client import EARLIEST, TopicPartition
from moldau.connect.api import SelfReadingSinkTask, SinkConnector
from moldau.connectors.spark.base_connector import RunnerTask, SparkConnector
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.config import SparkSinkConfig, topics_of
from moldau.connectors.spark.messages import SINK
from moldau.spark.ranges import from_checkpoint, to_checkpoint


class SparkSinkTask(RunnerTask, SelfReadingSinkTask):
    """The connector's one task."""

    def start(self, props: Mapping[str, str]) -> None:
        self.follow(self.context, SINK, SparkSinkConfig.of(props), group=self.context.group)


class SparkSinkConnector(SparkConnector, SinkConnector):
    """Checks the config, and gives it to one task."""

    config_model = SparkSinkConfig
    task = SparkSinkTask

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        topics_of(props)

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Begins a new generation of checkpoints, for Spark's own cannot be edited. Partitions that
        are not named go on where they were. None is the earliest offset; if none is named, or all
        are None, the query begins as a new one does."""
        config = SparkSinkConfig.of(props)
        folder = CheckpointFolder(config.checkpoint_location, props["name"])
        starting = from_checkpoint(folder.reached())
        starting |= {where: EARLIEST if each is None else each for where, each in offsets.items()}
        is_reset = not offsets or all(each == EARLIEST for each in starting.values())
        folder.begin_anew({} if is_reset else to_checkpoint(starting))
        return True
