"""Protobuf after the id of its schema, and the path to the message in its file.

A value is an instance of a generated class, or a mapping as Protobuf's JSON has it: of the first
message of the subject's latest schema. The file that declares it is registered, as a
descriptor in base64, which every registry reads. The files that it imports are registered first,
each under its own name, except those that Google ships with protobuf.

A deserializer with a generated class reads only that message; one without makes a class from the
registry's schema, for which the registry must give descriptors (`format=serialized`: Confluent's
and Karapace do).

Invariant: the message that is read is the one that was written. Its path is looked up in the schema
of its id, once for each path, because the bytes of one message are often valid for another as well.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from moldau.client.serdes.contract import Place
from moldau.client.serdes.framed import Read, SchemaDeserializer, SchemaSerializer, Write
from moldau.client.serdes.registry.client import RegistryGiven, SchemaRegistry
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.plugins.extras import need
from moldau.values.failures import DeserializationFailed, SerializationFailed
from moldau.values.protobuf.files import descriptor_of, pool_of
from moldau.values.protobuf.messages import (
    Messages,
    messages_of_file,
    messages_of_text,
)
from moldau.values.protobuf.texts import message_of_json
from moldau.values.schema import PROTOBUF, Reference, Schema
from moldau.values.wire import SchemaKey, frame, read_indexes, write_indexes

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import Message

_SERIALIZED: Final = "serialized"
_SHIPPED: Final = ("google/protobuf/", "google/type/", "confluent/")
_FIRST: Final = (0,)


class ProtobufSerializer(SchemaSerializer):
    """Writes messages of generated classes, and mappings by the subject's latest schema."""

    def __init__(
        self,
        registry: RegistryGiven,
        *,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry=owns_registry)
        need("google.protobuf", "protobuf")

    def kind_of(self, value: Any) -> Hashable:
        """Return the class: each generated class has its own schema, mappings share one."""
        return Mapping if isinstance(value, Mapping) else cast(Hashable, type(value))

    def subject_of(self, value: Any, place: Place) -> str:
        """Return the subject, which may be named by the message."""
        name = None if isinstance(value, Mapping) else _descriptor_of(value).full_name
        return self.options.subject(place, name)

    def has_own(self, value: Any) -> bool:
        """Whether it is of a generated class, which has its schema."""
        return not isinstance(value, Mapping)

    async def own_schema(self, value: Any) -> Schema | None:
        """Return the file that declares the message, None for a mapping."""
        if isinstance(value, Mapping):
            return None
        return await self._file_schema(_descriptor_of(value).file)

    async def _file_schema(self, file: FileDescriptor) -> Schema:
        references = []
        for each in file.dependencies:
            if not each.name.startswith(_SHIPPED):
                references.append(await self._reference(each))
        text = base64.b64encode(file.serialized_pb).decode()
        return Schema(text, PROTOBUF, tuple(references))

    async def _reference(self, file: FileDescriptor) -> Reference:
        """Return a reference to the file under its own name; register it if that is allowed."""
        schema = await self._file_schema(file)
        normalize = self.options.normalize
        if self.options.auto_register:
            await self.registry.register(file.name, schema, normalize=normalize)
        found = await self.registry.lookup(file.name, schema, normalize=normalize)
        return Reference(file.name, file.name, found.version)

    async def writer(self, schema_id: int, schema: Schema, value: Any) -> Write:
        """Return a function that writes the id, the path and the message."""
        if isinstance(value, Mapping):
            return await self.mapping_writer(schema_id, schema)
        self.check_type(schema_id, schema, PROTOBUF)
        descriptor = _descriptor_of(value)
        path: tuple[int, ...] | None = _path_of(descriptor)
        if self.options.use_latest or self.options.use_id is not None:
            exact = await self.registry.schema(schema_id, format=_SERIALIZED)
            path = _messages_of(exact).path_of(descriptor.full_name)
        if path is None:
            raise SerializationFailed(
                "the schema to write with does not have the message",
                schema=schema_id,
                message=descriptor.full_name,
            )
        prefix = frame(schema_id) + write_indexes(path)
        return lambda message: prefix + message.SerializeToString()

    async def mapping_writer(self, schema_id: int, schema: Schema) -> Callable[..., bytes]:
        """Return a function that writes mappings, as the message of the schema's file that its
        second argument names, or the first one."""
        self.check_type(schema_id, schema, PROTOBUF)
        schema = await self.registry.schema(schema_id, format=_SERIALIZED)
        pool, messages = await _pool_of(self.registry, schema_id, schema), _messages_of(schema)
        kinds: dict[str | None, tuple[bytes, type[Message]]] = {}

        def write(value: Mapping[str, Any], name: str | None = None) -> bytes:
            if name not in kinds:
                path = _FIRST if name is None else messages.path_of(name)
                if path is None:
                    raise SerializationFailed("its schema has no such message", message=name)
                prefix = frame(schema_id) + write_indexes(path)
                kinds[name] = prefix, _class_at(pool, messages.names_at(path), path)
            prefix, kind = kinds[name]
            return prefix + message_of_json(kind, value).SerializeToString()

        return write


class ProtobufDeserializer(SchemaDeserializer):
    """Reads messages, into a generated class or into one that is made from the schema."""

    def __init__(
        self,
        registry: RegistryGiven,
        *,
        type: type[Message] | None = None,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry=owns_registry)
        need("google.protobuf", "protobuf")
        self._type = type

    async def reader(self, key: SchemaKey) -> Read:
        """Return a function that reads the path, then the message."""
        schema = await self.schema_of(key, PROTOBUF, format=_SERIALIZED)
        if self._type is not None:
            return _reader_of(self._type, _messages_of(schema), key)
        pool = await _pool_of(self.registry, key, schema)
        messages = _messages_of(schema)
        classes: dict[tuple[int, ...], type[Message]] = {}

        def read(data: bytes, at: int) -> Any:
            path, at = read_indexes(data, at)
            found = classes.get(path)
            if found is None:
                found = classes[path] = _class_at(pool, messages.names_at(path), path)
            return _parse(found, data, at)

        return read


async def _pool_of(registry: SchemaRegistry, key: SchemaKey, schema: Schema) -> Any:
    """Return a separate pool with the file of the schema and all files that it imports."""
    file = _file_of(schema, key)
    file.name = file.name or "default"
    referenced = {}
    for name, each in (await registry.references(schema, format=_SERIALIZED)).items():
        referenced[name] = _file_of(each, name)
        referenced[name].name = name
    return pool_of(file, referenced)


def _file_of(schema: Schema, key: SchemaKey) -> FileDescriptorProto:
    file = descriptor_of(schema.text)
    if file is None:
        raise DeserializationFailed(
            "the registry gives its schema as text only: give the deserializer the generated class",
            schema=key,
        )
    return file


def _descriptor_of(value: Any) -> Descriptor:
    descriptor: Descriptor | None = getattr(value, "DESCRIPTOR", None)
    if descriptor is None or isinstance(value, type) or not hasattr(value, "SerializeToString"):
        raise SerializationFailed("a protobuf message or a mapping was expected")
    return descriptor


def _path_of(descriptor: Descriptor) -> tuple[int, ...]:
    """Return the path of a message in its file, from the outermost message inwards."""
    parent = descriptor.containing_type
    siblings = (
        descriptor.file.message_types_by_name if parent is None else parent.nested_types_by_name
    )
    index = list(siblings).index(descriptor.name)
    return (index,) if parent is None else (*_path_of(parent), index)


def _messages_of(schema: Schema) -> Messages:
    """Return the messages of the schema, from its descriptor if it has one, else from its text."""
    file = descriptor_of(schema.text)
    return messages_of_text(schema.text) if file is None else messages_of_file(file)


def _reader_of(kind: type[Message], messages: Messages, key: SchemaKey) -> Read:
    """Return a function that reads this message and rejects all others."""
    wanted = kind.DESCRIPTOR.full_name
    fitting: set[tuple[int, ...]] = set()

    def read(data: bytes, at: int) -> Any:
        path, at = read_indexes(data, at)
        if path not in fitting:
            names = messages.names_at(path)
            _refuse_nothing(names, path)
            if wanted not in names:
                raise DeserializationFailed(
                    f"it is a {names[0]}, not a {wanted}", schema=key, path=path
                )
            fitting.add(path)
        return _parse(kind, data, at)

    return read


def _refuse_nothing(names: list[str], path: tuple[int, ...]) -> None:
    if not names:
        raise DeserializationFailed("its schema has no such message", path=path)


def _class_at(pool: Any, names: list[str], path: tuple[int, ...]) -> type[Message]:
    from google.protobuf.message_factory import GetMessageClass

    _refuse_nothing(names, path)
    made: type[Message] = GetMessageClass(pool.FindMessageTypeByName(names[0]))
    return made


def _parse(kind: type[Message], data: bytes, at: int) -> Message:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data[at:])
    except DecodeError as error:
        raise DeserializationFailed(f"no {kind.DESCRIPTOR.full_name}: {error}") from error
