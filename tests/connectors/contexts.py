"""Connect's side of a task, without a worker: contexts that keep what tasks tell them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.connect.api import (
    ConnectorContext,
    ErrantRecordReporter,
    OffsetStorageReader,
    Schema,
    SinkRecord,
    SinkTaskContext,
    SourceRecord,
    SourceTaskContext,
    Struct,
    TransactionContext,
)
from moldau.connectors.pace import Pace

TOPIC = "orders"


class VirtualPace(Pace):
    """A clock that waiting moves."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += max(0.0, seconds)
        return self.is_stopped


class Offsets(OffsetStorageReader):
    """Stored source offsets in a list of pairs."""

    def __init__(self, stored: Iterable[tuple[dict[str, Any], dict[str, Any]]] = ()) -> None:
        self.stored = list(stored)

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return next((o for p, o in reversed(self.stored) if p == dict(partition)), None)

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], dict[str, Any] | None]]:
        return [(partition, self.offset(partition)) for partition in partitions]

    def keep(self, records: Iterable[SourceRecord]) -> None:
        """As a worker does once records were delivered."""
        for record in records:
            if record.source_offset is not None and record.source_partition is not None:
                self.stored.append((dict(record.source_partition), record.source_offset))


class SourceContext(SourceTaskContext):
    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets

    @property
    def configs(self) -> dict[str, str]:
        return {}

    @property
    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._offsets

    @property
    def transaction_context(self) -> TransactionContext | None:
        return None


class WatchContext(ConnectorContext):
    """Keeps what a connector says that it waits for."""

    waits_for: str | None = None

    def request_task_reconfiguration(self) -> None:
        return

    def raise_error(self, error: Exception) -> None:
        raise error

    def report_waiting(self, cause: str | None) -> None:
        self.waits_for = cause

    @property
    def offset_storage_reader(self) -> OffsetStorageReader:
        return Offsets()


class Reporter:
    """Keeps what would go to the dead letter queue."""

    def __init__(self) -> None:
        self.reports: list[tuple[SinkRecord, Exception]] = []

    def report(self, record: SinkRecord, error: Exception) -> None:
        self.reports.append((record, error))


class SinkContext(SinkTaskContext):
    """Keeps seeks and timeouts; `reporter` is the dead letter queue, or None."""

    def __init__(self, reporter: ErrantRecordReporter | None = None) -> None:
        self.reporter = reporter
        self.seeks: dict[TopicPartition, int] = {}
        self.timeouts: list[int] = []

    @property
    def configs(self) -> dict[str, str]:
        return {}

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.seeks.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        self.timeouts.append(timeout_ms)

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset()

    def pause(self, *partitions: TopicPartition) -> None:
        return

    def resume(self, *partitions: TopicPartition) -> None:
        return

    def request_commit(self) -> None:
        return

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return self.reporter


def record(
    value: Any, key: Any = None, *, offset: int = 0, topic: str = TOPIC, partition: int = 0
) -> SinkRecord:
    """A record as the worker hands it to a sink; schemas come from structs."""
    value_schema = value.schema if isinstance(value, Struct) else None
    key_schema = key.schema if isinstance(key, Struct) else None
    return SinkRecord(topic, partition, key_schema, key, value_schema, value, offset)


def struct(schema: Schema, *row: Any) -> Struct:
    return Struct.of_row(schema, list(row))


def at(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, partition)


def committed(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)
