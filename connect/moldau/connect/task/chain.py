"""The converters and transforms of one task, in the order of its config.

Transforms are called in a plain loop: a normal record costs one call for each, and only a record
that fails takes the slow path through `Tolerance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from moldau.client import ConsumerRecord, TimestampType
from moldau.client.base.columns import PartitionColumns
from moldau.connect.api import (
    Converter,
    Header,
    HeaderConverter,
    Headers,
    SinkColumns,
    SinkRecord,
    SourceBatch,
    SourceRecord,
    SourceValues,
)
from moldau.connect.api.record import ConnectRecord
from moldau.connect.converters.plain import ByteArrayConverter
from moldau.connect.errors import ConnectError
from moldau.connect.plugins.stages import TransformationStage
from moldau.connect.task.tolerance import Failure, Stage, Tolerance
from moldau.deferred import dataclass
from moldau.records import Headers as RawHeaders

R = TypeVar("R", bound=ConnectRecord)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Converters:
    """The converters of one task."""

    key: Converter
    value: Converter
    header: HeaderConverter


def name_of(plugin: object) -> str:
    """Return the name that errors show: the Java name if there is one."""
    kind = type(plugin)
    names: tuple[str, ...] = getattr(kind, "java_names", ())
    return names[0] if names else f"{kind.__module__}.{kind.__qualname__}"


class Chain:
    """Converts a source record to bytes, and a consumed record to a sink record."""

    def __init__(
        self, converters: Converters, steps: list[TransformationStage], tolerance: Tolerance
    ) -> None:
        self._converters = converters
        self._steps = steps
        self._tolerance = tolerance

    def transformed(self, record: R, origin: object) -> R | None:
        """Apply the transforms. None: one drops it. Raise Skipped if a failure is tolerated."""
        at: R | None = record
        for step in self._steps:
            assert at is not None
            try:
                at = step.apply(at)
            except Exception as error:
                at = self._settle(
                    Stage.TRANSFORMATION, step.transformation, error, origin, step.apply, at
                )
            if at is None:
                return None
        return at

    def _settle(
        self,
        stage: Stage,
        plugin: object,
        error: Exception,
        origin: object,
        function: Callable[..., T],
        *arguments: Any,
    ) -> T:
        failure = Failure(stage, name_of(plugin), error, origin)
        return self._tolerance.settle(failure, lambda: function(*arguments))

    def sink_record(
        self, topic: str, partition: int, raw: Any, kind: TimestampType
    ) -> SinkRecord | None:
        """Return the record for the sink's `put`, after the transforms; None if one drops it."""
        origin = _Origin(topic, partition, raw)
        converters = self._converters
        headers = self._read_headers(origin) if raw.headers else Headers()
        key_reader, value_reader = converters.key, converters.value
        try:
            key = key_reader.to_connect_data(topic, headers, raw.key)
        except Exception as error:
            key = self._settle(
                Stage.KEY_CONVERTER, key_reader, error, origin.record(),
                key_reader.to_connect_data, topic, headers, raw.key,
            )  # fmt: skip
        try:
            value = value_reader.to_connect_data(topic, headers, raw.value)
        except Exception as error:
            value = self._settle(
                Stage.VALUE_CONVERTER, value_reader, error, origin.record(),
                value_reader.to_connect_data, topic, headers, raw.value,
            )  # fmt: skip
        timestamp = raw.timestamp if raw.timestamp >= 0 else None
        record = SinkRecord(
            topic, partition, key.schema, key.value, value.schema, value.value,
            raw.offset, timestamp, kind, headers,
        )  # fmt: skip
        if not self._steps:
            return record
        return self.transformed(record, origin.record())

    def values_of(self, part: PartitionColumns) -> list[Any] | None:
        """Return only the values. Return None if the records have to be converted one by one,
        because they have headers or one of them is bad. Transforms are not called: see `is_plain`.
        """
        return self._of_whole(part, self._values)

    def columns_of(self, part: PartitionColumns) -> SinkColumns | None:
        """Do the same as `values_of`, and return the values as columns, with the keys."""
        return self._of_whole(part, self._columns)

    def _of_whole(
        self, part: PartitionColumns, convert: Callable[[PartitionColumns], T | None]
    ) -> T | None:
        if part.headers is not None:
            return None
        try:
            return convert(part)
        except Exception:
            return None

    def _values(self, part: PartitionColumns) -> list[Any]:
        # Keys are converted too: a bad key is an error even if the sink does not use it.
        self._keys(part)
        return self._converters.value.to_connect_values(part.topic, part.values.tolist())

    def _keys(self, part: PartitionColumns) -> list[Any]:
        convert, keys = self._converters.key.to_connect_values, part.keys.tolist()
        if any(keys):
            return convert(part.topic, keys)
        different = list(set(keys))  # None, or empty
        known = dict(zip(different, convert(part.topic, different), strict=True))
        return [known[key] for key in keys]

    def _columns(self, part: PartitionColumns) -> SinkColumns | None:
        value = self._converters.value.to_connect_columns(part.topic, part.values)
        if value is None:
            return None
        keys = self._keys(part)
        raw = ConsumerRecord(
            part.topic, part.partition, part.first_offset, part.timestamps[0], part.keys[0],
            part.values[0], (),
        )  # fmt: skip
        first = self.sink_record(part.topic, part.partition, raw, part.timestamp_type)
        if first is None:
            return None
        return SinkColumns(part.topic, part.partition, part.offsets, keys, value, first)

    @property
    def reads_columns(self) -> bool:
        """Whether `columns_of` may succeed."""
        return self.is_plain and self._converters.value.reads_columns

    def _read_headers(self, origin: _Origin) -> Headers:
        reader = self._converters.header
        found = Headers()
        for name, data in origin.raw.headers:
            try:
                read = reader.to_connect_header(origin.topic, name, data)
            except Exception as error:
                read = self._settle(
                    Stage.HEADER_CONVERTER, reader, error, origin.record(),
                    reader.to_connect_header, origin.topic, name, data,
                )  # fmt: skip
            found.append(Header(name, read.value, read.schema))
        return found

    def source_bytes(
        self, record: SourceRecord
    ) -> tuple[bytes | None, bytes | None, RawHeaders | list[tuple[str, bytes | None]]]:
        """Return key, value and headers as they are written to the topic."""
        converters, topic = self._converters, record.topic
        if not topic:
            raise ConnectError("a source record has no topic", connector_gave=repr(topic))
        headers = self._write_headers(record) if record.headers else []
        key_writer, value_writer = converters.key, converters.value
        try:
            key = key_writer.from_connect_data(topic, record.headers, record.key_schema, record.key)
        except Exception as error:
            key = self._settle(
                Stage.KEY_CONVERTER, key_writer, error, record, key_writer.from_connect_data,
                topic, record.headers, record.key_schema, record.key,
            )  # fmt: skip
        try:
            value = value_writer.from_connect_data(
                topic, record.headers, record.value_schema, record.value
            )
        except Exception as error:
            value = self._settle(
                Stage.VALUE_CONVERTER, value_writer, error, record,
                value_writer.from_connect_data,
                topic, record.headers, record.value_schema, record.value,
            )  # fmt: skip
        return key, value, headers

    @property
    def is_plain(self) -> bool:
        """Whether there are no transforms, so that records are only converted."""
        return not self._steps

    @property
    def passes_bytes(self) -> bool:
        """Whether the converters write the bytes of keys and values as they are."""
        converters = self._converters
        return all(type(each) is ByteArrayConverter for each in (converters.key, converters.value))

    @property
    def passes_headers(self) -> bool:
        """Whether the header converter writes bytes as they are."""
        return type(self._converters.header) is ByteArrayConverter

    def batch_bytes(
        self, batch: SourceBatch | SourceValues
    ) -> tuple[list[bytes | None] | None, list[bytes | None]] | None:
        """Return the keys and values of a batch. Return None if its records have to be converted
        one by one, which shows which of them is bad."""
        keys: list[bytes | None] | None = None
        converters, topic = self._converters, batch.topic
        try:
            if isinstance(batch, SourceValues):
                key = converters.key.from_connect_data(topic, None, None, None)
                keys = None if key is None else [key] * len(batch)
                return keys, converters.value.from_connect_values(topic, batch.schema, batch.values)
            if batch.keys is not None:
                convert, schema = converters.key.from_connect_data, batch.key_schema
                keys = [convert(topic, None, schema, key) for key in batch.keys]
            values = converters.value.from_connect_columns(topic, batch.schema, batch.columns)
        except Exception:
            return None
        return keys, list(values)

    def records_bytes(
        self, topic: str, records: Sequence[SourceRecord]
    ) -> tuple[list[bytes | None] | None, list[bytes | None]] | None:
        """Convert records without headers, like `batch_bytes`."""
        to_key = self._converters.key.from_connect_data
        to_value = self._converters.value.from_connect_data
        try:
            keys = [to_key(topic, each.headers, each.key_schema, each.key) for each in records]
            values = [
                to_value(topic, each.headers, each.value_schema, each.value) for each in records
            ]
        except Exception:
            return None
        return keys if any(key is not None for key in keys) else None, values

    def _write_headers(self, record: SourceRecord) -> list[tuple[str, bytes | None]]:
        writer = self._converters.header
        found = []
        for header in record.headers:
            given = (record.topic, header.key, header.schema, header.value)
            try:
                data = writer.from_connect_header(*given)
            except Exception as error:
                data = self._settle(
                    Stage.HEADER_CONVERTER, writer, error, record,
                    writer.from_connect_header, *given,
                )  # fmt: skip
            found.append((header.key, data))
        return found

    def close(self) -> None:
        """Close all transforms and converters."""
        for step in self._steps:
            step.close()
        self._converters.key.close()
        self._converters.value.close()
        self._converters.header.close()


@dataclass(frozen=True, slots=True)
class _Origin:
    """A consumed record. The full record is created only if an error needs it."""

    topic: str
    partition: int
    raw: Any

    def record(self) -> ConsumerRecord:
        raw = self.raw
        return ConsumerRecord(
            self.topic, self.partition, raw.offset, raw.timestamp, raw.key, raw.value, raw.headers
        )
