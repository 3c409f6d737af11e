"""`SparkSinkConnector`: topics to files, tables and databases through Spark."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client import EARLIEST, TopicPartition
from moldau.connect.api import ConnectError, SelfReadingSinkTask, SinkConnector
from moldau.connectors.spark.base_config import FILE_FORMATS
from moldau.connectors.spark.base_connector import RunnerTask, SparkConnector
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.config import SparkSinkConfig, subscription
from moldau.connectors.spark.messages import SINK
from moldau.connectors.spark.sink_directory import SinkDirectory
from moldau.connectors.spark.topics import TASK_TOPIC, topic_names
from moldau.spark.ranges import from_checkpoint, to_checkpoint


class SparkSinkTask(RunnerTask, SelfReadingSinkTask):
    """A task with the query of all topics, or of one with `spark.task.per.topic=true`."""

    def start(self, props: Mapping[str, str]) -> None:
        config, group = SparkSinkConfig.of(props), self.context.group
        if not config.task_per_topic:
            self.start_runner(self.context, SINK, config, group=group)
            return
        topic = props[TASK_TOPIC]
        self.start_runner(self.context, SINK, config.for_topic(topic), topic=topic, group=group)


class SparkSinkConnector(SparkConnector, SinkConnector):
    """A sink that checks the config and passes it to one task, or to one for each topic."""

    config_model = SparkSinkConfig
    task = SparkSinkTask

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        subscription(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if not SparkSinkConfig.of(self.props).task_per_topic:
            return super().task_configs(max_tasks)
        return [{**self.props, TASK_TOPIC: topic} for topic in topic_names(self.props)]

    def removed(self, props: Mapping[str, str]) -> None:
        """Remove the checkpoints of the deleted connector if `checkpoint.cleanup` is true.

        Then release the directories that its last config names, for other connectors to write.
        """
        config = SparkSinkConfig.read(props)
        if not config.checkpoint_cleanup:
            return
        name = props["name"]
        folder = CheckpointFolder(config.checkpoint_location, name)
        # The topics are read before the removal, which removes their folders.
        topics = folder.topics() if config.task_per_topic else []
        configs = [config, *(config.for_topic(each) for each in topics)]
        super().removed(props)
        if config.sink_format in FILE_FORMATS:
            for each in configs:
                SinkDirectory(each.sink_path or "", name).release()

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Begin a new generation of checkpoints at these offsets: Spark's cannot be edited.

        Partitions that are not named continue where they were. None is the earliest offset. If no
        partition is named, or all are None, the query begins as a new one does. With a query for
        each topic, the queries of topics that are not named continue.
        """
        config = SparkSinkConfig.of(props)
        location, name = config.checkpoint_location, props["name"]
        if not config.task_per_topic:
            _begin_generation(CheckpointFolder(location, name), offsets)
            return True
        topics = topic_names(props)
        unknown = sorted({where.topic for where in offsets} - set(topics))
        if unknown:
            raise ConnectError(
                "these are no topics of the connector: name topics of its config",
                topics=", ".join(unknown),
            )
        for topic in topics:
            own = {where: each for where, each in offsets.items() if where.topic == topic}
            if own or not offsets:
                _begin_generation(CheckpointFolder(location, name, topic), own)
        return True


def _begin_generation(
    folder: CheckpointFolder, offsets: Mapping[TopicPartition, int | None]
) -> None:
    starting = from_checkpoint(folder.generations.committed_offsets())
    starting |= {where: EARLIEST if each is None else each for where, each in offsets.items()}
    is_reset = not offsets or all(each == EARLIEST for each in starting.values())
    folder.begin_generation({} if is_reset else to_checkpoint(starting))
