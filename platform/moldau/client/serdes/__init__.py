"""Serializers and deserializers: they convert between an application's values and records' bytes.

    from moldau.client.serdes import AvroSerializer, JsonDeserializer, SchemaRegistry

    Producer(value_serializer="json")                        # by name
    Consumer(value_deserializer=JsonDeserializer(Order))     # an object, into a type
    Consumer(value_deserializer=json.loads)                  # any function of the bytes

`contract` defines their interface. `plain` and `typed_json` need nothing else; `avro`, `protobuf`
and `json_schema` need a Schema Registry (`registry`) and an extra of the installation. `resolve`
finds a serde by the setting of a client, and `consumer.decoding` runs a consumer's deserializers.

Importing this package imports none of that: a name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.values.failures import DeserializationFailed, SerializationFailed
from moldau.values.schema import Schema

if TYPE_CHECKING:
    from moldau.client.serdes.avro import AvroDeserializer, AvroSerializer
    from moldau.client.serdes.contract import Deserializer, Place, Serializer
    from moldau.client.serdes.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
    from moldau.client.serdes.plain import (
        BooleanDeserializer,
        BooleanSerializer,
        BytesDeserializer,
        BytesSerializer,
        NumberDeserializer,
        NumberSerializer,
        StringDeserializer,
        StringSerializer,
        UuidDeserializer,
        UuidSerializer,
    )
    from moldau.client.serdes.protobuf import ProtobufDeserializer, ProtobufSerializer
    from moldau.client.serdes.registry import (
        RegistryError,
        RegistryOptions,
        SchemaRegistry,
    )
    from moldau.client.serdes.registry.naming import (
        SchemaOptions,
        record_subject,
        topic_record_subject,
        topic_subject,
    )
    from moldau.client.serdes.typed_json import JsonDeserializer, JsonSerializer

# The names of each module.
_MODULES = {
    "avro": "AvroDeserializer AvroSerializer",
    "plain": (
        "BooleanDeserializer BooleanSerializer BytesDeserializer BytesSerializer "
        "NumberDeserializer NumberSerializer StringDeserializer StringSerializer "
        "UuidDeserializer UuidSerializer"
    ),
    "contract": "Deserializer Place Serializer",
    "typed_json": "JsonDeserializer JsonSerializer",
    "json_schema": "JsonSchemaDeserializer JsonSchemaSerializer",
    "protobuf": "ProtobufDeserializer ProtobufSerializer",
    "registry": "RegistryError RegistryOptions SchemaRegistry",
    "registry.naming": "SchemaOptions record_subject topic_record_subject topic_subject",
}
_HOMES = {name: home for home, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AvroDeserializer", "AvroSerializer", "BooleanDeserializer", "BooleanSerializer",
    "BytesDeserializer", "BytesSerializer", "DeserializationFailed", "Deserializer",
    "JsonDeserializer", "JsonSchemaDeserializer", "JsonSchemaSerializer", "JsonSerializer",
    "NumberDeserializer", "NumberSerializer", "Place", "ProtobufDeserializer", "ProtobufSerializer",
    "RegistryError", "RegistryOptions", "Schema", "SchemaOptions", "SchemaRegistry",
    "SerializationFailed", "Serializer", "StringDeserializer", "StringSerializer",
    "UuidDeserializer", "UuidSerializer", "record_subject", "topic_record_subject", "topic_subject",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
