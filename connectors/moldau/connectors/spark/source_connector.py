"""`SparkSourceConnector`: files, tables, databases and queries to a topic through Spark.

What was reached is stored as Connect's offset of this source: the highest value of
`incremental.column`, or what Spark's checkpoint holds, which is only shown: the checkpoint itself
is what counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.api import SelfWritingSourceTask, SourceConnector
from moldau.connect.api.connector import ExactlyOnceSupport
from moldau.connect.errors import ConnectError
from moldau.connectors.spark.base_connector import RunnerTask, SparkConnector
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.messages import SOURCE
from moldau.connectors.spark.source_config import SparkSourceConfig

_MAX: Final = "max"


class SparkSourceTask(RunnerTask, SelfWritingSourceTask):
    """The connector's one task."""

    @classmethod
    def topics(cls, props: Mapping[str, str]) -> list[str]:
        return [SparkSourceConfig.of(props).topic]

    def start(self, props: Mapping[str, str]) -> None:
        config = SparkSourceConfig.of(props)
        self._partition = partition_of(config)
        stored = self.context.offset_storage_reader.offset(self._partition) or {}
        self.follow(self.context, SOURCE, config, offset=stored.get(_MAX))

    def offset(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        assert self._following is not None
        found, self._following.offset = self._following.offset, None
        return None if found is None else (self._partition, found)


class SparkSourceConnector(SparkConnector, SourceConnector):
    """Checks the config, and gives it to one task."""

    config_model = SparkSourceConfig
    task = SparkSourceTask

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
