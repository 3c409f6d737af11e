"""The ProtobufConverter: protobuf with a schema registry, in Confluent's wire format.

It registers a proto3 file as a descriptor in base64, which every registry can read. It also reads
schemas as descriptors (`format=serialized`, which Confluent's registry and Karapace support).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.connect.config.model import key
from moldau.connect.converters.protobuf_schemas import ProtobufTraits, to_file
from moldau.connect.converters.protobuf_values import MessageReaders, struct_maker
from moldau.connect.converters.registered import (
    Read,
    RegisteredConfig,
    RegisteredConverter,
    Write,
)
from moldau.connect.data.headers import Headers
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.data.validation import validate
from moldau.connect.errors import DataError
from moldau.plugins.extras import need
from moldau.values.failures import DeserializationFailed
from moldau.values.protobuf.files import descriptor_of, pool_of
from moldau.values.protobuf.messages import messages_of_file
from moldau.values.schema import PROTOBUF
from moldau.values.schema import Schema as RegistrySchema
from moldau.values.wire import read_indexes, write_indexes

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_SERIALIZED: Final = "serialized"


class ProtobufConfig(RegisteredConfig):
    """Settings of the ProtobufConverter."""

    wraps_nullables: bool = key(
        "wrapper.for.nullables", False,
        doc="Write optional values as Google's wrapper messages, so that null is told from zero.",
    )  # fmt: skip
    marks_nullables: bool = key(
        "optional.for.nullables", False,
        doc="Write optional values as `optional` fields, so that null is told from zero.",
    )  # fmt: skip
    has_full_names: bool = key(
        "enhanced.protobuf.schema.support", False,
        doc="Keep the package in the names of the schemas that are read.",
    )  # fmt: skip
    scrubs_names: bool = key(
        "scrub.invalid.names", False,
        doc="Replace letters that names in protobuf may not have by underscores.",
    )  # fmt: skip


class ProtobufConverter(RegisteredConverter):
    """Converts structs to and from protobuf, in the wire format of Confluent's schema registry."""

    java_names = ("io.confluent.connect.protobuf.ProtobufConverter",)
    libraries = (
        ("google.protobuf", "protobuf"),
        ("proto_schema_parser", "protobuf"),
    )
    config_model = ProtobufConfig
    schema_format = _SERIALIZED

    def configure(self, props: Mapping[str, str], is_key: bool) -> None:
        need("google.protobuf", "protobuf")
        super().configure(props, is_key)
        config = ProtobufConfig.of(props)
        self._traits = ProtobufTraits(
            config.wraps_nullables,
            config.marks_nullables,
            config.has_full_names,
            config.scrubs_names,
        )

    # --- to bytes -----------------------------------------------------------------------------

    def registered(self, schema: Schema | None, value: Any) -> tuple[RegistrySchema, str | None]:
        if schema is None:
            raise DataError(
                "ProtobufConverter needs a schema, and this value has none; "
                "use JsonConverter with schemas.enable=false, or give it a schema"
            )
        file = to_file(schema, self._traits)
        text = base64.b64encode(file.SerializeToString(deterministic=True)).decode()
        return RegistrySchema(text, PROTOBUF), _full_name(file)

    def _find(self, subject: str, own: RegistrySchema) -> tuple[int, RegistrySchema]:
        number, schema = super()._find(subject, own)
        if schema != own:  # another version, as text
            schema = self._registry.schema(number, format=_SERIALIZED)
        return number, schema

    def writer(self, schema: Schema | None, registered: RegistrySchema) -> Write:
        assert schema is not None
        file = self._file(registered)
        pool = self._pool(file, registered)
        wanted = _full_name(to_file(schema, self._traits))
        names = [_joined(file.package, each.name) for each in file.message_type]
        index = names.index(wanted) if wanted in names else 0
        make = struct_maker(schema, pool.FindMessageTypeByName(names[index]), self._traits)
        path, required = write_indexes((index,)), schema.optionally(False)

        def write(value: Any) -> bytes:
            validate(required, value)
            try:
                data: bytes = make(value).SerializeToString()
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise DataError(f"a value does not fit its protobuf message: {error}") from None
            return path + data

        return write

    # --- from bytes ---------------------------------------------------------------------------

    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        found: SchemaAndValue = super().to_connect_data(topic, headers, data).value
        return found

    def reader(self, registered: RegistrySchema) -> tuple[Schema | None, Read]:
        """Return None and a reader. The schema depends on the message that the bytes name, so the
        reader returns it with each value."""
        file = self._file(registered)
        pool = self._pool(file, registered)
        known: dict[tuple[int, ...], tuple[Schema, Callable[[bytes], Any]]] = {}

        def read(data: bytes, start: int) -> SchemaAndValue:
            try:
                path, start = read_indexes(data, start)
            except DeserializationFailed as error:
                raise DataError(str(error)) from None
            if path not in known:
                known[path] = self._message_reader(pool, file, path)
            schema, parse = known[path]
            return SchemaAndValue(schema, parse(data[start:]))

        return None, read

    def _message_reader(
        self, pool: Any, file: FileDescriptorProto, path: tuple[int, ...]
    ) -> tuple[Schema, Callable[[bytes], Any]]:
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        descriptor = pool.FindMessageTypeByName(_name_at(file, path))
        parse = GetMessageClass(descriptor).FromString
        schema, convert = MessageReaders(self._traits).of(descriptor)

        def read(data: bytes) -> Any:
            try:
                return convert(parse(data))
            except (DecodeError, ValueError) as error:
                raise DataError(f"this is no protobuf of its schema: {error}") from None

        return schema, read

    # --- files --------------------------------------------------------------------------------

    def _file(self, registered: RegistrySchema) -> FileDescriptorProto:
        file = descriptor_of(registered.text)
        if file is None:
            raise DataError(
                "the registry gives a protobuf schema as text only, and the converter needs "
                "descriptors (GET /schemas/ids/ID?format=serialized)"
            )
        file.name = file.name or "default"
        return file

    def _pool(self, file: FileDescriptorProto, registered: RegistrySchema) -> Any:
        """Return a pool with a file and the files that it imports, also those of other subjects."""
        referenced = {}
        found = self._asked(self._registry.references, registered, format=_SERIALIZED)
        for name, each in found.items():
            referenced[name] = self._file(each)
            referenced[name].name = name
        return pool_of(file, referenced)


def _joined(package: str, name: str) -> str:
    return f"{package}.{name}" if package else name


def _full_name(file: FileDescriptorProto) -> str:
    return _joined(file.package, file.message_type[0].name)


def _name_at(file: FileDescriptorProto, path: tuple[int, ...]) -> str:
    """Return the full name of a message. Raise DataError if there is none."""
    names = messages_of_file(file).names_at(path)
    if not names:
        raise DataError(f"the protobuf schema has no message at {list(path)}")
    return names[0]
