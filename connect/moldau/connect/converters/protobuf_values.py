"""Converts values between Connect and protobuf messages. Each schema has its own functions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from moldau.connect.converters.protobuf_schemas import (
    CONNECT_TYPE,
    ENUM,
    LOGICAL_OF,
    TAG,
    UNION,
    Params,
    ProtobufTraits,
    is_union,
)
from moldau.connect.data import logical
from moldau.connect.data.schema import Logical, Schema, Type
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError

Make = Callable[[Any], Any]
"""Converts a Connect value to a scalar or a message."""
Put = Callable[[Any, Any], None]
"""Sets a field of a message to a Connect value that is not None."""
Get = Callable[[Any], Any]
"""Returns the Connect value of a message, or of a field of one."""

Finish = Callable[[Schema], Schema]

_MESSAGE, _ENUM = 11, 14
_INTEGERS = {5: Type.INT32, 15: Type.INT32, 17: Type.INT32}
_LONGS = (3, 4, 6, 7, 13, 16, 18)
_OTHERS = {1: Type.FLOAT64, 2: Type.FLOAT32, 8: Type.BOOLEAN, 9: Type.STRING, 12: Type.BYTES}
_UNSIGNED = (4, 6)
_WRAPPERS = {
    f"google.protobuf.{name}": kind
    for name, kind in {
        "DoubleValue": Type.FLOAT64,
        "FloatValue": Type.FLOAT32,
        "Int64Value": Type.INT64,
        "UInt64Value": Type.INT64,
        "Int32Value": Type.INT32,
        "UInt32Value": Type.INT64,
        "BoolValue": Type.BOOLEAN,
        "StringValue": Type.STRING,
        "BytesValue": Type.BYTES,
    }.items()
}
_MIN_MS, _MAX_MS = -62_135_596_800_000, 253_402_300_799_999


def _same(value: Any) -> Any:
    return value


# --- to protobuf ----------------------------------------------------------------------------------


def struct_maker(schema: Schema, descriptor: Any, traits: ProtobufTraits) -> Make:
    """Return a function from structs to messages."""
    from google.protobuf.message_factory import GetMessageClass

    make = GetMessageClass(descriptor)
    puts: list[tuple[Put, Any]] = []
    for field in schema.fields:
        if is_union(field.schema):
            put = _union_put(field.schema, descriptor, traits)
        else:
            put = _put(field.schema, _field(descriptor, field.name, traits), traits)
        puts.append((put, field.schema.default))

    def write(struct: Struct) -> Any:
        message = make()
        for (put, default), value in zip(puts, struct.row, strict=True):
            given = default if value is None else value
            if given is not None:
                put(message, given)
        return message

    return write


def _field(descriptor: Any, name: str, traits: ProtobufTraits) -> Any:
    found = descriptor.fields_by_name.get(traits.name(name))
    if found is None:
        raise DataError(f"the protobuf message {descriptor.full_name} has no field {name}")
    return found


def _union_put(schema: Schema, descriptor: Any, traits: ProtobufTraits) -> Put:
    puts = [_put(f.schema, _field(descriptor, f.name, traits), traits) for f in schema.fields]

    def put(message: Any, union: Struct) -> None:
        for each, value in zip(puts, union.row, strict=True):
            if value is not None:
                each(message, value)
                return

    return put


def _put(schema: Schema, field: Any, traits: ProtobufTraits) -> Put:
    name = field.name
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        make = _value_maker(schema.value_schema, field, traits)
        return lambda message, values: getattr(message, name).extend(list(map(make, values)))
    if schema.type is Type.MAP:
        return _map_put(schema, field, traits)
    make = _value_maker(schema, field, traits)
    if field.type != _MESSAGE:
        return lambda message, value: setattr(message, name, make(value))

    def put(message: Any, value: Any) -> None:
        target = getattr(message, name)
        target.CopyFrom(make(value))
        target.SetInParent()

    return put


def _map_put(schema: Schema, field: Any, traits: ProtobufTraits) -> Put:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    name, entry = field.name, field.message_type
    keys = _value_maker(schema.key_schema, entry.fields_by_name["key"], traits)
    values = _value_maker(schema.value_schema, entry.fields_by_name["value"], traits)
    if not entry.GetOptions().map_entry:
        pair = Schema.struct({"key": schema.key_schema, "value": schema.value_schema})
        make = struct_maker(pair, entry, traits)
        return lambda message, found: getattr(message, name).extend(
            [make(Struct.of_row(pair, list(item))) for item in found.items()]
        )
    if entry.fields_by_name["value"].type != _MESSAGE:
        return lambda message, found: getattr(message, name).update(
            {keys(key): values(value) for key, value in found.items()}
        )

    def put(message: Any, found: dict[Any, Any]) -> None:
        target = getattr(message, name)
        for key, value in found.items():
            target[keys(key)].CopyFrom(values(value))

    return put


def _value_maker(schema: Schema, field: Any, traits: ProtobufTraits) -> Make:
    if schema.logical is not None:
        return _logical_maker(schema, field.message_type)
    if schema.type is Type.STRUCT:
        return struct_maker(schema, field.message_type, traits)
    if field.type == _ENUM:
        numbers = {each.name: each.number for each in field.enum_type.values}
        return lambda value: numbers[value]
    if field.type == _MESSAGE:  # a wrapper
        from google.protobuf.message_factory import GetMessageClass

        make = GetMessageClass(field.message_type)
        return lambda value: make(value=value)
    return bytes if schema.type is Type.BYTES else _same


def _logical_maker(schema: Schema, descriptor: Any) -> Make:
    from google.protobuf.message_factory import GetMessageClass

    make: Any = GetMessageClass(descriptor)
    if schema.logical is Logical.DECIMAL:
        scale = schema.scale

        def decimal(value: Decimal) -> Any:
            digits = len(str(abs(logical.unscaled_of(value, scale))))
            raw = logical.decimal_to_bytes(value, scale)
            return make(value=raw, precision=digits, scale=scale)

        return decimal
    if schema.logical is Logical.DATE:
        return lambda value: make(year=value.year, month=value.month, day=value.day)
    if schema.logical is Logical.TIME:
        return lambda value: make(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            nanos=value.microsecond // 1000 * 1_000_000,
        )

    def timestamp(value: datetime) -> Any:
        seconds, ms = divmod(logical.timestamp_to_ms(value), 1000)
        return make(seconds=seconds, nanos=ms * 1_000_000)

    return timestamp


# --- from protobuf --------------------------------------------------------------------------------


class MessageReaders:
    """Makes readers of messages. It keeps the enclosing messages, to detect recursion."""

    def __init__(self, traits: ProtobufTraits) -> None:
        self._traits = traits
        self._params = Params()
        self._around: list[str] = []

    def of(self, descriptor: Any, finish: Finish = _same) -> tuple[Schema, Get]:
        """Return the struct schema of a message, and a reader. `finish` adds what the field of the
        struct needs: structs have the very schema object of their field."""
        if descriptor.full_name in self._around:
            raise DataError(
                f"the protobuf message {descriptor.full_name} holds itself, and a schema of "
                "Connect cannot"
            )
        self._around.append(descriptor.full_name)
        fields: dict[str, Schema] = {}
        gets: list[Get] = []
        for each in descriptor.oneofs:
            if not _is_synthetic(each):
                name = f"{each.name}_{each.index}"
                fields[name], get = self._union(each)
                gets.append(get)
        for each in descriptor.fields:
            if each.containing_oneof is None or _is_synthetic(each.containing_oneof):
                fields[each.name], get = self._field(each)
                gets.append(get)
        self._around.pop()
        has_full_name = self._traits.has_full_names
        name = descriptor.full_name if has_full_name else descriptor.name
        schema = finish(Schema.struct(fields, name=name))
        return schema, lambda message: Struct.of_row(schema, [get(message) for get in gets])

    def _union(self, oneof: Any) -> tuple[Schema, Get]:
        parts = [(each.name, *self._field(each)) for each in oneof.fields]
        schema = Schema.struct(
            {name: part for name, part, _ in parts}, name=UNION + oneof.name, optional=True
        )
        positions = {name: index for index, (name, _, _) in enumerate(parts)}
        oneof_name = oneof.name

        def get(message: Any) -> Struct | None:
            chosen = message.WhichOneof(oneof_name)
            if chosen is None:
                return None
            row: list[Any] = [None] * len(parts)
            row[positions[chosen]] = parts[positions[chosen]][2](message)
            return Struct.of_row(schema, row)

        return schema, get

    def _field(self, field: Any) -> tuple[Schema, Get]:
        name, optional = field.name, _is_optional(field, self._traits)

        def finish(schema: Schema) -> Schema:
            parameters = {**(schema.parameters or {}), TAG: str(field.number)}
            return schema.replace(optional=schema.optional or optional, parameters=parameters)

        if _is_repeated(field):
            if field.type == _MESSAGE and _is_map(field.message_type):
                schema, read = self._map(field.message_type)
                return finish(schema), lambda message: read(getattr(message, name))
            schema, read = self._value(field, Schema.optionally)
            return finish(Schema.array(schema)), lambda message: [
                read(each) for each in getattr(message, name)
            ]
        schema, read = self._value(field, finish)
        if field.type == _MESSAGE or (self._traits.marks_nullables and field.has_presence):
            return (
                schema,
                lambda message: read(getattr(message, name)) if message.HasField(name) else None,
            )
        return schema, lambda message: read(getattr(message, name))

    def _value(self, field: Any, finish: Finish) -> tuple[Schema, Get]:
        """Return schema and reader of one value of a field, repeated or not."""
        if field.type == _MESSAGE:
            message = field.message_type
            if message.full_name not in LOGICAL_OF and not self._is_wrapper(message):
                return self.of(message, finish)
        schema, read = self._plain(field)
        return finish(schema), read

    def _is_wrapper(self, message: Any) -> bool:
        return self._traits.wraps_nullables and message.full_name in _WRAPPERS

    def _plain(self, field: Any) -> tuple[Schema, Get]:
        """Return schema and reader of a value that is no struct."""
        kind = field.type
        if kind in _INTEGERS:
            word = self._params.read(field.GetOptions()).get(CONNECT_TYPE)
            return Schema(Type(word) if word in ("int8", "int16") else Type.INT32), _same
        if kind in _LONGS:
            return Schema(Type.INT64), _signed if kind in _UNSIGNED else _same
        if kind == _ENUM:
            return _enum(field.enum_type)
        if kind in _OTHERS:
            return Schema(_OTHERS[kind]), _same
        message = field.message_type
        if message.full_name in LOGICAL_OF:
            return self._logical(field, LOGICAL_OF[message.full_name])
        return Schema(_WRAPPERS[message.full_name]), lambda wrapper: wrapper.value

    def _map(self, entry: Any) -> tuple[Schema, Get]:
        fields = entry.fields_by_name
        keys, key = self._value(fields["key"], Schema.optionally)
        values, value = self._value(fields["value"], Schema.optionally)
        name = entry.name.removesuffix("Entry").lower()
        schema = Schema.map(keys, values, name=name)
        if entry.GetOptions().map_entry:
            return schema, lambda found: {key(k): value(found[k]) for k in found}
        return schema, lambda found: {key(each.key): value(each.value) for each in found}

    def _logical(self, field: Any, kind: Logical) -> tuple[Schema, Get]:
        if kind is Logical.DECIMAL:
            params = self._params.read(field.GetOptions())
            scale = params.get("scale", "0")
            schema = Schema.decimal(int(scale) if scale.lstrip("-").isdigit() else 0)
            if "precision" in params:
                more = {"connect.decimal.precision": params["precision"]}
                schema = schema.replace(parameters={**(schema.parameters or {}), **more})
            return schema, lambda m: logical.decimal_from_bytes(m.value, m.scale)
        if kind is Logical.DATE:
            return Schema(Type.INT32, name=kind, version=1), _date
        if kind is Logical.TIME:
            return Schema(Type.INT32, name=kind, version=1), _time
        return Schema(Type.INT64, name=kind, version=1), _timestamp


def _is_optional(field: Any, traits: ProtobufTraits) -> bool:
    if traits.marks_nullables:
        in_oneof = field.containing_oneof is not None
        return in_oneof or _is_repeated(field) or field.type == _MESSAGE
    return not traits.wraps_nullables or field.type in (_MESSAGE, _ENUM) or _is_repeated(field)


def _is_repeated(field: Any) -> bool:
    known = getattr(field, "is_repeated", None)  # since protobuf 6
    return bool(field.label == 3 if known is None else known)


def _is_synthetic(oneof: Any) -> bool:
    """Whether `optional` has made this oneof, not the schema."""
    return len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}"


def _is_map(message: Any) -> bool:
    """Whether the message is a map entry, also in the form of Confluent's older converters."""
    names = [field.name for field in message.fields]
    return message.GetOptions().map_entry or (
        message.name.endswith("Entry") and names == ["key", "value"]
    )


def _enum(enum: Any) -> tuple[Schema, Get]:
    names = {each.number: each.name for each in enum.values}
    parameters = {ENUM: enum.name}
    parameters.update({f"{ENUM}.{each.name}": str(each.number) for each in enum.values})
    schema = Schema(Type.STRING, optional=True, name=enum.name, parameters=parameters)
    return schema, lambda number: names.get(number, f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}")


def _signed(value: int) -> int:
    """Return an unsigned 64-bit number as Java's long."""
    return value - 2**64 if value >= 2**63 else value


def _date(message: Any) -> date:
    try:
        return date(message.year, message.month, message.day)
    except ValueError as error:
        raise DataError(f"a google.type.Date is no date: {error}") from None


def _time(message: Any) -> time:
    try:
        found = time(message.hours, message.minutes, message.seconds)
    except ValueError as error:
        raise DataError(f"a google.type.TimeOfDay is no time: {error}") from None
    return found.replace(microsecond=message.nanos // 1_000_000 * 1000)


def _timestamp(message: Any) -> datetime:
    ms = message.seconds * 1000 + message.nanos // 1_000_000
    if not _MIN_MS <= ms <= _MAX_MS:
        raise DataError(f"{ms} ms since 1970 is outside the years 1 to 9999")
    return logical.EPOCH + timedelta(milliseconds=ms)
