"""Avro after the id of its schema, through fastavro.

A value is a dict (or what the schema says), a dataclass, a pydantic model or a msgspec struct. The
serializer's own schema is given as text or `Schema`. Without one, text, bytes, numbers and booleans
have Avro's primitive types, and anything else is written with the subject's latest version in the
registry.

Invariants: the bytes are those of Confluent's serializers, with one oddity: if a schema is just
`bytes`, the payload is the bytes themselves, without Avro's length. A payload is read to its end,
or it is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Hashable
from contextlib import suppress
from io import BytesIO
from typing import Any, ClassVar, Final

from moldau.client.serdes.contract import Place
from moldau.client.serdes.framed import Read, SchemaDeserializer, SchemaSerializer, Write
from moldau.client.serdes.registry.client import RegistryGiven, SchemaRegistry
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.plugins.extras import need
from moldau.values.avro.classes import NOWHERE, TypePlace, told_apart
from moldau.values.avro.defaults import copied, make_defaults
from moldau.values.avro.fit import Values
from moldau.values.avro.plain import Misfit
from moldau.values.avro.read import shape_of, value_reader
from moldau.values.avro.schemas import (
    avro_schema,
    is_bytes,
    name_of,
    parse_alone,
    parse_avro,
)
from moldau.values.failures import DeserializationFailed, SerializationFailed
from moldau.values.json.typed import object_reader
from moldau.values.schema import AVRO, Schema
from moldau.values.wire import SchemaKey, frame

_PRIMITIVES: Final[dict[type, str]] = {
    str: '"string"',
    bytes: '"bytes"',
    bool: '"boolean"',
    int: '"long"',
    float: '"double"',
}
_OWN: Final = object()
_REFUSED: Final = (ValueError, TypeError, LookupError, AttributeError)
"""What validators and msgspec raise besides DeserializationFailed."""


class AvroSerializer(SchemaSerializer):
    """Writes values with an Avro schema."""

    def __init__(
        self,
        registry: RegistryGiven,
        schema: str | Schema | None = None,
        *,
        to_dict: Callable[[Any], Any] | None = None,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        """`to_dict` converts a value to what the schema describes; without it, the fields of an
        object are written."""
        super().__init__(registry, options, owns_registry=owns_registry)
        self._fastavro = need("fastavro", "avro")
        self._schema = None if schema is None else avro_schema(schema)
        if self._schema is not None and not self._schema.references:
            parse_alone(self._schema, {})  # report its errors before it is registered
        self._name = None if self._schema is None else name_of(self._schema)
        self._to_dict = to_dict

    def kind_of(self, value: Any) -> Hashable:
        """Return one kind for all values; without a given schema, each primitive type is a kind."""
        if self._schema is not None:
            return _OWN
        kind = type(value)
        return kind if kind in _PRIMITIVES else _OWN

    def subject_of(self, value: Any, place: Place) -> str:
        """Return the subject, which may be named by the record or primitive type of the schema."""
        name = self._name
        if self._schema is None and type(value) in _PRIMITIVES:
            name = json.loads(_PRIMITIVES[type(value)])
        return self.options.subject(place, name)

    def has_own(self, value: Any) -> bool:
        """Whether a schema was given or the value has a primitive type."""
        return self._schema is not None or type(value) in _PRIMITIVES

    async def own_schema(self, value: Any) -> Schema | None:
        """Return the given schema, or that of the primitive type, or None."""
        if self._schema is not None:
            return self._schema
        text = _PRIMITIVES.get(type(value))
        return None if text is None else Schema(text)

    async def writer(self, schema_id: int, schema: Schema, value: Any) -> Write:
        """Return a function that writes values through fastavro."""
        self.check_type(schema_id, schema, AVRO)
        parsed, named = await parse_registered(self.registry, schema)
        prefix, to_dict, fit = frame(schema_id), self._to_dict, Values(named).fit(parsed)
        write_to, is_plain = self._fastavro.schemaless_writer, is_bytes(parsed)

        def write(value: Any) -> bytes:
            try:
                fitted = fit(value if to_dict is None else to_dict(value))
            except Misfit as misfit:
                raise SerializationFailed(
                    f"it does not fit its schema: {misfit}", schema=schema_id, at=misfit.at
                ) from None
            except RecursionError:
                raise SerializationFailed(
                    "it is nested too deeply, or contains itself", schema=schema_id
                ) from None
            if is_plain:
                return prefix + bytes(fitted)
            buffer = BytesIO()
            buffer.write(prefix)
            write_to(buffer, parsed, fitted)
            return buffer.getvalue()

        return write


class AvroDeserializer(SchemaDeserializer):
    """Reads values of Avro schemas, as dicts or as instances of a type."""

    names_branches: ClassVar = False
    """Whether values in unions of several branches come with the name of their branch."""

    def __init__(
        self,
        registry: RegistryGiven,
        *,
        type: type[Any] | None = None,
        schema: str | Schema | None = None,
        names_branches: bool = False,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        """`schema` is the reader's: values of another version are converted to it by Avro's rules.
        `type` is a dataclass, pydantic model or msgspec struct to make of each value. With
        `names_branches`, which is for neither, a value in a union of several branches beside null
        is a tuple of the branch's name and the value, as serializers take it."""
        super().__init__(registry, options, owns_registry=owns_registry)
        self._fastavro = need("fastavro", "avro")
        self._schema = None if schema is None else avro_schema(schema)
        self._names_branches = names_branches
        self._make = None if type is None else object_reader(type)
        self._place = NOWHERE if type is None else TypePlace(type)

    async def reader(self, key: SchemaKey) -> Read:
        """Return a function that reads values through fastavro."""
        schema = await self.schema_of(key, AVRO)
        writers, named = await parse_registered(self.registry, schema)
        readers, names, finish = None, set(named), list[Callable[[Any], Any]]()
        if self._schema is not None:
            readers, known = await parse_registered(self.registry, self._schema)
            names |= known.keys()
            if readers == writers:
                readers = None
            elif make_defaults(known, named):
                finish.append(copied)
        if is_bytes(writers):
            return self._bytes_reader(readers)
        shape = shape_of(writers, named, schema=key)
        names_records = shape.has_choices and self._make is not None
        if self._make is not None:
            finish.append(self._make_of_named(names) if names_records else self._make)
        finished = _one_after_the_other(finish, key)
        read = value_reader(
            shape,
            writers,
            readers,
            names_records=names_records,
            names_branches=self._names_branches,
            schema=key,
        )
        return read if finished is None else lambda data, at: finished(read(data, at))

    def _make_of_named(self, names: Container[str]) -> Callable[[Any], Any]:
        """Return a function that makes the type of a value with named records: with instances of
        their classes, or if the type does not accept these, without the names."""
        make, place = self._make, self._place
        assert make is not None

        def made(value: Any) -> Any:
            with suppress(DeserializationFailed, *_REFUSED):
                return make(told_apart(value, place, names))
            return make(told_apart(value, NOWHERE, names))

        return made

    def _bytes_reader(self, readers: Any) -> Read:
        """Return a reader for the schema `bytes`, whose values have no length before them."""
        fastavro, make = self._fastavro, self._make

        def read(data: bytes, at: int) -> Any:
            value: Any = data[at:]
            if readers is not None:
                buffer = BytesIO()
                fastavro.schemaless_writer(buffer, "bytes", value)
                buffer.seek(0)
                value = fastavro.schemaless_reader(buffer, "bytes", readers)
            return value if make is None else make(value)

        return read


async def parse_registered(registry: SchemaRegistry, schema: Schema) -> tuple[Any, dict[str, Any]]:
    """Return the schema parsed for fastavro, and by name all schemas inside and referenced."""
    return parse_avro(schema, (await registry.references(schema)).values())


def _one_after_the_other(
    steps: list[Callable[[Any], Any]], key: SchemaKey
) -> Callable[[Any], Any] | None:
    """Return a function that applies all steps in order, or None if there are none."""
    if not steps:
        return None

    def all_steps(value: Any) -> Any:
        try:
            for each in steps:
                value = each(value)
        except RecursionError:
            raise DeserializationFailed("it is nested too deeply", schema=key) from None
        return value

    return all_steps
