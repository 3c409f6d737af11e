"""`SparkSinkConnector`: topics to files, tables and databases through Spark."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client import EARLIEST, TopicPartition
from moldau.connect.api import ConnectError, SelfReadingSinkTask, SinkConnector
from moldau.connectors.spark.base_config import FILES
from moldau.connectors.spark.base_connector import RunnerTask, SparkConnector
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.config import SparkSinkConfig, topics_of
from moldau.connectors.spark.messages import SINK
from moldau.connectors.spark.topics import TASK_TOPIC, topic_names
from moldau.spark.ranges import from_checkpoint, to_checkpoint


class SparkSinkTask(RunnerTask, SelfReadingSinkTask):
    """The query of all topics, or of one with `spark.task.per.topic=true`."""

    def start(self, props: Mapping[str, str]) -> None:
        config, group = SparkSinkConfig.of(props), self.context.group
        if not config.is_split:
            self.follow(self.context, SINK, config, group=group)
            return
        topic = props[TASK_TOPIC]
        self.follow(self.context, SINK, config.of_topic(topic), topic=topic, group=group)


class SparkSinkConnector(SparkConnector, SinkConnector):
    """Checks the config, and gives it to one task, or to one for each topic."""

    config_model = SparkSinkConfig
    task = SparkSinkTask

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        topics_of(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if not SparkSinkConfig.of(self.props).is_split:
            return super().task_configs(max_tasks)
        return [{**self.props, TASK_TOPIC: topic} for topic in topic_names(self.props)]

    def removed(self, props: Mapping[str, str]) -> None:
        """With its claims of directories, those of the config that was deleted."""
        config = SparkSinkConfig.read(props)
        if not config.is_cleaned:
            return
        folder = CheckpointFolder(config.checkpoint_location, props["name"])
        each_topic = [config.of_topic(each) for each in folder.topics()] if config.is_split else []
        super().removed(props)
        if config.sink_format in FILES:
            for written in (config, *each_topic):
                folder.disclaim(written.sink_path or "")

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Begins a new generation of checkpoints, for Spark's own cannot be edited. Partitions that
        are not named go on where they were. None is the earliest offset; if none is named, or all
        are None, the query begins as a new one does. With a query for each topic, those of topics
        that are not named go on."""
        config = SparkSinkConfig.of(props)
        location, name = config.checkpoint_location, props["name"]
        if not config.is_split:
            _begin_anew(CheckpointFolder(location, name), offsets)
            return True
        topics = topic_names(props)
        unknown = sorted({where.topic for where in offsets} - set(topics))
        if unknown:
            raise ConnectError("these are no topics of the connector", topics=", ".join(unknown))
        for topic in topics:
            own = {where: each for where, each in offsets.items() if where.topic == topic}
            if own or not offsets:
                _begin_anew(CheckpointFolder(location, name, topic), own)
        return True


def _begin_anew(folder: CheckpointFolder, offsets: Mapping[TopicPartition, int | None]) -> None:
    starting = from_checkpoint(folder.reached())
    starting |= {where: EARLIEST if each is None else each for where, each in offsets.items()}
    is_reset = not offsets or all(each == EARLIEST for each in starting.values())
    folder.begin_anew({} if is_reset else to_checkpoint(starting))
