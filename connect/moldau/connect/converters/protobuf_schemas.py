"""Converts schemas between Connect and protobuf files, as Confluent's ProtobufConverter does.

A struct is a proto3 message, a nested struct a nested message, a map a map. The options of a field
keep what protobuf cannot express (int8, int16, the scale of decimals). The parameters of a schema
keep what Connect cannot express (the number of a field, the values of an enum).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus

from moldau.connect.data.schema import Logical, Schema, Type
from moldau.connect.errors import DataError
from moldau.deferred import dataclass
from moldau.values.protobuf import files

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

NAMESPACE: Final = "io.confluent.connect.protobuf"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION: Final = f"{NAMESPACE}.Union."
TAG: Final = f"{NAMESPACE}.Tag"
CONNECT_TYPE: Final = "connect.type"

# Numbers of FieldDescriptorProto.Type.
DOUBLE, FLOAT, INT64, INT32, BOOL, STRING, MESSAGE, BYTES, ENUM_TYPE = 1, 2, 3, 5, 8, 9, 11, 12, 14
OPTIONAL_LABEL, REPEATED_LABEL = 1, 3

_SCALARS: Final[Mapping[Type, tuple[int, str]]] = {
    Type.INT8: (INT32, "Int32Value"),
    Type.INT16: (INT32, "Int32Value"),
    Type.INT32: (INT32, "Int32Value"),
    Type.INT64: (INT64, "Int64Value"),
    Type.FLOAT32: (FLOAT, "FloatValue"),
    Type.FLOAT64: (DOUBLE, "DoubleValue"),
    Type.BOOLEAN: (BOOL, "BoolValue"),
    Type.STRING: (STRING, "StringValue"),
    Type.BYTES: (BYTES, "BytesValue"),
}
_LOGICAL: Final[Mapping[Logical, tuple[str, str]]] = {
    Logical.DECIMAL: ("confluent.type.Decimal", files.DECIMAL),
    Logical.DATE: ("google.type.Date", files.DATE),
    Logical.TIME: ("google.type.TimeOfDay", files.TIME),
    Logical.TIMESTAMP: ("google.protobuf.Timestamp", files.TIMESTAMP),
}
LOGICAL_OF: Final = {message: logical for logical, (message, _) in _LOGICAL.items()}
_KEYS: Final = (Type.STRING, Type.BOOLEAN, Type.INT8, Type.INT16, Type.INT32, Type.INT64)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProtobufTraits:
    """How optional values and names are represented."""

    wraps_nullables: bool = False
    """Whether optional scalars are Google's wrapper messages."""
    marks_nullables: bool = False
    """Whether optional scalars are proto3's `optional` fields."""
    has_full_names: bool = False
    """Whether the names of structs that are read include the package."""
    scrubs_names: bool = False
    """Whether characters that protobuf does not allow in names are replaced."""

    def name(self, name: str) -> str:
        """Return the name for protobuf. Raise DataError if it cannot be one."""
        if self.scrubs_names:
            encoded = quote_plus(name)
            if not re.match("[A-Za-z]", encoded):
                encoded = f"x{encoded}"
            return re.sub(r"[^A-Za-z0-9_]", "_", encoded)
        if not _NAME.fullmatch(name):
            raise DataError(
                f"{name!r} is no name in protobuf -> rename it, or set scrub.invalid.names=true"
            )
        return name


def to_file(schema: Schema, traits: ProtobufTraits) -> FileDescriptorProto:
    """Return a file whose first message is the struct."""
    return _Writing(traits).file(schema)


class _Writing:
    """Writes one schema. A named struct is written once; later uses refer to it."""

    def __init__(self, traits: ProtobufTraits) -> None:
        from google.protobuf import descriptor_pb2

        self._traits = traits
        self._file = descriptor_pb2.FileDescriptorProto(syntax="proto3")
        self._known: dict[str, tuple[Schema, str]] = {}
        self._unnamed = 0
        self._params = Params()

    def file(self, schema: Schema) -> FileDescriptorProto:
        if schema.type is not Type.STRUCT:
            raise DataError(
                f"protobuf writes structs, not {schema.described()} -> use another converter, or "
                "put the value into a field with HoistField"
            )
        package, _, name = self._full_name(schema).rpartition(".")
        self._file.package = package
        self._file.name = f"{name}.proto"
        message = self._file.message_type.add(name=self._traits.name(name))
        scope = f".{package}.{message.name}" if package else f".{message.name}"
        if schema.name:
            self._known[schema.name] = (schema, scope)
        self._fill(message, scope, schema)
        return self._file

    def _full_name(self, schema: Schema) -> str:
        if schema.name:
            return schema.name
        self._unnamed += 1
        return f"ConnectDefault{self._unnamed}"

    def _fill(self, message: Any, scope: str, schema: Schema) -> None:
        parts: list[tuple[str, Schema, int | None]] = []
        for field in schema.fields:
            if is_union(field.schema):
                name = (field.schema.name or "").removeprefix(UNION).rpartition(".")[2]
                index = len(message.oneof_decl)
                message.oneof_decl.add(name=self._traits.name(name))
                parts += [(each.name, each.schema, index) for each in field.schema.fields]
            else:
                parts.append((field.name, field.schema, None))
        tags = {tag for _, each, _ in parts if (tag := _tag(each)) is not None}
        free = (number for number in range(1, 2**29) if number not in tags)
        for name, each, oneof in parts:
            made = message.field.add(name=self._traits.name(name), label=OPTIONAL_LABEL)
            tag = _tag(each)
            made.number = tag if tag is not None else next(free)
            if oneof is not None:
                made.oneof_index = oneof
            self._field(message, made, scope, each)
        for made in message.field:
            if made.proto3_optional:  # these follow the oneofs of the schema
                made.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{made.name}")

    def _field(self, message: Any, made: Any, scope: str, schema: Schema) -> None:
        if schema.type is Type.ARRAY:
            made.label = REPEATED_LABEL
            assert schema.value_schema is not None
            schema = schema.value_schema
            if schema.type in (Type.ARRAY, Type.MAP):
                raise DataError(f"field {made.name}: protobuf has no arrays of arrays or maps")
            self._type(message, made, scope, schema, is_single=False)
        elif schema.type is Type.MAP:
            made.label = REPEATED_LABEL
            self._map(message, made, scope, schema)
        else:
            self._type(message, made, scope, schema, is_single=True)

    def _map(self, message: Any, made: Any, scope: str, schema: Schema) -> None:
        keys, values = schema.key_schema, schema.value_schema
        assert keys is not None
        assert values is not None
        entry = message.nested_type.add(name=_entry_name(made.name))
        entry.options.map_entry = keys.type in _KEYS and keys.logical is None
        made.type, made.type_name = MESSAGE, f"{scope}.{entry.name}"
        for number, (name, part) in enumerate((("key", keys), ("value", values)), 1):
            field = entry.field.add(name=name, number=number, label=OPTIONAL_LABEL)
            if part.type in (Type.ARRAY, Type.MAP):
                raise DataError(f"field {made.name}: protobuf has no maps of arrays or maps")
            # Nested types are placed beside the entry, because an entry may contain none.
            self._type(message, field, scope, part, is_single=False)

    def _type(
        self, message: Any, made: Any, scope: str, schema: Schema, *, is_single: bool
    ) -> None:
        """Set the type of one value. `is_single`: it may be optional, and protobuf can say so."""
        if schema.logical is not None:
            self._logical(made, schema)
        elif schema.type is Type.STRUCT:
            made.type, made.type_name = MESSAGE, self._struct(message, made.name, scope, schema)
        elif (parameters := schema.parameters or {}).get(ENUM):
            made.type, made.type_name = ENUM_TYPE, self._enum(message, scope, parameters)
        else:
            kind, wrapper = _SCALARS[schema.type]
            if is_single and schema.optional and self._traits.wraps_nullables:
                self._import(files.WRAPPERS)
                made.type, made.type_name = MESSAGE, f".google.protobuf.{wrapper}"
            else:
                made.type = kind
                is_in_union = made.HasField("oneof_index")
                if is_single and schema.optional and not is_in_union:
                    made.proto3_optional = self._traits.marks_nullables
            if schema.type in (Type.INT8, Type.INT16):
                self._note(made, {CONNECT_TYPE: schema.type.value})

    def _logical(self, made: Any, schema: Schema) -> None:
        assert schema.logical is not None
        name, file = _LOGICAL[schema.logical]
        self._import(file)
        made.type, made.type_name = MESSAGE, f".{name}"
        if schema.logical is Logical.DECIMAL:
            parameters = schema.parameters or {}
            params = {"scale": str(schema.scale)}
            if "connect.decimal.precision" in parameters:
                params["precision"] = parameters["connect.decimal.precision"]
            self._note(made, params)

    def _struct(self, message: Any, field: str, scope: str, schema: Schema) -> str:
        known = self._known.get(schema.name or "")
        if known is not None:
            if known[0].fields != schema.fields:
                raise DataError(f"two structs of one name have different fields: {schema.name}")
            return known[1]
        name = self._traits.name(self._full_name(schema).rpartition(".")[2])
        if name == field:
            name += "Message"
        inner = f"{scope}.{name}"
        if schema.name:
            self._known[schema.name] = (schema, inner)
        self._fill(message.nested_type.add(name=name), inner, schema)
        return inner

    def _enum(self, message: Any, scope: str, parameters: Mapping[str, str]) -> str:
        name = self._traits.name(parameters[ENUM].rpartition(".")[2])
        if all(each.name != name for each in message.enum_type):
            made = message.enum_type.add(name=name)
            prefix = f"{ENUM}."
            given = {k: v for k, v in parameters.items() if k.startswith(prefix)}
            for word, number in sorted(given.items(), key=lambda each: int(each[1])):
                made.value.add(name=word.removeprefix(prefix), number=int(number))
        return f"{scope}.{name}"

    def _note(self, made: Any, params: Mapping[str, str]) -> None:
        self._import(files.META)
        self._params.write(made.options, params)

    def _import(self, file: str) -> None:
        if file not in self._file.dependency:
            self._file.dependency.append(file)


class Params:
    """Reads and writes the parameters in the options of a field."""

    def __init__(self) -> None:
        from google.protobuf.message_factory import GetMessageClass

        pool = files.pool_of(files.meta_file(), {})
        self._options = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
        self._meta = pool.FindExtensionByName("confluent.field_meta")

    def write(self, options: Any, params: Mapping[str, str]) -> None:
        known: Any = self._options()
        known.Extensions[self._meta].params.update(params)
        options.MergeFromString(known.SerializeToString())

    def read(self, options: Any) -> dict[str, str]:
        known: Any = self._options.FromString(options.SerializeToString())
        return dict(known.Extensions[self._meta].params)


def is_union(schema: Schema) -> bool:
    """Whether a struct represents a oneof: one of its fields is set."""
    return schema.type is Type.STRUCT and (schema.name or "").startswith(UNION)


def _tag(schema: Schema) -> int | None:
    text = (schema.parameters or {}).get(TAG)
    return int(text) if text is not None and text.isdigit() else None


def _entry_name(field: str) -> str:
    """Return the name that protoc gives the message of a map's entries."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"
