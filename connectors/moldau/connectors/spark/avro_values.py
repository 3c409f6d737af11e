"""Encode the values of a source with `value.format=avro`, with a registered or a given schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.client.sync import SchemaRegistry
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.spark.avro_writing import VALUE, ValueWriter, check_record, schema_of, value_writer
from moldau.spark.reach import Unavailable
from moldau.values.schema import Schema


@dataclass(frozen=True, slots=True)
class AvroValues:
    """The schema of a topic's values.

    Without `schema` it is made from the columns. If `registry` is given, the address of a Schema
    Registry, the schema is registered there for the topic. With `checks_rules` a registered one
    with rules (a data contract) for what is written is refused.
    """

    topic: str
    schema: str | None
    registry: str | None
    checks_rules: bool = True

    def value_columns(self, rows: Any, other_columns: Iterable[str]) -> list[str]:
        """Return the columns of the value: those of the schema, or all.

        `other_columns` are the columns of the key, the headers and the timestamp. ConfigError if
        the columns and the schema differ.
        """
        if self.schema is None:
            return list(rows.columns)
        fields = check_record(self.schema)
        missing = [
            name
            for name, is_optional in fields.items()
            if not is_optional and name not in rows.columns
        ]
        extra = [name for name in rows.columns if name not in {*fields, *other_columns}]
        if missing or extra:
            raise ConfigError(
                "rows and value.schema differ: select the columns of the schema in transforms.sql, "
                "or correct it",
                missing=", ".join(missing) or "none",
                not_in_schema=", ".join(extra) or "none",
            )
        return [name for name in rows.columns if name in fields]

    def encode(self, records: Any) -> Any:
        """Return the records with their values, which are structs, encoded as bytes."""
        fields = records.schema.fields
        [value] = [each for each in fields if each.name == VALUE]
        schema = self.schema or schema_of(value.dataType.jsonValue(), self.topic)
        value_writer(schema, None)  # an unusable schema fails here, before anything runs
        schema_id = None if self.registry is None else self._register(self.registry, schema)
        columns = ", ".join(
            f"{each.name} {each.dataType.simpleString()}" if each is not value else "value BINARY"
            for each in fields
        )
        return records.mapInArrow(ValueWriter(schema, schema_id), columns)

    def _register(self, url: str, schema: str) -> int:
        subject, options = f"{self.topic}-value", SchemaOptions(checks_rules=self.checks_rules)
        with SchemaRegistry(url) as registry:
            try:
                schema_id, _ = registry.schema_to_write(options, subject, Schema(schema))
            except RegistryError as error:
                raise Unavailable(
                    f"the registry does not take the schema of the values: {error}; check "
                    "value.registry, or change the columns or the subject's compatibility",
                    subject=subject,
                ) from error
        return schema_id
