"""Define the columns of a read, as DDL, like those of Spark's own Kafka source.

This module does not import Arrow or Spark.
"""

from __future__ import annotations

from moldau.errors import ConfigError
from moldau.spark.columns_ddl import struct_ddl
from moldau.spark.options import ReadOptions, refuse

_AFTER_VALUE = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
_NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_RAW = "rawKey BINARY, rawValue BINARY"
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def row_schema(options: ReadOptions) -> str:
    """Return all columns of a read, as DDL. Spark's own source has only BINARY keys and values."""
    columns = f"key {key_type(options)}, value {value_type(options)}, {_AFTER_VALUE}"
    more = [_HEADERS] * options.include_headers + [_RAW] * options.include_raw
    return ", ".join([columns, *more])


def check_columns(options: ReadOptions, names: list[str]) -> None:
    """Raise ConfigError if a read has other columns than this source's own."""
    headers = ["headers"] * options.include_headers
    raw = ["rawKey", "rawValue"] * options.include_raw
    expected = [*_NAMES, *headers, *raw]
    if names != expected:
        raise ConfigError(
            "the source has a fixed schema: leave out .schema(...), and name the columns of the "
            "values with the options value.format and value.schema",
            columns=", ".join(expected),
            given=", ".join(names),
        )


def key_type(options: ReadOptions) -> str:
    """Return the type of the column `key`, as DDL."""
    return _type_of("key", options.key_format, options.key_schema)


def value_type(options: ReadOptions) -> str:
    """Return the type of the column `value`, as DDL."""
    kind = options.value_format
    if options.value_registry is not None:
        from moldau.spark.registry import registered_ddl

        topic = options.subscription.topics[0]
        return registered_ddl(
            options.value_registry, topic, kind, checks_rules=options.checks_rules
        )
    return _type_of("value", kind, options.value_schema)


def _type_of(what: str, kind: str, schema: str | None) -> str:
    if kind == "binary":
        return "BINARY"
    if kind == "string":
        return "STRING"
    if schema is None:
        example = "id BIGINT, at TIMESTAMP" if kind == "json" else "the Avro schema as JSON"
        refuse(f"{what}.schema", "", f"{what}.format={kind} needs it, for example: {example}")
    if kind == "avro":
        from moldau.spark.avro import avro_to_ddl

        return avro_to_ddl(schema, f"{what}.schema")
    return struct_ddl(schema, f"{what}.schema")
