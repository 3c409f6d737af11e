"""InsertField: adds facts of the record, or a constant, as new fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moldau.connect.api.record import ConnectRecord, SinkRecord
from moldau.connect.config.model import Problem, key
from moldau.connect.data import logical
from moldau.connect.data.schema import INT32, INT64, STRING, TIMESTAMP, Schema, SchemaAndValue
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError
from moldau.connect.transforms.sided import (
    JAVA_PACKAGE,
    BySchema,
    KeyOrValueTransform,
    NullReplacement,
    StructReader,
    basics,
    require_map,
    require_struct,
)
from moldau.deferred import dataclass

_OPTIONALITY = " End it with ! for a required field; it is optional otherwise."


class InsertFieldConfig(NullReplacement):
    """Settings of InsertField."""

    topic_field: str | None = key(
        "topic.field", None, doc="The field for the topic." + _OPTIONALITY
    )
    partition_field: str | None = key(
        "partition.field", None, doc="The field for the partition." + _OPTIONALITY
    )
    offset_field: str | None = key(
        "offset.field", None, doc="The field for the offset; for sinks only." + _OPTIONALITY
    )
    timestamp_field: str | None = key(
        "timestamp.field", None, doc="The field for the timestamp." + _OPTIONALITY
    )
    static_field: str | None = key(
        "static.field", None, doc="The field for a constant." + _OPTIONALITY
    )
    static_value: str | None = key("static.value", None, doc="The constant.")

    def check(self) -> Iterable[Problem]:
        fields = (
            self.topic_field,
            self.partition_field,
            self.offset_field,
            self.timestamp_field,
            self.static_field,
        )
        if all(field is None for field in fields):
            yield Problem("static.field", "No field insertion configured")
        if self.static_field is not None and self.static_value is None:
            yield Problem(
                "static.value",
                "Invalid value null for configuration static.value: "
                f"No value specified for static field: {self.static_field}",
            )


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A new field: its name, its schema, and the function that computes its value."""

    name: str
    schema: Schema
    value: Callable[[ConnectRecord], Any]
    is_time: bool


class InsertField(KeyOrValueTransform):
    """Adds facts of the record, or a constant, as new fields to the end of a struct or to a map."""

    config_model = InsertFieldConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = InsertFieldConfig.of(props)
        static = config.static_value
        given = (
            (config.topic_field, STRING, lambda record: record.topic),
            (config.partition_field, INT32, lambda record: record.kafka_partition),
            (config.offset_field, INT64, _offset),
            (config.timestamp_field, TIMESTAMP, lambda record: record.timestamp),
            (config.static_field, STRING, lambda record: static),
        )
        self._insertions = [
            _insertion(spec, schema, value) for spec, schema, value in given if spec is not None
        ]
        self._rows = StructReader(config.replace_null_with_default)
        self._schemas = BySchema(self._plan)

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if value is None:
            return None
        if schema is None:
            fields = dict(require_map(value, "field insertion"))
            for each in self._insertions:
                item = each.value(record)
                if item is not None:
                    fields[each.name] = item
            return SchemaAndValue(None, fields)
        struct = require_struct(value, "field insertion")
        target = self._schemas(struct.schema)
        row = self._rows.of(struct)
        for each in self._insertions:
            item = each.value(record)
            if each.is_time and item is not None:
                item = logical.timestamp_from_ms(item)
            row.append(item)
        return SchemaAndValue(target, Struct.of_row(target, row))

    def _plan(self, schema: Schema) -> Schema:
        added = [(each.name, each.schema) for each in self._insertions]
        twice = {name for name, _ in added} & schema.positions.keys()
        if twice:
            raise DataError(f"Cannot create field because of field name duplication {min(twice)}")
        return basics(schema, [*((f.name, f.schema) for f in schema.fields), *added])


def _insertion(spec: str, schema: Schema, value: Callable[[ConnectRecord], Any]) -> _Insertion:
    name = spec[:-1] if spec.endswith(("!", "?")) else spec
    is_time = schema.logical is not None
    return _Insertion(name, schema.optionally(not spec.endswith("!")), value, is_time)


def _offset(record: ConnectRecord) -> int:
    if not isinstance(record, SinkRecord):
        raise DataError("Only SinkRecord supported for [field insertion], found: a source record")
    return record.offset


class InsertFieldKey(InsertField):
    """Adds fields to the key."""

    java_names = (JAVA_PACKAGE + "InsertField$Key",)
    on_key = True


class InsertFieldValue(InsertField):
    """Adds fields to the value."""

    java_names = (JAVA_PACKAGE + "InsertField$Value",)
