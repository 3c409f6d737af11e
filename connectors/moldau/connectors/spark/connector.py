"""`SparkSinkConnector`: topics to files, tables and databases through Spark."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client import EARLIEST, TopicPartition
from moldau.connect.api import ConnectError, SelfReadingSinkTask, SinkConnector
from moldau.connectors.spark.base_config import FILE_FORMATS
from moldau.connectors.spark.base_connector import RunnerTask, SparkConnector
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.checkpoint.sink_directory import SinkDirectory
from moldau.connectors.spark.config import SparkSinkConfig, subscription
from moldau.connectors.spark.messages import SINK
from moldau.connectors.spark.topics import TASK_TOPIC, is_subscribed, topic_names
from moldau.errors import ConfigError
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

        ConnectError, before anything is changed, for a topic that the connector does not read.
        """
        config = SparkSinkConfig.of(props)
        location, name = config.checkpoint_location, props["name"]
        unknown = {each.topic for each in offsets if not is_subscribed(props, each.topic)}
        if unknown:
            raise ConnectError(
                "these are no topics of the connector: name topics of its config",
                topics=", ".join(sorted(unknown)),
            )
        named = {each.topic for each in offsets}
        folders = [CheckpointFolder(location, name)]
        if config.task_per_topic:
            topics = [each for each in topic_names(props) if each in named or not offsets]
            folders = [CheckpointFolder(location, name, topic) for topic in topics]
        try:
            for folder in folders:
                folder.check_task_per_topic()
            for folder in folders:
                _begin_generation(folder, props, offsets)
        except ConfigError as error:
            raise ConnectError(str(error)) from error
        return True


def _begin_generation(
    folder: CheckpointFolder, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
) -> None:
    """Begin a generation at these offsets, and for other partitions where the query has stopped.

    Only the offsets of the folder's topic count. The topics in the config may have been changed
    since: offsets of others are left out.
    """
    topic = folder.address.topic
    if topic is not None:
        offsets = {where: each for where, each in offsets.items() if where.topic == topic}
    reached = from_checkpoint(folder.generations.committed_offsets())
    starting = {at: each for at, each in reached.items() if is_subscribed(props, at.topic)}
    starting |= {where: EARLIEST if each is None else each for where, each in offsets.items()}
    is_reset = not offsets or all(each == EARLIEST for each in starting.values())
    folder.begin_generation({} if is_reset else to_checkpoint(starting))
