"""`SparkSourceConnector`: files, tables, databases and queries to a topic through Spark.

The progress is stored as Connect's offset of this source. For an incremental source it is the
highest value of `incremental.column`. For a stream it is a copy of the offset in Spark's
checkpoint, to be shown: the query continues from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.api import SelfWritingSourceTask, SourceConnector
from moldau.connect.api.connector import ExactlyOnceSupport
from moldau.connect.errors import ConnectError
from moldau.connectors.spark.base_connector import RunnerTask, SparkConnector
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.messages import SOURCE
from moldau.connectors.spark.source_config import SparkSourceConfig

_MAX: Final = "max"


class SparkSourceTask(RunnerTask, SelfWritingSourceTask):
    """The one task of a source."""

    @classmethod
    def topics(cls, props: Mapping[str, str]) -> list[str]:
        return [SparkSourceConfig.of(props).topic]

    def start(self, props: Mapping[str, str]) -> None:
        config = SparkSourceConfig.of(props)
        self._partition = source_partition(config)
        stored = self.context.offset_storage_reader.offset(self._partition) or {}
        self.start_runner(self.context, SOURCE, config, offset=stored.get(_MAX))

    def offset(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        assert self._runner is not None
        found, self._runner.offset = self._runner.offset, None
        return None if found is None else (self._partition, found)


class SparkSourceConnector(SparkConnector, SourceConnector):
    """A source that checks the config and passes it to one task."""

    config_model = SparkSourceConfig
    task = SparkSourceTask

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        """Check the offsets, and reset a stream by a new generation of checkpoints.

        A stream can only begin anew. An incremental source continues above any value. A bulk source
        has no offsets. ConnectError for another offset or partition.
        """
        config = SparkSourceConfig.of(props)
        known = source_partition(config)
        for partition, offset in offsets:
            if partition != known:
                raise ConnectError(
                    "this is no partition of the source: use the known one", known=known
                )
            if offset is None or (config.mode == "incremental" and _is_highest_value(offset)):
                continue
            hint = '{"max": "VALUE"}' if config.mode == "incremental" else "null, which resets it"
            raise ConnectError(f"this is no offset of the source: use {hint}", offset=offset)
        if config.is_stream and offsets:
            CheckpointFolder(config.checkpoint_location, props["name"]).begin_generation({})
        return True


def _is_highest_value(offset: Mapping[str, Any]) -> bool:
    return offset.keys() == {_MAX} and isinstance(offset[_MAX], str)


def source_partition(config: SparkSourceConfig) -> dict[str, str]:
    """Return Connect's source partition. A source has one."""
    return {"source": config.source_name}
