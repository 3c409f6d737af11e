"""The Connect worker: connectors from JSON configs, offsets, converters and transforms.

A plugin author can import all that is needed from here; it is loaded at the first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.connect.api import (
        ConfigModel,
        ConnectError,
        Connector,
        ConnectorContext,
        ConnectRecord,
        Converter,
        DataError,
        ErrantRecordReporter,
        ExactlyOnceSupport,
        HeaderConverter,
        OffsetStorageReader,
        Predicate,
        Problem,
        RetriableError,
        SinkConnector,
        SinkRecord,
        SinkTask,
        SinkTaskContext,
        SourceConnector,
        SourceRecord,
        SourceTask,
        SourceTaskContext,
        Task,
        Transformation,
        key,
    )
    from moldau.connect.data import Header, Headers, Schema, SchemaAndValue, Struct

__all__ = [
    "ConfigModel", "ConnectError", "ConnectRecord", "Connector", "ConnectorContext", "Converter",
    "DataError", "ErrantRecordReporter", "ExactlyOnceSupport", "Header", "HeaderConverter",
    "Headers", "OffsetStorageReader", "Predicate", "Problem", "RetriableError", "Schema",
    "SchemaAndValue", "SinkConnector", "SinkRecord", "SinkTask", "SinkTaskContext",
    "SourceConnector", "SourceRecord", "SourceTask", "SourceTaskContext", "Struct", "Task",
    "Transformation", "key",
]  # fmt: skip

_DATA = frozenset({"Header", "Headers", "Schema", "SchemaAndValue", "Struct"})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "moldau.connect.data" if name in _DATA else "moldau.connect.api"
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
