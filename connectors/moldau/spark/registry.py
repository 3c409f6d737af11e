"""Read Avro, Protobuf and JSON values whose schemas are in a Schema Registry.

The driver asks for the latest schema of the topic's values, which gives the columns. Each value is
read with the schema that it was written with, and its fields go to the columns by name.

Invariants: A registry that does not answer ends the query; its values never count as unreadable.
Neither do values of schemas with rules that are not run here (a data contract), which end it too
(RulesNotRun). A value is unreadable if a healthy registry does not have its schema. A reader
pickles as the registry's address, and connects in the process that uses it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any, Final

from moldau.client.serdes.avro import AvroDeserializer
from moldau.client.serdes.contract import Place
from moldau.client.serdes.json_schema import JsonSchemaDeserializer
from moldau.client.serdes.protobuf import ProtobufDeserializer
from moldau.client.serdes.registry.client import SchemaRegistry as AsyncSchemaRegistry
from moldau.client.serdes.registry.contract_rules import check_rules
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.client.sync import SchemaRegistry
from moldau.errors import ConfigError
from moldau.runtime import Runtime
from moldau.runtime.threaded import ThreadedRuntime
from moldau.spark.avro import avro_to_ddl
from moldau.spark.protobuf import file_to_ddl, message_to_dict
from moldau.values.failures import DeserializationFailed

KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
_READERS: Final = {
    "avro": AvroDeserializer,
    "protobuf": ProtobufDeserializer,
    "json": JsonSchemaDeserializer,
}
_OPEN_READERS: Final[dict[tuple[str, str, bool], Callable[[bytes], Any]]] = {}
_JSON_TYPES: Final = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "string": "STRING",
    "boolean": "BOOLEAN",
}


def registered_ddl(url: str, topic: str, value_format: str, *, checks_rules: bool = True) -> str:
    """Return the columns of the topic's values, as DDL, from the latest registered schema.

    Raises ConfigError if the registry has no schema for them, or one of another format, or one
    with rules for what is read (RulesNotRun), unless `checks_rules` is false."""
    subject = f"{topic}-value"
    with SchemaRegistry(url) as registry:
        try:
            latest = registry.latest(subject)
            found, text = latest.schema, latest.schema.text
            if found.type == "PROTOBUF" and value_format == "protobuf":
                text = registry.schema(latest.id, format="serialized").text
        except RegistryError as error:
            raise ConfigError(
                f"the registry has no schema for the values: {error}; check value.registry, and "
                "that a producer has registered its schema",
                subject=subject,
            ) from error
    if checks_rules:
        check_rules(found, is_write=False, subject=subject)
    if found.type != KINDS[value_format]:
        right = next((name for name, kind in KINDS.items() if kind == found.type), found.type)
        raise ConfigError(
            f"the registered schema has another format: set value.format={right}",
            subject=subject,
            value_format=value_format,
        )
    if value_format == "avro":
        return avro_to_ddl(text)
    if value_format == "protobuf":
        return file_to_ddl(base64.b64decode(text))
    return json_schema_to_ddl(text)


class RegistryReader:
    """Reads one value into a dict. Raises DeserializationFailed for a value that is not a record.

    Spark keeps its Python workers, so the worker's connections are used again."""

    def __init__(self, url: str, value_format: str, *, checks_rules: bool = True) -> None:
        self._given = url, value_format, checks_rules
        self._format = value_format

    def __call__(self, data: bytes) -> dict[str, Any]:
        read = _OPEN_READERS.get(self._given)
        if read is None:
            read = _OPEN_READERS[self._given] = _open_reader(*self._given)
        try:
            found = read(data)
        except RegistryError as error:
            if not error.is_of_record:
                raise
            raise DeserializationFailed("the registry does not have its schema") from error
        if self._format == "protobuf":
            return message_to_dict(found)
        if not isinstance(found, Mapping):
            raise DeserializationFailed("its schema is not the schema of a record")
        return dict(found)


def _open_reader(url: str, value_format: str, checks_rules: bool) -> Callable[[bytes], Any]:
    """Return a function that reads values. Its event loop and connections live until the process
    ends."""
    loop = ThreadedRuntime("registry")
    loop.start()

    async def begin(runtime: Runtime) -> Any:
        registry = AsyncSchemaRegistry(url, runtime=runtime)
        return _READERS[value_format](registry, options=SchemaOptions(checks_rules=checks_rules))

    reader, place = loop.run(begin), Place("", False)

    async def awaited(data: bytes) -> Any:
        found = reader(data, place)
        return await found if isawaitable(found) else found

    def read(data: bytes) -> Any:
        # Use a known schema in this thread. Only a new schema is requested, on the loop.
        found = reader(data, place)
        if not isawaitable(found):
            return found
        close = getattr(found, "close", None)
        if close is not None:
            close()
        return loop.run(lambda _: awaited(data))

    return read


def json_schema_to_ddl(text: str) -> str:
    """Translate the JSON Schema of an object to a Spark type, as DDL."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or "properties" not in schema:
        raise ConfigError(
            "the JSON Schema cannot be used for rows: its outermost type must be an object with "
            "properties"
        )
    return _json_ddl(schema, "value")


def _json_ddl(schema: Mapping[str, Any], name: str) -> str:
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices is not None:
        kept = [each for each in choices if each.get("type") != "null"]
        if len(kept) == 1:
            return _json_ddl(kept[0], name)
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else list(kinds or ())
    kinds = [each for each in kinds if each != "null"]
    if not kinds and "properties" in schema:
        kinds = ["object"]
    if len(kinds) == 1 and kinds[0] in _JSON_TYPES:
        return _JSON_TYPES[kinds[0]]
    if kinds == ["array"] and isinstance(schema.get("items"), dict):
        return f"ARRAY<{_json_ddl(schema['items'], name)}>"
    if kinds == ["object"] and "properties" in schema:
        fields = (
            f"`{each}`: {_json_ddl(kind, each)}" for each, kind in schema["properties"].items()
        )
        return f"STRUCT<{', '.join(fields)}>"
    raise ConfigError(
        "this part of the JSON Schema has no type in Spark: read value.format=binary, or give "
        "value.schema",
        field=name,
    )
