"""What `value.format=avro` of a source writes: the schema, registered or given, and its values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moldau.client.serdes.registry.schemas import RegistryError, Schema
from moldau.client.sync import SchemaRegistry
from moldau.errors import ConfigError
from moldau.spark.avro_writing import VALUE, ValueWriter, check_record, schema_of, value_writer


@dataclass(frozen=True, slots=True)
class AvroValues:
    """With `schema`, values have that one; without it, the one of the columns. With `registry`, its
    address, the schema is registered for the topic."""

    topic: str
    schema: str | None
    registry: str | None

    def columns(self, rows: Any, elsewhere: Iterable[str]) -> list[str]:
        """The columns of the value: those of the schema, or all. `elsewhere` are columns that the
        key, the headers or the timestamp have. ConfigError if columns and schema differ."""
        if self.schema is None:
            return list(rows.columns)
        fields = check_record(self.schema)
        missing = [
            name for name, may_miss in fields.items() if not may_miss and name not in rows.columns
        ]
        more = [name for name in rows.columns if name not in {*fields, *elsewhere}]
        if missing or more:
            raise ConfigError(
                "rows and value.schema differ: select the columns of the schema in transforms.sql, "
                "or correct it",
                missing=", ".join(missing) or "none",
                not_in_schema=", ".join(more) or "none",
            )
        return [name for name in rows.columns if name in fields]

    def encoded(self, records: Any) -> Any:
        """The records, whose value is a struct, with bytes for it."""
        fields = records.schema.fields
        [value] = [each for each in fields if each.name == VALUE]
        schema = self.schema or schema_of(value.dataType.jsonValue(), self.topic)
        value_writer(schema, None)  # what is wrong is told before anything runs
        number = None if self.registry is None else self._registered(self.registry, schema)
        columns = ", ".join(
            f"{each.name} {each.dataType.simpleString()}" if each is not value else "value BINARY"
            for each in fields
        )
        return records.mapInArrow(ValueWriter(schema, number), columns)

    def _registered(self, url: str, schema: str) -> int:
        subject = f"{self.topic}-value"
        with SchemaRegistry(url) as registry:
            try:
                return registry.register(subject, Schema(schema))
            except RegistryError as error:
                raise ConfigError(
                    f"the registry does not take the schema of the values: {error}; check "
                    "value.registry, or change the columns or the subject's compatibility",
                    subject=subject,
                ) from error
