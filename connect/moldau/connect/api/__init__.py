"""Base classes for plugin authors: connectors, tasks, converters, transforms, predicates.

All of it is synchronous: a task runs in a process or thread of its own, so it may block. A plugin
is a class with a `config_model` (a `ConfigModel`) and is found through an entry point; see
`moldau.connect.plugins`.

    class Ticks(SourceConnector):
        class Config(ConfigModel):
            topic: str = key("topic", doc="Where the ticks go.")

        config_model = Config

        def task_class(self) -> type[Task]: ...
        def task_configs(self, max_tasks: int) -> list[dict[str, str]]: ...
"""

from __future__ import annotations

from moldau.connect.api.batch import SourceBatch, SourceValues
from moldau.connect.api.columns import ColumnSinkTask, SinkColumns, StructColumns
from moldau.connect.api.connector import (
    Connector,
    ConnectorContext,
    ExactlyOnceSupport,
    SinkConnector,
    SourceConnector,
)
from moldau.connect.api.conversion import Converter, ConverterConfig, HeaderConverter
from moldau.connect.api.parts import SourcePart, SourceParts
from moldau.connect.api.plugin import Plugin
from moldau.connect.api.provider import ConfigProvider, ProvidedValues
from moldau.connect.api.record import ConnectRecord, SinkRecord, SourceRecord
from moldau.connect.api.task import (
    ErrantRecordReporter,
    OffsetStorageReader,
    SelfReading,
    SelfReadingSinkTask,
    SelfWriting,
    SelfWritingSourceTask,
    SinkTask,
    SinkTaskContext,
    SourceTask,
    SourceTaskContext,
    Task,
    TransactionContext,
    ValueSinkTask,
)
from moldau.connect.api.transformation import Predicate, Transformation
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.data import Header, Headers, Schema, SchemaAndValue, Struct
from moldau.connect.errors import ConnectError, DataError, RetriableError

__all__ = [
    "ColumnSinkTask", "ConfigModel", "ConfigProvider", "ConnectError", "ConnectRecord", "Connector",
    "ConnectorContext", "Converter", "ConverterConfig", "DataError", "ErrantRecordReporter",
    "ExactlyOnceSupport", "Header", "HeaderConverter", "Headers", "OffsetStorageReader", "Plugin",
    "Predicate", "Problem", "ProvidedValues", "RetriableError", "Schema", "SchemaAndValue",
    "SelfReading", "SelfReadingSinkTask", "SelfWriting", "SelfWritingSourceTask", "SinkColumns",
    "SinkConnector", "SinkRecord", "SinkTask", "SinkTaskContext", "SourceBatch", "SourceConnector",
    "SourcePart", "SourceParts", "SourceRecord", "SourceTask", "SourceTaskContext", "SourceValues",
    "Struct", "StructColumns", "Task", "TransactionContext", "Transformation", "ValueSinkTask",
    "key",
]  # fmt: skip
