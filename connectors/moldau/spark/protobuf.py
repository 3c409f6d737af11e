"""Read Protobuf messages as rows: translate message types to Spark types, and messages to dicts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.plugins.extras import need
from moldau.values.failures import DeserializationFailed
from moldau.values.protobuf.files import pool_of

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: Final = {
    "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "INT64": "BIGINT",
    "SINT64": "BIGINT",
    "SFIXED64": "BIGINT",
    "UINT64": "DECIMAL(20,0)",
    "FIXED64": "DECIMAL(20,0)",
    "INT32": "INT",
    "SINT32": "INT",
    "SFIXED32": "INT",
    "UINT32": "BIGINT",
    "FIXED32": "BIGINT",
    "BOOL": "BOOLEAN",
    "STRING": "STRING",
    "BYTES": "BINARY",
    "ENUM": "STRING",
}


def file_to_ddl(data: bytes) -> str:
    """Return the Spark type of the first message in a serialized Protobuf file, as DDL."""
    need("google.protobuf", "protobuf")
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto.FromString(data)
    file.name = file.name or "default"
    try:
        found = pool_of(file, {}).FindFileByName(file.name)
    except DeserializationFailed as error:
        raise ConfigError(
            "the Protobuf file imports a file that is not one of protobuf's own: give the columns "
            "by value.schema of another format, or read value.format=binary",
            imported=error.context.get("file"),
        ) from None
    first = next(iter(found.message_types_by_name.values()), None)
    if first is None:
        raise ConfigError("the registered Protobuf file has no message: register one that has")
    return _message_ddl(first, ())


def _message_ddl(message: Any, above: tuple[str, ...]) -> str:
    if message.full_name in above:
        raise ConfigError(
            "the Protobuf message contains itself, and Spark has no type for that: read "
            "value.format=binary",
            field=message.full_name,
        )
    inside = (*above, message.full_name)
    fields = (f"`{each.name}`: {_field_ddl(each, inside)}" for each in message.fields)
    return f"STRUCT<{', '.join(fields)}>"


def _field_ddl(field: Any, above: tuple[str, ...]) -> str:
    if _is_map(field):
        keys = field.message_type.fields_by_name
        kinds = (_one_ddl(keys["key"], above), _one_ddl(keys["value"], above))
        return f"MAP<{', '.join(kinds)}>"
    one = _one_ddl(field, above)
    return f"ARRAY<{one}>" if field.is_repeated else one


def _one_ddl(field: Any, above: tuple[str, ...]) -> str:
    """Return the type of one element of the field, which may be repeated."""
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return "TIMESTAMP"
        return _message_ddl(field.message_type, above)
    name = next(
        each.removeprefix("TYPE_")
        for each in dir(field)
        if each.startswith("TYPE_") and getattr(field, each) == field.type
    )
    return _TYPES[name]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def message_to_dict(message: Any) -> dict[str, Any]:
    """Return the fields of a message by name. A message field or optional field that is not set is
    None."""
    return {each.name: _value(message, each) for each in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return [(each, _one(value[each], kind)) for each in value]
    if field.is_repeated:
        return [_one(each, field) for each in value]
    return _one(value, field)


def _one(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            # Not `fromtimestamp`: it raises OSError for some seconds that are no valid time.
            return (_EPOCH + timedelta(seconds=value.seconds)).replace(
                microsecond=value.nanos // 1000
            )
        return message_to_dict(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
