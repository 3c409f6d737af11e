"""Protobuf behind the id of its schema, and the path to the message in its file.

A value is an instance of a generated class. What is registered is the file that declares it, as a
descriptor in base64, which every registry reads; the files that it imports are registered first,
each under its own name, except those that Google ships with protobuf.

A deserializer with a generated class reads that message; one without makes a class of the
registry's schema, for which the registry must give descriptors (`format=serialized`: Confluent's
and Karapace do).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, cast

from moldau.client.serdes.contract import DeserializationFailed, Place, SerializationFailed
from moldau.client.serdes.extras import need
from moldau.client.serdes.framed import Read, SchemaDeserializer, SchemaSerializer, Write
from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.client.serdes.registry.schemas import PROTOBUF, Reference, Schema
from moldau.client.serdes.wire import SchemaKey, frame, read_indexes, write_indexes

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

_SERIALIZED: Final = "serialized"
_SHIPPED: Final = ("google/protobuf/", "google/type/", "confluent/")
_DEPTH_MAX: Final = 32


class ProtobufSerializer(SchemaSerializer):
    """Writes messages of generated classes."""

    def __init__(
        self,
        registry: SchemaRegistry,
        *,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry=owns_registry)
        need("google.protobuf", "protobuf")

    def kind_of(self, value: Any) -> Hashable:
        """Each class is a kind."""
        return cast(Hashable, type(value))

    def subject_of(self, value: Any, place: Place) -> str:
        """Named by the message."""
        return self.options.subject(place, _descriptor_of(value).full_name)

    async def own_schema(self, value: Any) -> Schema | None:
        """The file that declares the message."""
        return await self._file_schema(_descriptor_of(value).file)

    async def _file_schema(self, file: FileDescriptor) -> Schema:
        references = []
        for each in file.dependencies:
            if not each.name.startswith(_SHIPPED):
                references.append(await self._reference(each))
        text = base64.b64encode(file.serialized_pb).decode()
        return Schema(text, PROTOBUF, tuple(references))

    async def _reference(self, file: FileDescriptor) -> Reference:
        """The file in the registry, under its own name."""
        schema = await self._file_schema(file)
        normalize = self.options.normalize
        if self.options.auto_register:
            await self.registry.register(file.name, schema, normalize=normalize)
        found = await self.registry.lookup(file.name, schema, normalize=normalize)
        return Reference(file.name, file.name, found.version)

    async def writer(self, schema_id: int, schema: Schema, value: Any) -> Write:
        """Writes what is before the payload, and the payload."""
        if schema.type != PROTOBUF:
            raise SerializationFailed(
                f"the subject has a schema of another kind: {schema.type}", schema=schema_id
            )
        prefix = frame(schema_id) + write_indexes(_path_of(_descriptor_of(value)))
        return lambda message: prefix + message.SerializeToString()


class ProtobufDeserializer(SchemaDeserializer):
    """Reads messages, into a generated class or into one that is made of the schema."""

    def __init__(
        self,
        registry: SchemaRegistry,
        *,
        type: type[Message] | None = None,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry=owns_registry)
        need("google.protobuf", "protobuf")
        self._type = type

    async def reader(self, key: SchemaKey) -> Read:
        """Reads the path, then the message."""
        given = self._type
        if given is not None:
            return lambda data, at: _parse(given, data, read_indexes(data, at)[1])
        pool, file_name = await self._pool(key)
        classes: dict[tuple[int, ...], type[Message]] = {}

        def read(data: bytes, at: int) -> Any:
            path, at = read_indexes(data, at)
            found = classes.get(path)
            if found is None:
                found = classes[path] = _class_at(pool, file_name, path)
            return _parse(found, data, at)

        return read

    async def _pool(self, key: SchemaKey) -> tuple[DescriptorPool, str]:
        """The file of the schema, and all that it imports, apart from those of other schemas."""
        from google.protobuf.descriptor_pool import DescriptorPool

        pool = DescriptorPool()
        schema = await self.schema_of(key, PROTOBUF, format=_SERIALIZED)
        file = _file_of(schema, key)
        added: set[str] = set()
        for name in file.dependency:
            _add_shipped(pool, name, added)
        await self._add_references(pool, schema, added, _DEPTH_MAX)
        file.name = file.name or "default"
        pool.AddSerializedFile(file.SerializeToString())
        return pool, file.name

    async def _add_references(
        self, pool: DescriptorPool, schema: Schema, added: set[str], depth: int
    ) -> None:
        if schema.references and not depth:
            raise DeserializationFailed("its schema's references are too deep or go in a circle")
        for each in schema.references:
            if each.name in added:
                continue
            version = await self.registry.version(each.subject, each.version)
            whole = await self.registry.schema(version.id, format=_SERIALIZED)
            file = _file_of(whole, version.id)
            for name in file.dependency:
                _add_shipped(pool, name, added)
            await self._add_references(pool, whole, added, depth - 1)
            file.name = each.name
            pool.AddSerializedFile(file.SerializeToString())
            added.add(each.name)


def _descriptor_of(value: Any) -> Descriptor:
    descriptor: Descriptor | None = getattr(value, "DESCRIPTOR", None)
    if descriptor is None or not hasattr(value, "SerializeToString"):
        raise SerializationFailed("a protobuf message was expected")
    return descriptor


def _path_of(descriptor: Descriptor) -> tuple[int, ...]:
    """Where a message stands in its file: in which message, and so on inwards."""
    parent = descriptor.containing_type
    siblings = (
        descriptor.file.message_types_by_name if parent is None else parent.nested_types_by_name
    )
    index = list(siblings).index(descriptor.name)
    return (index,) if parent is None else (*_path_of(parent), index)


def _file_of(schema: Schema, key: SchemaKey) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(
            base64.b64decode(schema.text, validate=True)
        )
    except (binascii.Error, ValueError, DecodeError) as error:
        raise DeserializationFailed(
            "the registry gives its schema as text only: give the deserializer the generated class",
            schema=key,
        ) from error


def _add_shipped(pool: DescriptorPool, name: str, added: set[str]) -> None:
    """What comes with protobuf, and what that imports."""
    if name in added or not name.startswith(_SHIPPED):
        return
    from google.protobuf import descriptor_pool

    _import_shipped(name)
    file = descriptor_pool.Default().FindFileByName(name)
    for each in file.dependencies:
        _add_shipped(pool, each.name, added)
    pool.AddSerializedFile(file.serialized_pb)
    added.add(name)


def _import_shipped(name: str) -> None:
    """Makes the default pool know the file."""
    from importlib import import_module

    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise DeserializationFailed(
            "its schema imports a file that is not installed", file=name
        ) from error


def _class_at(pool: DescriptorPool, file_name: str, path: tuple[int, ...]) -> type[Message]:
    from google.protobuf.message_factory import GetMessageClass

    messages: Any = list(pool.FindFileByName(file_name).message_types_by_name.values())
    found: Any = None
    for index in path:
        if index >= len(messages):
            raise DeserializationFailed("its schema has no such message", path=path)
        found = messages[index]
        messages = found.nested_types
    made: type[Message] = GetMessageClass(found)
    return made


def _parse(kind: type[Message], data: bytes, at: int) -> Message:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data[at:])
    except DecodeError as error:
        raise DeserializationFailed(f"no {kind.DESCRIPTOR.full_name}: {error}") from error
