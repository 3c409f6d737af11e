"""`SparkSourceConnector`: files, tables, databases and queries to a topic through Spark.

It makes exactly one task, whose runner writes the records. What was reached is stored as Connect's
offset of this source: the highest value of `incremental.column`, or what Spark's checkpoint holds,
which is only shown: the checkpoint itself is what counts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.api import Problem, SelfWritingSourceTask, SourceConnector, Task
from moldau.connect.api.connector import ExactlyOnceSupport
from moldau.connect.errors import ConnectError
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.connector import java_problems
from moldau.connectors.spark.following import Following, client_options
from moldau.connectors.spark.messages import SOURCE, START
from moldau.connectors.spark.source_config import SparkSourceConfig, source_guarantee

LOG: Final = logging.getLogger("moldau.connectors.spark")
_MAX: Final = "max"


class SparkSourceConnector(SourceConnector):
    """Checks the config, and gives it to one task."""

    config_model = SparkSourceConfig

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        SparkSourceConfig.of(props)

    def task_class(self) -> type[Task]:
        return SparkSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)]

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        """Settings that do not go together, and a machine without Java."""
        config = SparkSourceConfig.read(props)
        return [*config.check(), *java_problems(config)]

    @staticmethod
    def guarantee(props: Mapping[str, str]) -> str:
        """What status and `moldau connect plan` show."""
        return source_guarantee(SparkSourceConfig.read(props))

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        """A stream can only begin anew, in a new generation of checkpoints; an incremental source
        goes on above any value; a bulk source has no offsets."""
        config = SparkSourceConfig.of(props)
        wanted = partition_of(config)
        for partition, offset in offsets:
            if partition != wanted:
                raise ConnectError("this is no partition of the source", known=wanted)
            if offset is None or (config.mode == "incremental" and _is_highest(offset)):
                continue
            hint = '{"max": "VALUE"}' if config.mode == "incremental" else "null, which resets it"
            raise ConnectError(f"this is no offset of the source: use {hint}", offset=offset)
        if config.is_stream and offsets:
            CheckpointFolder(config.checkpoint_location, props["name"]).begin_anew({})
        return True


def _is_highest(offset: Mapping[str, Any]) -> bool:
    return offset.keys() == {_MAX} and isinstance(offset[_MAX], str)


def partition_of(config: SparkSourceConfig) -> dict[str, str]:
    """Connect's source partition: a source has one."""
    return {"source": config.origin}


class SparkSourceTask(SelfWritingSourceTask):
    """The connector's one task."""

    _following: Following | None = None

    @classmethod
    def topics(cls, props: Mapping[str, str]) -> list[str]:
        return [SparkSourceConfig.of(props).topic]

    def start(self, props: Mapping[str, str]) -> None:
        context, config = self.context, SparkSourceConfig.of(props)
        self._partition = partition_of(config)
        stored = context.offset_storage_reader.offset(self._partition) or {}
        self._following = Following(context.connector, SOURCE)
        self._following.start(
            {
                "type": START,
                "kind": SOURCE,
                "name": context.connector,
                "config": dict(props),
                "clients": client_options(context.clients),
                "offset": stored.get(_MAX),
                "is_paused": context.is_paused,
            }
        )
        LOG.info("%s: %s", context.connector, source_guarantee(config))

    def poll_status(self) -> Mapping[str, float]:
        assert self._following is not None
        return self._following.poll()

    def offset(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        assert self._following is not None
        found, self._following.offset = self._following.offset, None
        return None if found is None else (self._partition, found)

    def pause(self) -> None:
        if self._following is not None:
            self._following.pause()

    def resume(self) -> None:
        if self._following is not None:
            self._following.resume()

    def stop(self) -> None:
        if self._following is not None:
            self._following.stop()
