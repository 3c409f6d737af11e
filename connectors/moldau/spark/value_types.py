"""The columns that a read has, as DDL: those of Spark's own Kafka source. Imports no Arrow."""

from __future__ import annotations

from moldau.spark.options import ReadOptions, refuse

_AFTER_VALUE = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def row_schema(value_type: str, *, has_headers: bool) -> str:
    """As DDL; Spark's own source has BINARY values."""
    columns = f"key BINARY, value {value_type}, {_AFTER_VALUE}"
    return f"{columns}, {_HEADERS}" if has_headers else columns


def value_type(options: ReadOptions) -> str:
    """The type of the column `value`, as DDL."""
    kind, schema = options.value_format, options.value_schema
    if options.value_registry is not None:
        from moldau.spark.registry import registered_ddl

        return registered_ddl(options.value_registry, options.subscription.topics[0], kind)
    if kind == "binary":
        return "BINARY"
    if kind == "string":
        return "STRING"
    if schema is None:
        example = "id BIGINT, at TIMESTAMP" if kind == "json" else "the Avro schema as JSON"
        refuse("value.schema", "", f"value.format={kind} needs it: {example}")
    if kind == "avro":
        from moldau.spark.avro import avro_to_ddl

        return avro_to_ddl(schema)
    return f"STRUCT<{schema}>"
